#include "sim/config/hub/older_decoders.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/config/hub/decoder.h"

namespace zenflow::sim::hub {
namespace {

constexpr Switch kTiedUnlessFalse{"tie_word_embeddings", true};
constexpr Switch kUntiedUnlessTrue{"tie_word_embeddings", false};

/// Softmax attention of `heads` heads, each with keys and values of its own.
Attention plain_attention(std::int64_t heads, std::int64_t head_dim) {
  return {.heads = heads, .kv_heads = heads, .head_dim = head_dim, .value_dim = head_dim};
}

/// Attention of the model's heads.
Attention older_attention(const ModelSpec& model, std::int64_t window = 0) {
  return {.heads = model.heads,
          .kv_heads = model.kv_heads,
          .head_dim = model.head_dim,
          .value_dim = model.head_dim,
          .window = window};
}

/// Sets what all these families have, under names of their own. Returns the number of layers.
std::int64_t read_older_sizes(HubConfig& config, ModelSpec& model, Names hidden, Names layers,
                              Names heads) {
  model.hidden = config.same_size(hidden, kMaxHidden);
  const std::int64_t count = config.same_size(layers, kMaxLayers);
  model.heads = config.same_size(heads, kMaxHeads);
  model.kv_heads = model.heads;
  model.head_dim = head_dim_of(config, *hidden.begin(), model.hidden, *heads.begin(), model.heads);
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.embedding_dim = model.hidden;
  return count;
}

std::int64_t read_gpt_sizes(HubConfig& config, ModelSpec& model) {
  const std::int64_t layers =
      read_older_sizes(config, model, {"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"},
                       {"n_head", "num_attention_heads"});
  model.intermediate = config.positive_or({"n_inner"}, 4 * model.hidden, kMaxIntermediate);
  return layers;
}

std::int64_t read_later_sizes(HubConfig& config, ModelSpec& model) {
  return read_older_sizes(config, model, {"hidden_size"}, {"num_hidden_layers"},
                          {"num_attention_heads"});
}

/// What stands before the names of the decoder's tensors.
std::string older_prefix(const HubConfig& config, std::string_view of_head) {
  return config.head() == Head::kNone ? "" : std::string(of_head);
}

/// Columns of a head that are rotated: a share of them, under `key` or in rope_parameters.
std::int64_t rotated_columns(HubConfig& config, std::string_view key, double otherwise,
                             std::int64_t head_dim) {
  double share = config.number_or(key, otherwise);
  if (config.has("rope_parameters")) {
    share =
        config.below("rope_parameters", config.head()).number_or("partial_rotary_factor", share);
  }
  return static_cast<std::int64_t>(as_double(head_dim) * std::clamp(share, 0.0, 1.0));
}

void older_rotary(LayerBuilder& block, const ModelSpec& model, std::int64_t columns) {
  const std::int64_t rotated = std::min(columns, model.head_dim);
  block.chain(ChainKind::kRotary, as_double(model.heads * rotated));
  block.chain(ChainKind::kRotary, as_double(model.kv_heads * rotated));
}

/// Where only a part of each head is rotated, queries change their layout, which the result of
/// attention takes over: the next product reads a copy of it.
void partial_rotary(LayerBuilder& block, const ModelSpec& model, std::int64_t columns) {
  older_rotary(block, model, columns);
  block.keep(as_double(model.heads * model.head_dim), 0);
}

/// Of a fused product: the values are a part of its result, which is kept for them as a whole.
void keep_before_rotation(LayerBuilder& block, const ModelSpec& model) {
  block.keep(as_double((model.heads + model.kv_heads) * model.head_dim), 0);
}

/// Attention that is not fused keeps its probabilities in fp32 and in the training type.
void eager_scores(LayerBuilder& block, const ModelSpec& model) {
  block.keep_pairs(6 * as_double(model.heads));
}

/// Scores are computed in fp32, for which queries and keys are kept in fp32.
void keep_wide_queries(LayerBuilder& block, const ModelSpec& model) {
  block.keep(0, 4 * as_double(model.hidden));
}

/// Norms of the heads of queries and keys. What they return is rotated, and not kept.
void older_qk_norm(LayerBuilder& block, const ModelSpec& model) {
  block.head_norm(Norm::kLayer, "self_attn.q_layernorm", model.head_dim, model.heads);
  block.head_norm(Norm::kLayer, "self_attn.k_layernorm", model.head_dim, model.kv_heads);
  block.keep(-as_double((model.heads + model.kv_heads) * model.head_dim), 0);
}

void drop(LayerBuilder& block, double probability, std::int64_t width) {
  if (probability > 0) block.dropout(as_double(width));
}

/// Drops what a sublayer returns and adds the stream to it.
void drop_and_add(LayerBuilder& block, double probability, std::int64_t hidden) {
  drop(block, probability, hidden);
  block.residual();
}

/// Two norms of one stream, which is kept once.
void norms_of_one_stream(LayerBuilder& block, Norm kind, std::string_view first,
                         std::string_view second, std::int64_t hidden) {
  block.norm(kind, first, hidden);
  block.norm(kind, second, hidden);
  block.keep(-as_double(hidden), 0);
}

struct OlderMlp {
  std::string_view up;
  std::string_view down;
  bool has_bias = true;
};

void older_mlp(LayerBuilder& block, const OlderMlp& names, const ModelSpec& model,
               const PlainActivation& act) {
  block.linear(names.up, model.hidden, model.intermediate, names.has_bias);
  block.activation(act.kind, as_double(model.intermediate), act.kept);
  block.linear(names.down, model.intermediate, model.hidden, names.has_bias);
}

/// Token embeddings, and learned positions if they have a name.
void older_embedding(ModelSpec& model, const std::string& top, std::string_view tokens,
                     std::string_view positions, double dropped) {
  LayerBuilder embedding("embedding", top, model.hidden);
  embedding.tensor(fmt::format("{}.weight", tokens), {model.vocab, model.hidden});
  embedding.chain(ChainKind::kEmbedding, as_double(model.hidden));
  if (!positions.empty()) {
    model.learned_positions = true;
    embedding.tensor(fmt::format("{}.weight", positions), {model.max_positions, model.hidden});
    embedding.residual();
  }
  drop(embedding, dropped, model.hidden);
  model.embedding = embedding.take();
}

/// As `add_head`, but for the classifier of tokens, which these families call otherwise.
void older_head(HubConfig& config, ModelSpec& model, Norm kind, const std::string& norm,
                bool has_bias = false) {
  LayerBuilder head("head", "", model.hidden);
  head.norm(kind, norm, model.hidden);
  if (config.head() == Head::kTokens) {
    model.outputs = config.labels();
    head.linear("classifier", model.hidden, model.outputs, true);
  } else if (config.head() == Head::kAnswer) {
    model.outputs = 2;
    head.linear("qa_outputs", model.hidden, model.outputs, true);
  } else {
    add_head(config, model, head, model.hidden, has_bias);
  }
  model.head = head.take();
}

/// "global" or "local" of each layer: lists of types, each with how often it is repeated.
std::vector<bool> read_local_layers(HubConfig& config, std::int64_t layers) {
  std::vector<bool> local;
  const auto types = config.map().optional("attention_types");
  if (!types) {
    for (std::int64_t i = 0; i < 24; ++i) local.push_back(i % 2 == 1);
  } else {
    for (const ValueReader& item : types->items()) {
      const std::vector<ValueReader> pair = item.items();
      if (pair.size() != 2) item.fail("expected a list of types and how often it is repeated");
      const std::int64_t repeats = pair[1].integer(0, kMaxLayers);
      const std::vector<ValueReader> names = pair[0].items();
      if (repeats * std::ssize(names) > layers) item.fail("more layers than the model has");
      for (std::int64_t i = 0; i < repeats; ++i) {
        for (const ValueReader& name : names) {
          local.push_back(name.choice(std::array<std::string, 2>{"global", "local"}) == "local");
        }
      }
    }
  }
  if (std::ssize(local) != layers) {
    config.fail("attention_types", fmt::format("expected types of {} layers (num_layers), found {}",
                                               layers, local.size()));
  }
  return local;
}

/// GPT-J and CodeGen: attention and MLP side by side after one norm, and a head with a bias.
void read_side_by_side(HubConfig& config, ModelSpec& model, bool fused) {
  const std::int64_t layers = read_gpt_sizes(config, model);
  model.max_positions =
      config.positive_or({"n_positions", "max_position_embeddings"}, 2048, kMaxPositions);
  model.tied_embeddings = config.is(kUntiedUnlessTrue);
  const double dropped = config.number_or("resid_pdrop", 0);
  const PlainActivation act = plain_activation(config.text_or("activation_function", "gelu_new"));
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "transformer.");
  older_embedding(model, top, "wte", "", config.number_or("embd_pdrop", 0));

