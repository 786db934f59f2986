#include "sim/deepspeed/ds_config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kManyElements = std::int64_t{1} << 40;
constexpr std::int64_t kManySteps = 100'000;

// Keys that DeepSpeed accepts at the top of the file but that do not change how a step runs.
constexpr std::array<std::string_view, 46> kOtherTopLevelKeys = {
    "optimizer",
    "scheduler",
    "gradient_clipping",
    "prescale_gradients",
    "gradient_predivide_factor",
    "sparse_gradients",
    "communication_data_type",
    "steps_per_print",
    "wall_clock_breakdown",
    "dump_state",
    "amp",
    "flops_profiler",
    "activation_checkpointing",
    "autotuning",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "comet",
    "comms_logger",
    "aio",
    "elasticity",
    "data_efficiency",
    "curriculum_learning",
    "compression_training",
    "checkpoint",
    "data_types",
    "nebula",
    "pipeline",
    "memory_breakdown",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "gradient_allreduce_op",
    "disable_allgather",
    "sparse_attention",
    "progressive_layer_drop",
    "eigenvalue",
    "hybrid_engine",
    "seq_parallel_communication_data_type",
    "use_data_before_expert_parallelism",
    "timers",
    "weight_quantization",
    "compile",
    "tensor_parallel",
    "graph_harvesting",
    "managed_gradient_accumulation",
    "torch_autocast"};

// Fields of zero_optimization that are read elsewhere or do not change the published schedules.
constexpr std::array<std::string_view, 45> kOtherZeroKeys = {
    "contiguous_gradients",
    "reduce_scatter",
    "use_multi_rank_bucket_allreduce",
    "allgather_partitions",
    "allgather_bucket_size",
    "load_from_fp32_weights",
    "elastic_checkpoint",
    "cpu_offload_param",
    "cpu_offload_use_pin_memory",
    "cpu_offload",
    "prefetch_bucket_size",
    "param_persistence_threshold",
    "model_persistence_threshold",
    "max_live_parameters",
    "max_reuse_distance",
    "gather_16bit_weights_on_model_save",
    "module_granularity_threshold",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_model_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "use_all_reduce_for_fetch_params",
    "stage3_use_all_reduce_for_fetch_params",
    "ignore_unused_parameters",
    "legacy_stage1",
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "zero_quantized_nontrainable_weights",
    "zero_quantized_gradients",
    "zeropp_loco_param",
    "mics_shard_size",
    "mics_hierarchical_params_gather",
    "memory_efficient_linear",
    "pipeline_loading_checkpoint",
    "override_module_apply",
    "leaf_module",
    "log_trace_cache_warnings",
    "enable_sanity_checks",
    "allgather_sequential",
    "save_muon_momentum_buffer_in_memory",
    "compute_grad_norm",
    "parameter_alignment"};

constexpr std::array<std::string_view, 9> kZenFlowKeys = {
    "topk_ratio", "update_interval", "select_interval",     "select_strategy",       "overlap_step",
    "offload",    "auto_ratio",      "full_warm_up_rounds", "pt_reserved_cores_perc"};

constexpr std::string_view kZenFlowPath = "deepspeed.zero_optimization.zenflow";

bool is_auto(const Node& node) {
  return node.is_scalar() && node.scalar == "auto";
}

/// DeepSpeed drops a value that is the string "auto" before validation: the default holds.
std::optional<ValueReader> set_value(MapReader& map, std::string_view key) {
  auto value = map.optional(key);
  if (value && is_auto(value->node())) return std::nullopt;
  return value;
}

std::optional<std::int64_t> interval(MapReader& map, std::string_view key, std::int64_t low) {
  const auto value = set_value(map, key);
  if (!value) return std::nullopt;
  return value->integer(low, kManySteps);
}

double share(MapReader& map, std::string_view key, double fallback) {
  const auto value = set_value(map, key);
  return value ? value->number(0, 1) : fallback;
}

bool boolean(MapReader& map, std::string_view key, bool fallback) {
  const auto value = set_value(map, key);
  return value ? value->boolean() : fallback;
}

