#include "sim/config/hub/encoders.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/config/hub/decoder.h"

namespace zenflow::sim::hub {
namespace {

constexpr Switch kTiedWords{"tie_word_embeddings", true};
constexpr std::int64_t kMaxImage = 1 << 14;
constexpr std::int64_t kMaxPatch = 1 << 12;
constexpr std::int64_t kMaxTypes = 1 << 10;
constexpr std::int64_t kMaxChannels = 1 << 8;
constexpr std::int64_t kMaxConvolution = 1 << 8;
constexpr std::int64_t kMaxRatio = 1 << 4;

/// What all encoders have.
struct EncoderSizes {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t intermediate = 0;
  std::int64_t embedding = 0;  ///< width of the token embedding
  double dropped = 0;          ///< probability of dropout of what sublayers return
  PlainActivation act;
  bool causal = false;
};

Attention encoder_attention(const ModelSpec& model, bool causal, std::int64_t window = 0) {
  return {.heads = model.heads,
          .kv_heads = model.heads,
          .head_dim = model.head_dim,
          .value_dim = model.head_dim,
          .window = window,
          .causal = causal};
}

/// Sizes under BERT's names. The heads divide the hidden size.
EncoderSizes read_encoder_sizes(HubConfig& config, ModelSpec& model, std::int64_t intermediate,
                                std::string_view act) {
  EncoderSizes sizes;
  sizes.hidden = config.size({"hidden_size"}, kMaxHidden);
  sizes.layers = config.size({"num_hidden_layers"}, kMaxLayers);
  sizes.intermediate = config.positive_or({"intermediate_size"}, intermediate, kMaxIntermediate);
  sizes.embedding = sizes.hidden;
  sizes.act = plain_activation(config.text_or("hidden_act", act));
  model.heads = config.size({"num_attention_heads"}, kMaxHeads);
  model.kv_heads = model.heads;
  model.head_dim =
      head_dim_of(config, "hidden_size", sizes.hidden, "num_attention_heads", model.heads);
  model.hidden = sizes.hidden;
  model.intermediate = sizes.intermediate;
  model.embedding_dim = sizes.hidden;
  return sizes;
}

/// Sizes of an encoder of text: with a vocabulary, and a head to it if it has one.
EncoderSizes read_text_sizes(HubConfig& config, ModelSpec& model, std::int64_t intermediate,
                             std::int64_t positions = 512) {
  EncoderSizes sizes = read_encoder_sizes(config, model, intermediate, "gelu");
  sizes.dropped = config.number_or("hidden_dropout_prob", 0.1);
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.max_positions = config.positive_or({"max_position_embeddings"}, positions, kMaxPositions);
  model.tied_embeddings = config.is(kTiedWords);
  return sizes;
}

/// As decoders, these attend to what came before; cross-attention is refused.
bool read_is_decoder(HubConfig& config) {
  if (config.is({"add_cross_attention", false})) {
    config.fail("add_cross_attention", "expected false: cross-attention is not supported");
  }
  return config.is({"is_decoder", false});
}

void encoder_drop(LayerBuilder& block, double probability, std::int64_t width) {
  if (probability > 0) block.dropout(as_double(width));
}

/// A product of one token of each sequence: its weights are there, its time is left out.
void pooled_linear(LayerBuilder& head, std::string_view name, std::int64_t in, std::int64_t out,
                   bool has_bias = true) {
  head.tensor(fmt::format("{}.weight", name), {out, in});
  if (has_bias) head.tensor(fmt::format("{}.bias", name), {out});
}

void pooled_norm(LayerBuilder& head, std::string_view name, std::int64_t width) {
  head.tensor(fmt::format("{}.weight", name), {width});
  head.tensor(fmt::format("{}.bias", name), {width});
}

/// What the embedding of a text encoder sums, and where: names below the model's prefix.
struct TextEmbedding {
  std::string_view words = "embeddings.word_embeddings";
  std::string_view positions = "embeddings.position_embeddings";  ///< empty: none
  std::int64_t position_rows = 0;
  std::string_view types = "embeddings.token_type_embeddings";
  std::int64_t type_rows = 0;                      ///< 0: none
  std::string_view norm = "embeddings.LayerNorm";  ///< empty: none
};

/// The table of token embeddings and what is added to it, up to the norm's width.
void add_tables(LayerBuilder& embedding, const ModelSpec& model, const TextEmbedding& names,
                std::int64_t width) {
  embedding.tensor(fmt::format("{}.weight", names.words), {model.vocab, width});
  embedding.chain(ChainKind::kEmbedding, as_double(width));
  const auto table = [&](std::string_view name, std::int64_t rows) {
    embedding.tensor(fmt::format("{}.weight", name), {rows, width});
    embedding.chain(ChainKind::kResidual, as_double(width));
  };
  if (!names.positions.empty() && names.position_rows > 0) {
    table(names.positions, names.position_rows);
  }
  if (names.type_rows > 0) table(names.types, names.type_rows);
}

/// The embedding of BERT: sum, norm, dropout.
void text_embedding(ModelSpec& model, const EncoderSizes& sizes, const std::string& top,
                    const TextEmbedding& names) {
  LayerBuilder embedding("embedding", top, sizes.embedding);
  add_tables(embedding, model, names, sizes.embedding);
  if (!names.norm.empty()) embedding.norm(Norm::kLayer, names.norm, sizes.embedding);
  encoder_drop(embedding, sizes.dropped, sizes.embedding);
  model.learned_positions = names.position_rows > 0;
  model.embedding_dim = sizes.embedding;
  model.embedding = embedding.take();
}

/// Names of a block as BERT's.
struct BlockNames {
  std::array<std::string_view, 3> qkv;
  std::string_view output;
  std::string_view attention_norm;
  std::string_view up;
  std::string_view down;
  std::string_view mlp_norm;
  bool drops_attention = true;  ///< what attention returns
  bool drops_mlp = true;        ///< what the MLP returns
};

constexpr BlockNames kBertBlock{
    .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
    .output = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "output.LayerNorm"};
constexpr BlockNames kMegatronBlock{
    .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
    .output = "attention.output.dense",
    .attention_norm = "attention.ln",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "ln"};
constexpr BlockNames kXlmRobertaXlBlock{
    .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
    .output = "attention.output.dense",
    .attention_norm = "attention.self_attn_layer_norm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "LayerNorm",
    .drops_mlp = false};
/// RoBERTa-PreLayerNorm's: the norm before the MLP stands in its first part.
constexpr BlockNames kPreLayerNormBlock{
    .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
    .output = "attention.output.dense",
    .attention_norm = "attention.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "intermediate.LayerNorm"};
constexpr BlockNames kEsmBlock{
    .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
    .output = "attention.output.dense",
    .attention_norm = "attention.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "LayerNorm"};
constexpr BlockNames kDebertaBlock{
    .qkv = {"attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"},
    .output = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "output.LayerNorm"};
constexpr BlockNames kMpnetBlock{
    .qkv = {"attention.attn.q", "attention.attn.k", "attention.attn.v"},
    .output = "attention.attn.o",
    .attention_norm = "attention.LayerNorm",
    .up = "intermediate.dense",
    .down = "output.dense",
    .mlp_norm = "output.LayerNorm"};
constexpr BlockNames kDistilbertBlock{
    .qkv = {"attention.q_lin", "attention.k_lin", "attention.v_lin"},
    .output = "attention.out_lin",
    .attention_norm = "sa_layer_norm",
    .up = "ffn.lin1",
    .down = "ffn.lin2",
    .mlp_norm = "output_layer_norm",
    .drops_attention = false};
constexpr BlockNames kAlbertBlock{.qkv = {"attention.query", "attention.key", "attention.value"},
                                  .output = "attention.dense",
                                  .attention_norm = "attention.LayerNorm",
                                  .up = "ffn",
                                  .down = "ffn_output",
                                  .mlp_norm = "full_layer_layer_norm"};

void post_norm_block(LayerBuilder& block, const ModelSpec& model, const EncoderSizes& sizes,
                     const BlockNames& names) {
  const std::int64_t hidden = sizes.hidden;
  for (const std::string_view name : names.qkv) block.linear(name, hidden, hidden, true);
  block.attention(encoder_attention(model, sizes.causal));
  block.linear(names.output, hidden, hidden, true);
  if (names.drops_attention) encoder_drop(block, sizes.dropped, hidden);
  block.residual();
  block.norm(Norm::kLayer, names.attention_norm, hidden);
  block.linear(names.up, hidden, sizes.intermediate, true);
  block.activation(sizes.act.kind, as_double(sizes.intermediate), sizes.act.kept);
  block.linear(names.down, sizes.intermediate, hidden, true);
  encoder_drop(block, sizes.dropped, hidden);
  block.residual();
  block.norm(Norm::kLayer, names.mlp_norm, hidden);
}

/// The same parts with the norms before attention and before the MLP.
void pre_norm_block(LayerBuilder& block, const ModelSpec& model, const EncoderSizes& sizes,
                    const BlockNames& names) {
  const std::int64_t hidden = sizes.hidden;
  block.norm(Norm::kLayer, names.attention_norm, hidden);
  for (const std::string_view name : names.qkv) block.linear(name, hidden, hidden, true);
  block.attention(encoder_attention(model, sizes.causal));
  block.linear(names.output, hidden, hidden, true);
  encoder_drop(block, sizes.dropped, hidden);
  block.residual();
  block.norm(Norm::kLayer, names.mlp_norm, hidden);
  block.linear(names.up, hidden, sizes.intermediate, true);
  block.activation(sizes.act.kind, as_double(sizes.intermediate), sizes.act.kept);
  block.linear(names.down, sizes.intermediate, hidden, true);
  if (names.drops_mlp) encoder_drop(block, sizes.dropped, hidden);
  block.residual();
}

/// Names of a head that predicts masked tokens: a product, an activation, a norm, the vocabulary.
struct MaskedHead {
  std::string_view dense;
  std::string_view norm;
  std::string_view decoder;
  std::string_view bias = {};  ///< of the vocabulary, if the decoder's own is tied to it
  bool decoder_bias = true;    ///< the decoder has its own, if it is not tied
};

void masked_head(LayerBuilder& head, ModelSpec& model, const EncoderSizes& sizes,
                 const MaskedHead& names) {
  const std::int64_t width = sizes.embedding;
  head.linear(names.dense, sizes.hidden, width, true);
  // Its result is the norm's input, which the norm counts.
  head.activation(sizes.act.kind, as_double(width), sizes.act.kept - 1);
  head.norm(Norm::kLayer, names.norm, width);
  model.outputs = model.vocab;
  model.narrow_loss = !sizes.causal;  // decoders' classes cast them
  if (!names.bias.empty()) head.tensor(names.bias, {model.vocab});
  if (!model.tied_embeddings) {
    head.linear(names.decoder, width, model.vocab, names.decoder_bias);
    return;
  }
  head.product(names.decoder, width, model.vocab);
  if (names.bias.empty()) head.tensor(fmt::format("{}.bias", names.decoder), {model.vocab});
}

constexpr MaskedHead kBertMasked{"cls.predictions.transform.dense",
                                 "cls.predictions.transform.LayerNorm", "cls.predictions.decoder",
                                 "cls.predictions.bias"};
constexpr MaskedHead kRobertaMasked{"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder",
                                    "lm_head.bias"};

/// A classifier of every token.
void token_head(HubConfig& config, ModelSpec& model, LayerBuilder& head, std::string_view name,
                std::int64_t hidden) {
  model.outputs = config.head() == Head::kAnswer ? config.answer_labels() : config.labels();
  head.linear(name, hidden, model.outputs, true);
}

/// A classifier of one token of each sequence.
void sequence_head(HubConfig& config, ModelSpec& model, LayerBuilder& head, std::string_view name,
                   std::int64_t hidden) {
  model.outputs = config.labels();
  pooled_linear(head, name, hidden, model.outputs);
}

/// RoBERTa's: a product before the classifier.
void two_step_head(HubConfig& config, ModelSpec& model, LayerBuilder& head, std::int64_t hidden) {
  pooled_linear(head, "classifier.dense", hidden, hidden);
  sequence_head(config, model, head, "classifier.out_proj", hidden);
}

/// What the heads of a text encoder are made of.
struct TextHeads {
  MaskedHead masked;
  std::string_view pooler = {};      ///< of the bare model, below its prefix; empty: none
  bool classifies_pooled = false;    ///< ForSequenceClassification has the pooler, and one product
  std::string_view final_norm = {};  ///< of the last block's stream, below the prefix; empty: none
};

std::string encoder_prefix(const HubConfig& config, std::string_view of_head) {
  return config.head() == Head::kNone ? "" : std::string(of_head);
}

void text_heads(HubConfig& config, ModelSpec& model, const EncoderSizes& sizes,
                const std::string& top, const TextHeads& heads) {
  const std::int64_t hidden = sizes.hidden;
  LayerBuilder head("head", "", hidden);
  if (!heads.final_norm.empty()) {
    head.norm(Norm::kLayer, top + std::string(heads.final_norm), hidden);
  }
  const bool pools = config.head() == Head::kNone || config.head() == Head::kPreTraining ||
                     (config.head() == Head::kSequence && heads.classifies_pooled);
  if (pools && !heads.pooler.empty()) {
    pooled_linear(head, top + std::string(heads.pooler), hidden, hidden);
  }
  switch (config.head()) {
    case Head::kNone:
    case Head::kImage:
    case Head::kEncoder:
      break;
    case Head::kLanguage:
    case Head::kPreTraining:
      masked_head(head, model, sizes, heads.masked);
      break;
    case Head::kSequence:
      if (heads.classifies_pooled) {
        sequence_head(config, model, head, "classifier", hidden);
      } else {
        two_step_head(config, model, head, hidden);
      }
      break;
    case Head::kTokens:
      token_head(config, model, head, "classifier", hidden);
      break;
    case Head::kAnswer:
      token_head(config, model, head, "qa_outputs", hidden);
      break;
  }
  model.head = head.take();
}

/// Appends to the head's tensors.
void add_pooled(ModelSpec& model, std::string_view name, std::int64_t in, std::int64_t out) {
  model.head.tensors.push_back({fmt::format("{}.weight", name), {out, in}});
  model.head.tensors.push_back({fmt::format("{}.bias", name), {out}});
}

/// Largest sequence of a table whose first rows, up to the padding's, are no positions.
std::int64_t positions_after(const HubConfig& config, std::int64_t rows, std::int64_t padding) {
  if (rows <= padding + 1) {
    config.fail("max_position_embeddings",
                fmt::format("expected more than the {} rows of padding", padding + 1));
  }
  return rows - padding - 1;
}

/// What the families around RoBERTa do differently.
struct RobertaFamily {
  std::string_view classes;
  std::string_view prefix = "roberta.";
  bool makes_head_first = false;  ///< a class with a head to the vocabulary, before the model
  const BlockNames* norms_first = nullptr;  ///< a block that has its norms first
  std::string_view final_norm = {};         ///< after its last one
  bool embedding_norm = true;
  std::int64_t intermediate = 3072;
  std::int64_t positions = 512;
  std::int64_t types = 2;
};

void read_roberta_class(HubConfig& config, ModelSpec& model, const RobertaFamily& family) {
  config.check_class(family.classes,
                     {"Model", "ForMaskedLM", "ForCausalLM", "ForSequenceClassification",
                      "ForTokenClassification", "ForQuestionAnswering"});
  EncoderSizes sizes = read_text_sizes(config, model, family.intermediate, family.positions);
  sizes.causal = read_is_decoder(config);
  const std::int64_t rows = model.max_positions;
  model.max_positions =
      positions_after(config, rows, config.size_or({"pad_token_id"}, 1, kMaxVocab));
  const std::string top = encoder_prefix(config, family.prefix);
  text_embedding(model, sizes, top,
                 {.position_rows = rows,
                  .type_rows = config.positive_or({"type_vocab_size"}, family.types, kMaxTypes),
                  .norm = family.embedding_norm ? "embeddings.LayerNorm" : ""});
  if (family.makes_head_first && config.head() == Head::kLanguage && model.tied_embeddings) {
    // PyTorch calls a shared tensor by the first of its names.
    model.embedding.tensors.front().name = "lm_head.decoder.weight";
  }
  LayerBuilder block("block", top + "encoder.layer.{}.", sizes.hidden);
  if (family.norms_first != nullptr) {
    pre_norm_block(block, model, sizes, *family.norms_first);
  } else {
    post_norm_block(block, model, sizes, kBertBlock);
  }
  append_layers(model, sizes.layers, block.take());
  text_heads(config, model, sizes, top,
             {.masked = kRobertaMasked, .pooler = "pooler.dense", .final_norm = family.final_norm});
}

/// Megatron's attention is not fused: its probabilities are kept, and where it drops some, what is
/// left of them and the mask.
void megatron_scores(HubConfig& config, const ModelSpec& model, LayerBuilder& block) {
  const bool drops = config.number_or("attention_probs_dropout_prob", 0.1) > 0;
  block.keep_pairs((drops ? 5 : 2) * as_double(model.heads));
}

/// What the families around BERT do differently.
struct BertFamily {
  std::string_view classes;
  std::string_view prefix = "bert.";
  std::string_view causal = "ForCausalLM";
  bool has_tasks = false;    ///< ERNIE's embedding of the task, if use_task_id is set
  bool norms_first = false;  ///< Megatron's block, with a norm after the last one
};

void read_bert_class(HubConfig& config, ModelSpec& model, const BertFamily& family) {
  config.check_class(family.classes, {"Model", "ForMaskedLM", family.causal, "ForPreTraining",
                                      "ForSequenceClassification", "ForTokenClassification",
                                      "ForQuestionAnswering"});
  EncoderSizes sizes = read_text_sizes(config, model, family.norms_first ? 4096 : 3072);
  sizes.causal = read_is_decoder(config);
  const std::string top = encoder_prefix(config, family.prefix);
  text_embedding(model, sizes, top,
                 {.position_rows = model.max_positions,
                  .type_rows = config.positive_or({"type_vocab_size"}, 2, kMaxTypes),
                  .norm = family.norms_first ? "" : "embeddings.LayerNorm"});
  if (family.has_tasks && config.is({"use_task_id", false})) {
    LayerBuilder tasks("", top, sizes.hidden);
    tasks.tensor("embeddings.task_type_embeddings.weight",
                 {config.positive_or({"task_type_vocab_size"}, 3, kMaxTypes), sizes.hidden});
    tasks.residual();
    append_part(model.embedding, tasks.take());
  }
  LayerBuilder block("block", top + "encoder.layer.{}.", sizes.hidden);
  if (family.norms_first) {
    pre_norm_block(block, model, sizes, kMegatronBlock);
    megatron_scores(config, model, block);
  } else {
    post_norm_block(block, model, sizes, kBertBlock);
  }
  append_layers(model, sizes.layers, block.take());
  text_heads(config, model, sizes, top,
             {.masked = kBertMasked,
              .pooler = "pooler.dense",
              .classifies_pooled = true,
              .final_norm = family.norms_first ? "encoder.ln" : ""});
  if (config.head() == Head::kPreTraining) {
    add_pooled(model, "cls.seq_relationship", sizes.hidden, 2);  // whether two sentences follow
  }
}

/// DeBERTa's attention by distance: learnt rows that queries and keys are multiplied by.
struct Relative {
  std::int64_t rows = 0;     ///< 0: none
  bool of_content = false;   ///< queries by rows: "c2p"
  bool of_position = false;  ///< keys by rows: "p2c"
  bool shares = false;       ///< the projections of queries and keys
  bool has_norm = false;
};

/// The words of a text with "|" between them, or of a list.
std::vector<std::string> listed_words(HubConfig& config, std::string_view key) {
  const auto value = config.map().optional(key);
  if (!value) return {};
  if (!value->node().is_scalar()) return config.texts(key).value_or(std::vector<std::string>());
  std::vector<std::string> words(1);
  for (const char letter : value->string()) {
    if (letter == '|') {
      words.emplace_back();
    } else if (letter != ' ') {
      const bool is_upper = letter >= 'A' && letter <= 'Z';
      words.back().push_back(is_upper ? static_cast<char>(letter - 'A' + 'a') : letter);
    }
  }
  return words;
}

bool has_word(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A key of which anything below 1 means that it is not set.
std::int64_t positive_or_unset(HubConfig& config, std::string_view key, std::int64_t limit) {
  const auto value = config.map().optional(key);
  return value ? std::max<std::int64_t>(0, value->integer(-limit, limit)) : 0;
}

Relative read_relative(HubConfig& config, const ModelSpec& model) {
  Relative relative;
  relative.has_norm = has_word(listed_words(config, "norm_rel_ebd"), "layer_norm");
  if (!config.is({"relative_attention", false})) return relative;
  std::int64_t span = positive_or_unset(config, "position_buckets", kMaxPositions);
  if (span == 0) span = positive_or_unset(config, "max_relative_positions", kMaxPositions);
  if (span == 0) span = model.max_positions;
  relative.rows = 2 * span;
  const std::vector<std::string> kinds = listed_words(config, "pos_att_type");
  relative.of_content = has_word(kinds, "c2p");
  relative.of_position = has_word(kinds, "p2c");
  relative.shares = config.is({"share_att_key", false});
  return relative;
}

/// Its scores are a product of each head with the rows. The rows' own projections are left out of
/// time: they run once for all tokens of a step.
void relative_attention(LayerBuilder& block, const ModelSpec& model, const Relative& relative) {
  if (relative.rows == 0) return;
  const auto scores = [&](std::string_view name, std::string_view projection) {
    if (!relative.shares) {
      pooled_linear(block, fmt::format("attention.self.{}", projection), model.hidden,
                    model.hidden);
    }
    block.product(name, model.head_dim, relative.rows, {model.heads, 1});
  };
  if (relative.of_content) scores("c2p", "pos_key_proj");
  if (relative.of_position) scores("p2c", "pos_query_proj");
}

void deberta_embedding(HubConfig& config, ModelSpec& model, const EncoderSizes& sizes,
                       const Relative& relative, const std::string& top) {
  const bool has_positions = config.is({"position_biased_input", true});
  model.learned_positions = has_positions;
  model.embedding_dim = sizes.embedding;
  LayerBuilder embedding("embedding", top, sizes.hidden);
  add_tables(embedding, model,
             {.position_rows = has_positions ? model.max_positions : 0,
              .type_rows = config.size_or({"type_vocab_size"}, 0, kMaxTypes)},
             sizes.embedding);
  if (sizes.embedding != sizes.hidden) {
    embedding.linear("embeddings.embed_proj", sizes.embedding, sizes.hidden, false);
  }
  embedding.norm(Norm::kLayer, "embeddings.LayerNorm", sizes.hidden);
  encoder_drop(embedding, sizes.dropped, sizes.hidden);
  if (relative.rows > 0) {
    embedding.tensor("encoder.rel_embeddings.weight", {relative.rows, sizes.hidden});
  }
  if (relative.has_norm) pooled_norm(embedding, "encoder.LayerNorm", sizes.hidden);
  model.embedding = embedding.take();
}

/// Beside the first block: a convolution over neighbouring tokens, added to the block's result.
Layer deberta_convolution(HubConfig& config, const EncoderSizes& sizes, const std::string& top) {
  const std::int64_t hidden = sizes.hidden;
  const std::int64_t kernel = config.size_or({"conv_kernel_size"}, 0, kMaxConvolution);
  const std::int64_t groups = config.positive_or({"conv_groups"}, 1, kMaxHidden);
  if (hidden % groups != 0) {
    config.fail("conv_groups",
                fmt::format("expected a divisor of hidden_size ({}), found {}", hidden, groups));
  }
  LayerBuilder conv("", top + "encoder.conv.", hidden);
  conv.tensor("conv.weight", {hidden, hidden / groups, kernel});
  conv.tensor("conv.bias", {hidden});
  conv.product("conv", kernel * (hidden / groups), hidden);
  encoder_drop(conv, sizes.dropped, hidden);
  conv.activation(ChainKind::kActivation, as_double(hidden), 1);
  conv.residual();
  conv.norm(Norm::kLayer, "LayerNorm", hidden);
  return conv.take();
}

void deberta_head(HubConfig& config, ModelSpec& model, const EncoderSizes& sizes,
                  const std::string& top) {
  const std::int64_t hidden = sizes.hidden;
  if (config.head() == Head::kLanguage && !config.is({"legacy", true})) {
    if (sizes.embedding != hidden) {
      config.fail("embedding_size", "expected hidden_size, as the head without \"legacy\" needs");
    }
    // The embedding's own weights, tied or not.
    model.tied_embeddings = true;
    LayerBuilder head("head", "", hidden);
    masked_head(head, model, sizes,
                {"lm_predictions.lm_head.dense", "lm_predictions.lm_head.LayerNorm", "decoder",
                 "lm_predictions.lm_head.bias"});
    model.head = head.take();
    return;
  }
  if (config.head() == Head::kSequence) {
    const std::int64_t pooled = config.positive_or({"pooler_hidden_size"}, hidden, kMaxHidden);
    if (pooled != hidden) {
      config.fail("pooler_hidden_size",
                  fmt::format("expected hidden_size ({}), found {}", hidden, pooled));
    }
    LayerBuilder head("head", "", hidden);
    pooled_linear(head, "pooler.dense", hidden, hidden);
    sequence_head(config, model, head, "classifier", hidden);
    model.head = head.take();
    return;
  }
  text_heads(config, model, sizes, top, {.masked = kBertMasked});
}

/// Tokens to either side that each layer's queries see; 0: all.
std::vector<std::int64_t> read_modernbert_windows(HubConfig& config, std::int64_t layers) {
  // local_attention counts both sides.
  const std::int64_t window = config.positive_or({"local_attention"}, 128, kMaxPositions) / 2;
  const auto types = config.texts("layer_types");
  if (types && std::ssize(*types) != layers) {
    config.fail("layer_types", fmt::format("expected {} types (num_hidden_layers), found {}",
                                           layers, types->size()));
  }
  const std::int64_t period = config.positive_or({"global_attn_every_n_layers"}, 3, kMaxLayers);
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool is_local =
        types ? (*types)[static_cast<std::size_t>(i)] == "sliding_attention" : i % period != 0;
    windows.push_back(is_local ? std::max<std::int64_t>(1, window) : 0);
  }
  return windows;
}

Layer modernbert_block(HubConfig& config, const ModelSpec& model, const EncoderSizes& sizes,
                       Norm norm, const std::string& top, std::int64_t i, std::int64_t window) {
  const std::int64_t hidden = sizes.hidden;
  const bool attention_bias = config.is({"attention_bias", false});
  const bool mlp_bias = config.is({"mlp_bias", false});
  LayerBuilder block(window > 0 ? "local block" : "block", top + "layers.{}.", hidden);
  // The first block's input comes from the embedding's norm.
  if (i > 0) block.norm(norm, "attn_norm", hidden);
  block.linear("attn.Wqkv", hidden, 3 * hidden, attention_bias);
  block.chain(ChainKind::kRotary, as_double(hidden));
  block.chain(ChainKind::kRotary, as_double(hidden));
  block.attention(encoder_attention(model, false, window));
  block.keep(2 * as_double(hidden), 0);  // before rotation: one tensor with the values
  block.linear("attn.Wo", hidden, hidden, attention_bias);
  encoder_drop(block, config.number_or("attention_dropout", 0), hidden);
  block.residual();
  block.norm(norm, "mlp_norm", hidden);
  block.linear("mlp.Wi", hidden, 2 * sizes.intermediate, mlp_bias);
  block.gate(as_double(sizes.intermediate));
  encoder_drop(block, config.number_or("mlp_dropout", 0), sizes.intermediate);
  block.linear("mlp.Wo", sizes.intermediate, hidden, mlp_bias);
  block.residual();
  return block.take();
}

/// All its heads have a product, an activation and a norm before the last product.
void modernbert_head(HubConfig& config, ModelSpec& model, Norm norm, const std::string& top) {
  const std::int64_t hidden = model.hidden;
  LayerBuilder head("head", "", hidden);
  head.norm(norm, top + "final_norm", hidden);
  if (config.head() == Head::kNone) {
    model.head = head.take();
    return;
  }
  const bool has_bias = config.is({"classifier_bias", false});
  const PlainActivation act = plain_activation(config.text_or("classifier_activation", "gelu"));
  if (config.head() == Head::kSequence) {
    pooled_linear(head, "head.dense", hidden, hidden, has_bias);
    head.tensor("head.norm.weight", {hidden});
    if (norm == Norm::kLayer) head.tensor("head.norm.bias", {hidden});
    sequence_head(config, model, head, "classifier", hidden);
    model.head = head.take();
    return;
  }
  head.linear("head.dense", hidden, hidden, has_bias);
  head.activation(act.kind, as_double(hidden), act.kept - 1);
  head.norm(norm, "head.norm", hidden);
  if (config.head() == Head::kLanguage) {
    const bool decoder_bias = config.is({"decoder_bias", true});
    model.outputs = model.vocab;
    if (!model.tied_embeddings) {
      head.linear("decoder", hidden, model.vocab, decoder_bias);
    } else {
      head.product("decoder", hidden, model.vocab);
      if (decoder_bias) head.tensor("decoder.bias", {model.vocab});
    }
  } else {
    token_head(config, model, head, "classifier", hidden);
  }
  model.head = head.take();
}

/// What an image is cut into.
struct Patches {
  std::int64_t count = 0;
  std::int64_t channels = 0;
  std::array<std::int64_t, 2> size = {};
};

/// A size of two dimensions: one number for both, or a list of height and width.
std::array<std::int64_t, 2> read_pair(HubConfig& config, std::string_view key,
                                      std::int64_t otherwise, std::int64_t limit, bool may_differ) {
  const auto value = config.map().optional(key);
  if (!value) return {otherwise, otherwise};
  if (value->node().is_scalar()) {
    const std::int64_t both = value->integer(1, limit);
    return {both, both};
  }
  const std::vector<ValueReader> items = value->items();
  if (!may_differ || items.size() != 2) value->fail("expected one number, or height and width");
  return {items[0].integer(1, limit), items[1].integer(1, limit)};
}

/// `may_differ`: height and width may.
Patches read_patches(HubConfig& config, std::int64_t patch, bool may_differ) {
  Patches patches;
  const auto image = read_pair(config, "image_size", 224, kMaxImage, may_differ);
  patches.size = read_pair(config, "patch_size", patch, kMaxPatch, may_differ);
  patches.channels = config.positive_or({"num_channels"}, 3, kMaxChannels);
  patches.count = (image[0] / patches.size[0]) * (image[1] / patches.size[1]);
  if (patches.count == 0) config.fail("patch_size", "expected at most image_size");
  return patches;
}

/// A convolution whose steps are as wide as its kernel: a product of each patch. And positions.
void patch_stem(LayerBuilder& embedding, std::string_view name, const Patches& patches,
                const ModelSpec& model, bool has_bias) {
  const std::int64_t pixels = patches.channels * patches.size[0] * patches.size[1];
  embedding.tensor(fmt::format("{}.weight", name),
                   {model.hidden, patches.channels, patches.size[0], patches.size[1]});
  if (has_bias) embedding.tensor(fmt::format("{}.bias", name), {model.hidden});
  const double share = as_double(patches.count) / as_double(model.max_positions);
  embedding.product(name, pixels, model.hidden, {1, share});
  embedding.keep(share * as_double(pixels), 0);
  embedding.residual();
  embedding.tokens(model.max_positions);
}

/// Sizes of an encoder of images, which has no head to a vocabulary.
EncoderSizes read_image_sizes(HubConfig& config, ModelSpec& model, std::string_view act) {
  if (config.head() == Head::kLanguage) {
    config.fail("architectures", "expected a class of images, which has no vocabulary");
  }
  EncoderSizes sizes = read_encoder_sizes(config, model, 3072, act);
  sizes.dropped = config.number_or("hidden_dropout_prob", 0);
  return sizes;
}

void image_attention(LayerBuilder& block, const ModelSpec& model, const std::string& at,
                     bool has_bias) {
  const std::int64_t queries = model.heads * model.head_dim;
  for (const std::string_view name : {"q_proj", "k_proj", "v_proj"}) {
    block.linear(fmt::format("{}{}", at, name), model.hidden, queries, has_bias);
  }
  block.attention(encoder_attention(model, false));
  block.linear(at + "o_proj", queries, model.hidden, true);
}

void image_mlp(LayerBuilder& block, const std::string& at, const EncoderSizes& sizes) {
  block.linear(at + "fc1", sizes.hidden, sizes.intermediate, true);
  block.activation(sizes.act.kind, as_double(sizes.intermediate), sizes.act.kept);
  block.linear(at + "fc2", sizes.intermediate, sizes.hidden, true);
}

/// CLIP's and SigLIP's blocks, of text and of images; `tokens`: 0 of text.
void clip_layers(ModelSpec& model, const EncoderSizes& sizes, std::int64_t tokens) {
  const std::int64_t hidden = sizes.hidden;
  LayerBuilder block("block", "encoder.layers.{}.", hidden);
  block.tokens(tokens);
  block.norm(Norm::kLayer, "layer_norm1", hidden);
  for (const std::string_view name : {"k_proj", "v_proj", "q_proj"}) {
    block.linear(fmt::format("self_attn.{}", name), hidden, hidden, true);
  }
  block.attention(encoder_attention(model, sizes.causal));
  block.linear("self_attn.out_proj", hidden, hidden, true);
  block.residual();
  block.norm(Norm::kLayer, "layer_norm2", hidden);
  image_mlp(block, "mlp.", sizes);
  block.residual();
  append_layers(model, sizes.layers, block.take());
}

EncoderSizes read_clip_text_sizes(HubConfig& config, ModelSpec& model, std::int64_t intermediate,
                                  std::int64_t positions, std::string_view act, bool causal) {
  if (config.head() != Head::kNone) {
    config.fail("architectures", "expected a class without a head, as the family has no other");
  }
  EncoderSizes sizes = read_encoder_sizes(config, model, intermediate, act);
  sizes.causal = causal;
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.max_positions = config.positive_or({"max_position_embeddings"}, positions, kMaxPositions);
  text_embedding(model, sizes, "",
                 {.words = "embeddings.token_embedding",
                  .positions = "embeddings.position_embedding",
                  .position_rows = model.max_positions,
                  .norm = ""});
  return sizes;
}

}  // namespace

void read_bert(HubConfig& config, ModelSpec& model) {
  read_bert_class(config, model, {.classes = "Bert", .causal = "LMHeadModel"});
}

void read_ernie(HubConfig& config, ModelSpec& model) {
  read_bert_class(config, model, {.classes = "Ernie", .prefix = "ernie.", .has_tasks = true});
}

void read_megatron_bert(HubConfig& config, ModelSpec& model) {
  read_bert_class(config, model, {.classes = "MegatronBert", .norms_first = true});
}

void read_roberta(HubConfig& config, ModelSpec& model) {
  read_roberta_class(config, model, {.classes = "Roberta"});
}

void read_xlm_roberta(HubConfig& config, ModelSpec& model) {
  read_roberta_class(config, model, {.classes = "XLMRoberta", .makes_head_first = true});
}

void read_xlm_roberta_xl(HubConfig& config, ModelSpec& model) {
  read_roberta_class(config, model,
                     {.classes = "XLMRobertaXL",
                      .norms_first = &kXlmRobertaXlBlock,
                      .final_norm = "encoder.LayerNorm",
                      .embedding_norm = false,
                      .intermediate = 10240,
                      .positions = 514,
                      .types = 1});
}

void read_data2vec_text(HubConfig& config, ModelSpec& model) {
  read_roberta_class(config, model, {.classes = "Data2VecText", .prefix = "data2vec_text."});
}

void read_roberta_prelayernorm(HubConfig& config, ModelSpec& model) {
  read_roberta_class(config, model,
                     {.classes = "RobertaPreLayerNorm",
                      .prefix = "roberta_prelayernorm.",
                      .norms_first = &kPreLayerNormBlock,
                      .final_norm = "LayerNorm"});
}

void read_esm(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "Esm", {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"});
  if (config.is({"is_folding_model", false})) {
    config.fail("is_folding_model", "expected false: ESMFold is not supported");
  }
  EncoderSizes sizes = read_text_sizes(config, model, 3072, 1026);
  sizes.act = {ChainKind::kNewGelu, 4};  // written out: whatever the file says
  sizes.causal = read_is_decoder(config);
  const bool rotates = config.text_or("position_embedding_type", "absolute") == "rotary";
  const std::int64_t hidden = sizes.hidden;
  const std::int64_t rows = rotates ? 0 : model.max_positions;
  if (!rotates) {
    model.max_positions =
        positions_after(config, rows, config.size_or({"pad_token_id"}, 0, kMaxVocab));
  }
  const std::string top = encoder_prefix(config, "esm.");
  EncoderSizes whole = sizes;
  whole.dropped = 0;  // the embedding drops nothing
  text_embedding(
      model, whole, top,
      {.position_rows = rows,
       .norm = config.is({"emb_layer_norm_before", false}) ? "embeddings.layer_norm" : ""});
  LayerBuilder block("block", top + "encoder.layer.{}.", hidden);
  pre_norm_block(block, model, sizes, kEsmBlock);
  if (rotates) {
    block.chain(ChainKind::kRotary, as_double(hidden));
    block.chain(ChainKind::kRotary, as_double(hidden));
  }
  append_layers(model, sizes.layers, block.take());
  text_heads(
      config, model, sizes, top,
      {.masked = {"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias", false},
       .pooler = "pooler.dense",
       .final_norm = "encoder.emb_layer_norm_after"});
  // Of contacts between residues: nothing but predict_contacts runs it.
  add_pooled(model, top + "contact_head.regression", sizes.layers * model.heads, 1);
}

/// A Llama that sees both sides.
void read_eurobert(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "EuroBert", {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"});
  DecoderRow row = *find_decoder_row("llama");
  row.causal = false;
  row.head_bias = row.mlp_bias;
  const std::string top = encoder_prefix(config, "model.");
  if (config.head() == Head::kNone || config.head() == Head::kLanguage) {
    read_decoder(config, row, top, model);
    return;
  }
  HubConfig body(config.map(), Head::kNone);
  read_decoder(body, row, top, model);
  LayerBuilder head("", "", model.hidden);
  if (config.head() == Head::kSequence) {
    pooled_linear(head, "dense", model.hidden, model.hidden);
    sequence_head(config, model, head, "classifier", model.hidden);
  } else {
    token_head(config, model, head, "classifier", model.hidden);
  }
  append_part(model.head, head.take());
}

void read_camembert(HubConfig& config, ModelSpec& model) {
  read_roberta_class(config, model, {.classes = "Camembert", .makes_head_first = true});
}

void read_distilbert(HubConfig& config, ModelSpec& model) {
  config.check_class("DistilBert", {"Model", "ForMaskedLM", "ForSequenceClassification",
                                    "ForTokenClassification", "ForQuestionAnswering"});
  EncoderSizes sizes;
  sizes.hidden = config.same_size({"dim", "hidden_size"}, kMaxHidden);
  sizes.layers = config.same_size({"n_layers", "num_hidden_layers"}, kMaxLayers);
  sizes.intermediate = config.positive_or({"hidden_dim"}, 3072, kMaxIntermediate);
  sizes.embedding = sizes.hidden;
  sizes.dropped = config.number_or("dropout", 0.1);
  sizes.act = plain_activation(config.text_or("activation", "gelu"));
  model.hidden = sizes.hidden;
  model.heads = config.same_size({"n_heads", "num_attention_heads"}, kMaxHeads);
  model.kv_heads = model.heads;
  model.head_dim = head_dim_of(config, "dim", sizes.hidden, "n_heads", model.heads);
  model.intermediate = sizes.intermediate;
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 512, kMaxPositions);
  model.tied_embeddings = config.is(kTiedWords);
  const std::string top = encoder_prefix(config, "distilbert.");
  text_embedding(model, sizes, top, {.position_rows = model.max_positions});
  LayerBuilder block("block", top + "transformer.layer.{}.", sizes.hidden);
  post_norm_block(block, model, sizes, kDistilbertBlock);
  append_layers(model, sizes.layers, block.take());
  text_heads(config, model, sizes, top,
             {.masked = {"vocab_transform", "vocab_layer_norm", "vocab_projector"},
              .classifies_pooled = true});
  if (config.head() == Head::kSequence) {
    add_pooled(model, "pre_classifier", sizes.hidden, sizes.hidden);
  }
}

void read_electra(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "Electra", {"Model", "ForMaskedLM", "ForCausalLM", "ForPreTraining",
                  "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"});
  EncoderSizes sizes = read_text_sizes(config, model, 1024);
  sizes.causal = read_is_decoder(config);
  sizes.embedding = config.positive_or({"embedding_size"}, 128, kMaxHidden);
  const std::int64_t hidden = sizes.hidden;
  const std::string top = encoder_prefix(config, "electra.");
  text_embedding(model, sizes, top,
                 {.position_rows = model.max_positions,
                  .type_rows = config.positive_or({"type_vocab_size"}, 2, kMaxTypes)});
  if (sizes.embedding != hidden) {
    LayerBuilder projection("", top, hidden);
    projection.linear("embeddings_project", sizes.embedding, hidden, true);
    append_part(model.embedding, projection.take());
  }
  LayerBuilder block("block", top + "encoder.layer.{}.", hidden);
  post_norm_block(block, model, sizes, kBertBlock);
  append_layers(model, sizes.layers, block.take());
  if (config.head() == Head::kPreTraining) {
    // Whether each token is the text's own.
    LayerBuilder head("head", "discriminator_predictions.", hidden);
    head.linear("dense", hidden, hidden, true);
    head.activation(sizes.act.kind, as_double(hidden), sizes.act.kept);
    head.linear("dense_prediction", hidden, 1, true);
    model.outputs = 1;
    model.head = head.take();
    return;
  }
  sizes.act = plain_activation("gelu");  // the head's, whatever the blocks have
  text_heads(config, model, sizes, top,
             {.masked = {"generator_predictions.dense", "generator_predictions.LayerNorm",
                         "generator_lm_head"}});
}

void read_albert(HubConfig& config, ModelSpec& model) {
  config.check_class("Albert",
                     {"Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification",
                      "ForTokenClassification", "ForQuestionAnswering"});
  EncoderSizes sizes = read_encoder_sizes(config, model, 16384, "gelu_new");
  sizes.dropped = config.number_or("hidden_dropout_prob", 0);
  sizes.embedding = config.positive_or({"embedding_size"}, 128, kMaxHidden);
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 512, kMaxPositions);
  model.tied_embeddings = config.is(kTiedWords);
  const std::int64_t groups = config.positive_or({"num_hidden_groups"}, 1, kMaxLayers);
  const std::int64_t inner = config.positive_or({"inner_group_num"}, 1, kMaxLayers);
  if (groups > sizes.layers) {
    config.fail("num_hidden_groups",
                fmt::format("expected at most the {} layers, found {}", sizes.layers, groups));
  }
  if (inner * sizes.layers > kMaxLayers) {
    config.fail("inner_group_num", fmt::format("expected at most {} layers in all, found {}",
                                               kMaxLayers, inner * sizes.layers));
  }
  const std::int64_t hidden = sizes.hidden;
  const std::string top = encoder_prefix(config, "albert.");
  text_embedding(model, sizes, top,
                 {.position_rows = model.max_positions,
                  .type_rows = config.positive_or({"type_vocab_size"}, 2, kMaxTypes)});
  LayerBuilder projection("", top, hidden);
  projection.linear("encoder.embedding_hidden_mapping_in", sizes.embedding, hidden, true);
  append_part(model.embedding, projection.take());

  // Layers of a group have the same weights, which the first of them counts.
  std::int64_t counted = -1;
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const std::int64_t group = i * groups / sizes.layers;
    for (std::int64_t j = 0; j < inner; ++j) {
      LayerBuilder block(
          group > counted ? "block" : "repeated block",
          fmt::format("{}encoder.albert_layer_groups.{}.albert_layers.{}.", top, group, j), hidden);
      post_norm_block(block, model, sizes, kAlbertBlock);
      Layer layer = block.take();
      if (group == counted) layer.tensors.clear();
      append_layer(model, std::move(layer));
    }
    counted = group;
  }
  text_heads(config, model, sizes, top,
             {.masked = {"predictions.dense", "predictions.LayerNorm", "predictions.decoder",
                         "predictions.bias"},
              .pooler = "pooler",
              .classifies_pooled = true});
  if (config.head() == Head::kPreTraining) {
    add_pooled(model, "sop_classifier.classifier", hidden, config.labels());
  }
}

void read_deberta_v2(HubConfig& config, ModelSpec& model) {
  config.check_class("DebertaV2", {"Model", "ForMaskedLM", "ForSequenceClassification",
                                   "ForTokenClassification", "ForQuestionAnswering"});
  EncoderSizes sizes = read_text_sizes(config, model, 6144);
  const std::int64_t hidden = sizes.hidden;
  sizes.embedding = config.positive_or({"embedding_size"}, hidden, kMaxHidden);
  if (config.positive_or({"attention_head_size"}, model.head_dim, kMaxHeadDim) != model.head_dim) {
    config.fail("attention_head_size", "expected hidden_size / num_attention_heads");
  }
  const Relative relative = read_relative(config, model);
  const std::string top = encoder_prefix(config, "deberta.");
  deberta_embedding(config, model, sizes, relative, top);

  for (std::int64_t i = 0; i < std::min<std::int64_t>(2, sizes.layers); ++i) {
    const bool convolves = i == 0 && config.size_or({"conv_kernel_size"}, 0, kMaxConvolution) > 0;
    LayerBuilder block(convolves ? "first block" : "block", top + "encoder.layer.{}.", hidden);
    post_norm_block(block, model, sizes, kDebertaBlock);
    relative_attention(block, model, relative);
    Layer layer = block.take();
    if (convolves) append_part(layer, deberta_convolution(config, sizes, top));
    append_layers(model, i == 0 ? 1 : sizes.layers - 1, std::move(layer));
  }
  deberta_head(config, model, sizes, top);
}

void read_modernbert(HubConfig& config, ModelSpec& model) {
  config.check_class("ModernBert", {"Model", "ForMaskedLM", "ForSequenceClassification",
                                    "ForTokenClassification", "ForQuestionAnswering"});
  EncoderSizes sizes = read_encoder_sizes(config, model, 1152, "gelu");
  sizes.act = plain_activation(config.text_or("hidden_activation", "gelu"));
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.max_positions = config.positive_or({"max_position_embeddings"}, 8192, kMaxPositions);
  model.tied_embeddings = config.is(kTiedWords);
  model.gated_mlp = true;
  const Norm norm = config.is({"norm_bias", false}) ? Norm::kLayer : Norm::kLayerNoBias;
  const std::int64_t hidden = sizes.hidden;
  const std::string top = encoder_prefix(config, "model.");

  LayerBuilder embedding("embedding", top, hidden);
  add_tables(embedding, model, {.words = "embeddings.tok_embeddings", .positions = ""}, hidden);
  embedding.norm(norm, "embeddings.norm", hidden);
  encoder_drop(embedding, config.number_or("embedding_dropout", 0), hidden);
  model.embedding = embedding.take();

  const std::vector<std::int64_t> windows = read_modernbert_windows(config, sizes.layers);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    append_layer(model, modernbert_block(config, model, sizes, norm, top, i,
                                         windows[static_cast<std::size_t>(i)]));
  }
  modernbert_head(config, model, norm, top);
}