  LayerBuilder block("block", top + "h.{}.", hidden);
  block.norm(Norm::kLayer, "ln_1", hidden);
  if (fused) {
    block.linear("attn.qkv_proj", hidden, 3 * hidden, false);
    keep_before_rotation(block, model);
  } else {
    for (const std::string_view name : {"k_proj", "v_proj", "q_proj"}) {
      block.linear(fmt::format("attn.{}", name), hidden, hidden, false);
    }
  }
  older_rotary(block, model, config.positive_or({"rotary_dim"}, 64, kMaxHeadDim));
  keep_wide_queries(block, model);
  block.attention(older_attention(model));
  eager_scores(block, model);
  block.linear("attn.out_proj", hidden, hidden, false);
  drop(block, dropped, hidden);
  older_mlp(block, {"mlp.fc_in", "mlp.fc_out"}, model, act);
  drop_and_add(block, dropped, hidden);
  block.residual();
  append_layers(model, layers, block.take());
  older_head(config, model, Norm::kLayer, top + "ln_f", true);
}

/// What the decoders of fairseq, BioGPT and XGLM, are called in their files and tensors.
struct FairseqNames {
  Names hidden;
  Names layers;
  Names heads;
  std::string_view intermediate;
  std::string_view activation;
  std::string_view dropout;
  std::string_view prefix;
  std::string_view head;  ///< the projection to the vocabulary
};

/// `position_rows`: of the learnt table, 0: computed. `pair_bytes`: as of
/// LayerBuilder::keep_pairs, for each head.
void read_fairseq(HubConfig& config, ModelSpec& model, const FairseqNames& names,
                  std::int64_t position_rows, double pair_bytes) {
  const std::int64_t layers =
      read_older_sizes(config, model, names.hidden, names.layers, names.heads);
  model.intermediate = config.positive_or({names.intermediate}, 4096, kMaxIntermediate);
  model.tied_embeddings = config.is(kTiedUnlessFalse);
  const PlainActivation act = plain_activation(config.text_or(names.activation, "gelu"));
  const double dropped = config.number_or(names.dropout, 0.1);
  const double inner_dropped = config.number_or("activation_dropout", 0);
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, names.prefix);

  LayerBuilder embedding("embedding", top, hidden);
  embedding.tensor("embed_tokens.weight", {model.vocab, hidden});
  embedding.chain(ChainKind::kEmbedding, as_double(hidden));
  if (position_rows > 0) embedding.tensor("embed_positions.weight", {position_rows, hidden});
  embedding.residual();
  drop(embedding, dropped, hidden);
  model.embedding = embedding.take();

