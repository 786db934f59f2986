#include "sim/deepspeed/ds_fields.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace zenflow::sim {
namespace {

constexpr std::string_view kZero = "zero_optimization";
constexpr std::string_view kZenFlow = "zero_optimization.zenflow";
constexpr std::string_view kOptimizer = "zero_optimization.offload_optimizer";
constexpr std::string_view kParam = "zero_optimization.offload_param";
constexpr std::string_view kLeaf = "zero_optimization.leaf_module";
constexpr std::string_view kBf16 = "bf16";
constexpr std::string_view kBfloat16 = "bfloat16";
constexpr std::string_view kFp16 = "fp16";

using enum FieldType;

constexpr KeyMeaning kModelled{KeyEffect::kModelled};
constexpr KeyMeaning kNone{KeyEffect::kNone};
/// `neutral`: values at which there is nothing to model.
constexpr KeyMeaning unmodelled(std::string_view neutral = {},
                                KeyScope scope = KeyScope::kAnywhere) {
  return {KeyEffect::kNotModelled, neutral, scope};
}

constexpr KeyMeaning kUnlessTrue = unmodelled("true");
constexpr KeyMeaning kUnlessFalse = unmodelled("false");
constexpr KeyMeaning kIfEnabled = unmodelled("", KeyScope::kIfEnabled);
constexpr KeyMeaning kIfEnabledWithZero = unmodelled("", KeyScope::kIfEnabledWithZero);
constexpr KeyMeaning kInStages12 = unmodelled("", KeyScope::kStages12);
constexpr KeyMeaning kInStages12UnlessTrue = unmodelled("true", KeyScope::kStages12);
constexpr KeyMeaning kInStages12UnlessFalse = unmodelled("false", KeyScope::kStages12);
constexpr KeyMeaning kInStage3 = unmodelled("", KeyScope::kStage3);
constexpr KeyMeaning kInStage3UnlessTrue = unmodelled("true", KeyScope::kStage3);
constexpr KeyMeaning kInStage3UnlessFalse = unmodelled("false", KeyScope::kStage3);
constexpr KeyMeaning kWithNvme = unmodelled("", KeyScope::kNvme);

constexpr Version kFirst = kOldestVersion;
constexpr Version kNever = kNeverRemoved;
constexpr Version kZenFlowSince = {0, 17, 5};

using Text = std::string_view;

constexpr Field flag(Text block, Text key, KeyMeaning meaning, Version since = kFirst,
                     Version removed = kNever) {
  return {.block = block,
          .key = key,
          .type = kBool,
          .meaning = meaning,
          .since = since,
          .removed = removed};
}
/// A whole number of at least 0.
constexpr Field count(Text block, Text key, KeyMeaning meaning, Version since = kFirst,
                      Version removed = kNever) {
  return {.block = block,
          .key = key,
          .type = kInteger,
          .meaning = meaning,
          .low = 0,
          .since = since,
          .removed = removed};
}
/// From 0 to 1.
constexpr Field share(Text block, Text key, KeyMeaning meaning, Version since = kFirst,
                      Version removed = kNever) {
  return {.block = block,
          .key = key,
          .type = kNumber,
          .meaning = meaning,
          .low = 0,
          .high = 1,
          .since = since,
          .removed = removed};
}
/// A block, or null.
constexpr Field map(Text block, Text key, KeyMeaning meaning, Version since = kFirst,
                    Version removed = kNever) {
  return {.block = block,
          .key = key,
          .type = kMap,
          .meaning = meaning,
          .nullable = true,
          .since = since,
          .removed = removed};
}

constexpr std::array<std::string_view, 8> kBlocks = {kZero, kZenFlow, kOptimizer, kParam,
                                                     kLeaf, kBf16,    kBfloat16,  kFp16};

// A field whose limits changed has one row for each range of releases. Source: the pydantic
// models in deepspeed/runtime/{zero/config,zero/offload_config,zenflow/zenflow_config,
// precision_config}.py of the releases 0.12.6 to 0.19.8.
constexpr Field kFields[] = {
    {.block = kZero, .key = "stage", .type = kInteger, .meaning = kModelled, .low = 0, .high = 3},
    flag(kZero, "contiguous_gradients", kUnlessTrue),
    flag(kZero, "reduce_scatter", kInStage3UnlessTrue),
    flag(kZero, "use_multi_rank_bucket_allreduce", kInStages12UnlessTrue),
    flag(kZero, "allgather_partitions", kInStages12UnlessTrue),
    flag(kZero, "load_from_fp32_weights", kNone),
    flag(kZero, "elastic_checkpoint", kNone),
    flag(kZero, "gather_16bit_weights_on_model_save", kModelled),
    flag(kZero, "stage3_gather_16bit_weights_on_model_save", kModelled),
    flag(kZero, "use_all_reduce_for_fetch_params", kInStage3UnlessFalse, {0, 14, 3}),
    flag(kZero, "stage3_use_all_reduce_for_fetch_params", kInStage3UnlessFalse, {0, 14, 3}),
    flag(kZero, "stage3_gather_fp16_weights_on_model_save", kModelled),
    flag(kZero, "ignore_unused_parameters", kNone),
    flag(kZero, "legacy_stage1", kNone),
    flag(kZero, "round_robin_gradients", kInStages12UnlessFalse),
    flag(kZero, "zero_quantized_weights", kInStage3UnlessFalse),
    flag(kZero, "zero_quantized_nontrainable_weights", kInStage3UnlessFalse),
    flag(kZero, "zero_quantized_gradients", kInStage3UnlessFalse),
    flag(kZero, "memory_efficient_linear", kInStage3UnlessTrue),
    flag(kZero, "pipeline_loading_checkpoint", kNone),
    flag(kZero, "override_module_apply", kNone),
    flag(kZero, "log_trace_cache_warnings", kNone, {0, 16, 4}),
    count(kZero, "reduce_bucket_size", kModelled, kFirst, {0, 19, 6}),
    {.block = kZero,
     .key = "reduce_bucket_size",
     .type = kInteger,
     .meaning = kModelled,
     .low = 1,
     .since = {0, 19, 6}},
    {.block = kZero, .key = "overlap_comm", .type = kBool, .meaning = kModelled, .nullable = true},
    {.block = kZero,
     .key = "cpu_offload_param",
     .type = kBool,
     .meaning = kModelled,
     .nullable = true},
    {.block = kZero,
     .key = "cpu_offload_use_pin_memory",
     .type = kBool,
     .meaning = kNone,
     .nullable = true},
    {.block = kZero, .key = "cpu_offload", .type = kBool, .meaning = kModelled, .nullable = true},
    count(kZero, "allgather_bucket_size", kInStages12),
    count(kZero, "sub_group_size", kModelled),
    count(kZero, "zero_hpz_partition_size", unmodelled("0|1", KeyScope::kStage3)),
    count(kZero, "prefetch_bucket_size", kModelled),
    count(kZero, "stage3_prefetch_bucket_size", kModelled),
    count(kZero, "param_persistence_threshold", kModelled),
    count(kZero, "stage3_param_persistence_threshold", kModelled),
    count(kZero, "model_persistence_threshold", kInStage3),
    count(kZero, "stage3_model_persistence_threshold", kInStage3),
    count(kZero, "max_live_parameters", kModelled),
    count(kZero, "stage3_max_live_parameters", kModelled),
    count(kZero, "max_reuse_distance", kModelled),
    count(kZero, "stage3_max_reuse_distance", kModelled),
    {.block = kZero,
     .key = "module_granularity_threshold",
     .type = kInteger,
     .meaning = unmodelled("0", KeyScope::kStage3),
     .since = {0, 16, 0}},
    {.block = kZero,
     .key = "stage3_module_granularity_threshold",
     .type = kInteger,
     .meaning = unmodelled("0", KeyScope::kStage3),
     .since = {0, 16, 0}},
    map(kZero, "offload_param", kModelled),
    map(kZero, "offload_optimizer", kModelled),
    map(kZero, "zenflow", kModelled, kZenFlowSince),
    flag(kZero, "enable_sanity_checks", kInStage3UnlessFalse, {0, 17, 6}),
    map(kZero, "leaf_module", kInStage3, {0, 18, 0}),
    flag(kZero, "allgather_sequential", kInStage3UnlessFalse, {0, 18, 5}),
    flag(kZero, "stage3_allgather_sequential", kInStage3UnlessFalse, {0, 18, 5}),
    flag(kZero, "save_muon_momentum_buffer_in_memory", unmodelled("false", KeyScope::kNvme),
         {0, 18, 9}),
    flag(kZero, "compute_grad_norm", kInStages12UnlessTrue, {0, 19, 7}),
    flag(kZero, "parameter_alignment", kInStages12UnlessFalse, {0, 19, 7}),
    {.block = kZero,
     .key = "mics_shard_size",
     .type = kInteger,
     .meaning = unmodelled("-1|0", KeyScope::kStage3),
     .removed = {0, 19, 7}},
    flag(kZero, "mics_hierarchical_params_gather", kInStage3UnlessFalse, kFirst, {0, 19, 7}),
    map(kZero, "zeropp_loco_param", kInStage3, {0, 16, 2}, {0, 19, 8}),
    share(kZenFlow, "topk_ratio", kModelled, kZenFlowSince, {0, 19, 6}),
    {.block = kZenFlow,
     .key = "topk_ratio",
     .type = kNumber,
     .meaning = kModelled,
     .low = 0,
     .high = 1,
     .open = true,
     .since = {0, 19, 6}},
    {.block = kZenFlow,
     .key = "select_strategy",
     .type = kText,
     .meaning = kModelled,
     .choices = "auto|step|epoch",
     .since = kZenFlowSince},
    {.block = kZenFlow,
     .key = "select_interval",
     .type = kIntervalOrAuto,
     .meaning = kModelled,
     .since = kZenFlowSince},
    {.block = kZenFlow,
     .key = "update_interval",
     .type = kIntervalOrAuto,
     .meaning = kModelled,
     .since = kZenFlowSince,
     .removed = {0, 19, 6}},
    {.block = kZenFlow,
     .key = "update_interval",
     .type = kIntervalOrAuto,
     .meaning = kModelled,
     .low = 1,
     .since = {0, 19, 6}},
    flag(kZenFlow, "overlap_step", kModelled, kZenFlowSince),
    flag(kZenFlow, "offload", kModelled, kZenFlowSince),
    share(kZenFlow, "auto_ratio", unmodelled("0.99"), kZenFlowSince),
    {.block = kZenFlow,
     .key = "full_warm_up_rounds",
     .type = kInteger,
     .meaning = kModelled,
     .since = kZenFlowSince},
    share(kZenFlow, "pt_reserved_cores_perc", kModelled, {0, 17, 6}),
    {.block = kZenFlow,
     .key = "steps_per_epoch",
     .type = kInteger,
     .meaning = kNone,
     .nullable = true,
     .since = kZenFlowSince},
    {.block = kOptimizer,
     .key = "device",
     .type = kText,
     .meaning = kModelled,
     .choices = "none|cpu|nvme"},
    {.block = kOptimizer, .key = "nvme_path", .type = kText, .meaning = kNone, .nullable = true},
    count(kOptimizer, "buffer_count", kModelled),
    flag(kOptimizer, "pin_memory", kModelled),
    {.block = kParam,
     .key = "device",
     .type = kText,
     .meaning = kModelled,
     .choices = "none|cpu|nvme"},
    {.block = kParam, .key = "nvme_path", .type = kText, .meaning = kNone, .nullable = true},
    count(kParam, "buffer_count", kModelled),
    flag(kParam, "pin_memory", kModelled),
    count(kParam, "buffer_size", kModelled),
    count(kParam, "max_in_cpu", kModelled),
    flag(kOptimizer, "pipeline_read", kModelled),
    flag(kOptimizer, "pipeline_write", kModelled),
    flag(kOptimizer, "fast_init", kNone),
    share(kOptimizer, "ratio", kModelled),
    flag(kOptimizer, "super_offload", kModelled, {0, 18, 0}),
    share(kOptimizer, "cpuadam_cores_perc", kModelled, {0, 18, 0}),
    {.block = kLeaf, .key = "classes", .type = kNames, .meaning = kInStage3, .since = {0, 18, 0}},
    {.block = kLeaf, .key = "names", .type = kNames, .meaning = kInStage3, .since = {0, 18, 0}},
    {.block = kLeaf,
     .key = "name_suffixes",
     .type = kNames,
     .meaning = kInStage3,
     .since = {0, 18, 0}},
    flag(kBf16, "enabled", kModelled),
    flag(kBf16, "immediate_grad_update", kUnlessFalse, {0, 13, 3}),
    flag(kBf16, "check_grad_overflow", kUnlessTrue, {0, 17, 1}),
    flag(kBf16, "bf16_master_weights_and_grads", kModelled, {0, 18, 3}),
    flag(kBf16, "bf16_optimizer_states", kModelled, {0, 18, 3}),
    flag(kBfloat16, "enabled", kModelled),
    flag(kBfloat16, "immediate_grad_update", kUnlessFalse, {0, 13, 3}),
    flag(kBfloat16, "check_grad_overflow", kUnlessTrue, {0, 17, 1}),
    flag(kBfloat16, "bf16_master_weights_and_grads", kModelled, {0, 18, 3}),
    flag(kBfloat16, "bf16_optimizer_states", kModelled, {0, 18, 3}),
    flag(kFp16, "enabled", kModelled),
    flag(kFp16, "auto_cast", kUnlessFalse),
    flag(kFp16, "consecutive_hysteresis", kNone),
    flag(kFp16, "fp16_master_weights_and_grads", kModelled),
    {.block = kFp16, .key = "loss_scale", .type = kNumber, .meaning = kNone, .removed = {0, 18, 8}},
    {.block = kFp16,
     .key = "loss_scale",
     .type = kNumber,
     .meaning = kNone,
     .low = 0,
     .strict = true,
     .since = {0, 18, 8}},
    {.block = kFp16, .key = "initial_scale_power", .type = kInteger, .meaning = kNone},
    {.block = kFp16,
     .key = "loss_scale_window",
     .type = kInteger,
     .meaning = kNone,
     .removed = {0, 19, 3}},
    {.block = kFp16,
     .key = "loss_scale_window",
     .type = kInteger,
     .meaning = kNone,
     .strict = true,
     .since = {0, 19, 3}},
    {.block = kFp16, .key = "hysteresis", .type = kInteger, .meaning = kNone},
    {.block = kFp16,
     .key = "min_loss_scale",
     .type = kInteger,
     .meaning = kNone,
     .removed = {0, 19, 3}},
    {.block = kFp16,
     .key = "min_loss_scale",
     .type = kInteger,
     .meaning = kNone,
     .strict = true,
     .since = {0, 19, 3}},
};

constexpr std::array<RemovedBlock, 11> kRemoved = {{
    {"nebula", {0, 19, 7}, "remove it; checkpoints are saved with torch.save"},
    {"compression_training", {0, 19, 7}, "remove it; the compression library is gone"},
    {"quantize_training", {0, 19, 7}, "remove it; mixture of quantization is gone"},
    {"sparse_attention", {0, 19, 7}, "remove it; sparse attention is gone"},
    {"amp", {0, 19, 8}, "bf16 or fp16 or torch_autocast in its place"},
    {"sparse_gradients", {0, 19, 8}, "remove it; embeddings with sparse=True need no flag"},
    {"eigenvalue", {0, 19, 8}, "remove it"},
    {"elasticity", {0, 19, 8}, "the batch sizes themselves"},
    {"graph_harvesting", {0, 19, 8}, "remove it"},
    {"curriculum_learning", {0, 19, 8}, "data_efficiency.data_sampling.curriculum_learning"},
    {"progressive_layer_drop", {0, 19, 8}, "remove it"},
}};

constexpr TopLevelKey kTopLevel[] = {
    {.key = "train_batch_size", .meaning = kModelled},
    {.key = "train_micro_batch_size_per_gpu", .meaning = kModelled},
    {.key = "gradient_accumulation_steps", .meaning = kModelled},
    {.key = "zero_optimization", .meaning = kModelled},
    {.key = "bf16", .meaning = kModelled},
    {.key = "bfloat16", .meaning = kModelled},
    {.key = "fp16", .meaning = kModelled},
    {.key = "optimizer", .meaning = kModelled},
    {.key = "scheduler", .meaning = kNone},
    {.key = "gradient_clipping", .meaning = kModelled},
    {.key = "prescale_gradients", .meaning = kNone},
    {.key = "gradient_predivide_factor", .meaning = unmodelled("1")},
    {.key = "communication_data_type", .meaning = unmodelled()},
    {.key = "seq_parallel_comm_data_type", .meaning = unmodelled(), .removed = {0, 16, 5}},
    {.key = "seq_parallel_communication_data_type", .meaning = unmodelled(), .since = {0, 16, 5}},
    {.key = "steps_per_print", .meaning = kNone},
    {.key = "wall_clock_breakdown", .meaning = kUnlessFalse},
    {.key = "memory_breakdown", .meaning = kUnlessFalse},
    {.key = "dump_state", .meaning = kNone},
    {.key = "disable_allgather", .meaning = kNone},
    {.key = "disable_python_gc", .meaning = kUnlessFalse, .since = {0, 17, 5}},
    {.key = "flops_profiler", .meaning = kIfEnabled},
    {.key = "activation_checkpointing", .meaning = kModelled},
    {.key = "autotuning", .meaning = kIfEnabled},
    {.key = "tensorboard", .meaning = kNone},
    {.key = "wandb", .meaning = kNone},
    {.key = "csv_monitor", .meaning = kNone},
    {.key = "comet", .meaning = kNone, .since = {0, 14, 3}},
    {.key = "comms_logger", .meaning = kIfEnabled},
    {.key = "aio", .meaning = kModelled},
    {.key = "data_efficiency", .meaning = kIfEnabled},
    {.key = "checkpoint", .meaning = kNone},
    {.key = "data_types", .meaning = kModelled},
    {.key = "pipeline", .meaning = unmodelled()},
    {.key = "zero_allow_untested_optimizer", .meaning = kNone},
    {.key = "zero_force_ds_cpu_optimizer", .meaning = kNone},
    {.key = "dataloader_drop_last", .meaning = kNone},
    {.key = "hybrid_engine", .meaning = kIfEnabled},
    {.key = "use_data_before_expert_parallelism", .meaning = kUnlessFalse},
    {.key = "timers", .meaning = kNone, .since = {0, 14, 3}},
    {.key = "weight_quantization", .meaning = unmodelled()},
    {.key = "compile", .meaning = kModelled, .since = {0, 13, 2}, .removed = {0, 14, 4}},
    {.key = "compile", .meaning = kModelled, .since = {0, 16, 6}},
    {.key = "tensor_parallel", .meaning = unmodelled(), .since = {0, 16, 4}},
    {.key = "torch_autocast", .meaning = kIfEnabledWithZero, .since = {0, 17, 2}},
    {.key = "vocabulary_size", .meaning = kNone},
    {.key = "sequence_parallel_size", .meaning = unmodelled("1"), .since = {0, 17, 0}},
    {.key = "datastates_ckpt", .meaning = kNone, .since = {0, 17, 5}},
    {.key = "expert_parallel", .meaning = kIfEnabled, .since = {0, 17, 5}},
    {.key = "log_level", .meaning = kNone, .since = {0, 17, 5}},
    {.key = "allgather_size", .meaning = kNone},
    {.key = "managed_gradient_accumulation", .meaning = kUnlessTrue, .since = {0, 19, 4}},
    {.key = "gradient_allreduce_op", .meaning = kNone, .since = {0, 19, 6}},
};

// Keys of blocks that DeepSpeed does not check, where one meaning does not fit all of the block.
// Source: deepspeed/runtime/{constants,config,engine}.py, compile/config.py,
// activation_checkpointing/config.py, swap_tensor/aio_config.py of 0.19.8.
constexpr InnerKey kInner[] = {
    {"data_types", "grad_accum_dtype", kModelled},
    {"data_types", "param_dtype", unmodelled()},
    {"data_types", "buffer_dtype", kNone},
    {"data_types", "keep_in_fp32_modules", kNone},
    {"optimizer", "type", kModelled},
    {"optimizer", "legacy_fusion", kUnlessFalse},
    {"optimizer", "params", kModelled},
    {"optimizer.params", "lr", kNone},
    {"optimizer.params", "muon_lr", kNone},
    {"optimizer.params", "adam_lr", kNone},
    {"optimizer.params", "betas", kNone},
    {"optimizer.params", "eps", kNone},
    {"optimizer.params", "weight_decay", kNone},
    {"optimizer.params", "bias_correction", kNone},
    {"optimizer.params", "adam_w_mode", kNone},
    {"optimizer.params", "momentum", kModelled},
    {"optimizer.params", "fp32_optimizer_states", kModelled},
    {"optimizer.params", "torch_adam", kUnlessFalse},
    {"optimizer.params", "foreach", kUnlessFalse},
    {"optimizer.params", "amsgrad", kUnlessFalse},
    {"optimizer.params", "ns_method", unmodelled()},
    {"activation_checkpointing", "partition_activations", kUnlessFalse},
    {"activation_checkpointing", "cpu_checkpointing", kUnlessFalse},
    {"activation_checkpointing", "contiguous_memory_optimization", kUnlessFalse},
    {"activation_checkpointing", "number_checkpoints", kNone},
    {"activation_checkpointing", "synchronize_checkpoint_boundary", kUnlessFalse},
    {"activation_checkpointing", "profile", kUnlessFalse},
    {"aio", "block_size", kWithNvme},
    {"aio", "queue_depth", kWithNvme},
    {"aio", "intra_op_parallelism", kWithNvme},
    {"aio", "thread_count", kNone},
    {"aio", "single_submit", kWithNvme},
    {"aio", "overlap_events", kWithNvme},
    {"aio", "use_gds", unmodelled("false", KeyScope::kNvme)},
    {"compile", "deepcompile", kUnlessFalse},
    {"compile", "autoep_non_moe", kUnlessFalse},
    {"compile", "free_activation", kUnlessFalse},
    {"compile", "free_activation_threshold", kNone},
    {"compile", "offload_activation", kUnlessFalse},
    {"compile", "offload_activation_pin_memory", kNone},
    {"compile", "offload_opt_states", kUnlessFalse},
    {"compile", "double_buffer", kNone},
    {"compile", "symmetric_memory", kUnlessFalse},
    {"compile", "debug_log", kNone},
    {"compile", "offload_parameters", kUnlessFalse},
    {"compile", "sync_before_reduce", kUnlessFalse},
    {"compile", "sync_after_reduce", kUnlessFalse},
    {"compile", "sync_before_allgather", kUnlessFalse},
    {"compile", "sync_after_allgather", kUnlessFalse},
    {"compile", "keep_int_input_tensors", kNone},
    {"compile", "keep_all_input_tensors", kNone},
    {"compile", "passes", kNone},
};

}  // namespace

