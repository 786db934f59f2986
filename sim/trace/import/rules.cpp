#include "sim/trace/import/rules.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/config/document.h"
#include "sim/config/reader.h"
#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

const std::array<std::string, 7> kPhases = {"forward",    "backward",  "optimizer", "copy",
                                            "collective", "selection", "other"};
const std::array<std::string, 3> kLanes = {"cpu_update", "selection", "nvme"};

/// Precondition: it is one of them.
template <class Names>
std::size_t place_of(const Names& names, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
}

/// The text of a regular expression.
std::string pattern(const ValueReader& value) {
  std::string text = value.string();
  if (!is_pattern(text)) value.fail(fmt::format("{}, found \"{}\"", kExpectedPattern, text));
  return text;
}

std::string pattern(MapReader& map, std::string_view key) {
  const auto value = map.optional(key);
  return value ? pattern(*value) : "";
}

std::vector<std::string> patterns(MapReader& map, std::string_view key) {
  std::vector<std::string> found;
  const auto list = map.optional(key);
  if (!list) return found;
  for (const ValueReader& item : list->items()) found.push_back(pattern(item));
  return found;
}

PhaseRule read_phase(const ValueReader& value) {
  MapReader map(value.node(), value.path());
  PhaseRule rule;
  const std::string phase = map.require("phase").choice(kPhases);
  rule.phase = static_cast<SpanPhase>(place_of(kPhases, phase) + 1);
  rule.kernel = pattern(map, "kernel");
  rule.range = pattern(map, "range");
  rule.operation = pattern(map, "operation");
  rule.thread = pattern(map, "thread");
  if (const auto stream = map.optional("stream")) {
    rule.stream = stream->integer(0, std::int64_t{1} << 40);
  }
  rule.main_thread = map.boolean_or("main_thread", false);
  map.reject_unknown_keys();
  const bool says_something = !rule.kernel.empty() || !rule.range.empty() ||
                              !rule.operation.empty() || !rule.thread.empty() || rule.stream ||
                              rule.main_thread;
  if (!says_something) {
    map.fail("phase", "expected kernel, range, operation, thread, stream or main_thread beside it");
  }
  return rule;
}

LaneRule read_lane(const ValueReader& value) {
  MapReader map(value.node(), value.path());
  LaneRule rule;
  rule.lane = static_cast<HostLane>(place_of(kLanes, map.require("lane").choice(kLanes)) + 1);
  rule.track = pattern(map, "track");
  rule.range = pattern(map, "range");
  map.reject_unknown_keys();
  if (rule.track.empty() == rule.range.empty()) {
    map.fail("lane", "expected either track or range beside it");
  }
  return rule;
}