  LayerBuilder block("block", top + "layers.{}.", hidden);
  block.norm(Norm::kLayer, "self_attn_layer_norm", hidden);
  for (const std::string_view name : {"k_proj", "v_proj", "q_proj"}) {
    block.linear(fmt::format("self_attn.{}", name), hidden, hidden, true);
  }
  block.attention(older_attention(model));
  block.keep_pairs(pair_bytes * as_double(model.heads));
  block.linear("self_attn.out_proj", hidden, hidden, true);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayer, "final_layer_norm", hidden);
  block.linear("fc1", hidden, model.intermediate, true);
  block.activation(act.kind, as_double(model.intermediate), act.kept);
  drop(block, inner_dropped, model.intermediate);
  block.linear("fc2", model.intermediate, hidden, true);
  drop_and_add(block, dropped, hidden);
  append_layers(model, layers, block.take());

  older_head(config, model, Norm::kLayer, top + "layer_norm");
  if (config.head() != Head::kLanguage) return;
  for (Tensor& tensor : model.head.tensors) {
    if (tensor.name == "lm_head.weight") tensor.name = fmt::format("{}.weight", names.head);
  }
}

}  // namespace

void read_gpt2(HubConfig& config, ModelSpec& model) {
  model.hidden = config.size({"n_embd", "hidden_size"}, kMaxHidden);
  const std::int64_t layers = config.size({"n_layer", "num_hidden_layers"}, kMaxLayers);
  model.heads = config.size({"n_head", "num_attention_heads"}, kMaxHeads);
  model.kv_heads = model.heads;
  model.head_dim = head_dim_of(config, "n_embd", model.hidden, "n_head", model.heads);
  model.intermediate = config.size_or({"n_inner"}, 4 * model.hidden, kMaxIntermediate);
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.max_positions =
      config.size({"n_positions", "max_position_embeddings", "n_ctx"}, kMaxPositions);
  model.embedding_dim = model.hidden;
  model.tied_embeddings = config.is({"tie_word_embeddings", true});
  model.learned_positions = true;
  if (config.is({"add_cross_attention", false})) {
    config.fail("add_cross_attention", "expected false: cross-attention of GPT-2 is not supported");
  }
  const PlainActivation act = plain_activation(config.text_or("activation_function", "gelu_new"));
  const double dropped = config.number_or("resid_pdrop", 0.1);
  const std::int64_t hidden = model.hidden;
  const std::string top = config.head() == Head::kNone ? "" : "transformer.";

  LayerBuilder embedding("embedding", top, hidden);
  embedding.tensor("wte.weight", {model.vocab, hidden});
  embedding.tensor("wpe.weight", {model.max_positions, hidden});
  embedding.chain(ChainKind::kEmbedding, as_double(hidden));
  embedding.residual();
  model.embedding = embedding.take();

  LayerBuilder block("block", top + "h.{}.", hidden);
  block.norm(Norm::kLayer, "ln_1", hidden);
  block.conv1d("attn.c_attn", hidden, 3 * hidden);
  block.attention(plain_attention(model.heads, model.head_dim));
  block.conv1d("attn.c_proj", hidden, hidden);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayer, "ln_2", hidden);
  block.conv1d("mlp.c_fc", hidden, model.intermediate);
  block.activation(act.kind, as_double(model.intermediate), act.kept);
  block.conv1d("mlp.c_proj", model.intermediate, hidden);
  drop_and_add(block, dropped, hidden);
  append_layers(model, layers, block.take());

  older_head(config, model, Norm::kLayer, top + "ln_f");
}

void read_opt(HubConfig& config, ModelSpec& model) {
  /// OPT's position table starts two rows late, a leftover of fairseq's padding index.
  constexpr std::int64_t kPositionOffset = 2;
  model.hidden = config.size({"hidden_size"}, kMaxHidden);
  const std::int64_t layers = config.size({"num_hidden_layers"}, kMaxLayers);
  model.heads = config.size({"num_attention_heads"}, kMaxHeads);
  model.kv_heads = model.heads;
  model.head_dim =
      head_dim_of(config, "hidden_size", model.hidden, "num_attention_heads", model.heads);
  model.intermediate = config.size({"ffn_dim"}, kMaxIntermediate);
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.max_positions = config.size({"max_position_embeddings"}, kMaxPositions);
  model.embedding_dim = config.size_or({"word_embed_proj_dim"}, model.hidden, kMaxHidden);
  model.tied_embeddings = config.is({"tie_word_embeddings", true});
  model.learned_positions = true;
  model.post_norm = !config.is({"do_layer_norm_before", true});
  const bool has_bias = config.is({"enable_bias", true});
  const Norm norm =
      config.is({"layer_norm_elementwise_affine", true}) ? Norm::kLayer : Norm::kNoParameters;
  const bool removes_final_norm = config.is({"_remove_final_layer_norm", false});
  const bool is_projected = model.embedding_dim != model.hidden;
  const PlainActivation act = plain_activation(config.text_or("activation_function", "relu"));
  const double dropped = config.number_or("dropout", 0.1);
  const std::int64_t hidden = model.hidden;
  const std::string top = config.head() == Head::kNone ? "decoder." : "model.decoder.";

  LayerBuilder embedding("embedding", top, hidden);
  embedding.tensor("embed_tokens.weight", {model.vocab, model.embedding_dim});
  embedding.tensor("embed_positions.weight", {model.max_positions + kPositionOffset, hidden});
  if (is_projected) embedding.linear("project_in", model.embedding_dim, hidden, false);
  embedding.chain(ChainKind::kEmbedding, as_double(model.embedding_dim));
  embedding.residual();
  model.embedding = embedding.take();

  LayerBuilder block("block", top + "layers.{}.", hidden);
  for (const std::string_view name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    block.linear(fmt::format("self_attn.{}", name), hidden, hidden, has_bias);
  }
  block.attention(plain_attention(model.heads, model.head_dim));
  block.linear("fc1", hidden, model.intermediate, has_bias);
  block.activation(act.kind, as_double(model.intermediate), act.kept);
  block.linear("fc2", model.intermediate, hidden, has_bias);
  for (const std::string_view name : {"self_attn_layer_norm", "final_layer_norm"}) {
    block.norm(norm, name, hidden);
    drop_and_add(block, dropped, hidden);
  }
  append_layers(model, layers, block.take());

  LayerBuilder head("head", "", hidden);
  if (model.post_norm || removes_final_norm) {
    head.chain(ChainKind::kLayerNorm, as_double(hidden));
  } else {
    head.norm(norm, top + "final_layer_norm", hidden);
  }
  if (is_projected) head.linear(top + "project_out", hidden, model.embedding_dim, false);
  add_head(config, model, head, model.embedding_dim);
  model.head = head.take();
}

