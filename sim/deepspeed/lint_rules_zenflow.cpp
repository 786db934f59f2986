// ZenFlow settings that a release refuses or crashes on.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/deepspeed/lint_rules.h"

namespace zenflow::sim {
namespace {

constexpr const char* kZenFlow = "zero_optimization.zenflow";
constexpr const char* kOffload = "zero_optimization.offload_optimizer";
constexpr const char* kUpdate = "zero_optimization.zenflow.update_interval";
constexpr const char* kSelect = "zero_optimization.zenflow.select_interval";
constexpr const char* kStrategy = "zero_optimization.zenflow.select_strategy";

bool is_zero12(const LintContext& context) {
  return context.settings().stage == 1 || context.settings().stage == 2;
}

void check_nan_releases(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || !context.has(Change::kEngineRunsBackward) ||
      context.has(Change::kZenFlowPrologue)) {
    return;
  }
  context.report(rule, {.path = kZenFlow,
                        .what = fmt::format("DeepSpeed {} never prepares ZenFlow's backward: the "
                                            "loss turns NaN after the first update window",
                                            to_string(context.options().version)),
                        .instead = "nothing here: use DeepSpeed 0.19.2 or newer (or 0.18.2)"});
}

void check_stage_zero(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || context.settings().stage != 0) return;
  context.report(rule, {.path = "zero_optimization.stage",
                        .what = "ZenFlow without ZeRO: the first step ends with an AttributeError",
                        .instead = "\"stage\": 2"});
}

void check_stage_three_release(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || s.stage != 3) return;
  if (!context.has(Change::kStage3ZenFlow)) {
    context.report(rule, {.path = "zero_optimization.stage",
                          .what = "stage 3 knows ZenFlow from 0.18.1 on; the first step ends with "
                                  "an AttributeError",
                          .instead = "stage 2, or a newer DeepSpeed"});
  } else if (s.offload_param != "none" && !context.has(Change::kSelectiveSwap)) {
    context.report(rule, {.path = "zero_optimization.offload_param",
                          .what = "with offloaded parameters the selective update crashes before "
                                  "0.19.2",
                          .instead = "no offload_param, or a newer DeepSpeed"});
  }
}

void check_offload(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || s.stage == 0 || s.offload == "cpu" || s.offload == "nvme") return;
  context.report(rule, {.path = fmt::format("{}.device", kOffload),
                        .what = s.stage == 3 ? "ZenFlow without CPU offload: the first update "
                                               "ends with a TypeError (step_id)"
                                             : "ValueError \"Zenflow must be used with cpu "
                                               "offload\"",
                        .instead = R"("offload_optimizer": {"device": "cpu", "pin_memory": true})",
                        .edits = {set_key(fmt::format("{}.device", kOffload), "\"cpu\"")}});
}

void check_allreduce_sum(LintContext& context, const Rule& rule) {
  const char* path = "gradient_allreduce_op";
  const Node* node = context.find(path);
  if (node == nullptr || !context.has(Change::kAllreduceOp)) return;
  std::string word = node->quoted ? node->scalar : "";
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const LintSettings& s = context.settings();
  std::string what;
  if (word != "mean" && word != "sum") what = shown(*node) + " is not an operation: ValueError";
  if (word == "sum" && s.stage == 3) what = "ValueError: sum is not supported with stage 3";
  if (word == "sum" && s.zenflow) what = "ValueError: sum is not supported with ZenFlow";
  if (what.empty()) return;
  context.report(
      rule,
      {.path = path, .what = what, .instead = "\"mean\"", .edits = {set_key(path, "\"mean\"")}});
}

void check_client_optimizer(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || !context.settings().optimizer.empty()) return;
  context.report(
      rule, {.path = "optimizer",
             .what = "ZenFlow needs the optimizer in this file: with one made in Python it has no "
                     "parameters (TypeError) or is not ZenFlow's CPU Adam",
             .instead = R"("optimizer": {"type": "AdamW", "params": {"lr": 1e-5}})"});
}

void check_optimizer_type(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || s.optimizer.empty()) return;
  if (s.optimizer != "adam" && s.optimizer != "adamw") {
    context.report(rule, {.path = "optimizer.type",
                          .what = "ZenFlow drives its own CPU Adam; other optimizers do not take "
                                  "its step_id (TypeError)",
                          .instead = "\"AdamW\""});
  }
  if (context.flag("optimizer.params.torch_adam", false)) {
    context.report(rule, {.path = "optimizer.params.torch_adam",
                          .what = "torch's Adam does not take ZenFlow's step_id (TypeError)",
                          .instead = "remove it",
                          .edits = {erase_key("optimizer.params.torch_adam")}});
  }
}