template <class T>
void add_all(std::vector<T>& to, std::vector<T> more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

TraceRules default_rules() {
  TraceRules rules;
  rules.phases = {
      {.phase = SpanPhase::kCollective,
       .kernel = fmt::format("(?i).*({}).*", fmt::join(kCollectiveWords, "|"))},
      // What our own schedules and engine call their work.
      {.phase = SpanPhase::kCollective,
       .kernel = fmt::format("({})( .*)?", fmt::join(kOwnCollectives, "|"))},
      {.phase = SpanPhase::kSelection,
       .kernel = "select( .*)?|column_norm.*|top_k.*|column (norms|exchange|indices)"},
      {.phase = SpanPhase::kForward, .kernel = "forward( .*)?"},
      {.phase = SpanPhase::kBackward, .kernel = "backward( .*)?"},
      {.phase = SpanPhase::kOptimizer, .kernel = "gpu_(update|accumulate)( .*)?"},
      {.phase = SpanPhase::kOptimizer,
       .kernel = "gradient norm|gather (selected|deferred)|sum gradients|"
                 "(update|carry) selected|scatter weights"},
      {.phase = SpanPhase::kOther, .kernel = "checkpoint|export"},
      {.phase = SpanPhase::kCopy, .kernel = "(Memcpy|Memory copy|memcpy|Copy).*"},
      // DeepSpeed's ranges (NVTX) and PyTorch's annotations.
      {.phase = SpanPhase::kSelection,
       .range = "(?i).*(update_selected_channels|selective_optimizer).*"},
      // Who names ranges by hand writes them large or small.
      {.phase = SpanPhase::kOptimizer, .range = "(?i)Optimizer\\.step#.*"},
      {.phase = SpanPhase::kOptimizer,
       .range = "(?i)(DeepSpeedEngine|DeepSpeedZeroOptimizer.*|.*Optimizer.*)\\."
                "(step|_take_model_step)"},
      {.phase = SpanPhase::kOptimizer, .range = "(?i)(optimizer|opt)([_. ]?step)?( .*)?"},
      {.phase = SpanPhase::kOther, .range = "(?i)Optimizer\\.zero_grad#.*"},
      {.phase = SpanPhase::kBackward,
       .range = "(?i)DeepSpeedEngine\\.(backward|allreduce_gradients)"},
      {.phase = SpanPhase::kBackward, .range = "(?i)(.*[^a-z])?(backward|bwd)([ _]?pass)?[^a-z]*"},
      {.phase = SpanPhase::kForward, .range = "(?i)DeepSpeedEngine\\.forward"},
      {.phase = SpanPhase::kForward, .range = "(?i)(.*[^a-z])?(forward|fwd)([ _]?pass)?[^a-z]*"},
      // The engine's thread runs the backward pass, and gradient checkpointing's second forward in
      // it.
      {.phase = SpanPhase::kBackward, .operation = "autograd::engine::evaluate_function: .*"},
      {.phase = SpanPhase::kBackward,
       .operation = "[A-Za-z_:<>]*Backward[0-9]*|(struct )?torch::autograd::AccumulateGrad"},
      {.phase = SpanPhase::kBackward, .thread = "pt_autograd_[0-9]+"},
      // A compiled model's forward may be a CUDA graph.
      {.phase = SpanPhase::kForward, .operation = "CompiledFunction|Torch-Compiled Region.*"},
      {.phase = SpanPhase::kForward, .main_thread = true},
  };
  rules.lanes = {
      {.lane = HostLane::kCpuUpdate,
       .track =
           "cpu_update.*|cpu_accumulate.*|cpu (optimizer|sums)|cpu update.*|optimizer|update.*"},
      {.lane = HostLane::kNvme, .track = "nvme.*"},
      {.lane = HostLane::kCpuUpdate,
       .range = "(?i)Optimizer\\.step#.*CPU.*|.*(CPUAdam|cpu_adam|CPULion|CPUAdagrad).*"},
  };
  rules.steps = {
      "(?i)ProfilerStep *#? *[0-9]+",
      "(?i)((train(ing)?|global|bench(mark)?|measured?|profil(e|ed|ing))[ _-]?)?"
      "(step|iter(ation)?|batch)[ _:#=-]*[0-9]+",
      "(?i)train(ing)?[ _-]?(step|iter(ation)?)",
  };
  rules.optimizers = {
      "(?i)Optimizer\\.step#.*",
      "(?i)DeepSpeedEngine\\.step",
      "(?i)(.*[^a-z])?(optim(izer)?|adamw?|adafactor|lion|muon|sgd)[^a-z]*(step|update)",
      "(?i).*(optimizer)\\.step",
      "(?i)(.*[^a-z])?(optimizer|opt)",
  };
  return rules;
}

TraceRules read_rules(const std::filesystem::path& path) {
  const Node root = load_document(path);
  MapReader map(root, "");
  TraceRules rules;
  if (const auto list = map.optional("phases")) {
    for (const ValueReader& item : list->items()) rules.phases.push_back(read_phase(item));
  }
  if (const auto list = map.optional("lanes")) {
    for (const ValueReader& item : list->items()) rules.lanes.push_back(read_lane(item));
  }
  rules.steps = patterns(map, "steps");
  rules.optimizers = patterns(map, "optimizers");
  map.reject_unknown_keys();
  TraceRules built_in = default_rules();
  add_all(rules.phases, std::move(built_in.phases));
  add_all(rules.lanes, std::move(built_in.lanes));
  add_all(rules.steps, std::move(built_in.steps));
  add_all(rules.optimizers, std::move(built_in.optimizers));
  return rules;
}

}  // namespace zenflow::sim