void read_biogpt(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "BioGpt", {"Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification"});
  constexpr std::int64_t kPositionOffset = 2;  // as OPT's
  model.max_positions = config.positive_or({"max_position_embeddings"}, 1024, kMaxPositions);
  model.learned_positions = true;
  read_fairseq(config, model,
               {.hidden = {"hidden_size"},
                .layers = {"num_hidden_layers"},
                .heads = {"num_attention_heads"},
                .intermediate = "intermediate_size",
                .activation = "hidden_act",
                .dropout = "hidden_dropout_prob",
                .prefix = "biogpt.",
                .head = "output_projection"},
               model.max_positions + kPositionOffset, 0);
}

void read_xglm(HubConfig& config, ModelSpec& model) {
  config.check_class("XGLM", {"Model", "ForCausalLM"});
  if (config.is({"add_cross_attention", false})) {
    config.fail("add_cross_attention", "expected false: cross-attention is not supported");
  }
  model.max_positions = config.positive_or({"max_position_embeddings"}, 2048, kMaxPositions);
  // Not fused: scores are kept to be bounded, then as probabilities, and as what dropout leaves.
  const bool drops = config.number_or("attention_dropout", 0.1) > 0;
  read_fairseq(config, model,
               {.hidden = {"d_model", "hidden_size"},
                .layers = {"num_layers", "num_hidden_layers"},
                .heads = {"attention_heads", "num_attention_heads"},
                .intermediate = "ffn_dim",
                .activation = "activation_function",
                .dropout = "dropout",
                .prefix = "model.",
                .head = "lm_head"},
               0, drops ? 7 : 4);
}

void read_openai_gpt(HubConfig& config, ModelSpec& model) {
  config.check_class("OpenAIGPT", {"Model", "LMHeadModel", "ForSequenceClassification"});
  const std::int64_t layers = read_gpt_sizes(config, model);
  model.intermediate = 4 * model.hidden;
  model.max_positions =
      config.positive_or({"n_positions", "max_position_embeddings"}, 512, kMaxPositions);
  model.tied_embeddings = config.is(kTiedUnlessFalse);
  const std::string named = config.text_or("afn", "gelu");
  const PlainActivation act = plain_activation(named == "gelu" ? "gelu_new" : named);
  const double dropped = config.number_or("resid_pdrop", 0.1);
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "transformer.");
  older_embedding(model, top, "tokens_embed", "positions_embed",
                  config.number_or("embd_pdrop", 0.1));

  LayerBuilder block("block", top + "h.{}.", hidden);
  block.conv1d("attn.c_attn", hidden, 3 * hidden);
  block.attention(older_attention(model));
  block.keep_pairs((config.number_or("attn_pdrop", 0.1) > 0 ? 5 : 2) * as_double(model.heads));
  block.conv1d("attn.c_proj", hidden, hidden);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayer, "ln_1", hidden);
  block.conv1d("mlp.c_fc", hidden, model.intermediate);
  block.activation(act.kind, as_double(model.intermediate), act.kept);
  block.conv1d("mlp.c_proj", model.intermediate, hidden);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayer, "ln_2", hidden);
  append_layers(model, layers, block.take());

  LayerBuilder head("head", "", hidden);
  add_head(config, model, head, hidden);
  model.head = head.take();
}

void read_bloom(HubConfig& config, ModelSpec& model) {
  config.check_class("Bloom", {"Model", "ForCausalLM", "ForSequenceClassification",
                               "ForTokenClassification", "ForQuestionAnswering"});
  const std::int64_t layers =
      read_older_sizes(config, model, {"hidden_size", "n_embed"}, {"n_layer", "num_hidden_layers"},
                       {"n_head", "num_attention_heads"});
  model.intermediate = 4 * model.hidden;
  model.max_positions = kMaxPositions;  // ALiBi has no limit
  model.tied_embeddings = config.is(kTiedUnlessFalse);
  const double dropped = config.number_or("hidden_dropout", 0);
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "transformer.");

  LayerBuilder embedding("embedding", top, hidden);
  embedding.tensor("word_embeddings.weight", {model.vocab, hidden});
  embedding.chain(ChainKind::kEmbedding, as_double(hidden));
  embedding.norm(Norm::kLayer, "word_embeddings_layernorm", hidden);
  model.embedding = embedding.take();

  LayerBuilder block("block", top + "h.{}.", hidden);
  block.norm(Norm::kLayer, "input_layernorm", hidden);
  block.linear("self_attention.query_key_value", hidden, 3 * hidden, true);
  block.attention(older_attention(model));
  eager_scores(block, model);
  block.linear("self_attention.dense", hidden, hidden, true);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayer, "post_attention_layernorm", hidden);
  // Its GELU is written out, but keeps its input alone and computes the rest anew.
  older_mlp(block, {"mlp.dense_h_to_4h", "mlp.dense_4h_to_h"}, model, {ChainKind::kNewGelu, 2});
  drop_and_add(block, dropped, hidden);
  append_layers(model, layers, block.take());
  older_head(config, model, Norm::kLayer, top + "ln_f");
}

