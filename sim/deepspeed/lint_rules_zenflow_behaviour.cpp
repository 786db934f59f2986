// ZenFlow settings that run but do something else than was meant, and what is true of every
// ZenFlow configuration (notes).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/deepspeed/lint_rules.h"

namespace zenflow::sim {
namespace {

constexpr const char* kZenFlow = "zero_optimization.zenflow";
constexpr const char* kUpdate = "zero_optimization.zenflow.update_interval";
constexpr const char* kSelect = "zero_optimization.zenflow.select_interval";
constexpr const char* kStrategy = "zero_optimization.zenflow.select_strategy";
constexpr const char* kWarmUp = "zero_optimization.zenflow.full_warm_up_rounds";
constexpr const char* kOverlap = "zero_optimization.zenflow.overlap_step";

/// Steps between selections, if the file decides it: 0 is never again.
std::optional<std::int64_t> select_steps(const LintContext& context) {
  const LintSettings& s = context.settings();
  if (s.select_strategy == "step") return s.select_interval;
  if (!context.plain()) return 0;  // the launcher owns the data loader
  return std::nullopt;
}

void check_selects_once(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow) return;
  const bool by_step = s.select_strategy == "step";
  if (by_step && s.select_interval != std::int64_t{0}) return;
  if (!by_step && s.select_strategy != "auto" && s.select_strategy != "epoch") return;  // refused
  if (s.select_strategy == "auto" && s.select_interval) return;                         // refused
  std::vector<Edit> edits = select_every_16_windows(s);
  if (!edits.empty()) edits.insert(edits.begin(), set_key(kStrategy, "\"step\""));
  std::string what = "0: columns are selected once and never again";
  if (!by_step) {
    what = fmt::format(
        "strategy \"{}\" counts epochs of the engine's own data loader; {}, so "
        "columns are selected once and never again",
        s.select_strategy,
        context.plain() ? "without training_data in deepspeed.initialize it has none"
                        : "this launcher gives it none");
  }
  context.report(rule, {.path = by_step ? kSelect : kStrategy,
                        .what = what,
                        .instead = R"("select_strategy": "step" and a multiple of update_interval)",
                        .edits = std::move(edits)});
}

/// Two consecutive deferred updates that use the same gradient buffer.
struct BufferReuse {
  std::int64_t first = 0;
  std::int64_t second = 0;
};

/// Follows is_zenflow_update_boundary and get_overlap_step_state of DeepSpeed.
std::optional<BufferReuse> find_buffer_reuse(std::int64_t interval, std::int64_t select,
                                             std::int64_t warm_up) {
  constexpr int kBoundaries = 4096;
  const std::int64_t start = std::max<std::int64_t>(warm_up, 0);
  std::int64_t update = start + interval - 1 - (start - warm_up) % interval;
  std::int64_t selection = select > 0 ? (start / select + 1) * select - 1 : -1;
  std::int64_t previous = -1;
  for (int i = 0; i < kBoundaries; ++i) {
    const std::int64_t step = selection >= 0 ? std::min(update, selection) : update;
    if (previous >= 0 && (previous / interval) % 2 == (step / interval) % 2) {
      return BufferReuse{previous, step};
    }
    previous = step;
    if (step == update) update += interval;
    if (step == selection) selection += select;
  }
  return std::nullopt;
}

void check_buffer_reuse(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.overlap_step || !s.update_interval) return;
  const std::int64_t select = select_steps(context).value_or(0);
  constexpr std::int64_t kFar = 1'000'000'000;
  if (*s.update_interval < 1 || *s.update_interval > kFar) return;
  if (select < 0 || select > kFar || std::abs(s.warm_up) > kFar) return;
  if (select != 0 && select < *s.update_interval) return;  // refused
  const auto reuse = find_buffer_reuse(*s.update_interval, select, s.warm_up);
  if (!reuse) return;
  const std::int64_t interval = *s.update_interval;
  std::vector<Edit> edits;
  const auto round_up = [&edits, interval](const char* path, std::int64_t value) {
    if (value % interval == 0) return;
    edits.push_back(set_key(path, std::to_string((value / interval + 1) * interval)));
  };
  round_up(kSelect, select);
  if (s.warm_up > 0) round_up(kWarmUp, s.warm_up);
  context.report(
      rule, {.path = select % interval != 0 ? kSelect : kWarmUp,
             .what = fmt::format("the updates of steps {} and {} (counted from 0) use the same "
                                 "of the two gradient buffers: the second overwrites what the "
                                 "optimizer may still be reading",
                                 reuse->first, reuse->second),
             .instead = fmt::format("select_interval and full_warm_up_rounds as multiples of "
                                    "update_interval {}",
                                    interval),
             .edits = std::move(edits)});
}

