#include "sim/config/adapter_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
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
                                                        {"int8", BaseStorage::kInt8},
                                                        {"fp8", BaseStorage::kFp8},
                                                        {"mxfp4", BaseStorage::kMxfp4},
                                                        {"gptq", BaseStorage::kGptq4},
                                                        {"awq", BaseStorage::kGptq4}});

std::vector<std::string> names_of(const ValueReader& value) {
  std::vector<std::string> names;
  if (value.node().is_scalar()) return {value.string()};
  for (const ValueReader& item : value.items()) names.push_back(item.string());
  return names;
}

void read_targets(const ValueReader& value, LoraSettings& lora) {
  for (std::string& name : names_of(value)) {
    if (name == kAllLinear) {
      lora.all_linear = true;
    } else if (name.find_first_of("*+?()[]|\\^$") != std::string::npos) {
      value.fail(fmt::format("expected names of modules or \"{}\", found the pattern \"{}\"",
                             kAllLinear, name));
    } else {
      lora.targets.push_back(std::move(name));
    }
  }
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
    read_targets(*targets, lora);
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
  for (const char* key : {"exclude_modules", "trainable_token_indices", "layer_replication",
                          "layers_pattern", "megatron_config"}) {
    const auto value = map.optional(key);
    if (!value) continue;
    const bool empty =
        value->node().items.empty() && value->node().entries.empty() && !value->node().is_scalar();
    if (!empty) value->fail("expected none: it is not described");
  }
  if (map.boolean_or("lora_bias", false)) {
    map.fail("lora_bias", "expected false: it is not described");
  }
  if (const auto bias = map.optional("bias"); bias && bias->string() != "none") {
    bias->fail(fmt::format("expected none, found \"{}\": training of biases is not described",
                           bias->string()));
  }
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
  if (const auto targets = map.optional("target_modules")) read_targets(*targets, lora);
  if (lora.targets.empty() && !lora.all_linear && lora.target_parameters.empty()) {
    map.fail("target_modules", "expected names of modules, or \"all-linear\"");
  }
  lora.dropout = map.number_or("lora_dropout", 0, 0, 1);
  lora.dora = map.boolean_or("use_dora", false);
  if (const auto patterns = map.optional_map("rank_pattern");
      patterns && !patterns->keys().empty()) {
    map.fail("rank_pattern", "expected none: one rank for all modules is described");
  }
  refuse_undescribed(map);
  if (const auto layers = map.optional("layers_to_transform")) {
    if (layers->node().is_scalar()) {
      lora.layers = {layers->integer(0, hub::kMaxLayers)};
    } else {
      for (const ValueReader& one : layers->items()) {
        lora.layers.push_back(one.integer(0, hub::kMaxLayers));
      }
    }
  }
  // PEFT trains the new head of a classifier whole.
  const std::string task = map.string_or("task_type", "CAUSAL_LM");
  if (task == "SEQ_CLS" || task == "TOKEN_CLS") {
    for (const char* head : {"score", "classifier"}) lora.saved_modules.emplace_back(head);
  }
  return lora;
}

/// Heads that PEFT would train if the model had them.
void drop_absent_heads(const ModelSpec& model, LoraSettings& lora) {
  std::erase_if(lora.saved_modules, [&](const std::string& name) {
    if (name != "score" && name != "classifier") return false;
    LoraSettings one;
    one.saved_modules = {name};
    return !unmatched_target(model, one).empty();
  });
}

/// Numbers of layers are told apart in models of one stack only.
void check_layers(const MapReader& map, const ModelSpec& model, const LoraSettings& lora) {
  if (lora.layers.empty()) return;
  std::set<std::string> stacks;
  for (const Layer& layer : model.kinds) {
    if (layer.tensors.empty()) continue;
    const std::string& name = layer.tensors.front().name;
    stacks.insert(name.substr(0, name.find("{}")));
  }
  if (stacks.size() > 1) {
    map.fail("layers_to_transform", "expected none: the model has several stacks of layers");
  }
}

/// PEFT is content if one name is a module's; of our own keys each has to be.
void check_targets(const MapReader& map, bool is_peft, const ModelSpec& model, LoraSettings& lora) {
  using Names = std::vector<std::string> LoraSettings::*;
  const auto unknown = [&model](Names list, const std::string& name) {
    LoraSettings one;
    one.*list = {name};
    return !unmatched_target(model, one).empty();
  };
  const auto check = [&](Names list, const char* key) {
    std::vector<std::string>& names = lora.*list;
    const auto is_unknown = [&](const std::string& name) { return unknown(list, name); };
    const auto bad = std::find_if(names.begin(), names.end(), is_unknown);
    if (bad == names.end()) return;
    if (is_peft && !std::all_of(names.begin(), names.end(), is_unknown)) {
      std::erase_if(names, is_unknown);
      return;
    }
    const bool numbered = bad->find_first_of("0123456789") != std::string::npos;
    map.fail(
        key,
        fmt::format(
            "\"{}\" is no module of {}{}; `zenflow-sim list` with its config.json shows them", *bad,
            model.name, numbered ? " (names are those of all layers, without their number)" : ""));
  };
  check(&LoraSettings::targets, is_peft ? "target_modules" : "targets");
  check(&LoraSettings::saved_modules, "modules_to_save");
  check(&LoraSettings::target_parameters, "target_parameters");
}

/// `*` for any characters.
bool matches(std::string_view text, std::string_view pattern) {
  std::size_t t = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

void read_freeze(const ValueReader& value, ModelSpec& model) {
  for (const std::string& pattern : names_of(value)) {
    const std::int64_t count =
        freeze(model, [&](std::string_view name) { return matches(name, pattern); });
    if (count == 0) value.fail(fmt::format("\"{}\" is no tensor of the model", pattern));
  }
}

BaseStorage storage_of(const Node& quantization, const std::string& method) {
  if (method == "bitsandbytes") {
    const Node* eight = quantization.find("load_in_8bit");
    const bool wide = eight != nullptr && (eight->scalar == "true" || eight->scalar == "True");
    return wide ? BaseStorage::kInt8 : BaseStorage::kNf4;
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
    drop_absent_heads(model, lora);
    MapReader& map = peft ? *peft : *own;
    check_layers(map, model, lora);
    check_targets(map, peft.has_value(), model, lora);
    add_lora(model, lora);
    if (!base && !model.quantization.empty()) {
      base = storage_of(*config.find("quantization_config"), model.quantization);
    }
    if (base && *base != BaseStorage::kTrainingType) quantise_base(model, *base);
  }
  if (frozen || peft || own) drop_what_is_not_trained(model);
  if (model.trained() > 0) return;
  if (peft) peft->fail("target_modules", "nothing of the model is trained with these");
  if (own) own->fail("targets", "nothing of the model is trained with these");
  training.fail("freeze", "expected something that is trained");
}

}  // namespace zenflow::sim