void read_nomic_bert(HubConfig& config, ModelSpec& model) {
  config.check_class(
      "NomicBert", {"Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"});
  EncoderSizes sizes = read_text_sizes(config, model, 3072);
  sizes.dropped = config.number_or("hidden_dropout_prob", 0);
  sizes.act = plain_activation(config.text_or("hidden_act", "silu"));
  model.max_positions = config.positive_or({"max_position_embeddings"}, 2048, kMaxPositions);
  model.head_dim = config.positive_or({"head_dim"}, model.head_dim, kMaxHeadDim);
  model.gated_mlp = true;
  const std::int64_t hidden = sizes.hidden;
  const std::int64_t queries = model.heads * model.head_dim;
  const std::string top = encoder_prefix(config, "nomic_bert.");
  text_embedding(
      model, sizes, top,
      {.positions = "", .type_rows = config.positive_or({"type_vocab_size"}, 2, kMaxTypes)});

  LayerBuilder block("block", top + "layers.{}.", hidden);
  for (const std::string_view name : {"q_proj", "k_proj", "v_proj"}) {
    block.linear(fmt::format("self_attn.{}", name), hidden, queries, false);
  }
  block.chain(ChainKind::kRotary, as_double(queries));
  block.chain(ChainKind::kRotary, as_double(queries));
  block.attention(encoder_attention(model, false));
  block.linear("self_attn.o_proj", queries, hidden, false);
  encoder_drop(block, sizes.dropped, hidden);
  block.residual();
  block.norm(Norm::kLayer, "post_attention_layernorm", hidden);
  block.linear("mlp.gate_proj", hidden, sizes.intermediate, false);
  block.linear("mlp.up_proj", hidden, sizes.intermediate, false);
  block.gate(as_double(sizes.intermediate));
  block.linear("mlp.down_proj", sizes.intermediate, hidden, false);
  encoder_drop(block, sizes.dropped, hidden);
  block.residual();
  block.norm(Norm::kLayer, "post_mlp_layernorm", hidden);
  append_layers(model, sizes.layers, block.take());

  const bool classifies = config.head() == Head::kSequence;
  text_heads(config, model, sizes, top,
             {.masked = {"cls.predictions.transform.dense", "cls.predictions.transform.layer_norm",
                         "cls.predictions.decoder", "cls.predictions.bias"},
              .pooler = classifies ? "pooler.dense" : "",
              .classifies_pooled = true});
}

