#include "sim/deepspeed/ds_config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "sim/config/knob_reader.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/lax_values.h"
#include "sim/deepspeed/unmodelled_keys.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kManyElements = std::int64_t{1} << 40;
/// Files write 1e14 and the like for no limit; a double has it exactly.
constexpr std::int64_t kAnyElements = std::int64_t{1} << 53;
constexpr std::int64_t kManySteps = 100'000;

constexpr std::string_view kZero = "zero_optimization";
constexpr std::string_view kZenFlow = "zero_optimization.zenflow";
constexpr std::string_view kOffloadOptimizer = "zero_optimization.offload_optimizer";
constexpr std::string_view kOffloadParam = "zero_optimization.offload_param";

bool is_auto(const Node& node) {
  return node.is_scalar() && node.scalar == "auto";
}

/// DeepSpeed drops a value that is the string "auto" before validation: the default holds.
std::optional<ValueReader> set_value(MapReader& map, std::string_view key) {
  auto value = map.optional(key);
  if (value && is_auto(value->node())) return std::nullopt;
  return value;
}

/// As pydantic takes it where a number is due: "2" and true, too.
Node as_number(const Node& node, bool integer) {
  Node number = node;
  if (!node.quoted && !is_boolean(node)) return number;
  if (auto json = number_as_json(node, integer)) {
    number.scalar = *std::move(json);
    number.quoted = false;
  }
  return number;
}

/// As pydantic takes it where true or false is due: 1 and "yes", too.
Node as_boolean(const Node& node) {
  Node word = node;
  if (const auto value = lax_boolean(node)) {
    word.scalar = *value ? "true" : "false";
    word.quoted = false;
  }
  return word;
}

bool read_boolean(const ValueReader& value) {
  return ValueReader(as_boolean(value.node()), value.path()).boolean();
}

double share(MapReader& map, std::string_view key, double fallback) {
  const auto value = set_value(map, key);
  return value ? ValueReader(as_number(value->node(), false), value->path()).number(0, 1)
               : fallback;
}

bool boolean(MapReader& map, std::string_view key, bool fallback) {
  const auto value = set_value(map, key);
  return value ? read_boolean(*value) : fallback;
}

std::int64_t integer(MapReader& map, std::string_view key, std::int64_t fallback, std::int64_t low,
                     std::int64_t high) {
  const auto value = set_value(map, key);
  return value ? ValueReader(as_number(value->node(), true), value->path()).integer(low, high)
               : fallback;
}

/// A text that stands for an interval is refused: "auto" alone may stand there.
double read_lax_knob(const SetupKnob& knob, std::string_view key, const ValueReader& value) {
  const Node& node = value.node();
  if (!knob.words.empty()) return read_knob(knob, value);
  if (is_switch(knob)) return read_knob(knob, {as_boolean(node), value.path()});
  if (node.quoted && key.ends_with("_interval")) return read_knob(knob, value);
  return read_knob(knob, {as_number(node, is_whole(knob)), value.path()});
}

/// Fields that are not read here do not change the schedules; a key of no release is refused.
void reject_unknown_fields(MapReader& map, std::string_view block) {
  for (const Field& field : strict_fields()) {
    if (field.block == block) map.ignore(field.key);
  }
  map.reject_unknown_keys();
}

/// What the table of a setup's knobs has of the block.
void read_knobs(MapReader& map, ZenFlowSettings& settings) {
  TrainingSetup setup;
  copy_knobs(settings, setup);
  for (const SetupKnob& knob : setup_knobs()) {
    const std::string_view key = key_in(kZenFlowBlock, knob);
    if (key.empty()) continue;
    if (const auto value = set_value(map, key)) {
      set_knob(knob, setup, read_lax_knob(knob, key, *value));
    }
  }
  copy_knobs(setup, settings);
  if (!set_value(map, "update_interval")) settings.update_interval.reset();
  if (!set_value(map, "select_interval")) settings.select_interval.reset();
}