void check_optimizer_params(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const Node* params = context.find("optimizer.params");
  if (!s.zenflow || !is_zero12(context)) return;
  if (!s.optimizer.empty() && (params == nullptr || params->kind == Node::Kind::kNull)) {
    context.report(rule, {.path = "optimizer.params",
                          .what = "without params the selective AdamW is built from nothing "
                                  "(TypeError)",
                          .instead = R"("params": {"lr": 1e-5})"});
    return;
  }
  if (params == nullptr) return;
  constexpr std::array<std::string_view, 6> kAccepted = {
      "lr", "betas", "eps", "weight_decay", "amsgrad", "max_grad_norm"};
  constexpr std::array<std::string_view, 3> kPopped = {"adam_w_mode", "fp32_optimizer_states",
                                                       "torch_adam"};
  // ZF026 says what a torch_adam that is true does.
  const bool torch_adam = context.flag("optimizer.params.torch_adam", false);
  for (const Node::Entry& entry : params->entries) {
    if (std::find(kAccepted.begin(), kAccepted.end(), entry.key) != kAccepted.end()) continue;
    const bool popped = std::find(kPopped.begin(), kPopped.end(), entry.key) != kPopped.end();
    if (popped && !context.has(Change::kOptimizerParamsKept)) continue;
    if (entry.key == "torch_adam" && torch_adam) continue;
    context.report(rule, {.path = "optimizer.params." + entry.key,
                          .what = "the selective AdamW does not know this parameter (TypeError)",
                          .instead = "lr, betas, eps, weight_decay or amsgrad only",
                          .edits = {{{"optimizer", "params", entry.key}, std::nullopt}},
                          .at = entry.key_at});
  }
}

void check_partial_offload(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || s.stage != 3 || s.ratio >= 1) return;
  context.report(rule, {.path = fmt::format("{}.ratio", kOffload),
                        .what = "Twin-Flow accepts DeepSpeedCPUAdam only, not ZenFlow's "
                                "(AssertionError)",
                        .instead = "1.0",
                        .edits = {set_key(fmt::format("{}.ratio", kOffload), "1.0")}});
}

void check_master_weights(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow) return;
  const std::array<const char*, 2> paths = {"bf16.bf16_master_weights_and_grads",
                                            "fp16.fp16_master_weights_and_grads"};
  for (const char* path : paths) {
    if (!context.flag(path, false)) continue;
    context.report(rule, {.path = path,
                          .what = "16-bit master weights require exactly DeepSpeedCPUAdam, not "
                                  "ZenFlow's (AssertionError)",
                          .instead = "false",
                          .edits = {set_key(path, "false")}});
  }
}

void check_super_offload(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || !context.settings().super_offload) return;
  context.report(rule, {.path = fmt::format("{}.super_offload", kOffload),
                        .what = "SuperOffload and ZenFlow replace the same functions of the "
                                "stage 3 optimizer: not a supported mix",
                        .instead = "one of the two",
                        .edits = {set_key(fmt::format("{}.super_offload", kOffload), "false")}});
}

void check_reduce_scatter(LintContext& context, const Rule& rule) {
  const char* path = "zero_optimization.reduce_scatter";
  if (!context.settings().zenflow || !is_zero12(context) || context.flag(path, true)) return;
  context.report(rule, {.path = path,
                        .what = "ZenFlow calls gradient_reduction_w_predivide without its second "
                                "argument: TypeError in the first backward",
                        .instead = "true",
                        .edits = {set_key(path, "true")}});
}

void check_accumulation_dtype(LintContext& context, const Rule& rule) {
  const char* path = "data_types.grad_accum_dtype";
  const LintSettings& s = context.settings();
  const std::string dtype = context.text(path, "");
  if (!s.zenflow || s.stage != 1 || (dtype != "fp32" && dtype != "float32")) return;
  if (!s.bf16 && !s.fp16) return;
  context.report(rule, {.path = path,
                        .what = "with stage 1 the gradient moves to another attribute and ZenFlow "
                                "reads selected columns from None",
                        .instead = "leave it out, or stage 2",
                        .edits = {erase_key(path)}});
}

void check_offloaded_selection(LintContext& context, const Rule& rule) {
  const char* path = "zero_optimization.zenflow.offload";
  if (!context.settings().zenflow || !context.flag(path, false) ||
      context.settings().overlap_comm) {
    return;
  }
  context.report(rule, {.path = path,
                        .what = "AssertionError: offloading the selective optimizer requires "
                                "overlap_comm, which is off by default below stage 3",
                        .instead = "\"overlap_comm\": true in zero_optimization",
                        .edits = {set_key("zero_optimization.overlap_comm", "true")}});
}

