// Batch arithmetic and schedulers.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "sim/deepspeed/lint_rules.h"

namespace zenflow::sim {
namespace {

constexpr std::array<const char*, 3> kBatchKeys = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};

/// The three sizes, if every one that is written is a positive whole number.
struct Batch {
  std::optional<std::int64_t> train;
  std::optional<std::int64_t> micro;
  std::optional<std::int64_t> steps;
};

std::optional<Batch> read_batch(const LintContext& context) {
  constexpr std::int64_t kMost = 1'000'000'000;
  for (const char* key : kBatchKeys) {
    const Node* node = context.find(key);
    if (node == nullptr || node->kind == Node::Kind::kNull) continue;
    const auto value = context.integer(key);
    if (!value || *value < 1 || *value > kMost) return std::nullopt;
  }
  const LintSettings& s = context.settings();
  return Batch{s.train_batch_size, s.micro_batch_size, s.accumulation_steps};
}

/// DeepSpeed's rule for what is missing (_set_batch_related_parameters).
Batch completed(Batch batch, std::int64_t ranks) {
  if (batch.train && batch.micro) {
    if (!batch.steps) batch.steps = *batch.train / *batch.micro / ranks;
  } else if (batch.train) {
    if (!batch.steps) batch.steps = 1;
    batch.micro = *batch.train / ranks / *batch.steps;
  }
  return batch;
}

void check_missing(LintContext& context, const Rule& rule) {
  const auto absent = [&context](const char* key) {
    const Node* node = context.find(key);
    return node == nullptr || node->kind == Node::Kind::kNull;
  };
  if (!absent(kBatchKeys[0]) || !absent(kBatchKeys[1])) return;
  context.report(rule,
                 {.path = kBatchKeys[1],
                  .what = "AssertionError: neither train_batch_size nor "
                          "train_micro_batch_size_per_gpu is given",
                  .instead = context.plain() ? "\"train_micro_batch_size_per_gpu\": 1"
                                             : "\"train_micro_batch_size_per_gpu\": \"auto\""});
}

void check_positive(LintContext& context, const Rule& rule) {
  for (const char* key : kBatchKeys) {
    const Node* node = context.set(key);
    if (node == nullptr) continue;
    const auto value = lax_integer(*node);
    if (value && *value >= 1 && !node->quoted) continue;
    // Fractions of accumulation steps pass the configuration classes.
    const auto number = context.number(key);
    const bool fraction = key == kBatchKeys[2] && !node->quoted && number && *number > 0;
    context.report(rule, {.path = key,
                          .what = fmt::format("expected a whole number of at least 1, found {}: "
                                              "AssertionError or TypeError",
                                              shown(*node)),
                          .instead = "1 or more, without quotes",
                          .rejected_by = fraction ? RejectedBy::kEngine : RejectedBy::kConfig});
  }
}

void check_equation(LintContext& context, const Rule& rule) {
  const auto written = read_batch(context);
  const auto ranks = context.options().world_size;
  if (!written || !ranks || !written->train) return;  // the train batch follows from the others
  const Batch batch = completed(*written, *ranks);
  // Two of the factors fit into 64 bits, all three may not.
  const std::int64_t per_rank = *batch.micro * *batch.steps;
  const std::int64_t train = *batch.train;
  if (per_rank > 0 && train % per_rank == 0 && train / per_rank == *ranks) return;
  const double due = static_cast<double>(std::max<std::int64_t>(*batch.micro, 1)) *
                     static_cast<double>(std::max<std::int64_t>(*batch.steps, 1)) *
                     static_cast<double>(*ranks);
  context.report(rule,
                 {.path = kBatchKeys[0],
                  .what = fmt::format("AssertionError: train_batch_size {} is not {} per GPU x {} "
                                      "accumulation steps x {} ranks",
                                      train, *batch.micro, *batch.steps, *ranks),
                  .instead = fmt::format("{:.0f}, or leave it out", due)});
}

void check_divisible(LintContext& context, const Rule& rule) {
  const auto batch = read_batch(context);
  if (!batch || context.options().world_size || !batch->train) return;
  const std::int64_t part = batch->micro.value_or(1) * batch->steps.value_or(1);
  if (*batch->train % part == 0) return;
  context.report(rule,
                 {.path = kBatchKeys[0],
                  .what = fmt::format("{} is no multiple of {}: the batch equation holds for no "
                                      "number of ranks (AssertionError)",
                                      *batch->train, part),
                  .instead = fmt::format("a multiple of {}, or leave it out", part)});
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
  // hjson makes an int of 1e3 and 100.0 below 1e10; json.load makes a float, which is refused.
  constexpr double kHjsonInteger = 1e10;
  const bool exact = node->is_scalar() && node->scalar.find_first_of(".eE") == std::string::npos;
  const std::optional<double> number = lax_number(*node);
  const bool hjson = context.plain() && number && std::abs(*number) < kHjsonInteger;
  const bool written_whole =
      node->is_scalar() && !node->quoted && lax_integer(*node) && (exact || hjson);
  if (node->is_scalar() && node->scalar == "true" && !node->quoted) return;
  if (written_whole && *lax_integer(*node) > 0) return;
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