ZenFlowSettings read_zenflow(MapReader map) {
  ZenFlowSettings settings;
  read_knobs(map, settings);
  if (settings.topk_ratio <= 0 || settings.topk_ratio >= 1) {
    const ValueReader ratio = map.require("topk_ratio");
    ratio.fail(fmt::format("expected a share between 0 and 1, both excluded, found {}",
                           ratio.node().scalar));
  }
  if (const auto strategy = set_value(map, "select_strategy")) {
    const std::array<std::string, 2> strategies = {"step", "epoch"};
    settings.select_strategy = strategy->choice(strategies);
  }
  settings.offload = boolean(map, "offload", settings.offload);
  settings.auto_ratio = share(map, "auto_ratio", settings.auto_ratio);
  settings.pt_reserved_cores_perc = share(map, "pt_reserved_cores_perc", 0.5);
  reject_unknown_fields(map, kZenFlow);
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
  std::int64_t buffer_size = 100'000'000;
  std::int64_t max_in_cpu = 1'000'000'000;
};

OffloadBlock read_offload(MapReader map, std::string_view path) {
  const std::array<std::string, 3> devices = {"none", "cpu", "nvme"};
  OffloadBlock block;
  if (path == kOffloadParam) {
    block.buffer_count = 5;
    block.buffer_size = integer(map, "buffer_size", block.buffer_size, 0, kManyElements);
    block.max_in_cpu = integer(map, "max_in_cpu", block.max_in_cpu, 0, kManyElements);
  }
  if (const auto value = set_value(map, "device")) {
    const std::string name = value->choice(devices);
    if (name == "cpu") block.device = OffloadDevice::kCpu;
    if (name == "nvme") block.device = OffloadDevice::kNvme;
  }
  if (const auto pin = set_value(map, "pin_memory")) block.pin_memory = read_boolean(*pin);
  block.ratio = share(map, "ratio", block.ratio);
  block.super_offload = boolean(map, "super_offload", block.super_offload);
  block.cpuadam_cores_perc = share(map, "cpuadam_cores_perc", block.cpuadam_cores_perc);
  block.pipeline_read = boolean(map, "pipeline_read", false);
  block.pipeline_write = boolean(map, "pipeline_write", false);
  block.buffer_count = integer(map, "buffer_count", block.buffer_count, 0, kManySteps);
  reject_unknown_fields(map, path);
  return block;
}

/// The deprecated spelling: true stands for {"device": "cpu"}.
OffloadDevice read_deprecated(MapReader& map, std::string_view key, std::string_view replacement) {
  const auto value = set_value(map, key);
  if (!value) return OffloadDevice::kNone;
  if (map.optional(replacement)) {
    map.fail(key,
             fmt::format("deprecated, and DeepSpeed refuses it together with {}", replacement));
  }
  return read_boolean(*value) ? OffloadDevice::kCpu : OffloadDevice::kNone;
}

