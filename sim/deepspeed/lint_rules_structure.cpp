// Keys, types, ranges: what DeepSpeed's configuration classes refuse before anything runs.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "sim/config/reader.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/deepspeed/lint_rules.h"
#include "sim/deepspeed/unmodelled_keys.h"

namespace zenflow::sim {
namespace {

using Message = LintContext::Message;

std::string joined(std::string_view block, std::string_view key) {
  return fmt::format("{}.{}", block, key);
}

struct Lookup {
  const Field* field = nullptr;  ///< valid in this release
  const Field* other = nullptr;  ///< of another release
};

Lookup look_up(const Version& version, std::string_view block, std::string_view key) {
  Lookup result;
  for (const Field& field : strict_fields()) {
    if (field.block != block || field.key != key) continue;
    (is_valid_in(field, version) ? result.field : result.other) = &field;
  }
  return result;
}

/// Calls `visit` for every entry of every strict block that DeepSpeed validates.
void for_each_entry(const LintContext& context,
                    const std::function<void(std::string_view, const Node::Entry&)>& visit) {
  for (const std::string_view block : strict_blocks()) {
    const Node* node = context.set(block);
    if (node == nullptr || !node->is_map()) continue;
    if (!is_strict(block, context.options().version)) continue;
    if (block == "bfloat16" && context.set("bf16") != nullptr) continue;  // then it is not read
    for (const Node::Entry& entry : node->entries) visit(block, entry);
  }
}

/// Calls `visit` for every value of a field of this release that is neither null nor "auto".
void for_each_value(
    const LintContext& context,
    const std::function<void(const Field&, const std::string&, const Node&)>& visit) {
  for_each_entry(context, [&](std::string_view block, const Node::Entry& entry) {
    const Lookup found = look_up(context.options().version, block, entry.key);
    if (found.field == nullptr || is_auto(entry.value)) return;
    visit(*found.field, joined(block, entry.key), entry.value);
  });
}

std::string_view type_name(const Field& field) {
  switch (field.type) {
    case FieldType::kBool:
      return "true or false";
    case FieldType::kInteger:
      return "a whole number";
    case FieldType::kNumber:
      return "a number";
    case FieldType::kText:
      return "a text in quotes";
    case FieldType::kIntervalOrAuto:
      return "a whole number of steps or \"auto\"";
    case FieldType::kMap:
      return "an object";
    case FieldType::kNames:
      return "a list of names";
  }
  return "";
}

bool is_list_of_names(const Node& node) {
  if (node.is_scalar()) return node.quoted;  // one name
  return node.kind == Node::Kind::kSequence &&
         std::all_of(node.items.begin(), node.items.end(),
                     [](const Node& item) { return item.is_scalar() && item.quoted; });
}

/// fp16 refuses booleans, and texts that Python's int() or float() does not take.
bool is_strict_number(const Field& field, const Node& node) {
  const bool fraction = node.quoted && node.scalar.find_first_of(".eE") != std::string::npos;
  return !is_boolean(node) && (field.type != FieldType::kInteger || !fraction);
}

bool is_bounded(const Field& field) {
  return std::isfinite(field.low) || std::isfinite(field.high);
}

/// [] and "", which pydantic 1 takes for an empty object.
bool is_empty(const Node& node) {
  if (node.kind == Node::Kind::kSequence) return node.items.empty();
  return node.is_scalar() && node.quoted && node.scalar.empty();
}

/// As pydantic 1, which cuts off fractions; a stage has to be one, and not a text.
bool is_lax_integer_1(const Field& field, const Node& node) {
  if (field.key == "stage") return node.is_scalar() && !node.quoted && is_whole(node);
  if (node.quoted) return is_whole(node) && node.scalar.find('.') == std::string::npos;
  return is_whole(node) || lax_number(node).has_value();
}

bool has_type(const Field& field, const Node& node, const Version& version) {
  if (node.kind == Node::Kind::kNull) return field.nullable;
  if (field.strict && !is_strict_number(field, node)) return false;
  switch (field.type) {
    case FieldType::kBool:
      return lax_boolean(node).has_value();
    case FieldType::kInteger:
      return has_change(version, Change::kPydantic2) ? is_whole(node)
                                                     : is_lax_integer_1(field, node);
    case FieldType::kNumber:
      return lax_number(node) || (is_non_finite(node) && !is_bounded(field));
    case FieldType::kText:
      return node.is_scalar() && node.quoted;
    case FieldType::kIntervalOrAuto:
      return node.is_scalar() && !node.quoted && is_whole(node);
    case FieldType::kMap:
      return node.is_map() || (!has_change(version, Change::kPydantic2) && is_empty(node));
    case FieldType::kNames:
      return is_list_of_names(node);
  }
  return true;
}

/// The value as JSON of the field's own type, if it is written in another one.
std::optional<std::string> coerced(const Field& field, const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (field.type == FieldType::kBool) {
    if (is_boolean(node)) return std::nullopt;
    return lax_boolean(node).value_or(false) ? "true" : "false";
  }
  if (field.type == FieldType::kText || field.type == FieldType::kNames) return std::nullopt;
  if (is_number(node)) {
    if (field.type != FieldType::kInteger || is_whole(node)) return std::nullopt;
    return fmt::format("{}", std::trunc(*lax_number(node)));  // pydantic 1
  }
  return number_as_json(node, field.type != FieldType::kNumber);
}

void check_comments(LintContext& context, const Rule& rule) {
  for (const Location& at : context.document().comments) {
    const bool plain = context.plain();
    context.report(rule, {.what = plain ? "a comment: DeepSpeed reads the file with hjson and "
                                          "accepts it; Hugging Face tools refuse the file"
                                        : "a comment: the file is read with json.load, which "
                                          "stops here",
                          .instead = "strict JSON; keep the explanation beside the file",
                          .fixable = true,
                          .at = at,
                          .severity = plain ? Severity::kWarning : Severity::kError,
                          .rejected_by = plain ? RejectedBy::kNobody : RejectedBy::kLauncher});
  }
}

std::string_view hjson_name(HjsonFeature feature) {
  switch (feature) {
    case HjsonFeature::kByteOrderMark:
      return "a byte order mark";
    case HjsonFeature::kNoBraces:
      return "a file without braces around it";
    case HjsonFeature::kUnquotedKey:
      return "a key without quotes";
    case HjsonFeature::kUnquotedText:
      return "text without quotes";
    case HjsonFeature::kSingleQuotes:
      return "single quotes";
    case HjsonFeature::kMultilineText:
      return "text between '''";
    case HjsonFeature::kMissingComma:
      return "a missing comma";
    case HjsonFeature::kTrailingComma:
      return "a comma after the last value";
    case HjsonFeature::kCharacter:
      return "an escape or a space that JSON does not know";
  }
  return "";
}

/// Once for each feature; each text without quotes, because its value may surprise.
void check_hjson(LintContext& context, const Rule& rule) {
  const bool plain = context.plain();
  std::vector<HjsonFeature> seen;
  for (const HjsonUse& use : context.document().uses) {
    const bool text = use.feature == HjsonFeature::kUnquotedText;
    if (!text && std::find(seen.begin(), seen.end(), use.feature) != seen.end()) continue;
    seen.push_back(use.feature);
    std::string what(hjson_name(use.feature));
    if (text) {
      Node read;
      read.kind = Node::Kind::kScalar;
      read.quoted = true;
      read.scalar = use.text;
      what += " runs to the end of its line: " + shown(read);
    }
    what += plain ? ": DeepSpeed reads the file with hjson and accepts it; Hugging Face tools "
                    "refuse the file"
                  : ": the file is read with json.load, which stops here";
    context.report(rule, {.what = std::move(what),
                          .instead = "strict JSON",
                          .fixable = true,
                          .at = use.at,
                          .severity = plain ? Severity::kWarning : Severity::kError,
                          .rejected_by = plain ? RejectedBy::kNobody : RejectedBy::kLauncher});
  }
}

/// Of a field and its alias pydantic reads the alias; the field's own name is left over.
void check_alias(LintContext& context, const Rule& rule) {
  constexpr std::string_view kPrefix = "stage3_";
  const Node* zero = context.set("zero_optimization");
  if (zero == nullptr || !zero->is_map()) return;
  for (const Node::Entry& entry : zero->entries) {
    const std::string alias = std::string(kPrefix) + entry.key;
    const Node* other = zero->find(alias);
    if (other == nullptr || is_auto(entry.value) || is_auto(*other)) continue;
    if (look_up(context.options().version, "zero_optimization", alias).field == nullptr) continue;
    context.report(rule, {.path = joined("zero_optimization", entry.key),
                          .what = fmt::format("stands beside its other name {}: ValidationError "
                                              "(extra_forbidden)",
                                              alias),
                          .instead = "one of the two",
                          .at = entry.key_at});
  }
}

void check_unknown_keys(LintContext& context, const Rule& rule) {
  check_alias(context, rule);
  for_each_entry(context, [&](std::string_view block, const Node::Entry& entry) {
    const Lookup found = look_up(context.options().version, block, entry.key);
    if (found.field != nullptr || found.other != nullptr) return;
    std::vector<std::string> known;
    for (const Field& field : strict_fields()) {
      if (field.block == block && is_valid_in(field, context.options().version)) {
        known.emplace_back(field.key);
      }
    }
    const std::string hint = suggestion(entry.key, known);
    const bool dropped = is_auto(entry.value);
    context.report(rule,
                   {.path = joined(block, entry.key),
                    .what = dropped ? "unknown key, dropped only because it is \"auto\""
                                    : "unknown key in a block that DeepSpeed checks strictly: "
                                      "ValidationError (extra_forbidden)",
                    .instead = hint.empty() ? "remove it" : "the known name" + hint,
                    .at = entry.key_at,
                    .rejected_by = dropped ? RejectedBy::kNobody : RejectedBy::kConfig});
  });
}

void check_other_release(LintContext& context, const Rule& rule) {
  for_each_entry(context, [&](std::string_view block, const Node::Entry& entry) {
    const Version& version = context.options().version;
    const Lookup found = look_up(version, block, entry.key);
    if (found.field != nullptr || found.other == nullptr) return;
    const bool is_gone = version >= found.other->removed;
    std::vector<Edit> edits;
    if (is_gone) edits.push_back(erase_key(joined(block, entry.key)));
    context.report(
        rule, {.path = joined(block, entry.key),
               .what = is_gone ? fmt::format("removed in DeepSpeed {}: refused",
                                             to_string(found.other->removed))
                               : fmt::format("new in DeepSpeed {}: {} refuses it as unknown",
                                             to_string(found.other->since), to_string(version)),
               .instead = is_gone ? "remove it" : "remove it, or use a newer DeepSpeed",
               .edits = std::move(edits),
               .at = entry.key_at,
               .rejected_by =
                   is_auto(entry.value) && !is_gone ? RejectedBy::kNobody : RejectedBy::kConfig});
  });
}

/// Before its removal elasticity chooses the batch sizes, and refuses any that are given.
void check_elasticity(LintContext& context, const Rule& rule) {
  const Node* enabled = context.find("elasticity.enabled");
  if (enabled == nullptr || lax_boolean(*enabled) == false) return;
  const bool lacking = context.find("elasticity.max_train_batch_size") == nullptr ||
                       context.find("elasticity.micro_batch_sizes") == nullptr;
  const bool ignoring = context.flag("elasticity.ignore_non_elastic_batch_info", false);
  const bool given = context.find("train_batch_size") != nullptr ||
                     context.find("train_micro_batch_size_per_gpu") != nullptr ||
                     context.find("gradient_accumulation_steps") != nullptr;
  if (!lacking && (ignoring || !given)) return;
  context.report(rule, {.path = "elasticity",
                        .what = lacking ? "ElasticityConfigError: max_train_batch_size or "
                                          "micro_batch_sizes is missing"
                                        : "ElasticityConfigError: refused beside batch sizes",
                        .instead = "the batch sizes themselves",
                        .edits = {erase_key("elasticity")}});
}

void check_removed_blocks(LintContext& context, const Rule& rule) {
  if (context.options().version < Version{0, 19, 8}) check_elasticity(context, rule);
  for (const RemovedBlock& block : removed_blocks()) {
    if (context.options().version < block.removed || context.find(block.key) == nullptr) continue;
    context.report(rule, {.path = std::string(block.key),
                          .what = fmt::format("removed in DeepSpeed {}: DeepSpeedConfigError, even "
                                              "if it is disabled",
                                              to_string(block.removed)),
                          .instead = std::string(block.instead),
                          .edits = {erase_key(block.key)}});
  }
}

/// Blocks that DeepSpeed opens with get() or **, whatever stands there.
struct ObjectBlock {
  std::string_view key;
  Version since = kOldestVersion;
  bool nullable = false;
};
constexpr ObjectBlock kObjectBlocks[] = {
    {"optimizer"},
    {"scheduler"},
    {"fp16"},
    {"data_types"},
    {"flops_profiler"},
    {"activation_checkpointing"},
    {"autotuning"},
    {"comms_logger"},
    {"aio", kOldestVersion, true},
    {"data_efficiency"},
    {"checkpoint"},
    {"pipeline"},
    {"hybrid_engine"},
    {"compile", {0, 16, 6}},
    {"weight_quantization"},
    {"tensor_parallel", {0, 16, 4}},
    {"torch_autocast", {0, 17, 2}},
};

void report_block_type(LintContext& context, const Rule& rule, std::string_view block,
                       const Node& node) {
  context.report(rule, {.path = std::string(block),
                        .what = "expected an object, found " + shown(node) +
                                ": DeepSpeed stops with a TypeError or AttributeError",
                        .instead = "{...}, or leave the block out"});
}

void check_block_types(LintContext& context, const Rule& rule) {
  const auto is_null = [](const Node& node) { return node.kind == Node::Kind::kNull; };
  for (const ObjectBlock& block : kObjectBlocks) {
    const Node* node = context.find(block.key);
    if (node == nullptr || node->is_map() || context.options().version < block.since) continue;
    if (block.nullable && is_null(*node)) continue;
    report_block_type(context, rule, block.key, *node);
  }
  const Node* zero = context.find("zero_optimization");
  if (zero != nullptr && !zero->is_map() && !is_boolean(*zero)) {  // true is deprecated
    report_block_type(context, rule, "zero_optimization", *zero);
  }
  // Where bf16 is given, bfloat16 is not read.
  const Node* bf16 = context.find("bf16");
  const bool given = bf16 != nullptr && (!is_null(*bf16) || !context.has(Change::kStrictPrecision));
  const char* read = given ? "bf16" : "bfloat16";
  const Node* node = context.find(read);
  if (node != nullptr && !node->is_map()) report_block_type(context, rule, read, *node);
}

/// wall_clock_breakdown and flops_profiler.enabled are joined by "|": whole numbers pass.
void check_breakdown_types(LintContext& context, const Rule& rule) {
  for (const char* path : {"wall_clock_breakdown", "flops_profiler.enabled"}) {
    const Node* node = context.find(path);
    if (node == nullptr) continue;
    if (is_boolean(*node) || is_hjson_integer(*node)) continue;
    context.report(rule, {.path = path,
                          .what = fmt::format("expected true or false, found {}: DeepSpeed stops "
                                              "with a TypeError",
                                              shown(*node)),
                          .instead = "true or false"});
  }
}

/// Releases that still know these blocks open them with get() or take "enabled" out of them.
void check_old_block_types(LintContext& context, const Rule& rule) {
  constexpr std::array<std::string_view, 7> kObjects = {"nebula",
                                                        "amp",
                                                        "sparse_attention",
                                                        "compression_training",
                                                        "elasticity",
                                                        "curriculum_learning",
                                                        "progressive_layer_drop"};
  constexpr std::array<std::string_view, 3> kTaken = {"amp", "curriculum_learning",
                                                      "progressive_layer_drop"};
  for (const RemovedBlock& block : removed_blocks()) {
    const Node* node = context.find(block.key);
    if (node == nullptr || context.options().version >= block.removed) continue;
    if (std::find(kObjects.begin(), kObjects.end(), block.key) == kObjects.end()) continue;
    const bool taken = std::find(kTaken.begin(), kTaken.end(), block.key) != kTaken.end();
    if (node->is_map() && (!taken || node->find("enabled") != nullptr)) continue;
    context.report(rule, {.path = std::string(block.key),
                          .what = fmt::format("expected an object{}, found {}: DeepSpeed stops "
                                              "with an AttributeError or KeyError",
                                              taken ? " with \"enabled\"" : "", shown(*node)),
                          .instead = "leave the block out"});
  }
}

void check_optimizer_types(LintContext& context, const Rule& rule) {
  const Node* type = context.find("optimizer.type");
  if (type == nullptr || type->kind == Node::Kind::kNull) return;
  const auto complain = [&](const std::string& path, const Node& node, const std::string& due) {
    context.report(rule, {.path = path,
                          .what = fmt::format("expected {}, found {}: DeepSpeed stops with an "
                                              "AttributeError",
                                              due, shown(node)),
                          .instead = due});
  };
  if (!type->is_scalar() || !type->quoted) complain("optimizer.type", *type, "a text in quotes");
  const Node* params = context.find("optimizer.params");
  if (params == nullptr || params->kind == Node::Kind::kNull || params->is_map()) return;
  complain("optimizer.params", *params, "an object");
}

bool has_type(const LintContext& context, const Field& field, const Node& node) {
  return has_type(field, node, context.options().version);
}

void check_types(LintContext& context, const Rule& rule) {
  check_block_types(context, rule);
  check_breakdown_types(context, rule);
  check_optimizer_types(context, rule);
  check_old_block_types(context, rule);
  for_each_value(context, [&](const Field& field, const std::string& path, const Node& node) {
    if (has_type(context, field, node)) return;
    // A wrong word is reported by the rule on choices.
    if (!field.choices.empty() && node.is_scalar() && node.quoted) return;
    context.report(rule, {.path = path,
                          .what = fmt::format("expected {}, found {}: ValidationError",
                                              type_name(field), shown(node)),
                          .instead = fmt::format("{}", type_name(field))});
  });
}

void check_coercions(LintContext& context, const Rule& rule) {
  for_each_value(context, [&](const Field& field, const std::string& path, const Node& node) {
    if (!has_type(context, field, node)) return;
    const std::optional<std::string> value = coerced(field, node);
    if (!value) return;
    context.report(rule, {.path = path,
                          .what = fmt::format("{} is silently taken as {}", shown(node), *value),
                          .instead = *value,
                          .edits = {set_key(path, *value)}});
  });
}

void check_ranges(LintContext& context, const Rule& rule) {
  for_each_value(context, [&](const Field& field, const std::string& path, const Node& node) {
    if (!has_type(context, field, node)) return;
    std::optional<double> value = lax_number(node);
    if (value && field.type == FieldType::kInteger) value = std::trunc(*value);
    if (!value || field.type == FieldType::kBool || field.type == FieldType::kText) return;
    const bool inside = field.open ? *value > field.low && *value < field.high
                                   : *value >= field.low && *value <= field.high;
    if (inside) return;
    const std::string range = std::isinf(field.high)
                                  ? fmt::format("at least {}", field.low)
                                  : fmt::format("between {} and {}{}", field.low, field.high,
                                                field.open ? ", both excluded" : "");
    context.report(rule, {.path = path,
                          .what = fmt::format("{} is out of range: ValidationError", shown(node)),
                          .instead = "a value " + range});
  });
}

void check_communication_type(LintContext& context, const Rule& rule) {
  for (const char* path : {"communication_data_type", "seq_parallel_comm_data_type",
                           "seq_parallel_communication_data_type"}) {
    const Node* node = context.set(path);  // "auto" is another rule's
    if (node == nullptr || !is_top_level_key(path, context.options().version)) continue;
    std::string word = node->quoted ? node->scalar : "";
    for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const std::string bf16 = context.has(Change::kCommunicationTypeBf16) ? "bf16" : "bfp16";
    if (word == "fp16" || word == bf16 || word == "fp32") continue;
    context.report(rule, {.path = path,
                          .what = fmt::format("{} is not one of fp16, {}, fp32: DeepSpeed stops",
                                              shown(*node), bf16),
                          .instead = "one of them, or leave it out",
                          .reference = "deepspeed/runtime/config.py get_communication_data_type"});
  }
}

void check_data_types(LintContext& context, const Rule& rule) {
  for (const char* key : {"grad_accum_dtype", "param_dtype", "buffer_dtype"}) {
    const bool always = std::string_view(key) == "grad_accum_dtype";
    const std::string path = joined("data_types", key);
    const Node* node = context.set(path);
    if (node == nullptr || (!always && context.options().version < kDataTypesSince)) continue;
    if (node->quoted && !data_type(node->scalar).empty()) continue;
    context.report(rule, {.path = path,
                          .what = fmt::format("{} is no data type: ValueError", shown(*node)),
                          .instead = "\"fp32\", \"bf16\" or \"fp16\", or leave it out",
                          .rejected_by = RejectedBy::kEngine,
                          .reference = "deepspeed/runtime/config.py DtypeEnum; runtime/engine.py "
                                       "get_data_types"});
  }
}

void check_choices(LintContext& context, const Rule& rule) {
  check_communication_type(context, rule);
  check_data_types(context, rule);
  for_each_value(context, [&](const Field& field, const std::string& path, const Node& node) {
    if (field.choices.empty() || !node.is_scalar() || !node.quoted) return;
    std::vector<std::string> known;
    std::string_view rest = field.choices;
    while (!rest.empty()) {
      const std::size_t bar = std::min(rest.find('|'), rest.size());
      known.emplace_back(rest.substr(0, bar));
      rest.remove_prefix(std::min(bar + 1, rest.size()));
    }
    if (std::find(known.begin(), known.end(), node.scalar) != known.end()) return;
    context.report(rule, {.path = path,
                          .what = fmt::format("{} is not one of {}: ValidationError", shown(node),
                                              fmt::join(known, ", ")),
                          .instead = "one of them" + suggestion(node.scalar, known)});
  });
}

bool is_known_at_top(const LintContext& context, std::string_view key) {
  if (is_top_level_key(key, context.options().version)) return true;
  const auto removed = removed_blocks();
  return std::any_of(removed.begin(), removed.end(),
                     [key](const RemovedBlock& block) { return block.key == key; });
}

std::vector<std::string> names_at_top() {
  std::vector<std::string> names;
  for (const TopLevelKey& known : top_level_keys()) names.emplace_back(known.key);
  return names;
}

/// The strict block that a key at the top of the file belongs into, if it says so.
std::string_view home_of(const LintContext& context, std::string_view key) {
  constexpr std::array<std::string_view, 11> kTelling = {
      "zenflow",         "offload_optimizer", "offload_param",     "overlap_comm",
      "sub_group_size",  "topk_ratio",        "update_interval",   "select_interval",
      "select_strategy", "overlap_step",      "reduce_bucket_size"};
  if (std::find(kTelling.begin(), kTelling.end(), key) == kTelling.end()) return "";
  for (const std::string_view block : strict_blocks()) {
    if (look_up(context.options().version, block, key).field != nullptr) return block;
  }
  return "";
}

/// The nearest known key, unless this is a known key of another release.
std::string spelling_hint(const std::string& key, const std::vector<std::string>& names) {
  const bool known = std::find(names.begin(), names.end(), key) != names.end();
  return known ? "" : suggestion(key, names);
}

void check_misspelt_blocks(LintContext& context, const Rule& rule) {
  const std::vector<std::string> names = names_at_top();
  for (const Node::Entry& entry : context.document().root.entries) {
    if (is_known_at_top(context, entry.key)) continue;
    const std::string hint = spelling_hint(entry.key, names);
    if (hint.empty()) continue;
    context.report(rule, {.path = entry.key,
                          .what = "unknown at the top of the file: DeepSpeed ignores it without a "
                                  "word, so the defaults hold",
                          .instead = "the known name" + hint,
                          .at = entry.key_at});
  }
}

void check_unknown_blocks(LintContext& context, const Rule& rule) {
  const std::vector<std::string> names = names_at_top();
  for (const Node::Entry& entry : context.document().root.entries) {
    if (is_known_at_top(context, entry.key) || !spelling_hint(entry.key, names).empty()) continue;
    if (home_of(context, entry.key) != "") continue;  // reported as misplaced
    context.report(rule, {.path = entry.key,
                          .what = fmt::format("unknown to DeepSpeed {}, which ignores it",
                                              to_string(context.options().version)),
                          .instead = "nothing, if another program reads it",
                          .at = entry.key_at});
  }
}

void check_misplaced(LintContext& context, const Rule& rule) {
  for (const Node::Entry& entry : context.document().root.entries) {
    const std::string_view home = home_of(context, entry.key);
    if (home.empty()) continue;
    context.report(rule, {.path = entry.key,
                          .what = "at the top of the file DeepSpeed ignores it",
                          .instead = fmt::format("move it into {}", home),
                          .at = entry.key_at});
  }
}

void check_deprecated(LintContext& context, const Rule& rule) {
  const Node* zero = context.find("zero_optimization");
  if (zero != nullptr && zero->is_scalar() && !zero->quoted) {
    context.report(rule, {.path = "zero_optimization",
                          .what = "the deprecated form: true means stage 1",
                          .instead = R"({"stage": 1})"});
  }
  struct Deprecated {
    std::string_view key;
    std::string_view replacement;
    std::string_view value;
  };
  constexpr std::array<Deprecated, 4> kDeprecated = {{
      {"cpu_offload", "offload_optimizer", R"({"device": "cpu"})"},
      {"cpu_offload_param", "offload_param", R"({"device": "cpu"})"},
      {"cpu_offload_use_pin_memory", "", ""},
      {"stage3_gather_fp16_weights_on_model_save", "gather_16bit_weights_on_model_save", "true"},
  }};
  for (const Deprecated& row : kDeprecated) {
    const std::string path = joined("zero_optimization", row.key);
    const Node* written = context.find(path);
    if (written == nullptr || is_auto(*written)) continue;
    const std::string replacement = joined("zero_optimization", row.replacement);
    const std::string alias = joined("zero_optimization", "stage3_" + std::string(row.replacement));
    const bool both = !row.replacement.empty() &&
                      (context.find(replacement) != nullptr || context.find(alias) != nullptr);
    std::vector<Edit> edits = {erase_key(path)};
    if (!both && !row.replacement.empty() && context.flag(path, false)) {
      edits.insert(edits.begin(), set_key(replacement, std::string(row.value)));
    }
    context.report(
        rule, {.path = path,
               .what = both ? "deprecated, and refused together with its replacement: "
                              "AssertionError"
                            : "deprecated",
               .instead = row.replacement.empty() ? "pin_memory in the offload blocks"
                                                  : replacement + ": " + std::string(row.value),
               .edits = std::move(edits),
               .severity = both ? Severity::kError : Severity::kWarning,
               .rejected_by = both ? RejectedBy::kConfig : RejectedBy::kNobody});
  }
}

void check_legacy_stage1(LintContext& context, const Rule& rule) {
  if (!context.flag("zero_optimization.legacy_stage1", false) || context.settings().stage == 0) {
    return;
  }
  context.report(rule, {.path = "zero_optimization.legacy_stage1",
                        .what = "the old stage 1 is gone: initialize raises",
                        .instead = "remove it",
                        .edits = {erase_key("zero_optimization.legacy_stage1")}});
}

void note_unmodelled(LintContext& context, const Rule& rule) {
  for (const UnmodelledKey& key : unmodelled_keys(context.document().root)) {
    context.report(rule, {.path = key.path,
                          .what = "has an effect on time or memory that is not modelled: results "
                                  "are as if it were not written",
                          .instead = "nothing, if it is meant",
                          .at = key.at});
  }
}

void check_stacked_tensors(LintContext& context, const Rule& rule) {
  const LintSettings& s = context.settings();
  const std::optional<Tensor>& stacked = context.options().stacked_tensor;
  if (!s.zenflow || s.stage == 0 || !stacked) return;
  context.report(rule, {.path = "zero_optimization.zenflow",
                        .what = stacked_tensor_failure(*stacked, s.stage),
                        .instead = "leave the block out (ZeRO-Offload)",
                        .edits = {erase_key("zero_optimization.zenflow")}});
}

constexpr Rule kRules[] = {
    {"ZF001", Severity::kError, RejectedBy::kLauncher, "comment in the file",
     "deepspeed/runtime/config.py (hjson.load); accelerate/utils/deepspeed.py (json.load)",
     check_comments},
    {"ZF002", Severity::kError, RejectedBy::kConfig, "unknown key in a strict block",
     "deepspeed/runtime/config_utils.py (extra=\"forbid\")", check_unknown_keys},
    {"ZF003", Severity::kError, RejectedBy::kConfig, "key of another release",
     "deepspeed/runtime/zero/config.py by release", check_other_release},
    {"ZF004", Severity::kError, RejectedBy::kConfig, "block of a removed feature",
     "DeepSpeed #8489; deepspeed/runtime/config.py _reject_removed_config_keys",
     check_removed_blocks},
    {"ZF005", Severity::kError, RejectedBy::kConfig, "value of the wrong type",
     "deepspeed/runtime/config_utils.py (pydantic)", check_types},
    {"ZF006", Severity::kWarning, RejectedBy::kNobody, "value silently taken as another type",
     "deepspeed/runtime/config_utils.py (pydantic, lax mode)", check_coercions},
    {"ZF007", Severity::kError, RejectedBy::kConfig, "value out of range",
     "deepspeed/runtime/zero/config.py; DeepSpeed #8274", check_ranges},
    {"ZF008", Severity::kError, RejectedBy::kConfig, "word that is not a choice",
     "deepspeed/runtime/zero/offload_config.py; zenflow/zenflow_config.py", check_choices},
    {"ZF009", Severity::kError, RejectedBy::kNobody, "misspelt block, silently ignored",
     "DeepSpeed #653, #1809", check_misspelt_blocks},
    {"ZF010", Severity::kWarning, RejectedBy::kNobody, "unknown block, silently ignored",
     "DeepSpeed #653, #1809", check_unknown_blocks},
    {"ZF011", Severity::kError, RejectedBy::kNobody, "setting outside its block, silently ignored",
     "deepspeed/runtime/config.py", check_misplaced},
    {"ZF012", Severity::kWarning, RejectedBy::kNobody, "deprecated setting",
     "deepspeed/runtime/config_utils.py _process_deprecated_field", check_deprecated},
    {"ZF013", Severity::kError, RejectedBy::kEngine, "legacy stage 1",
     "deepspeed/runtime/engine.py _configure_zero_optimizer", check_legacy_stage1},
    {"ZF014", Severity::kError, RejectedBy::kLauncher, "Hjson that is not JSON",
     "deepspeed/runtime/config.py (hjson.load); accelerate/utils/deepspeed.py (json.load)",
     check_hjson},
    {"ZF015", Severity::kNote, RejectedBy::kNobody, "key that is not modelled",
     "sim/deepspeed/ds_fields.cpp", note_unmodelled},
    {"ZF016", Severity::kError, RejectedBy::kEngine, "model that ZenFlow cannot train",
     "deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py; engine_stage3.py", check_stacked_tensors},
};

}  // namespace

std::span<const Rule> structure_rules() {
  return kRules;
}

}  // namespace zenflow::sim