void read_falcon(HubConfig& config, ModelSpec& model) {
  config.check_class("Falcon", {"Model", "ForCausalLM", "ForSequenceClassification",
                                "ForTokenClassification", "ForQuestionAnswering"});
  const std::int64_t layers = read_older_sizes(config, model, {"hidden_size", "n_embed"},
                                               {"num_hidden_layers"}, {"num_attention_heads"});
  const bool is_new = config.is({"new_decoder_architecture", false});
  const bool is_parallel = config.is_unless_null({"parallel_attn", true});
  const bool has_bias = config.is({"bias", false});
  const bool has_alibi = config.is({"alibi", false});
  const std::int64_t kv_heads = config.positive_or({"num_kv_heads"}, model.heads, kMaxHeads);
  if (is_new) {
    check_kv_heads(config, "num_kv_heads", kv_heads, "num_attention_heads", model.heads);
    model.kv_heads = kv_heads;
  } else if (config.is_unless_null({"multi_query", true})) {
    model.kv_heads = 1;
  }
  model.intermediate = config.positive_or({"ffn_hidden_size"}, 4 * model.hidden, kMaxIntermediate);
  model.max_positions = has_alibi
                            ? kMaxPositions
                            : config.positive_or({"max_position_embeddings"}, 2048, kMaxPositions);
  model.tied_embeddings = config.is(kTiedUnlessFalse);
  const bool has_two_norms =
      config.positive_or({"num_ln_in_parallel_attn"}, is_new ? 2 : 1, kMaxLayers) == 2;
  const PlainActivation act = plain_activation(config.text_or("activation", "gelu"));
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "transformer.");
  older_embedding(model, top, "word_embeddings", "", 0);

  LayerBuilder block("block", top + "h.{}.", hidden);
  if (is_parallel && has_two_norms) {
    norms_of_one_stream(block, Norm::kLayer, "ln_attn", "ln_mlp", hidden);
  } else {
    block.norm(Norm::kLayer, "input_layernorm", hidden);
  }
  block.linear("self_attention.query_key_value", hidden,
               (model.heads + 2 * model.kv_heads) * model.head_dim, has_bias);
  if (!has_alibi) older_rotary(block, model, model.head_dim);
  block.attention(older_attention(model));
  if (is_new) {
    // Keys and values are repeated for each head of queries.
    block.keep(2 * as_double((model.heads - model.kv_heads) * model.head_dim), 0);
  }
  block.linear("self_attention.dense", hidden, hidden, has_bias);
  if (is_parallel) {
    block.residual();
  } else {
    drop_and_add(block, config.number_or("attention_dropout", 0), hidden);
    block.norm(Norm::kLayer, "post_attention_layernorm", hidden);
  }
  older_mlp(block, {"mlp.dense_h_to_4h", "mlp.dense_4h_to_h", has_bias}, model, act);
  drop_and_add(block, config.number_or("hidden_dropout", 0), hidden);
  append_layers(model, layers, block.take());
  older_head(config, model, Norm::kLayer, top + "ln_f");
}

void read_gpt_neox(HubConfig& config, ModelSpec& model) {
  config.check_class("GPTNeoX", {"Model", "ForCausalLM", "ForSequenceClassification",
                                 "ForTokenClassification", "ForQuestionAnswering"});
  const std::int64_t layers = read_later_sizes(config, model);
  model.intermediate = config.positive_or({"intermediate_size"}, 24576, kMaxIntermediate);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 2048, kMaxPositions);
  model.tied_embeddings = config.is(kUntiedUnlessTrue);
  const bool is_parallel = config.is({"use_parallel_residual", true});
  const bool has_bias = config.is({"attention_bias", true});
  const double dropped = config.number_or("hidden_dropout", 0);
  const PlainActivation act = plain_activation(config.text_or("hidden_act", "gelu"));
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "gpt_neox.");
  older_embedding(model, top, "embed_in", "", dropped);

  LayerBuilder block("block", top + "layers.{}.", hidden);
  if (is_parallel) {
    norms_of_one_stream(block, Norm::kLayer, "input_layernorm", "post_attention_layernorm", hidden);
  } else {
    block.norm(Norm::kLayer, "input_layernorm", hidden);
  }
  block.linear("attention.query_key_value", hidden, 3 * hidden, has_bias);
  keep_before_rotation(block, model);
  partial_rotary(block, model, rotated_columns(config, "rotary_pct", 0.25, model.head_dim));
  block.attention(older_attention(model));
  block.linear("attention.dense", hidden, hidden, has_bias);
  drop_and_add(block, dropped, hidden);
  if (!is_parallel) block.norm(Norm::kLayer, "post_attention_layernorm", hidden);
  older_mlp(block, {"mlp.dense_h_to_4h", "mlp.dense_4h_to_h"}, model, act);
  drop_and_add(block, dropped, hidden);
  append_layers(model, layers, block.take());
  older_head(config, model, Norm::kLayer, top + "final_layer_norm");
}