void check_no_warm_up(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.overlap_step || s.warm_up > 0) return;
  std::vector<Edit> edits;
  if (s.update_interval && *s.update_interval > 0) {
    edits.push_back(set_key(kWarmUp, std::to_string(*s.update_interval)));
  }
  context.report(rule, {.path = kWarmUp,
                        .what = "without warm-up (the default) the first wait is skipped although "
                                "an update is under way: every later update is one window staler, "
                                "and parameters may be copied half written",
                        .instead = "a multiple of update_interval",
                        .edits = std::move(edits)});
}

void check_steps_per_epoch(LintContext& context, const Rule& rule) {
  const std::string path = fmt::format("{}.steps_per_epoch", kZenFlow);
  if (!context.settings().zenflow || context.set(path) == nullptr) return;
  context.report(rule, {.path = path,
                        .what = "meant for the engine, which does not read it back: engine and "
                                "optimizer may disagree on when columns are selected",
                        .instead = "remove it",
                        .edits = {erase_key(path)}});
}

void check_accumulation(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !context.plain() || !s.accumulation_steps || *s.accumulation_steps <= 1) return;
  if (s.update_interval == s.accumulation_steps) return;
  context.report(
      rule, {.path = "gradient_accumulation_steps",
             .what = fmt::format("ZenFlow replaces it by update_interval{}: {} only satisfies the "
                                 "batch equation and is then dropped, so a step sees {} times "
                                 "fewer samples than written",
                                 s.update_interval ? fmt::format(" ({})", *s.update_interval) : "",
                                 *s.accumulation_steps, *s.accumulation_steps),
             .instead = "1 (with train_batch_size to match)"});
}

void check_unmanaged(LintContext& context, const Rule& rule) {
  const char* path = "managed_gradient_accumulation";
  if (!context.has(Change::kUnmanagedAccumulation) || context.flag(path, true)) return;
  const LintSettings& s = context.settings();
  if (s.stage < 2 && s.overlap_comm) {
    context.report(rule, {.path = path,
                          .what = "AssertionError: false supports overlap_comm only from stage 2",
                          .instead = "true",
                          .edits = {set_key(path, "true")},
                          .severity = Severity::kError,
                          .rejected_by = RejectedBy::kEngine});
  } else if (s.zenflow) {
    context.report(rule, {.path = path,
                          .what = "every step() becomes a boundary, which ZenFlow's schedule does "
                                  "not know",
                          .instead = "true",
                          .edits = {set_key(path, "true")}});
  }
}

void check_step_counter(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || (!s.bf16 && !s.fp16) || context.has(Change::kFloatStepCounter)) return;
  context.report(rule, {.path = kZenFlow,
                        .what = fmt::format("the selective optimizer counts its steps in {} and "
                                            "stops at {}: bias correction freezes, updates stay "
                                            "about half as large",
                                            s.bf16 ? "bf16" : "fp16", s.bf16 ? 256 : 2048),
                        .instead = "nothing here: use DeepSpeed 0.19.8 or newer"});
}

void check_useless_interval(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.update_interval || *s.update_interval < 1 || *s.update_interval > 2) return;
  context.report(rule, {.path = kUpdate,
                        .what = fmt::format("{}: intervals of 1 and 2 both move 3 model sizes over "
                                            "PCIe a step, more than ZeRO-Offload's 2",
                                            *s.update_interval),
                        .instead = "4 or more"});
}

