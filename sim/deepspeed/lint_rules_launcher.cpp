// "auto" in both of its meanings, and what Hugging Face's launchers do to the file.
#include <algorithm>
#include <array>
#include <functional>

#include <fmt/format.h>

#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/lint_rules.h"
#include "sim/deepspeed/trainer_arguments.h"

namespace zenflow::sim {
namespace {

// Filled by accelerate from its plugin, the data loaders, the model and DummyOptim/DummyScheduler
// (accelerate 1.15: utils/dataclasses.py, accelerator.py _prepare_deepspeed).
constexpr std::string_view kFilledByAccelerate[] = {
    "train_micro_batch_size_per_gpu",
    "train_batch_size",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "optimizer.params.lr",
    "optimizer.params.weight_decay",
    "scheduler.params.warmup_min_lr",
    "scheduler.params.warmup_max_lr",
    "scheduler.params.warmup_num_steps",
    "scheduler.params.total_num_steps",
    "fp16.enabled",
    "bf16.enabled",
    "zero_optimization.stage",
    "zero_optimization.offload_optimizer.device",
    "zero_optimization.offload_param.device",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold",
    "steps_per_print",
};
// Trainer fills these before (transformers integrations/deepspeed.py).
constexpr std::string_view kFilledByTrainer[] = {"optimizer.params.betas", "optimizer.params.eps"};

using Visit = std::function<void(const std::vector<std::string>&, const Node&)>;

/// Visits every "auto" that is the value of a key, at any depth of maps.
void for_each_auto(const Node& map, std::vector<std::string>& path, const Visit& visit) {
  for (const Node::Entry& entry : map.entries) {
    path.push_back(entry.key);
    if (is_auto(entry.value)) visit(path, entry.value);
    for_each_auto(entry.value, path, visit);
    path.pop_back();
  }
}

std::string joined(const std::vector<std::string>& path) {
  return fmt::format("{}", fmt::join(path, "."));
}

/// Whether the key is a field of a block in which DeepSpeed drops "auto" before validation.
bool is_strict_field(const std::vector<std::string>& path) {
  const std::string block = joined({path.begin(), path.end() - 1});
  const auto blocks = strict_blocks();
  return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
}

bool is_zenflow_auto(const std::string& path) {
  constexpr std::string_view kBlock = "zero_optimization.zenflow.";
  if (!path.starts_with(kBlock)) return false;
  const std::string_view key = std::string_view(path).substr(kBlock.size());
  return key == "select_strategy" || key == "select_interval" || key == "update_interval";
}

void check_dropped_auto(LintContext& context, const Rule& rule) {
  if (!context.plain()) return;
  std::vector<std::string> path;
  for_each_auto(context.document().root, path, [&](const auto& keys, const Node& node) {
    if (!is_strict_field(keys) || is_zenflow_auto(joined(keys))) return;
    context.report(rule, {.path = joined(keys),
                          .what = "\"auto\" means nothing to the deepspeed launcher: the key is "
                                  "dropped and the default holds",
                          .instead = "a value, or leave the key out",
                          .edits = {{keys, std::nullopt}},
                          .at = node.at});
  });
}

void check_unfilled_auto(LintContext& context, const Rule& rule) {
  if (!context.plain()) return;
  constexpr std::array<std::string_view, 12> kRead = {"train_batch_size",
                                                      "train_micro_batch_size_per_gpu",
                                                      "gradient_accumulation_steps",
                                                      "gradient_clipping",
                                                      "steps_per_print",
                                                      "communication_data_type",
                                                      "seq_parallel_comm_data_type",
                                                      "seq_parallel_communication_data_type",
                                                      "gradient_allreduce_op",
                                                      "gradient_predivide_factor",
                                                      "prescale_gradients",
                                                      "zero_allow_untested_optimizer"};
  std::vector<std::string> path;
  for_each_auto(context.document().root, path, [&](const auto& keys, const Node& node) {
    const std::string name = joined(keys);
    const bool read = std::find(kRead.begin(), kRead.end(), name) != kRead.end() &&
                      is_top_level_key(name, context.options().version);
    const bool params =
        name.starts_with("optimizer.params.") || name.starts_with("scheduler.params.");
    if (!read && !params) return;
    const auto batch = std::find(kRead.begin(), kRead.begin() + 3, name);
    const bool config = batch != kRead.begin() + 3 || name.ends_with("_data_type");
    if (name == "gradient_allreduce_op" && context.has(Change::kAllreduceOp)) return;  // ZF024
    context.report(
        rule, {.path = name,
               .what = "\"auto\" is filled in by Hugging Face tools only; DeepSpeed takes the word "
                       "for the value (TypeError)",
               .instead = "a value, or --target hf or accelerate",
               .at = node.at,
               .rejected_by = config ? RejectedBy::kConfig : RejectedBy::kEngine});
  });
}

void check_unreached_auto(LintContext& context, const Rule& rule) {
  if (context.plain()) return;
  std::vector<std::string> path;
  for_each_auto(context.document().root, path, [&](const auto& keys, const Node& node) {
    const std::string name = joined(keys);
    const auto contains = [&name](const auto& list) {
      return std::find(std::begin(list), std::end(list), name) != std::end(list);
    };
    const bool hf = context.options().target == LaunchTarget::kHf;
    if (contains(kFilledByAccelerate) || (hf && contains(kFilledByTrainer))) return;
    std::vector<Edit> edits;
    if (is_strict_field(keys)) edits.push_back({keys, std::nullopt});
    context.report(
        rule, {.path = name,
               .what = "no \"auto\" reaches this key: accelerate raises ValueError (not "
                       "found in kwargs)",
               .instead = is_zenflow_auto(name) ? "leave the key out (its default is ZenFlow's own "
                                                  "\"auto\"), or a value"
                                                : "a value, or leave the key out",
               .edits = std::move(edits),
               .at = node.at});
  });
}

void check_zero_block(LintContext& context, const Rule& rule) {
  if (context.plain() || context.find("zero_optimization") != nullptr) return;
  context.report(rule, {.path = "zero_optimization",
                        .what = "accelerate raises ValueError without this block",
                        .instead = R"("zero_optimization": {"stage": 2})"});
}

void check_boundary(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const char* path = "gradient_accumulation_steps";
  const Node* written = context.find(path);
  const Node* filled = context.filled(path);
  if (!s.zenflow || context.plain() || !s.update_interval || *s.update_interval < 1) return;
  if (written != nullptr && is_auto(*written) && filled == written) {
    context.report(rule,
                   {.path = path,
                    .what = fmt::format("the launcher's own value sets the boundaries, not "
                                        "update_interval {}: both must be equal",
                                        *s.update_interval),
                    .instead = fmt::format("{} (and the launcher's argument)", *s.update_interval),
                    .edits = {set_key(path, std::to_string(*s.update_interval))}});
    return;
  }
  if (s.accumulation_steps.value_or(1) == *s.update_interval) return;
  std::vector<Edit> edits;
  const bool by_argument = filled != written;
  if (!s.train_batch_size && !by_argument)
    edits.push_back(set_key(path, std::to_string(*s.update_interval)));
  context.report(
      rule,
      {.path = path,
       .what = fmt::format("accelerate sets a boundary every {} step(s) and overrides "
                           "ZenFlow's own: update_interval {} is not followed",
                           s.accumulation_steps.value_or(1), *s.update_interval),
       .instead = by_argument ? fmt::format("{} at {}", *s.update_interval, filled->at.text())
                              : fmt::format("{} (train_batch_size to match)", *s.update_interval),
       .edits = std::move(edits)});
}

void note_trainer_values(LintContext& context, const Rule& rule) {
  if (context.options().target != LaunchTarget::kHf) return;
  for (const TrainerArgument& one : trainer_arguments(context.document().root)) {
    context.report(rule, {.path = one.path,
                          .what = fmt::format("Trainer raises unless it is given {}", one.text()),
                          .instead = "\"auto\", or that argument"});
  }
}

std::string_view name_of(const TrainerArgument& one) {
  return std::string_view(one.argument).substr(std::string_view("--").size());
}

/// Whether Trainer finds the two equal; a switch is due to be on.
bool agrees(const TrainerArgument& due, const Node& stated) {
  if (due.value.empty()) return is_boolean(stated) ? stated.scalar == "true" : true;
  Node number = stated;
  number.scalar = due.value;
  if (!is_number(stated)) return true;
  // It counts at least one step of warm-up, whatever its argument says.
  if (name_of(due) == "warmup_steps" && lax_number(stated).value_or(0) < 1) return true;
  return lax_number(stated) == lax_number(number);
}

void check_contradicted(LintContext& context, const Rule& rule) {
  if (context.options().target != LaunchTarget::kHf) return;
  const auto complain = [&](const std::string& path, std::string_view name, const Node& value) {
    context.report(rule, {.path = path,
                          .what = fmt::format("ValueError of Trainer: {} says {} {}",
                                              value.at.text(), name, value.scalar),
                          .instead = "\"auto\", or the same in both",
                          .edits = {set_key(path, "\"auto\"")}});
  };
  for (const TrainerArgument& one : trainer_arguments(context.document().root)) {
    const Node* stated = context.stated(name_of(one));
    if (stated != nullptr && !agrees(one, *stated)) complain(one.path, name_of(one), *stated);
  }
  for (const char* type : {"fp16", "bf16"}) {
    const std::string path = fmt::format("{}.enabled", type);
    const Node* written = context.set(path);
    const Node* stated = context.stated(type);
    if (written == nullptr || stated == nullptr || lax_boolean(*written).value_or(true)) continue;
    if (is_boolean(*stated) && stated->scalar == "true") complain(path, type, *stated);
  }
}

void check_beside_file(LintContext& context, const Rule& rule) {
  if (context.plain()) return;
  for (const LocatedKey& key : context.options().beside_file) {
    context.report(rule, {.path = key.path,
                          .what = "ValueError of accelerate, whatever the value: beside "
                                  "deepspeed_config_file it is due in that file alone",
                          .instead = "leave it out, and set it in DeepSpeed's file",
                          .at = key.at});
  }
}

constexpr Rule kRules[] = {
    {"ZF100", Severity::kWarning, RejectedBy::kNobody, "\"auto\" that means the default",
     "deepspeed/runtime/config_utils.py DeepSpeedConfigModel", check_dropped_auto},
    {"ZF101", Severity::kError, RejectedBy::kEngine, "\"auto\" that nobody fills in",
     "deepspeed/runtime/config.py; DeepSpeed #1809", check_unfilled_auto},
    {"ZF102", Severity::kError, RejectedBy::kLauncher, "\"auto\" that no launcher reaches",
     "accelerate/utils/dataclasses.py fill_match", check_unreached_auto},
    {"ZF103", Severity::kError, RejectedBy::kLauncher, "no zero_optimization block",
     "accelerate/utils/dataclasses.py DeepSpeedPlugin", check_zero_block},
    {"ZF104", Severity::kWarning, RejectedBy::kNobody, "boundaries set by the launcher",
     "accelerate #3552, #3630; accelerate/utils/deepspeed.py backward", check_boundary},
    {"ZF105", Severity::kNote, RejectedBy::kLauncher, "values that Trainer compares",
     "transformers/integrations/deepspeed.py fill_match", note_trainer_values},
    {"ZF106", Severity::kError, RejectedBy::kLauncher,
     "value that Trainer's own arguments contradict",
     "transformers/integrations/deepspeed.py fill_match", check_contradicted},
    {"ZF107", Severity::kError, RejectedBy::kLauncher,
     "setting of accelerate's beside DeepSpeed's file",
     "accelerate/utils/dataclasses.py DeepSpeedPlugin _deepspeed_config_checks", check_beside_file},
};

}  // namespace

std::span<const Rule> launcher_rules() {
  return kRules;
}

}  // namespace zenflow::sim
