#include "sim/job_files/training_reader.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/text.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/job_files/adapted_modules.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMost = 1'000'000;

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool means_yes(const ValueReader& value) {
  const Node& node = value.node();
  const std::string word = lower_case(node.scalar);
  if (node.is_scalar() && is_one_of(word, {"true", "yes", "on", "y", "1"})) return true;
  if (node.is_scalar() && is_one_of(word, {"false", "no", "off", "n", "0", "", "none"})) {
    return false;
  }
  // bf16: auto, full; gradient_checkpointing: offload, offload_disk, unsloth.
  if (node.is_scalar() && is_one_of(word, {"auto", "full", "offload", "offload_disk", "unsloth"})) {
    return true;
  }
  value.fail("expected true or false");
}

/// As Python reads YAML, 500_000 is a number; the programs' own parsers take "8" for one.
std::int64_t whole(const ValueReader& value) {
  Node plain = value.node();
  std::erase(plain.scalar, '_');
  plain.quoted = false;
  return ValueReader(plain, value.path()).integer(1, kMost);
}

/// Names in a list, or in one text with commas between.
std::vector<std::string> names_in(const ValueReader& value) {
  std::vector<std::string> names;
  if (!value.node().is_scalar()) {
    for (const ValueReader& item : value.items()) names.push_back(item.string());
    return names;
  }
  const std::string text = value.string();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string name = text.substr(at, end - at);
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!name.empty()) names.push_back(std::move(name));
    at = end + 1;
  }
  return names;
}

std::string as_list(std::vector<std::string> names) {
  for (std::string& name : names) name = json_quoted(name);
  return fmt::format("[{}]", fmt::join(names, ", "));
}

}  // namespace

bool is_on(const Node* value) {
  if (value == nullptr || value->kind == Node::Kind::kNull) return false;
  if (!value->is_scalar()) return !value->items.empty() || !value->entries.empty();
  return !is_one_of(lower_case(value->scalar), {"", "false", "no", "off", "n", "0", "0.0", "none"});
}

std::string one_line_json(const Node& node) {
  std::string text = render_json(node);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void TrainingReader::whole_number(const char* key, const char* path) {
  if (const auto value = map_.optional(key)) {
    facts_.state(path, std::to_string(whole(*value)), value->node().at);
  }
}

std::int64_t TrainingReader::whole_number_or(const char* key, std::int64_t otherwise) {
  const auto value = map_.optional(key);
  return value ? whole(*value) : otherwise;
}

bool TrainingReader::flag(const char* key) {
  const auto value = map_.optional(key);
  return value && means_yes(*value);
}

void TrainingReader::checkpointing(const char* key) {
  if (const auto value = map_.optional(key)) {
    facts_.state("training.activation_checkpointing", means_yes(*value) ? "true" : "false",
                 value->node().at);
  }
}

bool TrainingReader::precision(std::initializer_list<const char*> bf16,
                               std::initializer_list<const char*> fp16) {
  const std::array<std::pair<const char*, std::initializer_list<const char*>>, 2> types = {
      {{"bf16", bf16}, {"fp16", fp16}}};
  for (const auto& [dtype, keys] : types) {
    for (const char* key : keys) {
      if (!flag(key)) continue;
      facts_.state("training.dtype", dtype, map_.optional(key)->node().at);
      return true;
    }
  }
  return false;
}

void TrainingReader::model(const char* key) {
  if (const auto value = map_.optional(key)) {
    facts_.state("model", value->string(), value->node().at);
  }
}

void TrainingReader::deepspeed(const char* key,
                               std::optional<std::string> (*built_in)(const std::string&)) {
  const auto value = map_.optional(key);
  if (!value) return;
  if (value->node().is_map()) {
    return facts_.state("deepspeed", one_line_json(value->node()), value->node().at);
  }
  const std::string name = value->string();
  if (name.starts_with('{')) {  // JSON text, as TrainingArguments take it
    const Node config = parse_ds_document(name, value->node().at.text()).root;
    return facts_.state("deepspeed", one_line_json(config), value->node().at);
  }
  if (built_in != nullptr) {
    if (const auto known = built_in(name)) {
      return facts_.state("deepspeed", *known, value->node().at);
    }
  }
  facts_.state("deepspeed", beside(*value, name).generic_string(), value->node().at);
}

fs::path TrainingReader::beside(const ValueReader& value, const std::string& name) const {
  std::error_code missing;
  const fs::path given = name;
  for (const fs::path& path :
       {given, file_.parent_path() / given, file_.parent_path() / given.filename()}) {
    if (fs::is_regular_file(path, missing)) return fs::absolute(path);
  }
  value.fail(fmt::format("no such file \"{}\", here or beside {}", name, file_.generic_string()));
}

std::string TrainingReader::targets(const char* key, std::initializer_list<std::string_view> all,
                                    const std::string& otherwise) {
  const auto value = map_.optional(key);
  if (!value) return otherwise;
  if (value->node().is_scalar()) {
    const std::string text = value->string();
    if (text.find_first_of("*+?()[]|\\^$") != std::string::npos) return json_quoted(text);
  }
  const std::vector<std::string> names = names_in(*value);
  if (std::any_of(names.begin(), names.end(),
                  [&all](const std::string& name) { return is_one_of(name, all); })) {
    return "all-linear";
  }
  return as_list(names);
}

std::string TrainingReader::module_names(const char* key) {
  const auto value = map_.optional(key);
  const std::vector<std::string> names = value ? names_in(*value) : std::vector<std::string>();
  return names.empty() ? "" : as_list(names);
}

void TrainingReader::frozen_towers(std::initializer_list<const char*> keys, const std::string& by) {
  const bool all = std::all_of(keys.begin(), keys.end(), [this](const char* key) {
    return !map_.optional(key) || flag(key);
  });
  if (all) facts_.assume(kTowersFrozen, "true", by);
}

void TrainingReader::lora(const LoraFact& lora, const Location& at) {
  if (facts_.find("adapter") != nullptr) return;
  if (lora.by_name) facts_.assume(kLinearByName, "true", "its program");
  std::string text = fmt::format("{{r: {}, targets: {}", lora.rank, lora.targets);
  const auto add = [&text](const char* key, const std::string& value) {
    if (!value.empty()) text += fmt::format(", {}: {}", key, value);
  };
  add("base", lora.base);
  add("dropout", lora.dropout);
  add("dora", lora.dora ? "true" : "");
  add("modules_to_save", lora.saved);
  add("target_parameters", lora.parameters);
  facts_.state("training.lora", text + "}", at);
}

}  // namespace zenflow::sim