void check_strategy(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || s.select_strategy != "auto" || !s.select_interval) return;
  context.report(rule, {.path = kSelect,
                        .what = "select_strategy is \"auto\" (the default) and the interval a "
                                "number: DeepSpeed raises Warning, which nothing catches",
                        .instead = "\"select_strategy\": \"step\" with it",
                        .edits = {set_key(kStrategy, "\"step\"")}});
}

void check_interval_missing(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const bool explicit_strategy = s.select_strategy == "step" || s.select_strategy == "epoch";
  if (!s.zenflow || !explicit_strategy || s.select_interval) return;
  const Node* written = context.set(kSelect);
  if (written != nullptr && !written->quoted) return;
  std::vector<Edit> edits;
  if (s.select_strategy == "epoch") edits.push_back(set_key(kSelect, "1"));
  if (s.select_strategy == "step") edits = select_every_16_windows(s);
  context.report(rule, {.path = kSelect,
                        .what = fmt::format("select_strategy \"{}\" without a number: ValueError",
                                            s.select_strategy),
                        .instead = "a multiple of update_interval, e.g. 64",
                        .edits = std::move(edits)});
}

void check_interval_order(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || s.select_strategy != "step" || !s.select_interval || !s.update_interval) return;
  if (*s.select_interval == 0 || *s.select_interval >= *s.update_interval) return;
  context.report(rule, {.path = kSelect,
                        .what = fmt::format("{} is less than update_interval {}: ValueError",
                                            *s.select_interval, *s.update_interval),
                        .instead = "a multiple of update_interval, or 0 to select once",
                        .edits = select_every_16_windows(s)});
}

/// The published interval, if it suits the selection.
std::vector<Edit> published_interval(const LintSettings& s) {
  constexpr std::int64_t kPublished = 4;
  const std::int64_t select = s.select_interval.value_or(0);
  if (s.select_strategy == "step" && select % kPublished != 0) return {};
  return {set_key(kUpdate, std::to_string(kPublished))};
}

void check_auto_interval(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || s.update_interval || !context.has(Change::kEngineRunsBackward)) return;
  const Node* written = context.set(kUpdate);
  if (written != nullptr) return;  // of a wrong type, reported elsewhere
  context.report(rule, {.path = kUpdate,
                        .what = "\"auto\" (the default) sets gradient_accumulation_steps to 0, by "
                                "which gradients are divided, and clears its flag before reading "
                                "it: no update comes, or inf and NaN",
                        .instead = "a number, e.g. 4 (zenflow-sim sweep finds a good one)",
                        .edits = published_interval(s)});
}

void check_zero_interval(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.update_interval || *s.update_interval >= 1) return;
  if (context.has(Change::kSelectionFloor)) return;  // then it is out of range
  context.report(rule, {.path = kUpdate,
                        .what = "the boundary test divides by it: ZeroDivisionError, or no update",
                        .instead = "at least 1, e.g. 4",
                        .edits = published_interval(s)});
}

void check_untested_optimizer(LintContext& context, const Rule& rule) {
  const char* path = "zero_allow_untested_optimizer";
  const LintSettings& s = context.settings();
  if (s.stage == 0 || context.is_true(path)) return;
  if (!s.zenflow && is_untested_optimizer(context.text("optimizer.type", ""))) {
    context.report(rule, {.path = "optimizer.type",
                          .what = fmt::format("ZeRO has not been tested with {}: AssertionError "
                                              "without zero_allow_untested_optimizer",
                                              context.text("optimizer.type", "")),
                          .instead = "\"zero_allow_untested_optimizer\": true with it",
                          .edits = {set_key(path, "true")}});
  }
  if (!s.zenflow || context.has(Change::kNativeWorker)) return;
  context.report(rule, {.path = path,
                        .what = "before 0.19.3 ZenFlow's CPU Adam is not in the list of tested "
                                "optimizers: AssertionError",
                        .instead = "true",
                        .edits = {set_key(path, "true")}});
}

void check_norm(LintContext& context, const Rule& rule) {
  const char* path = "zero_optimization.compute_grad_norm";
  const LintSettings& s = context.settings();
  if (!context.has(Change::kComputeGradNorm) || context.flag(path, true)) return;
  const bool wrong_stage = !is_zero12(context);
  std::string reason;
  if (wrong_stage) reason = "is for stages 1 and 2 only";
  if (!wrong_stage && s.gradient_clipping > 0) reason = "requires gradient_clipping 0 (default 1)";
  if (!wrong_stage && s.zenflow) reason = "does not go with ZenFlow";
  if (!wrong_stage && !s.zenflow && s.offload != "none") reason = "does not go with offload";
  if (reason.empty()) return;
  context.report(rule, {.path = path,
                        .what = "ValueError: compute_grad_norm=false " + reason,
                        .instead = "true",
                        .edits = {set_key(path, "true")},
                        .rejected_by = wrong_stage ? RejectedBy::kConfig : RejectedBy::kEngine});
}