void read_gptj(HubConfig& config, ModelSpec& model) {
  config.check_class("GPTJ",
                     {"Model", "ForCausalLM", "ForSequenceClassification", "ForQuestionAnswering"});
  if (config.head() == Head::kAnswer) static_cast<void>(config.answer_labels());
  read_side_by_side(config, model, false);
}

void read_codegen(HubConfig& config, ModelSpec& model) {
  config.check_class("CodeGen", {"Model", "ForCausalLM"});
  read_side_by_side(config, model, true);
}

void read_gpt_neo(HubConfig& config, ModelSpec& model) {
  config.check_class("GPTNeo", {"Model", "ForCausalLM", "ForSequenceClassification",
                                "ForTokenClassification", "ForQuestionAnswering"});
  const std::int64_t layers =
      read_older_sizes(config, model, {"hidden_size"}, {"num_layers", "num_hidden_layers"},
                       {"num_heads", "num_attention_heads"});
  model.intermediate =
      config.positive_or({"intermediate_size"}, 4 * model.hidden, kMaxIntermediate);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 2048, kMaxPositions);
  model.tied_embeddings = config.is(kTiedUnlessFalse);
  const std::int64_t window = config.positive_or({"window_size"}, 256, kMaxPositions);
  const double dropped = config.number_or("resid_dropout", 0);
  const PlainActivation act = plain_activation(config.text_or("activation_function", "gelu_new"));
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "transformer.");
  older_embedding(model, top, "wte", "wpe", config.number_or("embed_dropout", 0));

  for (const bool is_local : read_local_layers(config, layers)) {
    LayerBuilder block(is_local ? "local block" : "block", top + "h.{}.", hidden);
    block.norm(Norm::kLayer, "ln_1", hidden);
    for (const std::string_view name : {"k_proj", "v_proj", "q_proj"}) {
      block.linear(fmt::format("attn.attention.{}", name), hidden, hidden, false);
    }
    block.attention(older_attention(model, is_local ? window : 0));
    eager_scores(block, model);
    keep_wide_queries(block, model);
    block.linear("attn.attention.out_proj", hidden, hidden, true);
    drop_and_add(block, dropped, hidden);
    block.norm(Norm::kLayer, "ln_2", hidden);
    older_mlp(block, {"mlp.c_fc", "mlp.c_proj"}, model, act);
    drop_and_add(block, dropped, hidden);
    append_layer(model, block.take());
  }
  older_head(config, model, Norm::kLayer, top + "ln_f");
}

void read_gpt_bigcode(HubConfig& config, ModelSpec& model) {
  config.check_class("GPTBigCode", {"Model", "ForCausalLM", "ForSequenceClassification",
                                    "ForTokenClassification"});
  const std::int64_t layers = read_gpt_sizes(config, model);
  if (config.is({"multi_query", true})) model.kv_heads = 1;
  if (config.is({"add_cross_attention", false})) {
    config.fail("add_cross_attention", "expected false: cross-attention is not supported");
  }
  model.max_positions =
      config.positive_or({"n_positions", "max_position_embeddings"}, 1024, kMaxPositions);
  model.tied_embeddings = config.is(kTiedUnlessFalse);
  const double dropped = config.number_or("resid_pdrop", 0.1);
  const PlainActivation act =
      plain_activation(config.text_or("activation_function", "gelu_pytorch_tanh"));
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "transformer.");
  older_embedding(model, top, "wte", "wpe", config.number_or("embd_pdrop", 0.1));

  LayerBuilder block("block", top + "h.{}.", hidden);
  block.norm(Norm::kLayer, "ln_1", hidden);
  block.linear("attn.c_attn", hidden, hidden + 2 * model.kv_heads * model.head_dim, true);
  block.attention(older_attention(model));
  block.linear("attn.c_proj", hidden, hidden, true);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayer, "ln_2", hidden);
  older_mlp(block, {"mlp.c_fc", "mlp.c_proj"}, model, act);
  drop_and_add(block, dropped, hidden);
  append_layers(model, layers, block.take());
  older_head(config, model, Norm::kLayer, top + "ln_f");
}

void read_phi(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "Phi", {"Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification"});
  const std::int64_t layers = read_later_sizes(config, model);
  model.intermediate = config.positive_or({"intermediate_size"}, 8192, kMaxIntermediate);
  model.kv_heads = config.positive_or({"num_key_value_heads"}, model.heads, kMaxHeads);
  check_kv_heads(config, "num_key_value_heads", model.kv_heads, "num_attention_heads", model.heads);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 2048, kMaxPositions);
  model.tied_embeddings = config.is(kUntiedUnlessTrue);
  const bool has_qk_norm = config.is({"qk_layernorm", false});
  const std::int64_t head_dim = config.positive_or({"head_dim"}, model.head_dim, kMaxHeadDim);
  if (has_qk_norm && head_dim != model.head_dim) {
    config.fail("head_dim", "expected hidden_size / num_attention_heads, which qk_layernorm has");
  }
  model.head_dim = head_dim;
  const double dropped = config.number_or("resid_pdrop", 0);
  const PlainActivation act = plain_activation(config.text_or("hidden_act", "gelu_new"));
  const std::int64_t hidden = model.hidden;
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  const std::string top = older_prefix(config, "model.");
  older_embedding(model, top, "embed_tokens", "", config.number_or("embd_pdrop", 0));

  LayerBuilder block("block", top + "layers.{}.", hidden);
  block.norm(Norm::kLayer, "input_layernorm", hidden);
  block.linear("self_attn.q_proj", hidden, queries, true);
  block.linear("self_attn.k_proj", hidden, keys, true);
  block.linear("self_attn.v_proj", hidden, keys, true);
  if (has_qk_norm) older_qk_norm(block, model);
  partial_rotary(block, model,
                 rotated_columns(config, "partial_rotary_factor", 0.5, model.head_dim));
  block.attention(older_attention(model));
  block.linear("self_attn.dense", queries, hidden, true);
  drop(block, dropped, hidden);
  older_mlp(block, {"mlp.fc1", "mlp.fc2"}, model, act);
  drop_and_add(block, dropped, hidden);
  block.residual();
  append_layers(model, layers, block.take());

  LayerBuilder head("head", "", hidden);
  head.norm(Norm::kLayer, top + "final_layernorm", hidden);
  add_head(config, model, head, hidden, true);
  model.head = head.take();
}

