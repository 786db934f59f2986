// Batch arithmetic and schedulers.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "sim/deepspeed/lint_rules.h"
#include "sim/deepspeed/python_batch.h"

namespace zenflow::sim {
namespace {

constexpr std::array<const char*, 3> kBatchKeys = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};

/// What is written or filled in, "auto" if nobody knows; nullptr: absent or null.
const Node* written(const LintContext& context, const char* key) {
  const Node* node = context.filled(key);
  return node == nullptr || node->kind == Node::Kind::kNull ? nullptr : node;
}

void check_missing(LintContext& context, const Rule& rule) {
  if (written(context, kBatchKeys[0]) != nullptr) return;
  if (written(context, kBatchKeys[1]) != nullptr) return;
  context.report(rule,
                 {.path = kBatchKeys[1],
                  .what = "AssertionError: neither train_batch_size nor "
                          "train_micro_batch_size_per_gpu is given",
                  .instead = context.plain() ? "\"train_micro_batch_size_per_gpu\": 1"
                                             : "\"train_micro_batch_size_per_gpu\": \"auto\""});
}

/// A whole number above what a double can hold.
bool is_huge(const Node& node) {
  return is_whole(node) && !lax_number(node) && !node.scalar.starts_with('-');
}

void check_positive(LintContext& context, const Rule& rule) {
  for (const char* key : kBatchKeys) {
    const Node* node = context.set(key);
    if (node == nullptr) continue;
    const auto value = lax_integer(*node);
    if (value && *value >= 1 && !node->quoted) continue;
    // Fractions and numbers beyond 64 bits pass the configuration classes if the equation holds.
    const bool number = is_number(*node) && (lax_number(*node).value_or(0) > 0 || is_huge(*node));
    context.report(
        rule, {.path = key,
               .what = fmt::format("expected a whole number of at least 1, found {}{}",
                                   shown(*node), number ? "" : ": AssertionError or TypeError"),
               .instead = "1 or more, without quotes",
               .rejected_by = number ? RejectedBy::kEngine : RejectedBy::kConfig});
  }
}

/// Whether DeepSpeed works train_batch_size out where the file does not have it.
bool may_leave_out_total(const LintContext& context) {
  const Node* micro = written(context, kBatchKeys[1]);
  const Node* steps = written(context, kBatchKeys[2]);
  if (micro == nullptr) return false;
  const auto is_filled_in = [&context](const Node* node) {
    return node == nullptr || (is_auto(*node) && !context.plain());
  };
  if (is_filled_in(micro) && is_filled_in(steps)) return true;
  const auto batch = complete_batch(
      {nullptr, is_filled_in(micro) ? steps : micro, is_filled_in(steps) ? nullptr : steps},
      context.options().world_size.value_or(1));
  return batch && batch->holds;
}

/// Besides another number for train_batch_size.
const char* instead_of_total(const LintContext& context) {
  return may_leave_out_total(context) ? ", or leave it out"
                                      : ", or train_micro_batch_size_per_gpu in its place";
}

void check_equation(LintContext& context, const Rule& rule) {
  const auto ranks = context.options().world_size;
  if (!ranks) return;
  const BatchNodes nodes{written(context, kBatchKeys[0]), written(context, kBatchKeys[1]),
                         written(context, kBatchKeys[2])};
  const auto batch = complete_batch(nodes, *ranks);
  if (!batch || batch->holds) return;
  for (const char* key : kBatchKeys) {
    const auto number = context.number(key);
    if (number && *number <= 0) return;  // the rule above
  }
  const std::string due = batch->due.empty() ? fmt::format("a multiple of {}", *ranks) : batch->due;
  context.report(rule,
                 {.path = kBatchKeys[0],
                  .what = fmt::format("AssertionError: train_batch_size {} is not {} per GPU x {} "
                                      "accumulation steps x {} ranks",
                                      batch->train, batch->micro, batch->steps, *ranks),
                  .instead = due + instead_of_total(context)});
}

void check_divisible(LintContext& context, const Rule& rule) {
  constexpr std::int64_t kMost = 1'000'000'000;
  const LintSettings& s = context.settings();
  if (context.options().world_size || !s.train_batch_size) return;
  const std::int64_t micro = s.micro_batch_size.value_or(1);
  const std::int64_t steps = s.accumulation_steps.value_or(1);
  if (*s.train_batch_size < 1 || micro < 1 || steps < 1 || micro > kMost || steps > kMost) return;
  const std::int64_t part = micro * steps;
  if (*s.train_batch_size % part == 0) return;
  context.report(rule,
                 {.path = kBatchKeys[0],
                  .what = fmt::format("{} is no multiple of {}: the batch equation holds for no "
                                      "number of ranks (AssertionError)",
                                      *s.train_batch_size, part),
                  .instead = fmt::format("a multiple of {}{}", part, instead_of_total(context))});
}

void note_window(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  if (!s.zenflow || !s.train_batch_size || !s.update_interval || *s.update_interval < 2) return;
  context.report(rule, {.path = kBatchKeys[0],
                        .what = fmt::format("counted per update window: a window of {} steps sees "
                                            "{} times as many samples",
                                            *s.update_interval, *s.update_interval),
                        .instead = "nothing"});
}

void check_warmup_steps(LintContext& context, const Rule& rule) {
  const char* path = "scheduler.params.warmup_num_steps";
  const Node* node = context.set(path);
  const std::string type = context.text("scheduler.type", "");
  const std::array<std::string_view, 3> affected = {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
  if (node == nullptr || !context.has(Change::kWarmupStepsChecked)) return;
  if (std::find(affected.begin(), affected.end(), type) == affected.end()) return;
  // Hugging Face tools read the file with json, to which 1e3 is a float.
  const bool exact = node->is_scalar() && node->scalar.find_first_of(".eE") == std::string::npos;
  const bool written_whole = is_hjson_integer(*node) && (context.plain() || exact);
  if (node->is_scalar() && node->scalar == "true" && !node->quoted) return;
  if (written_whole && lax_number(*node).value_or(0) > 0) return;
  const auto value = lax_integer(*node);
  const std::int64_t steps = value ? std::max<std::int64_t>(*value, 1) : 1;
  context.report(
      rule, {.path = path,
             .what = fmt::format("{}: ValueError (must be a positive whole number{})", shown(*node),
                                 exact ? "" : ", written without exponent or point"),
             .instead = std::to_string(steps),
             .edits = {set_key(path, std::to_string(steps))}});
}

constexpr Rule kRules[] = {
    {"ZF090", Severity::kError, RejectedBy::kConfig, "no batch size",
     "deepspeed/runtime/config.py _set_batch_related_parameters", check_missing},
    {"ZF091", Severity::kError, RejectedBy::kConfig, "batch size that is no positive whole number",
     "deepspeed/runtime/config.py _batch_assertion", check_positive},
    {"ZF092", Severity::kError, RejectedBy::kConfig, "batch equation does not hold",
     "deepspeed/runtime/config.py _batch_assertion; DeepSpeed #6914", check_equation},
    {"ZF093", Severity::kError, RejectedBy::kConfig, "batch equation holds for no world size",
     "deepspeed/runtime/config.py _batch_assertion; DeepSpeed #6914", check_divisible},
    {"ZF094", Severity::kError, RejectedBy::kEngine, "warm-up steps that are refused",
     "deepspeed/runtime/lr_schedules.py; transformers #48640", check_warmup_steps},
    {"ZF095", Severity::kNote, RejectedBy::kNobody, "train_batch_size counts windows",
     "deepspeed/runtime/engine.py (global_samples)", note_window},
};

}  // namespace

std::span<const Rule> batch_rules() {
  return kRules;
}

}  // namespace zenflow::sim
