#include "sim/config/model_spec.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

// Generous for any model that exists, small enough that no product below overflows:
// a block has at most 2^45 parameters, all blocks together 2^57.
constexpr std::int64_t kMaxLayers = 1 << 12;
constexpr std::int64_t kMaxHidden = 1 << 18;
constexpr std::int64_t kMaxHeads = 1 << 12;
constexpr std::int64_t kMaxHeadDim = 1 << 12;
constexpr std::int64_t kMaxIntermediate = 1 << 22;
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxPositions = 1 << 26;
/// Leaves room in int64 for the bytes of weights, gradients and optimizer states.
constexpr std::int64_t kMaxParameters = 1'000'000'000'000'000;

/// OPT's position table starts two rows late, a leftover of fairseq's padding index.
constexpr std::int64_t kOptPositionOffset = 2;

constexpr std::array kFamilies = {ModelFamily::kLlama, ModelFamily::kMistral, ModelFamily::kQwen2,
                                  ModelFamily::kOpt, ModelFamily::kGpt2};

ModelFamily read_family(MapReader& config) {
  const ValueReader value = config.require("model_type");
  const std::string type = value.string();
  std::vector<std::string> known;
  std::string list;
  for (const ModelFamily family : kFamilies) {
    if (type == to_string(family)) return family;
    known.push_back(to_string(family));
    list += (list.empty() ? "" : ", ") + known.back();
  }
  value.fail(
      fmt::format("unknown model family \"{}\"{}; known: {}", type, suggestion(type, known), list));
}

std::int64_t require_size(MapReader& config, std::string_view key, std::int64_t limit) {
  return config.require(key).integer(1, limit);
}

/// Collects tensors under a common prefix, such as "model.layers.{}.".
class TensorList {
 public:
  explicit TensorList(std::string prefix) : prefix_(std::move(prefix)) {}

  void matrix(std::string_view name, std::int64_t rows, std::int64_t columns) {
    tensors_.push_back({fmt::format("{}{}.weight", prefix_, name), rows, columns, true});
  }
  void vector(std::string_view name, std::int64_t size) {
    tensors_.push_back({prefix_ + std::string(name), 1, size, false});
  }
  void layer_norm(std::string_view name, std::int64_t size, bool has_bias) {
    vector(fmt::format("{}.weight", name), size);
    if (has_bias) vector(fmt::format("{}.bias", name), size);
  }
  /// torch.nn.Linear stores its weight as [out, in].
  void linear(std::string_view name, std::int64_t in, std::int64_t out, bool has_bias) {
    matrix(name, out, in);
    if (has_bias) vector(fmt::format("{}.bias", name), out);
  }
  /// GPT-2's Conv1D stores its weight as [in, out].
  void conv1d(std::string_view name, std::int64_t in, std::int64_t out) {
    matrix(name, in, out);
    vector(fmt::format("{}.bias", name), out);
  }
  [[nodiscard]] std::vector<Tensor> take() { return std::move(tensors_); }

 private:
  std::string prefix_;
  std::vector<Tensor> tensors_;
};

void set_head_dim_from_hidden(ModelSpec& model, const MapReader& config, std::string_view key,
                              std::string_view heads_key) {
  if (model.hidden % model.heads != 0) {
    config.fail(key, fmt::format("expected a multiple of {} ({}), found {}", heads_key, model.heads,
                                 model.hidden));
  }
  model.head_dim = model.hidden / model.heads;
  if (model.head_dim > kMaxHeadDim) {
    config.fail(heads_key, fmt::format("expected heads of at most {} columns, found {}",
                                       kMaxHeadDim, model.head_dim));
  }
}

/// What llama, mistral and qwen2 share; they differ in biases.
struct LlamaBiases {
  bool qkv = false;
  bool output = false;
  bool mlp = false;
};

LlamaBiases read_llama_biases(MapReader& config, ModelFamily family) {
  LlamaBiases biases;
  if (family == ModelFamily::kLlama) {
    biases.qkv = config.boolean_or("attention_bias", false);
    biases.output = biases.qkv;
    biases.mlp = config.boolean_or("mlp_bias", false);
  }
  if (family == ModelFamily::kQwen2) biases.qkv = true;
  return biases;
}

void read_llama_sizes(MapReader& config, ModelSpec& model) {
  model.hidden = require_size(config, "hidden_size", kMaxHidden);
  model.layers = require_size(config, "num_hidden_layers", kMaxLayers);
  model.heads = require_size(config, "num_attention_heads", kMaxHeads);
  model.kv_heads = config.integer_or("num_key_value_heads", model.heads, 1, kMaxHeads);
  if (model.heads % model.kv_heads != 0) {
    config.fail("num_key_value_heads",
                fmt::format("expected a divisor of num_attention_heads ({}), found {}", model.heads,
                            model.kv_heads));
  }
  if (const std::optional<ValueReader> head_dim = config.optional("head_dim")) {
    model.head_dim = head_dim->integer(1, kMaxHeadDim);
  } else {
    set_head_dim_from_hidden(model, config, "hidden_size", "num_attention_heads");
  }
  model.intermediate = require_size(config, "intermediate_size", kMaxIntermediate);
  model.vocab = require_size(config, "vocab_size", kMaxVocab);
  model.max_positions = require_size(config, "max_position_embeddings", kMaxPositions);
  model.tied_embeddings = config.boolean_or("tie_word_embeddings", false);
  model.embedding_dim = model.hidden;
  model.gated_mlp = true;
}

