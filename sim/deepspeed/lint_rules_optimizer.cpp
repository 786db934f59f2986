// The optimizer, the scheduler and the data types: what the engine refuses or leaves unread.

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/text.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/lint_rules.h"

namespace zenflow::sim {
namespace {

using Words = std::string_view;  ///< "lr|betas"

std::vector<std::string> split(Words words) {
  std::vector<std::string> parts;
  while (!words.empty()) {
    const std::size_t bar = std::min(words.find('|'), words.size());
    parts.emplace_back(words.substr(0, bar));
    words.remove_prefix(std::min(bar + 1, words.size()));
  }
  return parts;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The nearest name, if only by its case.
std::string likely(std::string_view word, const std::vector<std::string>& known) {
  for (const std::string& name : known) {
    if (lower_case(name) == lower_case(word)) return fmt::format(" (did you mean \"{}\"?)", name);
  }
  return suggestion(word, known);
}

bool offloads(const LintContext& context) {
  return context.settings().offload == "cpu" || context.settings().offload == "nvme";
}

/// Which class a type becomes.
enum class Made { kAnywhere, kForCpu, kForGpu, kOfTorch };

/// What the constructor of an optimizer takes, with the keys that the engine takes out before.
struct Constructor {
  std::string_view type;  ///< DeepSpeed's in lower case, PyTorch's as written
  std::string_view name;
  Words params;
  Made made = Made::kAnywhere;
};

// Source: deepspeed/ops/{adam,adagrad,lion,lamb} of 0.12.6 to 0.19.8; torch.optim of PyTorch 2.15,
// which takes all that older releases do.
constexpr Constructor kConstructors[] = {
    {"adam", "DeepSpeedCPUAdam",
     "lr|bias_correction|betas|eps|weight_decay|amsgrad|fp32_optimizer_states|torch_adam|"
     "adam_w_mode",
     Made::kForCpu},
    {"adam", "FusedAdam",
     "lr|bias_correction|betas|eps|weight_decay|amsgrad|set_grad_none|fp32_optimizer_states|"
     "torch_adam|adam_w_mode",
     Made::kForGpu},
    {"adam", "torch's Adam",
     "lr|betas|eps|weight_decay|amsgrad|foreach|maximize|capturable|differentiable|fused|"
     "decoupled_weight_decay|fp32_optimizer_states|torch_adam|adam_w_mode",
     Made::kOfTorch},
    {"adagrad", "DeepSpeedCPUAdagrad", "lr|eps|weight_decay|amsgrad|fp32_optimizer_states",
     Made::kForCpu},
    {"adagrad", "torch's Adagrad",
     "lr|lr_decay|weight_decay|initial_accumulator_value|eps|foreach|maximize|differentiable|fused",
     Made::kForGpu},
    {"lion", "DeepSpeedCPULion", "lr|betas|weight_decay|fp32_optimizer_states", Made::kForCpu},
    {"lion", "FusedLion", "lr|betas|weight_decay|set_grad_none", Made::kForGpu},
    {"lamb", "FusedLamb",
     "lr|bias_correction|betas|eps|eps_inside_sqrt|weight_decay|max_coeff|min_coeff|amsgrad"},
    {"ASGD", "torch's ASGD",
     "lr|lambd|alpha|t0|weight_decay|foreach|maximize|differentiable|capturable"},
    {"Adadelta", "torch's Adadelta",
     "lr|rho|eps|weight_decay|foreach|capturable|maximize|differentiable"},
    {"Adafactor", "torch's Adafactor",
     "lr|beta2_decay|eps|d|weight_decay|foreach|maximize|differentiable"},
    {"Adamax", "torch's Adamax",
     "lr|betas|eps|weight_decay|foreach|maximize|differentiable|capturable"},
    {"LBFGS", "torch's LBFGS",
     "lr|max_iter|max_eval|tolerance_grad|tolerance_change|history_size|line_search_fn|maximize"},
    {"NAdam", "torch's NAdam",
     "lr|betas|eps|weight_decay|momentum_decay|decoupled_weight_decay|foreach|maximize|capturable|"
     "differentiable"},
    {"RAdam", "torch's RAdam",
     "lr|betas|eps|weight_decay|decoupled_weight_decay|foreach|maximize|capturable|differentiable"},
    {"RMSprop", "torch's RMSprop",
     "lr|alpha|eps|weight_decay|momentum|centered|capturable|foreach|maximize|differentiable"},
    {"Rprop", "torch's Rprop", "lr|etas|step_sizes|capturable|foreach|maximize|differentiable"},
    {"SGD", "torch's SGD",
     "lr|momentum|dampening|weight_decay|nesterov|maximize|foreach|differentiable|fused"},
    {"SparseAdam", "torch's SparseAdam", "lr|betas|eps|maximize"},
};

/// Types of DeepSpeed whose parameters are another package's, or taken one by one.
constexpr Words kOtherTypes = "muadam|muadamw|musgd|muon";
/// Gone from 0.19.7 on.
constexpr Words kOneBitTypes = "onebitadam|zerooneadam|onebitlamb";
constexpr Version kNoOneBit = {0, 19, 7};

/// The type as DeepSpeed looks it up, or nothing if the file has none that is a text.
std::string written_type(const LintContext& context, std::string_view block) {
  const Node* node = context.set(std::string(block) + ".type");
  return node != nullptr && node->is_scalar() && node->quoted ? node->scalar : "";
}

bool is_of_type(const Constructor& one, const LintContext& context) {
  const std::string& type = context.settings().optimizer;
  return one.type == (type == "adamw" ? "adam" : type) ||
         one.type == written_type(context, "optimizer");
}

const Constructor* find_constructor(const LintContext& context) {
  const LintSettings& s = context.settings();
  for (const Constructor& one : kConstructors) {
    if (!is_of_type(one, context)) continue;
    const Made made = s.torch_adam && one.type == "adam" ? Made::kOfTorch
                      : offloads(context)                ? Made::kForCpu
                                                         : Made::kForGpu;
    if (one.made == Made::kAnywhere || one.made == made) return &one;
  }
  return nullptr;
}

bool is_of_torch(const Constructor& one) {
  return one.type.front() >= 'A' && one.type.front() <= 'Z';
}

void check_optimizer_name(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const std::string type = written_type(context, "optimizer");
  if (type.empty() || s.zenflow) return;  // ZenFlow takes Adam alone, says its own rule
  if (find_constructor(context) != nullptr || contains(split(kOtherTypes), s.optimizer)) return;
  const bool one_bit = contains(split(kOneBitTypes), s.optimizer);
  if (one_bit && context.options().version < kNoOneBit) {
    if (s.stage == 0) return;
    context.report(rule, {.path = "optimizer.type",
                          .what = type + " does not go with ZeRO: AssertionError",
                          .instead = "\"AdamW\", or stage 0"});
    return;
  }
  std::vector<std::string> known = {"Adam", "AdamW", "Adagrad", "Lion", "Lamb", "Muon"};
  for (const Constructor& one : kConstructors) {
    if (is_of_torch(one)) known.emplace_back(one.type);
  }
  const std::string hint = likely(type, known);
  context.report(
      rule, {.path = "optimizer.type",
             .what = one_bit ? fmt::format("{} was removed in DeepSpeed {}: AssertionError", type,
                                           to_string(kNoOneBit))
                             : shown(*context.set("optimizer.type")) +
                                   " is an optimizer of neither DeepSpeed nor torch.optim: "
                                   "AssertionError",
             .instead = hint.empty() ? "\"AdamW\", which offload makes DeepSpeedCPUAdam"
                                     : "the known name" + hint});
}

/// Reports what a constructor does not take. Misspelt ones are not dropped.
void check_params(LintContext& context, const Rule& rule, const std::string& block,
                  std::string_view name, const std::vector<std::string>& known) {
  const Node* params = context.set(block + ".params");
  if (params == nullptr || !params->is_map()) return;
  for (const Node::Entry& entry : params->entries) {
    if (entry.key == "max_grad_norm" || contains(known, entry.key)) continue;  // a rule of its own
    const std::string hint = likely(entry.key, known);
    std::vector<Edit> edits;
    if (hint.empty()) edits.push_back({{block, "params", entry.key}, std::nullopt});
    context.report(rule, {.path = block + ".params." + entry.key,
                          .what = fmt::format("{} does not take it: TypeError", name),
                          .instead = hint.empty() ? fmt::format("remove it; known are {}",
                                                                fmt::join(known, ", "))
                                                  : "the known name" + hint,
                          .edits = std::move(edits),
                          .at = entry.key_at});
  }
}

void check_optimizer_params(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const Constructor* made = find_constructor(context);
  if (made == nullptr) return;
  if (s.zenflow && (s.stage != 3 || !makes_deepspeed_adam(s))) return;  // rules of their own
  check_params(context, rule, "optimizer", made->name, split(made->params));
}

/// What a constructor has to do with a value of the file.
struct Expected {
  std::string what;  ///< empty: it takes the value
  std::string instead;
};

/// Python's true and false are numbers.
bool is_python_number(const Node& node) {
  return is_number(node) || is_boolean(node);
}

Expected expected_number(const Node& node) {
  if (is_python_number(node)) return {};
  Node plain = node;
  plain.quoted = false;
  if (is_number(plain)) return {"a number", plain.scalar};
  const auto number = node.is_scalar() ? number_as_json(node, false) : std::nullopt;
  return {"a number", number.value_or("a number")};
}

/// PyTorch's own optimizers do not look at a third one.
Expected expected_betas(const Node& node, bool of_torch) {
  constexpr std::size_t kBetas = 2;
  const bool fits = of_torch ? node.items.size() >= kBetas : node.items.size() == kBetas;
  const bool numbers = std::all_of(node.items.begin(), node.items.end(), is_python_number);
  if (fits && numbers) return {};
  return {"a list of two numbers", "[0.9, 0.999]"};
}

void check_param_types(LintContext& context, const Rule& rule) {
  const Constructor* made = find_constructor(context);
  const Node* params = context.set("optimizer.params");
  if (made == nullptr || params == nullptr || !params->is_map()) return;
  const bool of_torch = made->made == Made::kOfTorch || is_of_torch(*made);
  const std::vector<std::string> known = split(made->params);
  for (const Node::Entry& entry : params->entries) {
    if (is_auto(entry.value) || !contains(known, entry.key)) continue;  // rules of their own
    // Adafactor's eps is a pair.
    const bool number = contains(split("lr|eps|weight_decay"), entry.key) &&
                        !(made->type == "Adafactor" && entry.key == "eps");
    Expected due;
    if (number) due = expected_number(entry.value);
    if (entry.key == "betas") due = expected_betas(entry.value, of_torch);
    if (due.what.empty()) continue;
    const std::string path = "optimizer.params." + entry.key;
    std::vector<Edit> edits;
    if (number && due.instead != due.what) edits.push_back(set_key(path, due.instead));
    const bool list = !entry.value.items.empty();
    context.report(rule, {.path = path,
                          .what = fmt::format("{} takes {}, found {}: {}", made->name, due.what,
                                              list ? "another list" : shown(entry.value),
                                              list ? "it stops" : "TypeError"),
                          .instead = due.instead,
                          .edits = std::move(edits),
                          .at = entry.value.at});
  }
}

void check_amsgrad(LintContext& context, const Rule& rule) {
  const char* path = "optimizer.params.amsgrad";
  const Constructor* made = find_constructor(context);
  if (made == nullptr || made->made == Made::kOfTorch || is_of_torch(*made)) return;
  if (!context.is_true(path) || !contains(split(made->params), "amsgrad")) return;
  const bool for_cpu = made->made == Made::kForCpu;
  const bool ignored =
      for_cpu && (made->type == "adagrad" || context.options().version < Version{0, 19, 8});
  context.report(rule, {.path = path,
                        .what = fmt::format("{} has no AMSGrad: {}", made->name,
                                            ignored ? "ignored" : "RuntimeError"),
                        .instead = "false",
                        .edits = {set_key(path, "false")},
                        .severity = ignored ? Severity::kWarning : Severity::kError,
                        .rejected_by = ignored ? RejectedBy::kNobody : RejectedBy::kEngine});
}

void check_unread_keys(LintContext& context, const Rule& rule) {
  for (const std::string block : {"optimizer", "scheduler"}) {
    const Node* node = context.set(block);
    if (node == nullptr || !node->is_map() || written_type(context, block).empty()) continue;
    const std::vector<std::string> known =
        split(block == "optimizer" ? "type|params|legacy_fusion" : "type|params");
    const bool bare = node->find("params") == nullptr;
    for (const Node::Entry& entry : node->entries) {
      if (contains(known, entry.key)) continue;
      const std::string hint = likely(entry.key, known);
      context.report(rule, {.path = block + "." + entry.key,
                            .what = fmt::format("unknown key, ignored{}",
                                                bare && block == "optimizer"
                                                    ? ": the optimizer runs with its own defaults"
                                                    : ""),
                            .instead = hint.empty() ? "inside \"params\", if it is one of them"
                                                    : "the known name" + hint,
                            .at = entry.key_at});
    }
  }
}

struct Scheduler {
  std::string_view type;
  Words required;
  Words others;
};

constexpr Words kWarmup =
    "warmup_min_lr|warmup_max_lr|warmup_num_steps|warmup_type|"
    "last_batch_iteration";
// Source: deepspeed/runtime/lr_schedules.py of 0.12.6 to 0.19.8; torch.optim.lr_scheduler of
// PyTorch 2.15, with the key "verbose" that older releases take.
constexpr Scheduler kSchedulers[] = {
    {"LRRangeTest", "",
     "lr_range_test_min_lr|lr_range_test_step_size|lr_range_test_step_rate|"
     "lr_range_test_staircase|last_batch_iteration"},
    {"OneCycle", "cycle_min_lr|cycle_max_lr",
     "decay_lr_rate|cycle_first_step_size|cycle_second_step_size|cycle_first_stair_count|"
     "cycle_second_stair_count|decay_step_size|cycle_momentum|cycle_min_mom|cycle_max_mom|"
     "decay_mom_rate|last_batch_iteration"},
    {"WarmupLR", "", kWarmup},
    {"WarmupDecayLR", "total_num_steps", kWarmup},
    {"WarmupCosineLR", "total_num_steps",
     "warmup_min_ratio|warmup_num_steps|cos_min_ratio|warmup_type|last_batch_iteration"},
    {"ConstantLR", "", "factor|total_iters|last_epoch|verbose"},
    {"CosineAnnealingLR", "T_max", "eta_min|last_epoch|verbose"},
    {"CosineAnnealingWarmRestarts", "T_0", "T_mult|eta_min|last_epoch|verbose"},
    {"CyclicLR", "base_lr|max_lr",
     "step_size_up|step_size_down|mode|gamma|scale_fn|scale_mode|cycle_momentum|base_momentum|"
     "max_momentum|last_epoch|verbose"},
    {"ExponentialLR", "gamma", "last_epoch|verbose"},
    {"LinearLR", "", "start_factor|end_factor|total_iters|last_epoch|verbose"},
    {"MultiStepLR", "milestones", "gamma|last_epoch|verbose"},
    {"OneCycleLR", "max_lr",
     "total_steps|epochs|steps_per_epoch|pct_start|anneal_strategy|cycle_momentum|base_momentum|"
     "max_momentum|div_factor|final_div_factor|three_phase|last_epoch|verbose"},
    {"PolynomialLR", "", "total_iters|power|last_epoch|verbose"},
    {"ReduceLROnPlateau", "",
     "mode|factor|patience|threshold|threshold_mode|cooldown|min_lr|eps|verbose"},
    {"StepLR", "step_size", "gamma|last_epoch|verbose"},
};
/// Those of PyTorch that take functions or other schedulers, which no file can have.
constexpr Words kPythonSchedulers =
    "LambdaLR|MultiplicativeLR|ChainedScheduler|SequentialLR|LRScheduler|_LRScheduler";

void check_scheduler(LintContext& context, const Rule& rule) {
  const std::string type = written_type(context, "scheduler");
  if (type.empty() || contains(split(kPythonSchedulers), type)) return;
  const auto* const scheduler = std::find_if(std::begin(kSchedulers), std::end(kSchedulers),
                                             [&type](const auto& one) { return one.type == type; });
  if (scheduler == std::end(kSchedulers)) {
    std::vector<std::string> known;
    for (const Scheduler& one : kSchedulers) known.emplace_back(one.type);
    std::string hint = likely(type, known);
    context.report(rule, {.path = "scheduler.type",
                          .what = shown(*context.set("scheduler.type")) +
                                  " is a scheduler of neither DeepSpeed nor "
                                  "torch.optim.lr_scheduler: AssertionError",
                          .instead = hint.empty() ? "one of DeepSpeed's, e.g. \"WarmupLR\""
                                                  : "the known name" + hint});
    return;
  }
  const std::vector<std::string> required = split(scheduler->required);
  const Node* params = context.find("scheduler.params");
  if (params == nullptr || !params->is_map()) {
    const std::string due = fmt::format("{}", fmt::join(required, ", "));
    std::vector<Edit> edits;
    if (due.empty() && params == nullptr) edits.push_back(set_key("scheduler.params", "{}"));
    context.report(rule, {.path = "scheduler.params",
                          .what = "is due, if only as {}: TypeError",
                          .instead = due.empty() ? "\"params\": {}" : "params with " + due,
                          .edits = std::move(edits)});
    return;
  }
  for (const std::string& key : required) {
    if (params->find(key) != nullptr) continue;
    context.report(rule, {.path = "scheduler.params." + key,
                          .what = fmt::format("{} needs it: TypeError", type),
                          .instead = key == "total_num_steps" ? "the steps of the whole training"
                                                              : "a value for it"});
  }
  std::vector<std::string> known = split(scheduler->others);
  known.insert(known.begin(), required.begin(), required.end());
  check_params(context, rule, "scheduler", type, known);
}

void check_gradient_scale(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const bool checked =
      s.stage == 3 || s.stage == 2 || (s.stage == 1 && !context.has(Change::kStage1Overlaps));
  if (!checked || !context.flag("zero_optimization.reduce_scatter", true)) return;
  // Where gradients are summed, stage 2 does not look at their scale.
  if (s.stage == 2 && context.has(Change::kAllreduceOp) &&
      context.text("gradient_allreduce_op", "mean") != "mean") {
    return;
  }
  const auto complain = [&](const char* path, const char* neutral) {
    context.report(rule, {.path = path,
                          .what = fmt::format("AssertionError: stage {} scales gradients itself "
                                              "where reduce_scatter is on, as by default",
                                              s.stage),
                          .instead = fmt::format("{}, or \"reduce_scatter\": false", neutral),
                          .edits = {set_key(path, neutral)}});
  };
  const Node* factor = context.set("gradient_predivide_factor");
  if (factor != nullptr && context.number("gradient_predivide_factor") != 1.0) {
    complain("gradient_predivide_factor", "1.0");
  }
  if (context.is_true("prescale_gradients")) complain("prescale_gradients", "false");
}

void check_mixed_types(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  for (const char* path : {"bf16.enabled", "bfloat16.enabled", "fp16.enabled"}) {
    const Node* node = context.find(path);
    if (node != nullptr && is_auto(*node)) return;  // the launcher decides
  }
  const std::string_view model = s.fp16 ? "fp16" : s.bf16 ? "bf16" : "fp32";
  const std::string_view sums = data_type(context.text("data_types.grad_accum_dtype", ""));
  const bool split_wrapper = !context.has(Change::kBf16WithoutZero) && model == "bf16";
  if (s.stage == 0 && !sums.empty() && sums != model && !(split_wrapper && sums == "fp32")) {
    context.report(rule, {.path = "data_types.grad_accum_dtype",
                          .what = fmt::format("NotImplementedError: without ZeRO gradients of {} "
                                              "are not summed in {}",
                                              model, sums),
                          .instead = "leave it out, or use ZeRO",
                          .edits = {erase_key("data_types.grad_accum_dtype")}});
  }
  const std::string_view params = data_type(context.text("data_types.param_dtype", ""));
  if (params.empty() || params == model || context.options().version < kDataTypesSince) return;
  context.report(rule,
                 {.path = "data_types.param_dtype",
                  .what = fmt::format("AssertionError: the blocks bf16 and fp16 say {}", model),
                  .instead = "leave it out, or enable the block of that type",
                  .edits = {erase_key("data_types.param_dtype")}});
}

void check_partial_optimizer(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (s.zenflow || s.stage != 3 || !offloads(context) || s.ratio >= 1) return;
  if (s.optimizer.empty() || makes_deepspeed_adam(s)) return;
  context.report(rule, {.path = "zero_optimization.offload_optimizer.ratio",
                        .what = "AssertionError: partial offload (Twin-Flow) is for DeepSpeed's "
                                "CPU Adam only",
                        .instead = "1.0, or Adam or AdamW without torch_adam",
                        .edits = {set_key("zero_optimization.offload_optimizer.ratio", "1.0")}});
}

void check_unmanaged_overlap(LintContext& context, const Rule& rule) {
  const char* path = "managed_gradient_accumulation";
  const LintSettings& s = context.settings();
  const Node* node = context.find(path);
  if (!context.has(Change::kUnmanagedAccumulation) || node == nullptr) return;
  if (is_true_in_python(*node) || s.stage >= 2 || !s.overlap_comm) return;
  context.report(rule, {.path = path,
                        .what = "AssertionError: below stage 2 it does not go with overlap_comm",
                        .instead = "\"overlap_comm\": false, or stage 2",
                        .edits = {set_key("zero_optimization.overlap_comm", "false")}});
}

constexpr Rule kRules[] = {
    {"ZF110", Severity::kError, RejectedBy::kEngine, "optimizer that is refused",
     "deepspeed/runtime/engine.py _is_supported_optimizer, _configure_basic_optimizer",
     check_optimizer_name},
    {"ZF111", Severity::kError, RejectedBy::kEngine, "parameter that the optimizer does not take",
     "deepspeed/runtime/engine.py _configure_basic_optimizer; deepspeed/ops; torch/optim",
     check_optimizer_params},
    {"ZF112", Severity::kError, RejectedBy::kEngine, "AMSGrad of an optimizer that has none",
     "deepspeed/ops/adam/cpu_adam.py; ops/adam/fused_adam.py", check_amsgrad},
    {"ZF113", Severity::kWarning, RejectedBy::kNobody, "key of optimizer or scheduler not read",
     "deepspeed/runtime/config.py get_optimizer_params, get_scheduler_params", check_unread_keys},
    {"ZF114", Severity::kError, RejectedBy::kEngine, "scheduler that is refused",
     "deepspeed/runtime/engine.py _scheduler_from_config; runtime/lr_schedules.py",
     check_scheduler},
    {"ZF115", Severity::kError, RejectedBy::kEngine, "scaled gradients with reduce_scatter",
     "deepspeed/runtime/zero/stage_1_and_2.py __init__; zero/stage3.py __init__",
     check_gradient_scale},
    {"ZF116", Severity::kError, RejectedBy::kEngine, "data types that do not go together",
     "deepspeed/runtime/engine.py _do_optimizer_sanity_check, _assert_valid_mixed_precision_config",
     check_mixed_types},
    {"ZF117", Severity::kError, RejectedBy::kEngine, "partial offload of another optimizer",
     "deepspeed/runtime/zero/stage3.py __init__", check_partial_optimizer},
    {"ZF118", Severity::kError, RejectedBy::kEngine, "boundaries of the caller with overlap_comm",
     "deepspeed/runtime/engine.py _do_sanity_check", check_unmanaged_overlap},
    {"ZF119", Severity::kError, RejectedBy::kEngine, "optimizer parameter of the wrong type",
     "deepspeed/ops/adam/cpu_adam.py create_adam; torch/optim/adamw.py __init__",
     check_param_types},
};

}  // namespace

bool is_untested_optimizer(std::string_view type) {
  if (lower_case(type) == "lamb" || lower_case(type) == "musgd") return true;
  return std::any_of(std::begin(kConstructors), std::end(kConstructors),
                     [type](const auto& one) { return is_of_torch(one) && one.type == type; });
}

std::span<const Rule> optimizer_rules() {
  return kRules;
}

}  // namespace zenflow::sim