void read_mpnet(HubConfig& config, ModelSpec& model) {
  config.check_class("MPNet", {"Model", "ForMaskedLM", "ForSequenceClassification",
                               "ForTokenClassification", "ForQuestionAnswering"});
  constexpr std::int64_t kPadding = 1;  // whatever pad_token_id says
  const EncoderSizes sizes = read_text_sizes(config, model, 3072);
  const std::int64_t rows = model.max_positions;
  model.max_positions = positions_after(config, rows, kPadding);
  const std::int64_t buckets =
      config.positive_or({"relative_attention_num_buckets"}, 32, kMaxPositions);
  const std::string top = encoder_prefix(config, "mpnet.");
  text_embedding(model, sizes, top, {.position_rows = rows});
  // A bias of attention by distance, which all layers add.
  model.embedding.tensors.push_back(
      {top + "encoder.relative_attention_bias.weight", {buckets, model.heads}});
  LayerBuilder block("block", top + "encoder.layer.{}.", sizes.hidden);
  post_norm_block(block, model, sizes, kMpnetBlock);
  append_layers(model, sizes.layers, block.take());
  text_heads(config, model, sizes, top, {.masked = kRobertaMasked, .pooler = "pooler.dense"});
}

void read_vit(HubConfig& config, ModelSpec& model) {
  config.check_class("ViT", {"Model", "ForImageClassification"});
  const EncoderSizes sizes = read_image_sizes(config, model, "gelu");
  const Patches patches = read_patches(config, 16, true);
  model.head_dim = config.positive_or({"head_dim"}, model.head_dim, kMaxHeadDim);
  model.max_positions = patches.count + 1;
  const bool has_bias = config.is({"qkv_bias", true});
  const std::int64_t hidden = sizes.hidden;
  const std::string top = encoder_prefix(config, "vit.");

  LayerBuilder embedding("embedding", top, hidden);
  embedding.tensor("embeddings.cls_token", {1, 1, hidden});
  embedding.tensor("embeddings.position_embeddings", {1, model.max_positions, hidden});
  patch_stem(embedding, "embeddings.patch_embeddings.projection", patches, model, true);
  encoder_drop(embedding, sizes.dropped, hidden);
  model.embedding = embedding.take();

  LayerBuilder block("block", top + "layers.{}.", hidden);
  block.tokens(model.max_positions);
  block.norm(Norm::kLayer, "layernorm_before", hidden);
  image_attention(block, model, "attention.", has_bias);
  encoder_drop(block, sizes.dropped, hidden);
  block.residual();
  block.norm(Norm::kLayer, "layernorm_after", hidden);
  image_mlp(block, "mlp.", sizes);
  encoder_drop(block, sizes.dropped, hidden);
  block.residual();
  append_layers(model, sizes.layers, block.take());

  LayerBuilder head("head", "", hidden);
  head.tokens(model.max_positions);
  head.norm(Norm::kLayer, top + "layernorm", hidden);
  if (config.head() == Head::kNone) {
    pooled_linear(head, "pooler.dense", hidden,
                  config.positive_or({"pooler_output_size"}, hidden, kMaxHidden));
  } else {
    sequence_head(config, model, head, "classifier", hidden);
  }
  model.head = head.take();
}