void read_llama(MapReader& config, ModelSpec& model) {
  read_llama_sizes(config, model);
  const LlamaBiases biases = read_llama_biases(config, model.family);
  const std::int64_t query = model.heads * model.head_dim;
  const std::int64_t key_value = model.kv_heads * model.head_dim;

  TensorList embedding("model.");
  embedding.matrix("embed_tokens", model.vocab, model.hidden);
  model.embedding = embedding.take();

  TensorList block("model.layers.{}.");
  block.layer_norm("input_layernorm", model.hidden, false);
  block.linear("self_attn.q_proj", model.hidden, query, biases.qkv);
  block.linear("self_attn.k_proj", model.hidden, key_value, biases.qkv);
  block.linear("self_attn.v_proj", model.hidden, key_value, biases.qkv);
  block.linear("self_attn.o_proj", query, model.hidden, biases.output);
  block.layer_norm("post_attention_layernorm", model.hidden, false);
  block.linear("mlp.gate_proj", model.hidden, model.intermediate, biases.mlp);
  block.linear("mlp.up_proj", model.hidden, model.intermediate, biases.mlp);
  block.linear("mlp.down_proj", model.intermediate, model.hidden, biases.mlp);
  model.block = block.take();

  TensorList head("");
  head.layer_norm("model.norm", model.hidden, false);
  if (!model.tied_embeddings) head.linear("lm_head", model.hidden, model.vocab, false);
  model.head = head.take();

  model.block_linears = {{"q_proj", model.hidden, query},
                         {"k_proj", model.hidden, key_value},
                         {"v_proj", model.hidden, key_value},
                         {"o_proj", query, model.hidden},
                         {"gate_proj", model.hidden, model.intermediate},
                         {"up_proj", model.hidden, model.intermediate},
                         {"down_proj", model.intermediate, model.hidden}};
  model.head_linears = {{"lm_head", model.hidden, model.vocab}};
}

void read_opt_sizes(MapReader& config, ModelSpec& model) {
  model.hidden = require_size(config, "hidden_size", kMaxHidden);
  model.layers = require_size(config, "num_hidden_layers", kMaxLayers);
  model.heads = require_size(config, "num_attention_heads", kMaxHeads);
  model.kv_heads = model.heads;
  set_head_dim_from_hidden(model, config, "hidden_size", "num_attention_heads");
  model.intermediate = require_size(config, "ffn_dim", kMaxIntermediate);
  model.vocab = require_size(config, "vocab_size", kMaxVocab);
  model.max_positions = require_size(config, "max_position_embeddings", kMaxPositions);
  model.embedding_dim = config.integer_or("word_embed_proj_dim", model.hidden, 1, kMaxHidden);
  model.tied_embeddings = config.boolean_or("tie_word_embeddings", true);
  model.learned_positions = true;
  model.post_norm = !config.boolean_or("do_layer_norm_before", true);
}

void read_opt(MapReader& config, ModelSpec& model) {
  read_opt_sizes(config, model);
  const bool has_bias = config.boolean_or("enable_bias", true);
  const bool has_affine_norm = config.boolean_or("layer_norm_elementwise_affine", true);
  const bool removes_final_norm = config.boolean_or("_remove_final_layer_norm", false);
  const bool is_projected = model.embedding_dim != model.hidden;
  const std::int64_t hidden = model.hidden;

  TensorList embedding("model.decoder.");
  embedding.matrix("embed_tokens", model.vocab, model.embedding_dim);
  embedding.matrix("embed_positions", model.max_positions + kOptPositionOffset, hidden);
  if (is_projected) embedding.linear("project_in", model.embedding_dim, hidden, false);
  model.embedding = embedding.take();

  TensorList block("model.decoder.layers.{}.");
  for (const std::string_view name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    block.linear(fmt::format("self_attn.{}", name), hidden, hidden, has_bias);
  }
  block.linear("fc1", hidden, model.intermediate, has_bias);
  block.linear("fc2", model.intermediate, hidden, has_bias);
  if (has_affine_norm) {
    block.layer_norm("self_attn_layer_norm", hidden, true);
    block.layer_norm("final_layer_norm", hidden, true);
  }
  model.block = block.take();

  TensorList head("");
  if (has_affine_norm && !model.post_norm && !removes_final_norm) {
    head.layer_norm("model.decoder.final_layer_norm", hidden, true);
  }
  if (is_projected) head.linear("model.decoder.project_out", hidden, model.embedding_dim, false);
  if (!model.tied_embeddings) head.linear("lm_head", model.embedding_dim, model.vocab, false);
  model.head = head.take();

  model.block_linears = {{"q_proj", hidden, hidden},          {"k_proj", hidden, hidden},
                         {"v_proj", hidden, hidden},          {"o_proj", hidden, hidden},
                         {"fc1", hidden, model.intermediate}, {"fc2", model.intermediate, hidden}};
  if (is_projected) model.head_linears.push_back({"project_out", hidden, model.embedding_dim});
  model.head_linears.push_back({"lm_head", model.embedding_dim, model.vocab});
}