void read_zero(MapReader map, DeepSpeedConfig& config) {
  config.zero_stage = static_cast<int>(integer(map, "stage", 0, 0, 3));
  config.reduce_bucket_size =
      integer(map, "reduce_bucket_size", config.reduce_bucket_size, 1, kManyElements);
  config.sub_group_size = integer(map, "sub_group_size", config.sub_group_size, 0, kAnyElements);
  // The names without the prefix are DeepSpeed's fields, those with it their aliases.
  constexpr std::string_view kPrefix = "stage3_";
  const auto elements = [&map, kPrefix](std::string_view key, std::int64_t& value) {
    value = integer(map, key.substr(kPrefix.size()), value, 0, kAnyElements);
    value = integer(map, key, value, 0, kAnyElements);
  };
  elements("stage3_prefetch_bucket_size", config.prefetch_bucket_size);
  elements("stage3_max_live_parameters", config.max_live_parameters);
  elements("stage3_max_reuse_distance", config.max_reuse_distance);
  elements("stage3_param_persistence_threshold", config.persistence_threshold);
  for (const char* key :
       {"gather_16bit_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save",
        "stage3_gather_fp16_weights_on_model_save"}) {
    config.gathers_on_save = boolean(map, key, config.gathers_on_save);
  }
  if (const auto overlap = set_value(map, "overlap_comm"))
    config.overlap_comm = read_boolean(*overlap);
  config.round_robin_gradients = boolean(map, "round_robin_gradients", false);
  config.offload_optimizer = read_deprecated(map, "cpu_offload", "offload_optimizer");
  config.offload_param = read_deprecated(map, "cpu_offload_param", "offload_param");
  if (const auto offload = map.optional_map("offload_optimizer")) {
    const OffloadBlock block = read_offload(*offload, kOffloadOptimizer);
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
    const OffloadBlock block = read_offload(*offload, kOffloadParam);
    config.offload_param = block.device;
    config.param_pin_memory = block.pin_memory.value_or(config.param_pin_memory);
    config.param_pin_memory_written = block.pin_memory.has_value();
    config.param_buffer_count = block.buffer_count;
    config.param_buffer_size = block.buffer_size;
    config.max_in_cpu = block.max_in_cpu;
  }
  if (const auto zenflow = map.optional_map("zenflow")) config.zenflow = read_zenflow(*zenflow);
  reject_unknown_fields(map, kZero);
}

bool read_precision(MapReader& root, const std::string& key, OptimizerSettings& optimizer) {
  auto block = root.optional_map(key);
  if (!block) return false;
  const bool enabled = boolean(*block, "enabled", false);
  if (enabled) {
    const std::string word = key == "fp16" ? key : "bf16";
    const bool master = boolean(*block, word + "_master_weights_and_grads", false);
    optimizer.narrow_master = optimizer.narrow_master || master;
    if (key != "fp16" && boolean(*block, "bf16_optimizer_states", false)) {
      optimizer.narrow_states = true;
    }
  }
  reject_unknown_fields(*block, key);
  return enabled;
}

/// DeepSpeed does not check these blocks, so their values are taken as Python takes them.
void read_optimizer(const Node& root, OptimizerSettings& optimizer) {
  if (const Node* type = find_path(root, "optimizer.type"); type != nullptr && type->is_scalar()) {
    optimizer.kind = find_optimizer(type->scalar).value_or(optimizer.kind);
  }
  if (const Node* momentum = find_path(root, "optimizer.params.momentum")) {
    optimizer.has_momentum = lax_number(*momentum).value_or(0) != 0;
  }
  if (const Node* wide = find_path(root, "optimizer.params.fp32_optimizer_states")) {
    optimizer.narrow_states = !lax_boolean(*wide).value_or(true);
  }
}

bool sums_in_fp32(const Node& root) {
  const Node* type = find_path(root, "data_types.grad_accum_dtype");
  if (type == nullptr || type->kind == Node::Kind::kNull) return false;
  // Source: class DtypeEnum of deepspeed/runtime/config.py; the first four are fp32.
  static const std::array<std::string, 11> kNames = {
      "fp32", "float32",       "float", "torch.float32", "fp16",          "float16",
      "half", "torch.float16", "bf16",  "bfloat16",      "torch.bfloat16"};
  const std::string name = ValueReader(*type, "data_types.grad_accum_dtype").choice(kNames);
  return std::find(kNames.begin(), kNames.begin() + 4, name) != kNames.begin() + 4;
}

/// DeepSpeed ignores an unknown block at the top; a near miss is more likely a typo.
void check_top_level(const Node& root, DeepSpeedConfig& config) {
  std::vector<std::string> known;
  for (const TopLevelKey& row : top_level_keys()) known.emplace_back(row.key);
  for (const RemovedBlock& block : removed_blocks()) known.emplace_back(block.key);
  for (const Node::Entry& entry : root.entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::string hint = suggestion(entry.key, known);
    if (!hint.empty()) fail_at(entry.key_at, entry.key, "unknown key" + hint);
    config.warnings.push_back(fmt::format("{}: {}: unknown to DeepSpeed, which ignores it",
                                          entry.key_at.text(), entry.key));
  }
}

