#include "sim/config/adapter_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/hub/hub_config.h"
#include "sim/model/adapters.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kMaxRank = 1 << 16;
constexpr std::string_view kAllLinear = "all-linear";

struct NamedStorage {
  std::string_view name;
  BaseStorage storage;
};
/// What `training.lora.base` may say, and quantization_config.quant_method.
constexpr auto kStorages = std::to_array<NamedStorage>({{"bf16", BaseStorage::kTrainingType},
                                                        {"nf4", BaseStorage::kNf4},
                                                        {"nf4-single", BaseStorage::kNf4Single},
                                                        {"int8", BaseStorage::kInt8},
                                                        {"fp8", BaseStorage::kFp8},
                                                        {"mxfp4", BaseStorage::kMxfp4},
                                                        {"gptq", BaseStorage::kGptq},
                                                        {"awq", BaseStorage::kGptq}});

std::vector<std::string> names_of(const ValueReader& value) {
  std::vector<std::string> names;
  if (value.node().is_scalar()) return {value.string()};
  for (const ValueReader& item : value.items()) names.push_back(item.string());
  return names;
}

constexpr std::string_view kPatternCharacters = "*+?()[]|\\^$";

NamePattern pattern_of(const ValueReader& value, const std::string& text,
                       std::string_view otherwise = "") {
  try {
    return NamePattern(text);
  } catch (const Error& error) {
    value.fail(fmt::format("\"{}\" {}{}", text, otherwise, error.what()));
  }
}

/// A list of names, or one text: a pattern, if it looks like one or `is_pattern` whatever it is.
ModuleNames read_modules(const ValueReader& value, bool is_pattern) {
  ModuleNames modules;
  const bool is_text = value.node().is_scalar();
  for (std::string& name : names_of(value)) {
    const bool has_signs = name.find_first_of(kPatternCharacters) != std::string::npos;
    if (is_text && (is_pattern || has_signs)) {
      modules.pattern = pattern_of(value, name);
    } else if (has_signs) {
      value.fail(
          fmt::format("expected names of modules or \"{}\", found the pattern \"{}\" in a "
                      "list; a pattern stands alone",
                      kAllLinear, name));
    } else {
      modules.ends.push_back(std::move(name));
    }
  }
  return modules;
}

/// `is_peft`: a single text is a pattern. One of our own may be a name.
void read_targets(const ValueReader& value, bool is_peft, LoraSettings& lora) {
  if (value.node().is_scalar() && value.string() == kAllLinear) {
    lora.all_linear = true;
    return;
  }
  lora.targets = read_modules(value, is_peft);
  lora.all_linear = std::erase(lora.targets.ends, std::string(kAllLinear)) > 0;
}

/// Keys of both ways of saying it.
void read_common(MapReader& map, LoraSettings& lora) {
  lora.rank = map.require("r").integer(1, kMaxRank);
  if (const auto saved = map.optional("modules_to_save")) lora.saved_modules = names_of(*saved);
  if (const auto stacked = map.optional("target_parameters")) {
    lora.target_parameters = names_of(*stacked);
  }
}

std::optional<BaseStorage> read_base(MapReader& map) {
  const auto value = map.optional("base");
  if (!value) return std::nullopt;
  std::vector<std::string> names;
  for (const NamedStorage& one : kStorages) names.emplace_back(one.name);
  const std::string name = value->choice(names);
  return std::find_if(kStorages.begin(), kStorages.end(),
                      [&name](const NamedStorage& one) { return one.name == name; })
      ->storage;
}

/// training.lora.
LoraSettings read_lora(MapReader& map, std::optional<BaseStorage>& base) {
  LoraSettings lora;
  read_common(map, lora);
  if (const auto targets = map.optional("targets")) {
    read_targets(*targets, false, lora);
  } else {
    lora.all_linear = true;
  }
  lora.dropout = map.number_or("dropout", 0, 0, 1);
  lora.dora = map.boolean_or("dora", false);
  base = read_base(map);
  map.reject_unknown_keys();
  return lora;
}

/// What would change what is trained, and is not described.
void refuse_undescribed(MapReader& map) {
  for (const char* key : {"trainable_token_indices", "layer_replication", "megatron_config"}) {
    const auto value = map.optional(key);
    if (!value) continue;
    const bool empty =
        value->node().items.empty() && value->node().entries.empty() && !value->node().is_scalar();
    if (!empty) value->fail("expected none: it is not described");
  }
}

/// Which modules get adapters of which rank, beside the targets.
void read_choices(MapReader& map, LoraSettings& lora) {
  if (const auto excluded = map.optional("exclude_modules")) {
    lora.excluded = read_modules(*excluded, true);
  }
  if (auto ranks = map.optional_map("rank_pattern")) {
    for (const std::string& key : ranks->keys()) {
      const ValueReader rank = ranks->require(key);
      lora.ranks.emplace_back(pattern_of(rank, "(?:.*\\.)?(?:" + key + ")"),
                              rank.integer(1, kMaxRank));
    }
  }
  if (const auto layers = map.optional("layers_to_transform")) {
    if (layers->node().is_scalar()) {
      lora.layers = {layers->integer(0, hub::kMaxLayers)};
    } else {
      for (const ValueReader& one : layers->items()) {
        lora.layers.push_back(one.integer(0, hub::kMaxLayers));
      }
    }
  }
  if (!lora.layers.empty() && (lora.all_linear || lora.targets.pattern)) {
    map.fail("layers_to_transform", "expected none: PEFT takes it beside a list of modules only");
  }
  if (const auto stacks = map.optional("layers_pattern")) lora.stacks = names_of(*stacks);
  if (lora.stacks == std::vector<std::string>{""}) lora.stacks.clear();
}