std::int64_t integer(MapReader& map, std::string_view key, std::int64_t fallback, std::int64_t low,
                     std::int64_t high) {
  const auto value = set_value(map, key);
  return value ? value->integer(low, high) : fallback;
}

ZenFlowSettings read_zenflow(MapReader map) {
  ZenFlowSettings settings;
  if (const auto ratio = set_value(map, "topk_ratio")) {
    settings.topk_ratio = ratio->number(0, 1);
    if (settings.topk_ratio <= 0 || settings.topk_ratio >= 1) {
      ratio->fail(fmt::format("expected a share between 0 and 1, both excluded, found {}",
                              ratio->node().scalar));
    }
  }
  if (const auto strategy = set_value(map, "select_strategy")) {
    const std::array<std::string, 2> strategies = {"step", "epoch"};
    settings.select_strategy = strategy->choice(strategies);
  }
  settings.update_interval = interval(map, "update_interval", 1);
  settings.select_interval = interval(map, "select_interval", 0);
  settings.overlap_step = boolean(map, "overlap_step", settings.overlap_step);
  settings.offload = boolean(map, "offload", settings.offload);
  settings.auto_ratio = share(map, "auto_ratio", settings.auto_ratio);
  settings.full_warm_up_rounds = integer(map, "full_warm_up_rounds", 0, 0, kManySteps);
  settings.pt_reserved_cores_perc = share(map, "pt_reserved_cores_perc", 0.5);
  map.ignore("steps_per_epoch");
  map.reject_unknown_keys();
  return settings;
}

struct OffloadBlock {
  OffloadDevice device = OffloadDevice::kNone;
  std::optional<bool> pin_memory;
  double ratio = 1.0;
  bool super_offload = false;
  double cpuadam_cores_perc = 0.8;
  bool pipeline_read = false;
  bool pipeline_write = false;
  std::int64_t buffer_count = 4;
};

OffloadBlock read_offload(MapReader map) {
  const std::array<std::string, 3> devices = {"none", "cpu", "nvme"};
  OffloadBlock block;
  if (const auto value = set_value(map, "device")) {
    const std::string name = value->choice(devices);
    if (name == "cpu") block.device = OffloadDevice::kCpu;
    if (name == "nvme") block.device = OffloadDevice::kNvme;
  }
  if (const auto pin = set_value(map, "pin_memory")) block.pin_memory = pin->boolean();
  block.ratio = share(map, "ratio", block.ratio);
  block.super_offload = boolean(map, "super_offload", block.super_offload);
  block.cpuadam_cores_perc = share(map, "cpuadam_cores_perc", block.cpuadam_cores_perc);
  block.pipeline_read = boolean(map, "pipeline_read", false);
  block.pipeline_write = boolean(map, "pipeline_write", false);
  block.buffer_count = integer(map, "buffer_count", block.buffer_count, 0, kManySteps);
  for (const char* key : {"nvme_path", "buffer_size", "max_in_cpu", "fast_init"}) {
    map.ignore(key);
  }
  map.reject_unknown_keys();
  return block;
}

void read_zero(MapReader map, DeepSpeedConfig& config) {
  config.zero_stage = static_cast<int>(integer(map, "stage", 0, 0, 3));
  config.reduce_bucket_size =
      integer(map, "reduce_bucket_size", config.reduce_bucket_size, 1, kManyElements);
  config.sub_group_size = integer(map, "sub_group_size", config.sub_group_size, 1, kManyElements);
  if (const auto overlap = set_value(map, "overlap_comm")) config.overlap_comm = overlap->boolean();
  config.round_robin_gradients = boolean(map, "round_robin_gradients", false);
  if (const auto offload = map.optional_map("offload_optimizer")) {
    const OffloadBlock block = read_offload(*offload);
    config.offload_optimizer = block.device;
    config.pin_memory = block.pin_memory.value_or(config.pin_memory);
    config.pin_memory_written = block.pin_memory.has_value();
    config.offload_ratio = block.ratio;
    config.super_offload = block.super_offload;
    config.pipeline_read = block.pipeline_read;
    config.pipeline_write = block.pipeline_write;
    config.buffer_count = block.buffer_count;
    config.cpuadam_cores_perc = block.cpuadam_cores_perc;
  }
  if (const auto offload = map.optional_map("offload_param")) {
    config.offload_param = read_offload(*offload).device;
  }
  if (const auto zenflow = map.optional_map("zenflow")) config.zenflow = read_zenflow(*zenflow);
  for (const std::string_view key : kOtherZeroKeys) map.ignore(key);
  map.reject_unknown_keys();
}