/// Results without it would be another job's: each rank has all experts' weights, gradients and
/// optimizer state to keep, and none of the exchange of tokens.
void refuse_expert_parallelism(const Node& root) {
  constexpr std::string_view kBlock = "expert_parallel";
  const Node* const block = root.find(kBlock);
  const Node* const enabled = block == nullptr ? nullptr : block->find("enabled");
  if (enabled == nullptr || !lax_boolean(*enabled).value_or(false)) return;
  fail_at(enabled->at, fmt::format("{}.enabled", kBlock),
          "expert parallelism is not described; without it every rank has all experts");
}

}  // namespace

std::string stacked_tensor_failure(const Tensor& tensor, std::int64_t stage) {
  return fmt::format(
      "cannot train {} of {} dimensions: DeepSpeed's ZenFlow selects columns of matrices only, and "
      "ends with \"{}\"",
      tensor.name, tensor.shape.size(),
      stage == 3 ? "t() expects a tensor with <= 2 dimensions"
                 : "start + length exceeds dimension size");
}

void copy_knobs(const ZenFlowSettings& from, OffloadSetup& to) {
  to.topk_ratio = from.topk_ratio;
  to.update_interval = from.update_interval.value_or(1);
  to.select_interval = from.select_interval.value_or(0);
  to.overlap_step = from.overlap_step;
  to.full_warm_up_rounds = from.full_warm_up_rounds;
}

void copy_knobs(const OffloadSetup& from, ZenFlowSettings& to) {
  to.topk_ratio = from.topk_ratio;
  to.update_interval = from.update_interval;
  to.select_interval = from.select_interval;
  to.overlap_step = from.overlap_step;
  to.full_warm_up_rounds = from.full_warm_up_rounds;
}

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
    const SetupKnob& knob = setup_knob("gradient_accumulation_steps");
    config.gradient_accumulation_steps = static_cast<std::int64_t>(read_knob(knob, *accumulation));
    config.gradient_accumulation_steps_written = true;
  }
  const auto written_steps = map.optional("gradient_accumulation_steps");
  config.gradient_accumulation_steps_auto = written_steps && is_auto(written_steps->node());
  read_optimizer(root, config.optimizer);
  if (const auto zero = map.optional_map("zero_optimization")) read_zero(*zero, config);
  config.bf16 = read_precision(map, map.optional("bf16") ? "bf16" : "bfloat16", config.optimizer);
  config.fp16 = read_precision(map, "fp16", config.optimizer);
  config.fp32_gradient_sums = sums_in_fp32(root) && (config.bf16 || config.fp16);
  if (config.bf16 && config.fp16) map.fail("fp16", "bf16 and fp16 cannot both be enabled");
  if (const Node* autocast = find_path(root, "torch_autocast.enabled")) {
    config.autocast = !config.bf16 && !config.fp16 && lax_boolean(*autocast).value_or(false);
  }
  check_top_level(root, config);
  refuse_expert_parallelism(root);
  for (UnmodelledKey& key : unmodelled_keys(root)) {
    config.not_modelled.push_back(std::move(key.path));
  }
  return config;
}