void read_biases(MapReader& map, LoraSettings& lora) {
  lora.adapter_bias = map.boolean_or("lora_bias", false);
  const auto bias = map.optional("bias");
  if (!bias) return;
  const std::string which = bias->choice(std::array<std::string, 3>{"none", "all", "lora_only"});
  lora.biases = which == "all"         ? TrainedBiases::kAll
                : which == "lora_only" ? TrainedBiases::kOfTargets
                                       : TrainedBiases::kNone;
}

/// PEFT's adapter_config.json. Unknown keys are allowed: the format is not ours.
LoraSettings read_peft(MapReader& map) {
  const ValueReader type = map.require("peft_type");
  if (type.string() != "LORA") {
    type.fail(fmt::format("expected LORA, found \"{}\": other adapters are not described",
                          type.string()));
  }
  LoraSettings lora;
  read_common(map, lora);
  if (const auto targets = map.optional("target_modules")) read_targets(*targets, true, lora);
  const bool has_targets = !lora.targets.ends.empty() || lora.targets.pattern;
  if (!has_targets && !lora.all_linear && lora.target_parameters.empty()) {
    map.fail("target_modules", "expected names of modules, or \"all-linear\"");
  }
  lora.dropout = map.number_or("lora_dropout", 0, 0, 1);
  lora.dora = map.boolean_or("use_dora", false);
  read_choices(map, lora);
  read_biases(map, lora);
  refuse_undescribed(map);
  // PEFT trains the new head of a classifier whole.
  const std::string task = map.string_or("task_type", "CAUSAL_LM");
  if (task == "SEQ_CLS" || task == "TOKEN_CLS") {
    for (const char* head : {"score", "classifier"}) lora.saved_modules.emplace_back(head);
  }
  return lora;
}

/// PEFT trains those that there are.
void drop_absent_saved(const ModelSpec& model, LoraSettings& lora) {
  std::erase_if(lora.saved_modules, [&](const std::string& name) {
    LoraSettings one;
    one.saved_modules = {name};
    return !unmatched_target(model, one).empty();
  });
}

/// PEFT is content if one name is a module's; of our own keys each has to be.
void check_targets(const MapReader& map, bool is_peft, const ModelSpec& model, LoraSettings& lora) {
  const auto check = [&](std::vector<std::string>& names, const char* key, const auto& with) {
    const auto is_unknown = [&](const std::string& name) {
      LoraSettings one;
      with(one) = {name};
      return !unmatched_target(model, one).empty();
    };
    const auto bad = std::find_if(names.begin(), names.end(), is_unknown);
    if (bad == names.end()) return;
    if (is_peft && !std::all_of(names.begin(), names.end(), is_unknown)) {
      std::erase_if(names, is_unknown);
      return;
    }
    map.fail(key, fmt::format("\"{}\" is no module of {}; `zenflow-sim list` with its config.json "
                              "shows them",
                              *bad, model.name));
  };
  check(
      lora.targets.ends, is_peft ? "target_modules" : "targets",
      [](LoraSettings & one) -> auto& { return one.targets.ends; });
  check(
      lora.saved_modules, "modules_to_save",
      [](LoraSettings & one) -> auto& { return one.saved_modules; });
  check(
      lora.target_parameters, "target_parameters",
      [](LoraSettings & one) -> auto& { return one.target_parameters; });
  if (!adapts_anything(model, lora)) {
    map.fail(is_peft ? "target_modules" : "targets", "no module of the model gets an adapter");
  }
  const Tensor* const stack = lora.dora ? adapted_stack(model, lora) : nullptr;
  if (lora.adapter_bias && (lora.dora || adapted_stack(model, lora) != nullptr)) {
    map.fail("lora_bias", "expected false: PEFT has none with DoRA or for stacked experts");
  }
  if (stack == nullptr) return;
  map.fail(is_peft ? "use_dora" : "dora",
           fmt::format("expected false: PEFT has no DoRA for stacked experts ({})", stack->name));
}

/// A name, one with wildcards, or else a regular expression that is in names.
void read_freeze(const ValueReader& value, ModelSpec& model) {
  for (const std::string& text : names_of(value)) {
    const NamePattern whole = NamePattern::of_wildcards(text);
    if (freeze(model, [&](std::string_view name) { return whole.is_all_of(name); }) > 0) continue;
    const NamePattern part = pattern_of(value, text, "is no tensor of the model, and ");
    if (freeze(model, [&](std::string_view name) { return part.is_in(name); }) > 0) continue;
    value.fail(fmt::format("\"{}\" is no tensor of the model", text));
  }
}