void read_gpt2_sizes(MapReader& config, ModelSpec& model) {
  model.hidden = require_size(config, "n_embd", kMaxHidden);
  model.layers = require_size(config, "n_layer", kMaxLayers);
  model.heads = require_size(config, "n_head", kMaxHeads);
  model.kv_heads = model.heads;
  set_head_dim_from_hidden(model, config, "n_embd", "n_head");
  model.intermediate = config.integer_or("n_inner", 4 * model.hidden, 1, kMaxIntermediate);
  model.vocab = require_size(config, "vocab_size", kMaxVocab);
  model.max_positions = require_size(config, "n_positions", kMaxPositions);
  model.embedding_dim = model.hidden;
  model.tied_embeddings = config.boolean_or("tie_word_embeddings", true);
  model.learned_positions = true;
  if (config.boolean_or("add_cross_attention", false)) {
    config.fail("add_cross_attention", "expected false: encoder-decoder models are not supported");
  }
}

void read_gpt2(MapReader& config, ModelSpec& model) {
  read_gpt2_sizes(config, model);
  const std::int64_t hidden = model.hidden;

  TensorList embedding("transformer.");
  embedding.matrix("wte", model.vocab, hidden);
  embedding.matrix("wpe", model.max_positions, hidden);
  model.embedding = embedding.take();

  TensorList block("transformer.h.{}.");
  block.layer_norm("ln_1", hidden, true);
  block.conv1d("attn.c_attn", hidden, 3 * hidden);
  block.conv1d("attn.c_proj", hidden, hidden);
  block.layer_norm("ln_2", hidden, true);
  block.conv1d("mlp.c_fc", hidden, model.intermediate);
  block.conv1d("mlp.c_proj", model.intermediate, hidden);
  model.block = block.take();

  TensorList head("");
  head.layer_norm("transformer.ln_f", hidden, true);
  if (!model.tied_embeddings) head.linear("lm_head", hidden, model.vocab, false);
  model.head = head.take();

  model.block_linears = {{"qkv_proj", hidden, 3 * hidden},  // GPT-2 runs q, k and v as one product
                         {"o_proj", hidden, hidden},
                         {"fc1", hidden, model.intermediate},
                         {"fc2", model.intermediate, hidden}};
  model.head_linears = {{"lm_head", hidden, model.vocab}};
}

std::int64_t total_parameters(const std::vector<Tensor>& tensors) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.parameters();
  return sum;
}

std::int64_t total_matrix_parameters(const std::vector<Tensor>& tensors) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.is_matrix ? tensor.parameters() : 0;
  return sum;
}

}  // namespace

std::string to_string(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "llama";
    case ModelFamily::kMistral:
      return "mistral";
    case ModelFamily::kQwen2:
      return "qwen2";
    case ModelFamily::kOpt:
      return "opt";
    case ModelFamily::kGpt2:
      return "gpt2";
  }
  return "";
}

std::int64_t ModelSpec::embedding_parameters() const {
  return total_parameters(embedding);
}
std::int64_t ModelSpec::block_parameters() const {
  return total_parameters(block);
}
std::int64_t ModelSpec::head_parameters() const {
  return total_parameters(head);
}

std::int64_t ModelSpec::parameters() const {
  return embedding_parameters() + layers * block_parameters() + head_parameters();
}

std::int64_t ModelSpec::matrix_parameters() const {
  return total_matrix_parameters(embedding) + layers * total_matrix_parameters(block) +
         total_matrix_parameters(head);
}

ModelSpec read_model(const Node& root, const std::string& name) {
  MapReader config(root, "");
  ModelSpec model;
  model.name = name;
  model.family = read_family(config);
  switch (model.family) {
    case ModelFamily::kLlama:
    case ModelFamily::kMistral:
    case ModelFamily::kQwen2:
      read_llama(config, model);
      break;
    case ModelFamily::kOpt:
      read_opt(config, model);
      break;
    case ModelFamily::kGpt2:
      read_gpt2(config, model);
      break;
  }
  if (model.parameters() > kMaxParameters) {
    fail_at(root.at, "",
            fmt::format("expected a model of at most {} parameters, found {}", kMaxParameters,
                        model.parameters()));
  }
  return model;
}

ModelSpec load_model(const std::filesystem::path& path) {
  return read_model(load_document(path), model_name(path));
}

std::string model_name(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  const std::string folder = path.parent_path().filename().string();
  const bool named_by_folder =
      stem == "config" && !folder.empty() && folder != "." && folder != "..";
  return named_by_folder ? folder : stem;
}

}  // namespace zenflow::sim