void read_dinov2(HubConfig& config, ModelSpec& model) {
  config.check_class("Dinov2", {"Model", "ForImageClassification"});
  EncoderSizes sizes = read_image_sizes(config, model, "gelu");
  const Patches patches = read_patches(config, 14, true);
  const std::int64_t hidden = sizes.hidden;
  sizes.intermediate = hidden * config.positive_or({"mlp_ratio"}, 4, kMaxRatio);
  model.gated_mlp = config.is({"use_swiglu_ffn", false});
  // Two thirds, as gate and up have three matrices for two, in whole eights.
  if (model.gated_mlp) sizes.intermediate = (sizes.intermediate * 2 / 3 + 7) / 8 * 8;
  model.intermediate = sizes.intermediate;
  model.head_dim = config.positive_or({"head_dim"}, model.head_dim, kMaxHeadDim);
  model.max_positions = patches.count + 1;
  const bool has_bias = config.is({"qkv_bias", true});
  const std::string top = encoder_prefix(config, "dinov2.");

  LayerBuilder embedding("embedding", top, hidden);
  embedding.tensor("embeddings.cls_token", {1, 1, hidden});
  if (config.is({"use_mask_token", true})) embedding.tensor("embeddings.mask_token", {1, hidden});
  embedding.tensor("embeddings.position_embeddings", {1, model.max_positions, hidden});
  patch_stem(embedding, "embeddings.patch_embeddings.projection", patches, model, true);
  encoder_drop(embedding, sizes.dropped, hidden);
  model.embedding = embedding.take();

  LayerBuilder block("block", top + "encoder.layer.{}.", hidden);
  block.tokens(model.max_positions);
  const auto scale = [&](std::string_view name) {
    block.tensor(fmt::format("{}.lambda1", name), {hidden});
    block.activation(ChainKind::kActivation, as_double(hidden), 1);
    encoder_drop(block, config.number_or("drop_path_rate", 0), hidden);
    block.residual();
  };
  block.norm(Norm::kLayer, "norm1", hidden);
  image_attention(block, model, "attention.", has_bias);
  scale("layer_scale1");
  block.norm(Norm::kLayer, "norm2", hidden);
  if (model.gated_mlp) {
    block.linear("mlp.gate_proj", hidden, sizes.intermediate, true);
    block.linear("mlp.up_proj", hidden, sizes.intermediate, true);
    block.gate(as_double(sizes.intermediate));
    block.linear("mlp.down_proj", sizes.intermediate, hidden, true);
  } else {
    image_mlp(block, "mlp.", sizes);
  }
  scale("layer_scale2");
  append_layers(model, sizes.layers, block.take());

  LayerBuilder head("head", "", hidden);
  head.tokens(model.max_positions);
  head.norm(Norm::kLayer, top + "layernorm", hidden);
  // Of the first token and the mean of the others.
  if (config.head() == Head::kImage) {
    sequence_head(config, model, head, "classifier", 2 * hidden);
  }
  model.head = head.take();
}