bool is_set(const Node& map, std::string_view key) {
  const Node* value = map.find(key);
  return value != nullptr && (value->scalar == "true" || value->scalar == "True");
}

BaseStorage storage_of(const Node& quantization, const std::string& method) {
  if (method == "bitsandbytes") {
    if (is_set(quantization, "load_in_8bit")) return BaseStorage::kInt8;
    return is_set(quantization, "bnb_4bit_use_double_quant") ? BaseStorage::kNf4
                                                             : BaseStorage::kNf4Single;
  }
  const auto* known =
      std::find_if(kStorages.begin(), kStorages.end(),
                   [&method](const NamedStorage& one) { return one.name == method; });
  if (known == kStorages.end()) {
    fail_at(quantization.at, "model.quantization_config.quant_method",
            fmt::format("how many bytes weights quantised by {} take is not known", method));
  }
  return known->storage;
}

/// Of GPTQ and AWQ, whose bits and groups the checkpoint says; 0 of others.
double grouped_bytes_of(const Node& quantization, BaseStorage storage) {
  if (storage != BaseStorage::kGptq) return 0;
  const auto number = [&](const char* key, std::int64_t otherwise, std::int64_t least,
                          std::int64_t most) {
    const Node* value = quantization.find(key);
    if (value == nullptr || value->kind == Node::Kind::kNull) return otherwise;
    return ValueReader(*value, fmt::format("model.quantization_config.{}", key))
        .integer(least, most);
  };
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t bits = number("bits", 4, 1, 16);
  const std::int64_t group = number("group_size", 128, -1, kMost);
  return grouped_bytes(bits, static_cast<double>(group > 0 ? group : kMost));  // -1: a column
}

/// What a quantised checkpoint has in 16 bits all the same. Source: transformers 5.23,
/// quantizers/quantizers_utils.py should_convert_module.
std::vector<std::string> kept_modules(const Node& config) {
  std::vector<std::string> names;
  const Node* const quantization = config.find("quantization_config");
  if (quantization == nullptr) return names;
  for (const char* key : {"modules_to_not_convert", "llm_int8_skip_modules"}) {
    const Node* const list = quantization->find(key);
    if (list == nullptr) continue;
    for (const Node& item : list->items) names.push_back(item.scalar);
  }
  return names;
}

/// Loads that transformers can turn into 16-bit weights, to train all of them.
bool can_be_dequantized(std::string_view method) {
  return method == "fp8" || method == "mxfp4";
}

void check_quantization(const Node& config, const ModelSpec& model,
                        std::vector<std::string>& notes) {
  if (model.quantization.empty()) return;
  const Location& at = config.find("quantization_config")->at;
  if (!can_be_dequantized(model.quantization)) {
    fail_at(at, "model.quantization_config",
            fmt::format("weights quantised by {} can only be trained through adapters: give "
                        "training.lora or adapter",
                        model.quantization));
  }
  notes.push_back(fmt::format(
      "{}: weights stored as {} can only be trained through adapters; simulated are its weights "
      "dequantised when they are loaded",
      at.text(), model.quantization));
}

}  // namespace

void read_adapters(MapReader& root, MapReader& training, const Node& config, ModelSpec& model,
                   std::vector<std::string>& notes) {
  auto peft = root.optional_map("adapter");
  auto own = training.optional_map("lora");
  const auto frozen = training.optional("freeze");
  if (peft && own) root.fail("adapter", "expected either adapter or training.lora, found both");
  if (frozen) read_freeze(*frozen, model);
  if (!peft && !own) {
    check_quantization(config, model, notes);
  } else {
    std::optional<BaseStorage> base;
    LoraSettings lora = peft ? read_peft(*peft) : read_lora(*own, base);
    if (peft) drop_absent_saved(model, lora);
    MapReader& map = peft ? *peft : *own;
    try {
      name_stacked_experts(model, lora);
    } catch (const Error& error) {
      map.fail(peft ? "target_modules" : "targets", error.what());
    }
    check_targets(map, peft.has_value(), model, lora);
    add_lora(model, lora);
    double bytes = 0;
    if (!base && !model.quantization.empty()) {
      const Node& quantization = *config.find("quantization_config");
      base = storage_of(quantization, model.quantization);
      bytes = grouped_bytes_of(quantization, *base);
    }
    if (base && *base != BaseStorage::kTrainingType) {
      const std::vector<std::string> kept = kept_modules(config);
      const auto is_kept = [&kept](std::string_view module) {
        return std::any_of(kept.begin(), kept.end(), [module](const std::string& name) {
          return module.starts_with(name) || module.ends_with(name);
        });
      };
      quantise_base(model, *base, is_kept, bytes);
    }
  }
  if (frozen || peft || own) drop_what_is_not_trained(model);
  if (model.trained() > 0) return;
  if (peft) peft->fail("target_modules", "nothing of the model is trained with these");
  if (own) own->fail("targets", "nothing of the model is trained with these");
  training.fail("freeze", "expected something that is trained");
}

}  // namespace zenflow::sim