bool read_precision(MapReader& root, const std::string& key) {
  auto block = root.optional_map(key);
  if (!block) return false;
  const bool enabled = boolean(*block, "enabled", false);
  for (const char* known :
       {"auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
        "consecutive_hysteresis", "min_loss_scale", "fp16_master_weights_and_grads",
        "check_grad_overflow", "immediate_grad_update", "bf16_master_weights_and_grads",
        "bf16_optimizer_states"}) {
    block->ignore(known);
  }
  block->reject_unknown_keys();
  return enabled;
}

/// DeepSpeed ignores an unknown block at the top; a near miss is more likely a typo.
void check_top_level(const Node& root, DeepSpeedConfig& config) {
  std::vector<std::string> known = {"train_batch_size",
                                    "train_micro_batch_size_per_gpu",
                                    "gradient_accumulation_steps",
                                    "zero_optimization",
                                    "bf16",
                                    "bfloat16",
                                    "fp16"};
  known.insert(known.end(), kOtherTopLevelKeys.begin(), kOtherTopLevelKeys.end());
  for (const Node::Entry& entry : root.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::string hint = suggestion(entry.key, known);
    if (!hint.empty()) fail_at(entry.key_at, entry.key, "unknown key" + hint);
    config.warnings.push_back(fmt::format("{}: {}: unknown to DeepSpeed, which ignores it",
                                          entry.key_at.text(), entry.key));
  }
}

}  // namespace

std::string to_string(OffloadDevice device) {
  switch (device) {
    case OffloadDevice::kNone:
      return "none";
    case OffloadDevice::kCpu:
      return "cpu";
    case OffloadDevice::kNvme:
      return "nvme";
  }
  return "";
}

DeepSpeedConfig read_deepspeed_config(const Node& root) {
  DeepSpeedConfig config;
  MapReader map(root, "deepspeed");
  const auto positive = [&map](const char* key) -> std::optional<std::int64_t> {
    const auto value = set_value(map, key);
    if (!value) return std::nullopt;
    return value->integer(1, std::numeric_limits<std::int32_t>::max());
  };
  config.train_batch_size = positive("train_batch_size");
  config.train_micro_batch_size_per_gpu = positive("train_micro_batch_size_per_gpu");
  if (const auto clipping = set_value(map, "gradient_clipping")) {
    config.gradient_clipping = clipping->number(0, 1e30);
    config.gradient_clipping_written = true;
  }
  if (const auto accumulation = set_value(map, "gradient_accumulation_steps")) {
    config.gradient_accumulation_steps = accumulation->integer(1, kManySteps);
  }
  if (const auto zero = map.optional_map("zero_optimization")) read_zero(*zero, config);
  const bool bf16 = read_precision(map, "bf16");
  const bool bfloat16 = read_precision(map, "bfloat16");
  config.bf16 = bf16 || bfloat16;
  config.fp16 = read_precision(map, "fp16");
  if (config.bf16 && config.fp16) map.fail("fp16", "bf16 and fp16 cannot both be enabled");
  check_top_level(root, config);
  return config;
}

std::string expand_short_name(const std::string& path) {
  const bool is_short =
      std::find(kZenFlowKeys.begin(), kZenFlowKeys.end(), path) != kZenFlowKeys.end();
  return is_short ? fmt::format("{}.{}", kZenFlowPath, path) : path;
}

}  // namespace zenflow::sim