void read_clip_vision(HubConfig& config, ModelSpec& model) {
  config.check_class("CLIPVision", {"Model"});
  const EncoderSizes sizes = read_image_sizes(config, model, "quick_gelu");
  const Patches patches = read_patches(config, 32, false);
  model.max_positions = patches.count + 1;
  LayerBuilder embedding("embedding", "", sizes.hidden);
  embedding.tensor("embeddings.class_embedding", {sizes.hidden});
  embedding.tensor("embeddings.position_embedding.weight", {model.max_positions, sizes.hidden});
  patch_stem(embedding, "embeddings.patch_embedding", patches, model, false);
  embedding.norm(Norm::kLayer, "pre_layrnorm", sizes.hidden);
  model.embedding = embedding.take();
  clip_layers(model, sizes, model.max_positions);
  LayerBuilder head("head", "", sizes.hidden);
  head.tokens(model.max_positions);
  pooled_norm(head, "post_layernorm", sizes.hidden);
  model.head = head.take();
}

void read_siglip_vision(HubConfig& config, ModelSpec& model) {
  config.check_class("SiglipVision", {"Model"});
  const EncoderSizes sizes = read_image_sizes(config, model, "gelu_pytorch_tanh");
  const Patches patches = read_patches(config, 16, false);
  model.max_positions = patches.count;
  const std::int64_t hidden = sizes.hidden;
  LayerBuilder embedding("embedding", "", hidden);
  embedding.tensor("embeddings.position_embedding.weight", {model.max_positions, hidden});
  patch_stem(embedding, "embeddings.patch_embedding", patches, model, true);
  model.embedding = embedding.take();
  clip_layers(model, sizes, model.max_positions);
  LayerBuilder head("head", "", hidden);
  head.tokens(model.max_positions);
  head.norm(Norm::kLayer, "post_layernorm", hidden);
  if (config.is({"vision_use_head", true})) {
    // A learnt query attends to all tokens; what it goes through besides is one token's.
    head.tensor("head.probe", {1, 1, hidden});
    head.tensor("head.attention.in_proj_weight", {3 * hidden, hidden});
    head.tensor("head.attention.in_proj_bias", {3 * hidden});
    head.product("in_proj", hidden, 2 * hidden);
    pooled_linear(head, "head.attention.out_proj", hidden, hidden);
    pooled_norm(head, "head.layernorm", hidden);
    pooled_linear(head, "head.mlp.fc1", hidden, sizes.intermediate);
    pooled_linear(head, "head.mlp.fc2", sizes.intermediate, hidden);
  }
  model.head = head.take();
}

void read_clip_text(HubConfig& config, ModelSpec& model) {
  config.check_class("CLIPText", {"Model"});
  const EncoderSizes sizes = read_clip_text_sizes(config, model, 2048, 77, "quick_gelu", true);
  clip_layers(model, sizes, 0);
  LayerBuilder head("head", "", sizes.hidden);
  head.norm(Norm::kLayer, "final_layer_norm", sizes.hidden);
  model.head = head.take();
}

void read_siglip_text(HubConfig& config, ModelSpec& model) {
  config.check_class("SiglipText", {"Model"});
  const EncoderSizes sizes =
      read_clip_text_sizes(config, model, 3072, 64, "gelu_pytorch_tanh", false);
  clip_layers(model, sizes, 0);
  LayerBuilder head("head", "", sizes.hidden);
  head.norm(Norm::kLayer, "final_layer_norm", sizes.hidden);
  pooled_linear(head, "head", sizes.hidden,
                config.positive_or({"projection_size"}, sizes.hidden, kMaxHidden));
  model.head = head.take();
}

}  // namespace zenflow::sim::hub