namespace {

/// What people call keys of scenarios and of DeepSpeed's file that are deeper down.
constexpr std::pair<std::string_view, std::string_view> kUsualNames[] = {
    {"zero_stage", "deepspeed.zero_optimization.stage"},
    {"micro_batch_size", "training.micro_batch_size_per_gpu"},
    {"micro_batch", "training.micro_batch_size_per_gpu"},
    {"per_device_train_batch_size", "training.micro_batch_size_per_gpu"},
    {"seq_len", "training.sequence_length"},
    {"seq_length", "training.sequence_length"},
    {"max_length", "training.sequence_length"},
    {"cutoff_len", "training.sequence_length"},
    {"gradient_checkpointing", "training.activation_checkpointing"},
    {"topk", "deepspeed.zero_optimization.zenflow.topk_ratio"},
    // In blocks of offload_optimizer and of offload_param: the optimizer's is meant.
    {"pin_memory", "deepspeed.zero_optimization.offload_optimizer.pin_memory"},
    {"ratio", "deepspeed.zero_optimization.offload_optimizer.ratio"},
    {"offload_optimizer_device", "deepspeed.zero_optimization.offload_optimizer.device"},
    {"offload_param_device", "deepspeed.zero_optimization.offload_param.device"},
};
constexpr std::string_view kScenarioKeys[] = {
    "name",      "model",         "adapter",   "hardware",      "gpus",
    "nodes",     "training",      "launch",    "ranks",         "run",
    "deepspeed", "zenflow_train", "schedules", "max_staleness", "base"};

/// The place of a key that is written without one, if there is one place alone.
std::string usual_path(const std::string& path) {
  const std::string block = path.substr(0, path.find('.'));
  const auto is_block = [&block](std::string_view known) { return known == block; };
  if (std::ranges::any_of(kScenarioKeys, is_block)) return path;
  const bool is_bare = block == path;
  for (const auto& [name, place] : kUsualNames) {
    if (name == path) return std::string(place);
  }
  for (const SetupKnob& knob : setup_knobs()) {
    if (key_in("training", knob) == path && path != "gradient_accumulation_steps") {
      return "training." + path;
    }
  }
  if (std::ranges::any_of(top_level_keys(), is_block, &TopLevelKey::key))
    return "deepspeed." + path;
  if (!is_bare) return path;
  for (const char* key : {"bind_cores_to_rank", "omp_num_threads"}) {
    if (path == key) return "launch." + path;
  }
  std::vector<std::string> places;
  for (const Field& one : strict_fields()) {
    if (one.key != path) continue;
    std::string place = fmt::format("deepspeed.{}.{}", one.block, path);
    if (std::ranges::find(places, place) == places.end()) places.push_back(std::move(place));
  }
  if (places.size() == 1) return places.front();
  return path;
}

}  // namespace

std::string expand_short_name(const std::string& path) {
  const auto knobs = setup_knobs();
  const auto knob = std::find_if(knobs.begin(), knobs.end(), [&path](const SetupKnob& one) {
    return key_in("zenflow_train", one) == path;
  });
  if (knob != knobs.end()) return std::string(knob->path);
  const auto fields = strict_fields();
  const bool is_short = std::any_of(fields.begin(), fields.end(), [&path](const Field& field) {
    return field.block == kZenFlow && field.key == path && path != "steps_per_epoch";
  });
  return is_short ? fmt::format("{}.{}", kZenFlowBlock, path) : path;
}

bool is_unknown_word(const std::string& path, std::string& nearest) {
  const auto is_path = [&path](std::string_view known) { return known == path; };
  if (path.find('.') != std::string::npos || std::ranges::any_of(kScenarioKeys, is_path)) {
    return false;
  }
  std::vector<std::string> words(std::begin(kScenarioKeys), std::end(kScenarioKeys));
  for (const auto& [name, place] : kUsualNames) words.emplace_back(name);
  for (const SetupKnob& knob : setup_knobs()) words.emplace_back(knob.name);
  for (const TopLevelKey& one : top_level_keys()) words.emplace_back(one.key);
  for (const Field& one : strict_fields()) words.emplace_back(one.key);
  nearest = suggestion(path, words);
  return true;
}

std::string expand_usual_name(const std::string& path) {
  std::string known = expand_short_name(path);
  return known == path ? usual_path(path) : known;
}

}  // namespace zenflow::sim
