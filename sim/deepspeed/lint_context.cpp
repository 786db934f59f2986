#include "sim/deepspeed/lint_context.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/text.h"
#include "sim/config/hjson_text.h"

namespace zenflow::sim {
namespace {

/// Walks `path` as far as it exists; calls `visit` for every entry on the way.
template <class Visit>
const Node* walk(const Node& root, std::string_view path, Visit visit) {
  const Node* node = &root;
  while (true) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string_view key = path.substr(0, dot);
    const auto entry =
        std::find_if(node->entries.begin(), node->entries.end(),
                     [key](const Node::Entry& candidate) { return candidate.key == key; });
    if (entry == node->entries.end()) return nullptr;
    visit(*entry);
    node = &entry->value;
    if (dot == path.size()) return node;
    path.remove_prefix(dot + 1);
  }
}

/// Whether all parents of the key are maps, absent or null.
bool is_applicable(const Node& root, const Edit& edit) {
  const Node* node = &root;
  for (std::size_t i = 0; i + 1 < edit.path.size() && node != nullptr; ++i) {
    node = node->find(edit.path[i]);
    if (node != nullptr && !node->is_map() && node->kind != Node::Kind::kNull) return false;
  }
  return true;
}

}  // namespace

bool is_auto(const Node& node) {
  return node.is_scalar() && node.quoted && node.scalar == "auto";
}

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMap:
      return "an object";
    case Node::Kind::kScalar:
      break;
  }
  constexpr std::size_t kLimit = 40;
  if (node.scalar.size() > kLimit) return "a long text";
  return node.quoted ? "\"" + node.scalar + "\"" : node.scalar;
}

bool makes_deepspeed_adam(const LintSettings& settings) {
  return (settings.optimizer == "adam" || settings.optimizer == "adamw") && !settings.torch_adam;
}

std::vector<Edit> select_every_16_windows(const LintSettings& settings) {
  constexpr std::int64_t kFar = 1'000'000'000;
  const std::int64_t interval = settings.update_interval.value_or(0);
  if (interval < 1 || interval > kFar) return {};
  return {set_key("zero_optimization.zenflow.select_interval", std::to_string(16 * interval))};
}

LintContext::LintContext(const DsDocument& document, const LintOptions& options)
    : document_(&document), options_(&options) {
  read_zero();
  read_zenflow();
  read_rest();
}

const Node* LintContext::find(std::string_view path) const {
  return walk(document_->root, path, [](const Node::Entry&) {});
}

const Node* LintContext::set(std::string_view path) const {
  const Node* node = find(path);
  return node == nullptr || node->kind == Node::Kind::kNull || is_auto(*node) ? nullptr : node;
}

const Node* LintContext::filled(std::string_view path) const {
  const Node* node = find(path);
  if (node == nullptr || plain() || !is_auto(*node)) return node;
  const bool micro = path == "train_micro_batch_size_per_gpu";
  const Node* argument = stated(micro ? "per_device_train_batch_size" : path);
  return argument == nullptr ? node : argument;
}

const Node* LintContext::stated(std::string_view argument) const {
  for (const StatedArgument& one : options_->arguments) {
    if (one.name == argument) return &one.value;
  }
  return nullptr;
}

std::optional<std::int64_t> LintContext::integer(std::string_view path) const {
  const Node* node = set(path);
  return node == nullptr ? std::nullopt : lax_integer(*node);
}

std::optional<double> LintContext::number(std::string_view path) const {
  const Node* node = set(path);
  return node == nullptr ? std::nullopt : lax_number(*node);
}

bool LintContext::flag(std::string_view path, bool fallback) const {
  const Node* node = set(path);
  return node == nullptr ? fallback : lax_boolean(*node).value_or(fallback);
}

bool LintContext::is_true(std::string_view path) const {
  const Node* node = set(path);
  return node != nullptr && is_true_in_python(*node);
}

bool LintContext::precision_flag(std::string_view path) const {
  if (has(Change::kStrictPrecision)) return flag(path, false);
  const Node* node = plain() ? find(path) : set(path);
  return node != nullptr && is_true_in_python(*node);
}