void check_narrow_selection(LintContext& context, const Rule& rule) {
  const std::string path = fmt::format("{}.topk_ratio", kZenFlow);
  const double ratio = context.number(path).value_or(0.1);
  if (!context.settings().zenflow || context.has(Change::kSelectionFloor)) return;
  constexpr double kNarrow = 0.005;
  if (ratio >= kNarrow && ratio < 1) return;
  context.report(rule, {.path = path,
                        .what = ratio >= 1 || ratio <= 0
                                    ? fmt::format("{}: nothing is left for one of the two "
                                                  "optimizers; refused from 0.19.6 on",
                                                  ratio)
                                    : fmt::format("a rank's slice of a matrix with fewer than {} "
                                                  "columns selects none before 0.19.6",
                                                  static_cast<std::int64_t>(std::ceil(1 / ratio))),
                        .instead = "between 0.01 and 0.2"});
}

void check_negative_warm_up(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || context.settings().warm_up >= 0) return;
  context.report(rule, {.path = kWarmUp,
                        .what = "negative: accepted, but it shifts every update boundary",
                        .instead = "0 or more",
                        .edits = {set_key(kWarmUp, "0")}});
}

void check_scheduler(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || context.text("scheduler.type", "").empty()) return;
  context.report(rule, {.path = "scheduler",
                        .what = "under ZenFlow the scheduler steps every micro step, not every "
                                "update window",
                        .instead = "its step counts in micro steps"});
}

void note_traffic(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.update_interval || *s.update_interval < 1) return;
  const double interval = static_cast<double>(*s.update_interval);
  const double sizes = s.stage == 3              ? 2 + 3 / interval
                       : *s.update_interval == 1 ? 3
                                                 : 2 + 2 / interval;
  context.report(rule,
                 {.path = "zero_optimization.zenflow.topk_ratio",
                  .what = fmt::format("the shipped ZenFlow moves {:.4g} model sizes over PCIe "
                                      "a step whatever topk_ratio is, not (1-k)(1+1/S)",
                                      sizes),
                  .instead = "nothing; zenflow-sim's deepspeed-zenflow schedule counts it"});
}

void note_memory(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || !context.settings().overlap_step) return;
  context.report(rule, {.path = kOverlap,
                        .what = "two sets of Adam moments, two gradient buffers and a stale copy: "
                                "about 36 bytes of host memory per parameter (ZeRO-Offload: 20), "
                                "16 of them in /dev/shm",
                        .instead = "nothing; enlarge /dev/shm (docker: --shm-size)"});
}

void note_pageable(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || !context.settings().overlap_step) return;
  context.report(rule, {.path = "zero_optimization.offload_optimizer.pin_memory",
                        .what = "share_memory_() replaces pinned storage: fp32 gradients and "
                                "parameters are copied through pageable memory whatever it says",
                        .instead = "nothing; expect pageable bandwidth at update boundaries"});
}

void note_precision(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const std::optional<double> rate = context.number("optimizer.params.lr");
  if (!s.zenflow || (!s.bf16 && !s.fp16)) return;
  constexpr double kHalfUnits = 256;  // of the last place of bf16
  context.report(
      rule, {.path = "optimizer.params.lr",
             .what = std::string("selected columns are updated in 16 bits without fp32 master "
                                 "weights, and selection overwrites the masters of all others") +
                     (s.overlap_step ? ", which the worker may be updating" : "") +
                     (rate && s.bf16 ? fmt::format(": an update of {} is rounded away where a "
                                                   "weight exceeds {:.3g}",
                                                   *rate, kHalfUnits * *rate)
                                     : std::string()),
             .instead = "nothing; compare losses with plain ZeRO-Offload"});
}

void note_counting(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.update_interval || *s.update_interval <= 1) return;
  context.report(rule, {.path = kUpdate,
                        .what = fmt::format("DeepSpeed counts one batch per window: its samples/s "
                                            "are {} times too low",
                                            *s.update_interval),
                        .instead = "nothing; multiply"});
}

void note_checkpoint(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow) return;
  context.report(rule, {.path = kZenFlow,
                        .what = "the selective optimizer's moments and step are not part of a "
                                "checkpoint: a resumed run starts them from zero",
                        .instead = "nothing; expect a bump in the loss"});
}

void note_platform(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.overlap_step || !context.has(Change::kNativeWorker)) return;
  context.report(rule, {.path = kOverlap,
                        .what = "the worker process uses POSIX semaphores: Linux only",
                        .instead = "false elsewhere"});
}