void read_stablelm(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "StableLm", {"Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification"});
  const std::int64_t layers = read_later_sizes(config, model);
  model.intermediate = config.positive_or({"intermediate_size"}, 6912, kMaxIntermediate);
  model.gated_mlp = true;
  model.kv_heads = config.positive_or({"num_key_value_heads"}, 32, kMaxHeads);
  check_kv_heads(config, "num_key_value_heads", model.kv_heads, "num_attention_heads", model.heads);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 4096, kMaxPositions);
  model.tied_embeddings = config.is(kUntiedUnlessTrue);
  const bool has_bias = config.is({"use_qkv_bias", false});
  const bool is_parallel = config.is({"use_parallel_residual", false});
  const std::int64_t hidden = model.hidden;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  const std::string top = older_prefix(config, "model.");
  older_embedding(model, top, "embed_tokens", "", 0);

  LayerBuilder block("block", top + "layers.{}.", hidden);
  block.norm(Norm::kLayer, "input_layernorm", hidden);
  block.linear("self_attn.q_proj", hidden, hidden, has_bias);
  block.linear("self_attn.k_proj", hidden, keys, has_bias);
  block.linear("self_attn.v_proj", hidden, keys, has_bias);
  if (config.is({"qk_layernorm", false})) {
    // Each head is a module of its own.
    const auto norms = [&](std::string_view name, std::int64_t heads) {
      for (std::int64_t i = 0; i < heads; ++i) {
        block.norm(Norm::kLayerNoBias, fmt::format("self_attn.{}.norms.{}", name, i),
                   model.head_dim);
      }
    };
    norms("q_layernorm", model.heads);
    norms("k_layernorm", model.kv_heads);
    block.keep(-as_double(hidden + keys), 0);  // what they return is rotated, and not kept
  }
  partial_rotary(block, model,
                 rotated_columns(config, "partial_rotary_factor", 0.25, model.head_dim));
  block.attention(older_attention(model));
  block.linear("self_attn.o_proj", hidden, hidden, false);
  block.residual();
  if (!is_parallel) block.norm(Norm::kLayer, "post_attention_layernorm", hidden);
  block.linear("mlp.gate_proj", hidden, model.intermediate, false);
  block.linear("mlp.up_proj", hidden, model.intermediate, false);
  block.gate(as_double(model.intermediate));
  block.linear("mlp.down_proj", model.intermediate, hidden, false);
  drop_and_add(block, config.number_or("hidden_dropout", 0), hidden);
  append_layers(model, layers, block.take());

  LayerBuilder head("head", "", hidden);
  head.norm(Norm::kLayer, top + "norm", hidden);
  add_head(config, model, head, hidden);
  model.head = head.take();
}

void read_persimmon(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "Persimmon", {"Model", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification"});
  const std::int64_t layers = read_later_sizes(config, model);
  model.intermediate = config.positive_or({"intermediate_size"}, 16384, kMaxIntermediate);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 16384, kMaxPositions);
  model.tied_embeddings = config.is(kUntiedUnlessTrue);
  const PlainActivation act = plain_activation(config.text_or("hidden_act", "relu2"));
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "model.");
  older_embedding(model, top, "embed_tokens", "", 0);

  LayerBuilder block("block", top + "layers.{}.", hidden);
  block.norm(Norm::kLayer, "input_layernorm", hidden);
  block.linear("self_attn.query_key_value", hidden, 3 * hidden, true);
  if (config.is({"qk_layernorm", true})) {
    older_qk_norm(block, model);
  } else {
    keep_before_rotation(block, model);
  }
  partial_rotary(block, model,
                 rotated_columns(config, "partial_rotary_factor", 0.5, model.head_dim));
  block.attention(older_attention(model));
  block.linear("self_attn.dense", hidden, hidden, true);
  block.residual();
  block.norm(Norm::kLayer, "post_attention_layernorm", hidden);
  older_mlp(block, {"mlp.dense_h_to_4h", "mlp.dense_4h_to_h"}, model, act);
  drop_and_add(block, config.number_or("hidden_dropout", 0), hidden);
  append_layers(model, layers, block.take());

  LayerBuilder head("head", "", hidden);
  head.norm(Norm::kLayer, top + "final_layernorm", hidden);
  add_head(config, model, head, hidden);
  model.head = head.take();
}