constexpr Rule kRules[] = {
    {"ZF020", Severity::kError, RejectedBy::kNobody, "release in which ZenFlow gives NaN",
     "DeepSpeed #7759, #7771", check_nan_releases},
    {"ZF021", Severity::kError, RejectedBy::kEngine, "ZenFlow without ZeRO",
     "deepspeed/runtime/zenflow/engine.py zenflow_step", check_stage_zero},
    {"ZF022", Severity::kError, RejectedBy::kEngine, "ZenFlow stage 3 before its release",
     "deepspeed/runtime/zenflow/engine_stage3.py; DeepSpeed #7686, #8042",
     check_stage_three_release},
    {"ZF023", Severity::kError, RejectedBy::kEngine, "ZenFlow without CPU offload",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py _configure_zenflow", check_offload},
    {"ZF024", Severity::kError, RejectedBy::kConfig, "gradient_allreduce_op that is refused",
     "deepspeed/runtime/config.py _do_error_check", check_allreduce_sum},
    {"ZF025", Severity::kError, RejectedBy::kEngine, "ZenFlow without an optimizer in the file",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py __init__", check_client_optimizer},
    {"ZF026", Severity::kError, RejectedBy::kEngine, "ZenFlow with another optimizer than Adam(W)",
     "deepspeed/ops/adam/zenflow_cpu_adam.py", check_optimizer_type},
    {"ZF027", Severity::kError, RejectedBy::kEngine,
     "optimizer parameters that the selective AdamW refuses",
     "deepspeed/ops/adam/zenflow_torch_adam.py ZenFlowSelectiveAdamW", check_optimizer_params},
    {"ZF028", Severity::kError, RejectedBy::kEngine, "ZenFlow with a partial offload ratio",
     "deepspeed/runtime/zero/stage3.py (Hybrid Optimizer)", check_partial_offload},
    {"ZF029", Severity::kError, RejectedBy::kEngine, "ZenFlow with 16-bit master weights",
     "deepspeed/runtime/zero/stage_1_and_2.py _enforce_cpu_offload", check_master_weights},
    {"ZF030", Severity::kError, RejectedBy::kNobody, "ZenFlow with SuperOffload",
     "deepspeed/runtime/engine.py _configure_zero_optimizer", check_super_offload},
    {"ZF031", Severity::kError, RejectedBy::kEngine, "ZenFlow without reduce_scatter",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py average_tensor", check_reduce_scatter},
    {"ZF032", Severity::kError, RejectedBy::kNobody, "ZenFlow stage 1 with fp32 accumulation",
     "deepspeed/runtime/zero/stage_1_and_2.py get_param_gradient_attribute",
     check_accumulation_dtype},
    {"ZF033", Severity::kError, RejectedBy::kEngine,
     "offloaded selective optimizer without overlap_comm",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py __init__", check_offloaded_selection},
    {"ZF034", Severity::kError, RejectedBy::kEngine, "automatic strategy with a numeric interval",
     "deepspeed/runtime/zenflow/engine.py configure_zenflow", check_strategy},
    {"ZF035", Severity::kError, RejectedBy::kEngine, "strategy without an interval",
     "deepspeed/runtime/zenflow/engine.py configure_zenflow", check_interval_missing},
    {"ZF036", Severity::kError, RejectedBy::kEngine, "selection more often than updates",
     "deepspeed/runtime/zenflow/engine.py configure_zenflow", check_interval_order},
    {"ZF037", Severity::kError, RejectedBy::kNobody, "automatic update_interval that never updates",
     "deepspeed/runtime/engine.py _backward_prologue; DeepSpeed #7771", check_auto_interval},
    {"ZF038", Severity::kError, RejectedBy::kEngine, "update_interval below 1",
     "DeepSpeed #8274; deepspeed/runtime/zenflow/engine.py is_zenflow_update_boundary",
     check_zero_interval},
    {"ZF039", Severity::kError, RejectedBy::kEngine, "optimizer not allowed as untested",
     "DeepSpeed #8058; deepspeed/runtime/zero/utils.py; runtime/engine.py "
     "_do_optimizer_sanity_check",
     check_untested_optimizer},
    {"ZF040", Severity::kError, RejectedBy::kEngine, "compute_grad_norm=false where it is refused",
     "deepspeed/runtime/zero/stage_1_and_2.py __init__; zero/config.py", check_norm},
};

}  // namespace

std::span<const Rule> zenflow_rules() {
  return kRules;
}

}  // namespace zenflow::sim