void note_stage_three(LintContext& context, const Rule& rule) {
  if (!context.settings().zenflow || context.settings().stage != 3) return;
  context.report(rule, {.path = "zero_optimization.stage",
                        .what = "stage 3 selects columns in a Python loop with a synchronisation "
                                "for each index: seconds per selection",
                        .instead = "stage 2 if it fits, else a large select_interval"});
}

constexpr Rule kRules[] = {
    {"ZF041", Severity::kWarning, RejectedBy::kNobody, "selection that never repeats",
     "DeepSpeed #8456; deepspeed/runtime/zenflow/engine.py configure_zenflow", check_selects_once},
    {"ZF042", Severity::kError, RejectedBy::kNobody,
     "update boundaries that reuse a gradient buffer",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py get_overlap_step_state",
     check_buffer_reuse},
    {"ZF043", Severity::kWarning, RejectedBy::kNobody, "overlap_step without warm-up",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py wait_last_update_and_copy",
     check_no_warm_up},
    {"ZF044", Severity::kWarning, RejectedBy::kNobody, "steps_per_epoch set by hand",
     "deepspeed/runtime/zenflow/zenflow_config.py", check_steps_per_epoch},
    {"ZF045", Severity::kWarning, RejectedBy::kNobody,
     "gradient_accumulation_steps that ZenFlow drops",
     "deepspeed/runtime/zenflow/engine.py configure_zenflow", check_accumulation},
    {"ZF046", Severity::kWarning, RejectedBy::kNobody, "boundaries owned by the caller",
     "deepspeed/runtime/engine.py is_gradient_accumulation_boundary, _do_sanity_check",
     check_unmanaged},
    {"ZF047", Severity::kWarning, RejectedBy::kNobody, "16-bit step counter",
     "DeepSpeed #8496; deepspeed/ops/adam/zenflow_torch_adam.py", check_step_counter},
    {"ZF048", Severity::kWarning, RejectedBy::kNobody, "interval too short to save traffic",
     "deepspeed/runtime/zero/stage_1_and_2.py async_accumulate_grad_in_cpu_via_gpu",
     check_useless_interval},
    {"ZF049", Severity::kWarning, RejectedBy::kNobody, "ratio that selects nothing",
     "DeepSpeed #8012, #8274", check_narrow_selection},
    {"ZF050", Severity::kWarning, RejectedBy::kNobody, "negative warm-up",
     "deepspeed/runtime/zenflow/engine.py is_zenflow_update_boundary", check_negative_warm_up},
    {"ZF051", Severity::kWarning, RejectedBy::kNobody, "scheduler that counts micro steps",
     "deepspeed/runtime/zenflow/engine.py _take_lr_scheduler_step", check_scheduler},
    {"ZF052", Severity::kNote, RejectedBy::kNobody, "traffic does not depend on topk_ratio",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py", note_traffic},
    {"ZF053", Severity::kNote, RejectedBy::kNobody, "host memory of overlap_step",
     "deepspeed/runtime/zenflow/zenflow_utils.py start_optimizer_process", note_memory},
    {"ZF054", Severity::kNote, RejectedBy::kNobody, "pageable copies of overlap_step",
     "deepspeed/runtime/zenflow/zenflow_utils.py start_optimizer_process", note_pageable},
    {"ZF055", Severity::kNote, RejectedBy::kNobody, "selected columns have no fp32 masters",
     "deepspeed/ops/adam/zenflow_torch_adam.py; sync_fp32_param_from_gpu", note_precision},
    {"ZF056", Severity::kNote, RejectedBy::kNobody, "throughput reported too low",
     "deepspeed/runtime/engine.py (global_samples)", note_counting},
    {"ZF057", Severity::kNote, RejectedBy::kNobody, "selective state not in checkpoints",
     "DeepSpeed #8496", note_checkpoint},
    {"ZF058", Severity::kNote, RejectedBy::kNobody, "overlap_step is for Linux", "DeepSpeed #8058",
     note_platform},
    {"ZF059", Severity::kNote, RejectedBy::kNobody, "slow selection in stage 3",
     "deepspeed/runtime/zenflow/engine_stage3.py", note_stage_three},
};

}  // namespace

std::span<const Rule> zenflow_behaviour_rules() {
  return kRules;
}

}  // namespace zenflow::sim