void read_mpt(HubConfig& config, ModelSpec& model) {
  config.check_class("Mpt", {"Model", "ForCausalLM", "ForSequenceClassification",
                             "ForTokenClassification", "ForQuestionAnswering"});
  const std::int64_t layers =
      read_older_sizes(config, model, {"d_model", "hidden_size"}, {"n_layers", "num_hidden_layers"},
                       {"n_heads", "num_attention_heads"});
  model.intermediate = 4 * model.hidden;  // whatever expansion_ratio says
  model.max_positions = config.positive_or({"max_seq_len"}, 2048, kMaxPositions);
  model.tied_embeddings = config.is(kTiedUnlessFalse);
  const double dropped = config.has("attn_config")
                             ? config.below("attn_config", config.head()).number_or("attn_pdrop", 0)
                             : 0;
  const std::int64_t hidden = model.hidden;
  const std::string top = older_prefix(config, "transformer.");
  older_embedding(model, top, "wte", "", 0);

  LayerBuilder block("block", top + "blocks.{}.", hidden);
  block.norm(Norm::kLayerNoBias, "norm_1", hidden);
  block.linear("attn.Wqkv", hidden, 3 * hidden, false);
  block.attention(older_attention(model));
  eager_scores(block, model);
  block.linear("attn.out_proj", hidden, hidden, false);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayerNoBias, "norm_2", hidden);
  older_mlp(block, {"ffn.up_proj", "ffn.down_proj", false}, model, plain_activation("gelu"));
  drop_and_add(block, dropped, hidden);
  append_layers(model, layers, block.take());
  older_head(config, model, Norm::kLayerNoBias, top + "norm_f");
}

void read_dbrx(HubConfig& config, ModelSpec& model) {
  config.check_class("Dbrx", {"Model", "ForCausalLM"});
  if (!config.has("d_model")) config.fail("d_model", "missing: its experts know no other name");
  const std::int64_t layers =
      read_older_sizes(config, model, {"d_model", "hidden_size"}, {"n_layers", "num_hidden_layers"},
                       {"n_heads", "num_attention_heads"});
  HubConfig attention = config.below("attn_config", config.head());
  HubConfig experts = config.below("ffn_config", config.head());
  model.kv_heads = attention.positive_or({"kv_n_heads"}, 1, kMaxHeads);
  check_kv_heads(attention, "kv_n_heads", model.kv_heads, "n_heads", model.heads);
  model.intermediate = experts.positive_or({"ffn_hidden_size"}, 3584, kMaxIntermediate);
  model.gated_mlp = true;
  model.max_positions =
      config.positive_or({"max_seq_len", "max_position_embeddings"}, 2048, kMaxPositions);
  model.tied_embeddings = config.is(kUntiedUnlessTrue);
  if (model.tied_embeddings) {
    config.fail("tie_word_embeddings", "expected false: the family has no tied embeddings");
  }
  const std::int64_t count = experts.positive_or({"moe_num_experts"}, 4, kMaxExperts);
  const std::int64_t top_k = experts.positive_or({"moe_top_k"}, 1, kMaxExperts);
  if (top_k > count) {
    experts.fail("moe_top_k",
                 fmt::format("expected at most the {} experts, found {}", count, top_k));
  }
  const double dropped = config.number_or("resid_pdrop", 0);
  const std::int64_t hidden = model.hidden;
  const std::int64_t qkv = hidden + 2 * model.kv_heads * model.head_dim;
  const std::string top = older_prefix(config, "transformer.");
  older_embedding(model, top, "wte", "", config.number_or("emb_pdrop", 0));

  LayerBuilder block("block", top + "blocks.{}.", hidden);
  block.norm(Norm::kLayerNoBias, "norm_attn_norm.norm_1", hidden);
  block.linear("norm_attn_norm.attn.Wqkv", hidden, qkv, false);
  // Clamped, which keeps its input.
  block.activation(ChainKind::kActivation, as_double(qkv), 1);
  keep_before_rotation(block, model);
  older_rotary(block, model, model.head_dim);
  block.attention(older_attention(model));
  block.linear("norm_attn_norm.attn.out_proj", hidden, hidden, false);
  drop_and_add(block, dropped, hidden);
  block.norm(Norm::kLayerNoBias, "norm_attn_norm.norm_2", hidden);
  block.linear("ffn.router.layer", hidden, count, false);
  const Sharing sharing{count, as_double(top_k) / as_double(count)};
  const auto stacked = [&](std::string_view name, std::int64_t in, std::int64_t out) {
    block.tensor(fmt::format("ffn.experts.mlp.{}", name), {count * model.intermediate, hidden});
    block.product(name, in, out, sharing);
  };
  stacked("w1", hidden, model.intermediate);
  stacked("v1", hidden, model.intermediate);
  block.gate(as_double(top_k * model.intermediate));
  stacked("w2", model.intermediate, hidden);
  // Tokens sorted by expert, and results with their weights.
  block.chain(ChainKind::kEmbedding, as_double(top_k * hidden));
  block.chain(ChainKind::kResidual, as_double(top_k * hidden));
  block.keep(2 * as_double(top_k * hidden), 4 * as_double(count));
  drop_and_add(block, dropped, hidden);
  append_layers(model, layers, block.take());
  older_head(config, model, Norm::kLayerNoBias, top + "norm_f");
}

void read_internlm3(HubConfig& config, ModelSpec& model) {
  config.check_class("InternLM3", {"Model", "ForCausalLM"}, "Llama");
  // Llama's network; each bias has two names, and all must agree.
  bool has_bias = false;
  for (const std::string_view key : {"attention_bias", "qkv_bias", "mlp_bias", "bias"}) {
    has_bias = has_bias || config.is({key, false});
  }
  const auto needs = [&](std::string_view key, std::string_view alias) {
    if (has_bias && !config.is({key, false}) && !config.is({alias, false})) {
      config.fail(key, "expected the same as of the other biases");
    }
  };
  needs("attention_bias", "qkv_bias");
  needs("mlp_bias", "bias");
  DecoderRow row = *find_decoder_row("llama");
  row.qkv_bias = {"", has_bias};
  row.output_bias = {"", has_bias};
  row.mlp_bias = {"", has_bias};
  row.head_dim = 128;
  row.kv_heads = 2;
  read_decoder(config, row, older_prefix(config, "model."), model);
}

}  // namespace zenflow::sim::hub
