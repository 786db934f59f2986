#include "runtime/model_config/transformer_config.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/config/hub/description.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/reader.h"

namespace zenflow::runtime {
namespace {

constexpr double kMaxEpsilon = 1.0;
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxPositions = 1e9;

struct NamedActivation {
  std::string_view name;
  Activation activation;
};

Activation read_activation(MapReader& config, std::string_view key,
                           std::span<const NamedActivation> choices) {
  const std::optional<ValueReader> value = config.optional(key);
  if (!value) return choices.front().activation;
  std::vector<std::string> names;
  for (const NamedActivation& choice : choices) names.emplace_back(choice.name);
  const std::string name = value->choice(names);
  for (const NamedActivation& choice : choices) {
    if (choice.name == name) return choice.activation;
  }
  value->fail("not an activation");  // `choice` has refused it already
}

void read_llama3_scaling(MapReader& map, RotarySettings& rotary) {
  rotary.scaling = RotarySettings::Scaling::kLlama3;
  rotary.factor = map.require("factor").number(1.0, kMaxFactor);
  rotary.low_frequency_factor = map.require("low_freq_factor").number(1e-6, kMaxFactor);
  rotary.high_frequency_factor = map.require("high_freq_factor").number(1e-6, kMaxFactor);
  rotary.original_max_positions =
      map.require("original_max_position_embeddings").number(1.0, kMaxPositions);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    map.fail("high_freq_factor",
             fmt::format("expected more than low_freq_factor ({}), found {}",
                         rotary.low_frequency_factor, rotary.high_frequency_factor));
  }
}

/// "rope_scaling" until transformers 4, "rope_parameters" (which has theta too) from 5 on.
void read_rotary_map(MapReader map, RotarySettings& rotary) {
  rotary.theta = map.number_or("rope_theta", rotary.theta, 1.0, kMaxTheta);
  std::optional<ValueReader> type = map.optional("rope_type");
  if (!type) type = map.optional("type");  // the key's older name
  const std::string name = type ? type->string() : "default";
  if (name == "linear") {
    rotary.scaling = RotarySettings::Scaling::kLinear;
    rotary.factor = map.require("factor").number(1.0, kMaxFactor);
  } else if (name == "llama3") {
    read_llama3_scaling(map, rotary);
  } else if (name != "default") {
    type->fail(fmt::format(
        "rotary scaling \"{}\" is not supported by the trainer; supported: default, linear, llama3",
        name));
  }
  if (const auto part = map.optional("partial_rotary_factor")) {
    if (part->number(0.0, 1.0) != 1.0) part->fail("expected 1: every column of a head is rotated");
  }
}

void read_rotary(MapReader& config, TransformerConfig& out) {
  out.rotary.theta = config.number_or("rope_theta", out.rotary.theta, 1.0, kMaxTheta);
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (std::optional<MapReader> map = config.optional_map(key)) {
      read_rotary_map(std::move(*map), out.rotary);
    }
  }
  if (const auto part = config.optional("partial_rotary_factor")) {
    if (part->number(0.0, 1.0) != 1.0) part->fail("expected 1: every column of a head is rotated");
  }
  if (out.model.head_dim % 2 != 0) {
    config.fail("head_dim", fmt::format("expected an even number for rotary positions, found {}",
                                        out.model.head_dim));
  }
}

void read_sliding_window(MapReader& config, TransformerConfig& out) {
  constexpr std::int64_t kDefaultWindow = 4096;  // of MistralConfig and Qwen2Config
  if (out.model.type == "llama") return;
  if (out.model.type == "qwen2" && !config.boolean_or("use_sliding_window", false)) {
    return;
  }
  const Node* window = config.node().find("sliding_window");
  if (window != nullptr && window->kind == Node::Kind::kNull) return;  // null: none
  out.sliding_window =
      config.integer_or("sliding_window", kDefaultWindow, 1, std::int64_t{1} << 40);
}

/// `fallback` is what Hugging Face applies if the key is missing.
void note_dropout(MapReader& config, std::string_view key, double fallback,
                  TransformerConfig& out) {
  const std::optional<ValueReader> value = config.optional(key);
  const double probability = value ? value->number(0.0, 1.0) : fallback;
  if (probability == 0.0) return;
  const Location& at = value ? value->node().at : config.at();
  out.unapplied_dropouts.push_back(fmt::format("{}: {}: a dropout of {}{} is not applied",
                                               at.text(), key, probability,
                                               value ? "" : " (Hugging Face's default)"));
}

void read_llama_settings(MapReader& config, TransformerConfig& out) {
  constexpr std::array<NamedActivation, 2> kActivations = {
      {{"silu", Activation::kSilu}, {"swish", Activation::kSilu}}};
  out.activation = read_activation(config, "hidden_act", kActivations);
  out.norm_epsilon = config.number_or("rms_norm_eps", 1e-6, 0.0, kMaxEpsilon);
  read_rotary(config, out);
  read_sliding_window(config, out);
  note_dropout(config, "attention_dropout", 0.0, out);
}

void read_gpt2_settings(MapReader& config, TransformerConfig& out) {
  constexpr std::array<NamedActivation, 3> kActivations = {
      {{"gelu_new", Activation::kGeluTanh},
       {"gelu_pytorch_tanh", Activation::kGeluTanh},
       {"gelu", Activation::kGelu}}};
  constexpr double kDropout = 0.1;  // GPT2Config's default for all three
  out.activation = read_activation(config, "activation_function", kActivations);
  out.norm_epsilon = config.number_or("layer_norm_epsilon", 1e-5, 0.0, kMaxEpsilon);
  out.scales_attention = config.boolean_or("scale_attn_weights", true);
  out.scales_attention_by_layer = config.boolean_or("scale_attn_by_inverse_layer_idx", false);
  for (const std::string_view key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    note_dropout(config, key, kDropout, out);
  }
}

}  // namespace

TransformerConfig read_transformer_config(const Node& root, const std::string& name, Task task) {
  TransformerConfig out;
  if (sim::hub::is_description(root)) {
    fail_at(root.at, "", "expected a config.json: a description of tensors cannot be trained");
  }
  out.model = sim::read_model(root, name, sim::HeadSource::kLanguage);
  out.task = task;
  MapReader config(root, "");
  constexpr std::array<std::string_view, 4> kTrained = {"llama", "mistral", "qwen2", "gpt2"};
  if (std::find(kTrained.begin(), kTrained.end(), out.model.type) == kTrained.end()) {
    config.fail("model_type", fmt::format("{} is simulated but not trained; families to train: {}",
                                          out.model.type, fmt::join(kTrained, ", ")));
  }
  out.initializer_range = config.number_or("initializer_range", 0.02, 0.0, 1e3);
  if (out.is_llama_like()) {
    read_llama_settings(config, out);
  } else {
    read_gpt2_settings(config, out);
  }
  return out;
}

TransformerConfig load_transformer_config(const std::filesystem::path& path, Task task) {
  return read_transformer_config(load_document(path), sim::model_name(path), task);
}

}  // namespace zenflow::runtime