std::string LintContext::text(std::string_view path, std::string_view fallback) const {
  const Node* node = set(path);
  return node == nullptr || !node->is_scalar() ? std::string(fallback) : node->scalar;
}

Location LintContext::location(std::string_view path) const {
  Location at = document_->root.at;
  const Node* node =
      walk(document_->root, path, [&at](const Node::Entry& entry) { at = entry.key_at; });
  return node != nullptr ? node->at : at;
}

void LintContext::report(const Rule& rule, Message message) {
  Finding finding;
  finding.code = rule.code;
  finding.severity = message.severity.value_or(rule.severity);
  finding.rejected_by = message.rejected_by.value_or(rule.rejected_by);
  finding.at = message.at ? *message.at : location(message.path);
  finding.path = halves_escaped(message.path);
  finding.what = halves_escaped(message.what);
  finding.instead = halves_escaped(message.instead);
  finding.reference = message.reference.empty() ? rule.reference : message.reference;
  // Under a parent of the wrong type nothing can be set; that is another finding.
  for (const Edit& edit : message.edits) {
    if (is_applicable(document_->root, edit)) continue;
    message.edits.clear();
    break;
  }
  finding.fixable = message.fixable || !message.edits.empty();
  finding.edits = std::move(message.edits);
  if (finding.severity == Severity::kNote && !options_->notes) return;
  findings_.push_back(std::move(finding));
}

void LintContext::read_zero() {
  LintSettings& s = settings_;
  const Node* zero = set("zero_optimization");
  if (zero != nullptr && zero->is_scalar()) {  // the deprecated "zero_optimization": true
    s.stage = lax_boolean(*zero).value_or(false) ? 1 : 0;
    return;
  }
  s.stage = integer("zero_optimization.stage").value_or(0);
  s.offload = text("zero_optimization.offload_optimizer.device",
                   flag("zero_optimization.cpu_offload", false) ? "cpu" : "none");
  s.offload_param = text("zero_optimization.offload_param.device",
                         flag("zero_optimization.cpu_offload_param", false) ? "cpu" : "none");
  s.ratio = number("zero_optimization.offload_optimizer.ratio").value_or(1);
  s.super_offload = has(Change::kSuperOffload) &&
                    flag("zero_optimization.offload_optimizer.super_offload", false);
  s.overlap_comm = flag("zero_optimization.overlap_comm", s.stage == 3) &&
                   (s.stage != 1 || has(Change::kStage1Overlaps));
}

void LintContext::read_zenflow() {
  LintSettings& s = settings_;
  const Node* zenflow = set("zero_optimization.zenflow");
  s.zenflow = zenflow != nullptr && zenflow->is_map() && has(Change::kZenFlow);
  if (!s.zenflow) return;
  s.update_interval = integer("zero_optimization.zenflow.update_interval");
  s.select_interval = integer("zero_optimization.zenflow.select_interval");
  s.select_strategy = text("zero_optimization.zenflow.select_strategy", "auto");
  s.overlap_step = flag("zero_optimization.zenflow.overlap_step", false);
  s.warm_up = integer("zero_optimization.zenflow.full_warm_up_rounds").value_or(0);
}

void LintContext::read_rest() {
  LintSettings& s = settings_;
  s.bf16 = precision_flag(set("bf16") != nullptr ? "bf16.enabled" : "bfloat16.enabled");
  s.fp16 = precision_flag("fp16.enabled");
  s.optimizer = lower_case(text("optimizer.type", ""));
  s.torch_adam = is_true("optimizer.params.torch_adam");
  s.gradient_clipping =
      number("gradient_clipping").value_or(has(Change::kClippingByDefault) ? 1.0 : 0.0);
  const auto size = [this](const char* path) {
    const Node* node = filled(path);
    return node == nullptr ? std::nullopt : lax_integer(*node);
  };
  s.train_batch_size = size("train_batch_size");
  s.micro_batch_size = size("train_micro_batch_size_per_gpu");
  s.accumulation_steps = size("gradient_accumulation_steps");
}

}  // namespace zenflow::sim
