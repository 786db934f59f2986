#include "runtime/model_config/transformer_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/model_config/rotary_reader.h"
#include "sim/config/hub/description.h"
#include "sim/config/hub/hub_model.h"
#include "sim/config/reader.h"

namespace zenflow::runtime {
namespace {

constexpr double kMaxEpsilon = 1.0;
constexpr double kMaxCap = 1e6;

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
constexpr std::array<NamedActivation, 6> kActivations = {
    {{"silu", Activation::kSilu},
     {"swish", Activation::kSilu},
     {"gelu", Activation::kGelu},
     {"gelu_new", Activation::kGeluTanh},
     {"gelu_pytorch_tanh", Activation::kGeluTanh},
     {"relu", Activation::kRelu}}};

void read_activation(MapReader& config, std::string_view key, Activation fallback,
                     TransformerConfig& out) {
  out.activation = fallback;
  const std::optional<ValueReader> value = config.optional(key);
  if (!value) return;
  std::vector<std::string> names;
  for (const NamedActivation& choice : kActivations) names.emplace_back(choice.name);
  const std::string name = value->choice(names);
  for (const NamedActivation& choice : kActivations) {
    if (choice.name == name) out.activation = choice.activation;
  }
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

void refuse_later_tokens(MapReader& config, std::string_view key, bool if_it_is) {
  const auto value = config.optional(key);
  if (value && value->boolean() == if_it_is) {
    value->fail("attention to later tokens is not trained");
  }
}

/// Two kinds of layers are trained: with a window and without.
void check_layer_types(MapReader& config, const TransformerConfig& out) {
  const auto types = config.optional("layer_types");
  if (!types) return;
  const std::vector<ValueReader> items = types->items();
  if (std::ssize(items) != out.model.layers()) {
    types->fail(
        fmt::format("expected {} types, one a layer; found {}", out.model.layers(), items.size()));
  }
  for (const ValueReader& item : items) {
    static_cast<void>(
        item.choice(std::array<std::string, 2>{"full_attention", "sliding_attention"}));
  }
}

/// RMSNorm, rotary positions and a gate.
void read_llama_like(MapReader& config, const RotaryDefaults& rotary, double epsilon,
                     TransformerConfig& out) {
  read_activation(config, "hidden_act", Activation::kSilu, out);
  out.norm.epsilon = config.number_or("rms_norm_eps", epsilon, 0.0, kMaxEpsilon);
  read_rotary(config, rotary, out);
  note_dropout(config, "attention_dropout", 0.0, out);
}

void read_llama(MapReader& config, TransformerConfig& out) {
  read_llama_like(config, {}, 1e-6, out);
}

void read_phi3(MapReader& config, TransformerConfig& out) {
  read_llama_like(config, {.phi_positions = 4096.0}, 1e-5, out);
  for (const std::string_view key : {"resid_pdrop", "embd_pdrop"}) {
    note_dropout(config, key, 0.0, out);
  }
}

void read_olmo2(MapReader& config, TransformerConfig& out) {
  out.norm.rounds_normalized = false;
  read_llama_like(config, {}, 1e-5, out);
}

/// Layers with a window have rotary settings of their own, by default.
void require_window(MapReader& config) {
  const Node* const window = config.node().find("sliding_window");
  if (window == nullptr || window->kind != Node::Kind::kNull) return;
  fail_at(window->at, "sliding_window", "expected a number of tokens");
}

void read_olmo3(MapReader& config, TransformerConfig& out) {
  require_window(config);
  out.norm.rounds_normalized = false;
  read_llama_like(config, {.theta = 500000.0, .window_theta = 500000.0}, 1e-5, out);
}

/// Norms that scale by 1 + weight, scaled embeddings, GELU by its approximation.
void read_gemma_like(MapReader& config, std::string_view activation_key,
                     const RotaryDefaults& rotary, TransformerConfig& out) {
  refuse_later_tokens(config, "use_bidirectional_attention", true);
  out.norm.rounds_normalized = false;
  out.norm.offset = 1.0;
  out.embedding_scale = std::sqrt(static_cast<double>(out.model.hidden));
  read_llama_like(config, rotary, 1e-6, out);
  read_activation(config, activation_key, Activation::kGeluTanh, out);
}

void read_gemma(MapReader& config, TransformerConfig& out) {
  read_gemma_like(config, "hidden_act", {}, out);
  // What "gelu" in these files has always meant. Source: GemmaConfig.
  if (out.activation == Activation::kGelu) out.activation = Activation::kGeluTanh;
}

/// `usual`: Hugging Face's default; null means none.
double read_cap(MapReader& config, std::string_view key, double usual) {
  const Node* const value = config.node().find(key);
  if (value != nullptr && value->kind == Node::Kind::kNull) return 0.0;
  return config.number_or(key, usual, 1e-6, kMaxCap);
}

void read_gemma2(MapReader& config, TransformerConfig& out) {
  read_gemma_like(config, "hidden_activation", {}, out);
  out.attention_scale =
      1.0 / std::sqrt(config.number_or("query_pre_attn_scalar", 256.0, 1e-6, 1e9));
  out.attention_cap = read_cap(config, "attn_logit_softcapping", 50.0);
  out.logit_cap = read_cap(config, "final_logit_softcapping", 30.0);
}

/// Gemma3Attention has no cap of scores, whatever the file says.
void read_gemma3(MapReader& config, TransformerConfig& out) {
  require_window(config);
  read_gemma_like(config, "hidden_activation", {.theta = 1e6, .window_theta = 1e4}, out);
  out.attention_scale =
      1.0 / std::sqrt(config.number_or("query_pre_attn_scalar", 256.0, 1e-6, 1e9));
  out.logit_cap = read_cap(config, "final_logit_softcapping", 0.0);
}

/// LayerNorm, learned positions and no gate. PyTorch rounds a LayerNorm once.
void read_gpt2(MapReader& config, TransformerConfig& out) {
  constexpr double kDropout = 0.1;  // GPT2Config's default for all three
  read_activation(config, "activation_function", Activation::kGeluTanh, out);
  out.norm = {.epsilon = config.number_or("layer_norm_epsilon", 1e-5, 0.0, kMaxEpsilon),
              .is_layer_norm = true,
              .rounds_normalized = false};
  out.scales_attention = config.boolean_or("scale_attn_weights", true);
  out.scales_attention_by_layer = config.boolean_or("scale_attn_by_inverse_layer_idx", false);
  for (const std::string_view key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    note_dropout(config, key, kDropout, out);
  }
}

/// Source: OPTConfig and OPTDecoder, whose first token has the third of the positions.
void read_opt(MapReader& config, TransformerConfig& out) {
  if (out.model.post_norm) {
    config.fail("do_layer_norm_before", "norms after the sums, as OPT-350M has, are not trained");
  }
  if (out.model.embedding_dim != out.model.hidden) {
    config.fail("word_embed_proj_dim",
                fmt::format("expected hidden_size ({}): projections of embeddings are not trained",
                            out.model.hidden));
  }
  if (!config.boolean_or("layer_norm_elementwise_affine", true)) {
    config.fail("layer_norm_elementwise_affine", "norms without weights are not trained");
  }
  if (config.boolean_or("_remove_final_layer_norm", false)) {
    config.fail("_remove_final_layer_norm", "a model without a final norm is not trained");
  }
  read_activation(config, "activation_function", Activation::kRelu, out);
  out.norm = {.epsilon = 1e-5, .is_layer_norm = true, .rounds_normalized = false};
  out.initializer_range = config.number_or("init_std", 0.02, 0.0, 1e3);
  out.first_position = 2;
  note_dropout(config, "dropout", 0.1, out);
  note_dropout(config, "layerdrop", 0.0, out);
  note_dropout(config, "attention_dropout", 0.0, out);
}

constexpr TensorNames kLlamaNames = {"model.", "model.layers.", "model.embed_tokens", "model.norm"};
constexpr TensorNames kGpt2Names = {"transformer.", "transformer.h.", "transformer.wte",
                                    "transformer.ln_f"};
constexpr TensorNames kOptNames = {"model.", "model.decoder.layers.", "model.decoder.embed_tokens",
                                   "model.decoder.final_layer_norm"};

/// `causal_lm`, `classifier`: Hugging Face's classes.
struct Family {
  std::string_view type;
  const TensorNames& names;
  void (*read)(MapReader& config, TransformerConfig& out);
  std::string_view causal_lm;
  std::string_view classifier;
};
constexpr std::array<Family, 12> kFamilies = {
    {{"llama", kLlamaNames, read_llama, "LlamaForCausalLM", "LlamaForSequenceClassification"},
     {"mistral", kLlamaNames, read_llama, "MistralForCausalLM", "MistralForSequenceClassification"},
     {"qwen2", kLlamaNames, read_llama, "Qwen2ForCausalLM", "Qwen2ForSequenceClassification"},
     {"qwen3", kLlamaNames, read_llama, "Qwen3ForCausalLM", "Qwen3ForSequenceClassification"},
     {"phi3", kLlamaNames, read_phi3, "Phi3ForCausalLM", "Phi3ForSequenceClassification"},
     {"gemma", kLlamaNames, read_gemma, "GemmaForCausalLM", "GemmaForSequenceClassification"},
     {"gemma2", kLlamaNames, read_gemma2, "Gemma2ForCausalLM", "Gemma2ForSequenceClassification"},
     {"gemma3_text", kLlamaNames, read_gemma3, "Gemma3ForCausalLM",
      "Gemma3TextForSequenceClassification"},
     {"olmo2", kLlamaNames, read_olmo2, "Olmo2ForCausalLM", "Olmo2ForSequenceClassification"},
     {"olmo3", kLlamaNames, read_olmo3, "Olmo3ForCausalLM", "Olmo3ForSequenceClassification"},
     {"gpt2", kGpt2Names, read_gpt2, "GPT2LMHeadModel", "GPT2ForSequenceClassification"},
     {"opt", kOptNames, read_opt, "OPTForCausalLM", "OPTForSequenceClassification"}}};

}  // namespace

std::vector<std::string_view> trained_families() {
  std::vector<std::string_view> types;
  for (const Family& family : kFamilies) types.push_back(family.type);
  return types;
}

std::int64_t TransformerConfig::largest_window() const {
  std::int64_t largest = 0;
  for (std::int64_t layer = 0; layer < model.layers(); ++layer) {
    largest = std::max(largest, window(layer));
  }
  return largest;
}

TransformerConfig read_transformer_config(const Node& root, const std::string& name, Task task) {
  TransformerConfig out;
  if (sim::hub::is_description(root)) {
    fail_at(root.at, "", "expected a config.json: a description of tensors cannot be trained");
  }
  out.model = sim::read_model(root, name, sim::HeadSource::kLanguage);
  out.task = task;
  MapReader config(root, "");
  const auto* const family =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&out](const Family& one) { return one.type == out.model.type; });
  if (family == kFamilies.end()) {
    config.fail("model_type", fmt::format("{} is simulated but not trained; families to train: {}",
                                          out.model.type, fmt::join(trained_families(), ", ")));
  }
  out.names = family->names;
  out.class_name = task.is_classification() ? family->classifier : family->causal_lm;
  refuse_later_tokens(config, "is_causal", false);
  check_layer_types(config, out);
  out.initializer_range = config.number_or("initializer_range", 0.02, 0.0, 1e3);
  family->read(config, out);
  return out;
}

TransformerConfig load_transformer_config(const std::filesystem::path& path, Task task) {
  return read_transformer_config(load_document(path), sim::model_name(path), task);
}

}  // namespace zenflow::runtime