std::string_view to_string(KeyEffect effect) {
  switch (effect) {
    case KeyEffect::kModelled:
      return "modelled";
    case KeyEffect::kNone:
      return "no effect on time and memory";
    case KeyEffect::kNotModelled:
      return "not modelled";
  }
  return "";
}

std::span<const InnerKey> inner_keys() {
  return kInner;
}

std::span<const Field> strict_fields() {
  return kFields;
}

std::span<const std::string_view> strict_blocks() {
  return kBlocks;
}

bool is_strict(std::string_view block, const Version& version) {
  if (block == kBf16 || block == kBfloat16 || block == kFp16) {
    return has_change(version, Change::kStrictPrecision);
  }
  return std::all_of(std::begin(kFields), std::end(kFields), [&](const Field& field) {
    const bool opens = block.size() == field.block.size() + 1 + field.key.size() &&
                       block.starts_with(field.block) && block.ends_with(field.key);
    return !opens || is_valid_in(field, version);
  });
}

std::span<const RemovedBlock> removed_blocks() {
  return kRemoved;
}

std::span<const TopLevelKey> top_level_keys() {
  return kTopLevel;
}

bool is_top_level_key(std::string_view key, const Version& version) {
  return std::any_of(std::begin(kTopLevel), std::end(kTopLevel), [&](const TopLevelKey& row) {
    return row.key == key && is_valid_in(row, version);
  });
}

// Source: class DtypeEnum of deepspeed/runtime/config.py.
std::string_view data_type(std::string_view word) {
  constexpr std::string_view kTypes[][4] = {
      {"fp32", "float32", "float", "torch.float32"},
      {"fp16", "float16", "half", "torch.float16"},
      {"bf16", "bfloat16", "torch.bfloat16", "bf16"},
      {"int8", "torch.int8", "int8", "int8"},
  };
  for (const auto& names : kTypes) {
    if (std::find(std::begin(names), std::end(names), word) != std::end(names)) return names[0];
  }
  return "";
}

}  // namespace zenflow::sim
