#include "sim/config/hub/encoder_decoders.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/config/hub/decoder.h"

namespace zenflow::sim::hub {
namespace {

/// A size under its own name, with which another name for it must agree.
std::int64_t named_size(HubConfig& config, std::string_view name, std::string_view alias,
                        std::int64_t limit) {
  static_cast<void>(config.size({name}, limit));
  return config.same_size({name, alias}, limit);
}

void stream_drop(LayerBuilder& block, double probability, std::int64_t width) {
  if (probability > 0) block.dropout(as_double(width));
}

/// Drops what a sublayer returns and adds the stream to it.
void stream_sum(LayerBuilder& block, double probability, std::int64_t hidden) {
  stream_drop(block, probability, hidden);
  block.residual();
}

/// Of an MLP's hidden columns. ReLU keeps its result besides the one that the next product reads.
void inner_drop(LayerBuilder& block, double probability, std::int64_t width,
                const PlainActivation& act) {
  if (probability <= 0) return;
  block.dropout(as_double(width));
  if (act.kept < 2) block.keep(as_double(width), 0);
}

/// Weights of a product of one token of each sequence, whose time is left out.
void one_token_linear(LayerBuilder& head, std::string_view name, std::int64_t in,
                      std::int64_t out) {
  head.tensor(fmt::format("{}.weight", name), {out, in});
  head.tensor(fmt::format("{}.bias", name), {out});
}

void sentence_head(LayerBuilder& head, std::int64_t hidden, std::int64_t labels) {
  one_token_linear(head, "classification_head.dense", hidden, hidden);
  one_token_linear(head, "classification_head.out_proj", hidden, labels);
}

/// What T5's successors do differently.
struct T5Family {
  std::string_view classes;
  std::string_view feed_forward = "gated-gelu";  ///< where feed_forward_proj is missing
  std::int64_t intermediate = 1024;
  bool biases_everywhere = false;  ///< of attention by distance: in all blocks, not in the first
};

class T5Reader {
 public:
  T5Reader(HubConfig& config, const T5Family& family, ModelSpec& model)
      : config_(config), family_(family), model_(model) {
    config.check_class(family.classes, {"Model", "ForConditionalGeneration", "EncoderModel",
                                        "ForSequenceClassification", "ForTokenClassification",
                                        "ForQuestionAnswering"});
    read_sizes();
    read_feed_forward();
    const bool is_nested = config.head() == Head::kSequence || config.head() == Head::kTokens;
    top_ = is_nested ? "transformer." : "";
    has_decoder_ = config.head() != Head::kEncoder && config.head() != Head::kTokens;
    if (!has_decoder_ && config.is({"is_decoder", false})) {
      config.fail("is_decoder", "expected false of a class that has the encoder alone");
    }
  }

  void read() {
    LayerBuilder embedding("embedding", top_, model_.hidden);
    embedding.tensor("shared.weight", {model_.vocab, model_.hidden});
    for (std::int64_t stream = 0; stream < (has_decoder_ ? 2 : 1); ++stream) {
      embedding.chain(ChainKind::kEmbedding, as_double(model_.hidden));
      stream_drop(embedding, dropped_, model_.hidden);
    }
    model_.embedding = embedding.take();
    add_stack(layers_, false);
    if (has_decoder_) add_stack(decoder_layers_, true);
    add_head_of_class();
  }

 private:
  void read_sizes() {
    model_.hidden = named_size(config_, "d_model", "hidden_size", kMaxHidden);
    layers_ = named_size(config_, "num_layers", "num_hidden_layers", kMaxLayers);
    decoder_layers_ = config_.positive_or({"num_decoder_layers"}, layers_, kMaxLayers);
    model_.heads = named_size(config_, "num_heads", "num_attention_heads", kMaxHeads);
    model_.kv_heads = model_.heads;
    model_.head_dim = config_.has("d_kv") ? named_size(config_, "d_kv", "head_dim", kMaxHeadDim)
                                          : config_.positive_or({"head_dim"}, 64, kMaxHeadDim);
    model_.intermediate = config_.positive_or({"d_ff"}, family_.intermediate, kMaxIntermediate);
    model_.vocab = config_.size({"vocab_size"}, kMaxVocab);
    model_.embedding_dim = model_.hidden;
    model_.max_positions = kMaxPositions;  // distances have no limit
    model_.tied_embeddings = true;         // whatever the file says
    buckets_ = config_.positive_or({"relative_attention_num_buckets"}, 32, kMaxPositions);
    dropped_ = config_.number_or("dropout_rate", 0.1);
  }

  void read_feed_forward() {
    const std::string text = config_.text_or("feed_forward_proj", family_.feed_forward);
    const std::size_t dash = text.find('-');
    const bool is_gated = dash != std::string::npos;
    if (is_gated &&
        (!text.starts_with("gated-") || text.find('-', dash + 1) != std::string::npos)) {
      config_.fail("feed_forward_proj", "expected \"gated-\" and an activation, or an activation");
    }
    model_.gated_mlp = config_.is_unless_null({"is_gated_act", is_gated});
    const std::string named = is_gated ? text.substr(dash + 1) : text;
    activation_ = plain_activation(
        config_.text_or("dense_act_fn", text == "gated-gelu" ? "gelu_new" : named));
  }

  void add_stack(std::int64_t layers, bool is_decoder) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(2, layers); ++i) {
      append_layers(model_, i == 0 ? 1 : layers - 1,
                    block(is_decoder, i == 0 || family_.biases_everywhere));
    }
  }

  Layer block(bool is_decoder, bool has_bias) {
    const std::string_view stack = is_decoder ? "decoder" : "encoder";
    LayerBuilder b(fmt::format("{} block", stack), fmt::format("{}{}.block.{{}}.", top_, stack),
                   model_.hidden);
    norm(b, "layer.0.layer_norm");
    attention(b, "layer.0.SelfAttention.", is_decoder);
    // The sum of the positions' bias and a padded batch's mask, anew in each layer.
    b.keep_pairs(2 * as_double(model_.heads));
    if (has_bias) {
      b.tensor("layer.0.SelfAttention.relative_attention_bias.weight", {buckets_, model_.heads});
    }
    stream_sum(b, dropped_, model_.hidden);
    if (is_decoder) {
      norm(b, "layer.1.layer_norm");
      attention(b, "layer.1.EncDecAttention.", false);
      stream_sum(b, dropped_, model_.hidden);
    }
    const std::string last = fmt::format("layer.{}.", is_decoder ? 2 : 1);
    norm(b, last + "layer_norm");
    feed_forward(b, last + "DenseReluDense.");
    stream_sum(b, dropped_, model_.hidden);
    return b.take();
  }

  /// Keeps its input, which it multiplies, besides the fp32 one, which it squares.
  void norm(LayerBuilder& b, std::string_view name) const {
    b.norm(Norm::kRms, name, model_.hidden);
    b.keep(as_double(model_.hidden), 0);
  }

  void attention(LayerBuilder& b, const std::string& at, bool causal) {
    const std::int64_t queries = model_.heads * model_.head_dim;
    for (const std::string_view name : {"q", "k", "v"}) {
      b.linear(fmt::format("{}{}", at, name), model_.hidden, queries, false);
    }
    b.attention({.heads = model_.heads,
                 .kv_heads = model_.heads,
                 .head_dim = model_.head_dim,
                 .value_dim = model_.head_dim,
                 .causal = causal});
    b.linear(at + "o", queries, model_.hidden, false);
  }

  void feed_forward(LayerBuilder& b, const std::string& at) {
    const std::int64_t columns = model_.intermediate;
    if (model_.gated_mlp) {
      b.linear(at + "wi_0", model_.hidden, columns, false);
      b.linear(at + "wi_1", model_.hidden, columns, false);
      b.activation(activation_.kind, as_double(columns), activation_.kept);
      // The other product and what both make.
      b.chain(ChainKind::kResidual, as_double(columns));
      b.keep(2 * as_double(columns), 0);
      stream_drop(b, dropped_, columns);
    } else {
      b.linear(at + "wi", model_.hidden, columns, false);
      b.activation(activation_.kind, as_double(columns), activation_.kept);
      inner_drop(b, dropped_, columns, activation_);
    }
    b.linear(at + "wo", columns, model_.hidden, false);
  }

  void add_head_of_class() {
    LayerBuilder head("head", "", model_.hidden);
    for (const std::string_view stack : {"encoder", "decoder"}) {
      if (stack == "decoder" && !has_decoder_) continue;
      norm(head, fmt::format("{}{}.final_layer_norm", top_, stack));
      stream_drop(head, dropped_, model_.hidden);
    }
    switch (config_.head()) {
      case Head::kNone:
      case Head::kEncoder:
      case Head::kImage:
      case Head::kPreTraining:
        break;
      case Head::kLanguage:
        model_.outputs = model_.vocab;
        model_.narrow_loss = true;
        head.product("lm_head", model_.hidden, model_.vocab);
        break;
      case Head::kSequence:
        model_.outputs = config_.labels();
        sentence_head(head, model_.hidden, model_.outputs);
        break;
      case Head::kTokens:
        model_.outputs = config_.labels();
        head.linear("classifier", model_.hidden, model_.outputs, true);
        break;
      case Head::kAnswer:
        model_.outputs = config_.answer_labels();
        head.linear("qa_outputs", model_.hidden, model_.outputs, true);
        break;
    }
    model_.head = head.take();
  }

  HubConfig& config_;
  const T5Family& family_;
  ModelSpec& model_;
  std::string top_;
  std::int64_t layers_ = 0;
  std::int64_t decoder_layers_ = 0;
  std::int64_t buckets_ = 0;
  double dropped_ = 0;
  PlainActivation activation_;
  bool has_decoder_ = true;
};

/// What stands in the table of positions.
enum class PositionTable : std::uint8_t {
  kOffset,   ///< learned, two rows late: a leftover of fairseq's padding index
  kExact,    ///< computed, but a parameter: as many rows as positions
  kLearned,  ///< the same, and learned
  kNone,     ///< computed
};

/// What BART's successors do differently.
struct BartFamily {
  std::string_view classes;
  PositionTable positions = PositionTable::kOffset;
  bool norms_after = false;      ///< after the sums
  bool embedding_norms = false;  ///< of both streams
  bool final_norms = true;       ///< of both streams
  bool classifies = false;       ///< has a class of labels
  bool answers = false;          ///< has a class of answers
  bool eager = false;            ///< attention is not fused, and keeps its probabilities
  bool may_part = false;         ///< the streams' embeddings may be two, of two vocabularies
  std::int64_t labels = 2;       ///< without num_labels and id2label
  bool logits_bias = false;      ///< added to the logits, and not learnt
  bool key_bias = true;
  std::string_view activation = "gelu";
  std::int64_t intermediate = 4096;                        ///< where it is missing
  std::int64_t max_positions = 1024;                       ///< the same
  std::string_view language = "ForConditionalGeneration";  ///< of the class with the vocabulary
  double dropped = 0.1;
};

/// A stack of BART's: an encoder, or a decoder with attention to one.
struct BartStack {
  std::string_view name;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
};

class BartReader {
 public:
  BartReader(HubConfig& config, const BartFamily& family, ModelSpec& model)
      : config_(config), family_(family), model_(model) {
    if (family.answers) {
      config.check_class(family.classes, {"Model", family.language, "ForSequenceClassification",
                                          "ForQuestionAnswering"});
    } else if (family.classifies) {
      config.check_class(family.classes, {"Model", family.language, "ForSequenceClassification"});
    } else {
      config.check_class(family.classes, {"Model", family.language});
    }
    if (config.is({"use_prompt", false})) {
      config.fail("use_prompt", "expected false: learnt prompts are not supported");
    }
    model_.hidden = named_size(config, "d_model", "hidden_size", kMaxHidden);
    model_.vocab = config.size({"vocab_size"}, kMaxVocab);
    model_.embedding_dim = model_.hidden;
    model_.tied_embeddings = config.is({"tie_word_embeddings", true});
    model_.learned_positions =
        family.positions == PositionTable::kOffset || family.positions == PositionTable::kLearned;
    decoder_vocab_ = model_.vocab;
    if (family.may_part) {
      parts_ = !config.is({"share_encoder_decoder_embeddings", true});
      decoder_vocab_ = config.positive_or({"decoder_vocab_size"}, model_.vocab, kMaxVocab);
    }
    dropped_ = config.number_or("dropout", family.dropped);
    inner_dropped_ = config.number_or("activation_dropout", 0);
    activation_ = plain_activation(config.text_or("activation_function", family.activation));
    encoder_ = read_stack("encoder", "num_hidden_layers", "num_attention_heads");
    decoder_ = read_stack("decoder", "decoder_layers", "decoder_attention_heads");
    model_.heads = encoder_.heads;
    model_.kv_heads = encoder_.heads;
    model_.head_dim = encoder_.head_dim;
    model_.intermediate = encoder_.intermediate;
    top_ = config.head() == Head::kNone ? "" : "model.";
  }

  void read() {
    model_.max_positions =
        config_.positive_or({"max_position_embeddings"}, family_.max_positions, kMaxPositions);
    LayerBuilder embedding("embedding", top_, model_.hidden);
    if (!parts_) embedding.tensor("shared.weight", {model_.vocab, model_.hidden});
    for (const std::string_view stack : {"encoder", "decoder"}) embed_stream(embedding, stack);
    model_.embedding = embedding.take();
    append_layers(model_, encoder_.layers, block(encoder_));
    append_layers(model_, decoder_.layers, block(decoder_));
    add_head_of_class("lm_head");
  }

  /// Whisper: its encoder hears a fixed number of tokens.
  void read_audio() {
    heard_ = config_.positive_or({"max_source_positions"}, 1500, kMaxPositions);
    model_.max_positions = config_.positive_or({"max_target_positions"}, 448, kMaxPositions);
    model_.learned_positions = true;
    const std::int64_t mels = config_.positive_or({"num_mel_bins"}, 80, kMaxHidden);
    model_.embedding = audio_embedding(mels);
    append_layers(model_, encoder_.layers, block(encoder_));
    append_layers(model_, decoder_.layers, block(decoder_));
    add_head_of_class("proj_out");
  }

 private:
  BartStack read_stack(std::string_view name, std::string_view layers_alias,
                       std::string_view heads_alias) {
    BartStack stack{.name = name};
    const std::string layers = fmt::format("{}_layers", name);
    const std::string heads = fmt::format("{}_attention_heads", name);
    stack.layers = named_size(config_, layers, layers_alias, kMaxLayers);
    stack.heads = named_size(config_, heads, heads_alias, kMaxHeads);
    stack.head_dim = head_dim_of(config_, "d_model", model_.hidden, heads, stack.heads);
    stack.intermediate = config_.positive_or({fmt::format("{}_ffn_dim", name)},
                                             family_.intermediate, kMaxIntermediate);
    return stack;
  }

  void embed_stream(LayerBuilder& embedding, std::string_view stack) {
    const std::int64_t hidden = model_.hidden;
    if (!model_.tied_embeddings || parts_) {
      embedding.tensor(fmt::format("{}.embed_tokens.weight", stack),
                       {stack == "decoder" ? decoder_vocab_ : model_.vocab, hidden});
    }
    if (family_.positions != PositionTable::kNone) {
      const std::int64_t offset = family_.positions == PositionTable::kOffset ? 2 : 0;
      embedding.tensor(fmt::format("{}.embed_positions.weight", stack),
                       {model_.max_positions + offset, hidden});
    }
    embedding.chain(ChainKind::kEmbedding, as_double(hidden));
    embedding.residual();
    if (family_.embedding_norms) {
      embedding.norm(Norm::kLayer, fmt::format("{}.layernorm_embedding", stack), hidden);
    }
    stream_drop(embedding, dropped_, hidden);
  }

  /// Two convolutions over three frames each, the second of which takes every other one: products
  /// of two frames and of one for each token that is heard.
  Layer audio_embedding(std::int64_t mels) {
    const std::int64_t hidden = model_.hidden;
    constexpr std::int64_t kKernel = 3;
    LayerBuilder embedding("embedding", top_, hidden);
    embedding.tokens(heard_);
    embedding.tensor("encoder.conv1.weight", {hidden, mels, kKernel});
    embedding.tensor("encoder.conv1.bias", {hidden});
    embedding.tensor("encoder.conv2.weight", {hidden, hidden, kKernel});
    embedding.tensor("encoder.conv2.bias", {hidden});
    embedding.tensor("encoder.embed_positions.weight", {heard_, hidden});
    embedding.tensor("decoder.embed_tokens.weight", {model_.vocab, hidden});
    embedding.tensor("decoder.embed_positions.weight", {model_.max_positions, hidden});
    embedding.product("conv1", kKernel * mels, hidden, {1, 2});
    embedding.product("conv2", kKernel * hidden, hidden);
    embedding.keep(2 * as_double(mels), 0);
    embedding.activation(ChainKind::kActivation, 2 * as_double(hidden), 2);
    embedding.activation(ChainKind::kActivation, as_double(hidden), 1);
    embedding.residual();
    stream_drop(embedding, dropped_, hidden);
    // The decoder's, of at most as many tokens.
    embedding.chain(ChainKind::kEmbedding, as_double(hidden));
    embedding.residual();
    stream_drop(embedding, dropped_, hidden);
    return embedding.take();
  }

  Layer block(const BartStack& stack) {
    const bool is_decoder = stack.name == "decoder";
    LayerBuilder b(fmt::format("{} block", stack.name),
                   fmt::format("{}{}.layers.{{}}.", top_, stack.name), model_.hidden);
    if (!is_decoder) b.tokens(heard_);
    sublayer(b, "self_attn_layer_norm", [&] { self_attention(b, stack, is_decoder); });
    if (is_decoder) {
      sublayer(b, "encoder_attn_layer_norm", [&] { cross_attention(b, stack); });
    } else if (heard_ > 0) {
      keys_of_decoder(b);
    }
    sublayer(b, "final_layer_norm", [&] {
      b.linear("fc1", model_.hidden, stack.intermediate, true);
      b.activation(activation_.kind, as_double(stack.intermediate), activation_.kept);
      inner_drop(b, inner_dropped_, stack.intermediate, activation_);
      b.linear("fc2", stack.intermediate, model_.hidden, true);
    });
    return b.take();
  }

  template <typename Body>
  void sublayer(LayerBuilder& b, std::string_view norm, Body body) {
    if (!family_.norms_after) b.norm(Norm::kLayer, norm, model_.hidden);
    body();
    stream_sum(b, dropped_, model_.hidden);
    if (family_.norms_after) b.norm(Norm::kLayer, norm, model_.hidden);
  }

  void self_attention(LayerBuilder& b, const BartStack& stack, bool causal) {
    const std::int64_t hidden = model_.hidden;
    b.linear("self_attn.k_proj", hidden, hidden, family_.key_bias);
    b.linear("self_attn.v_proj", hidden, hidden, true);
    b.linear("self_attn.q_proj", hidden, hidden, true);
    b.attention({.heads = stack.heads,
                 .kv_heads = stack.heads,
                 .head_dim = stack.head_dim,
                 .value_dim = stack.head_dim,
                 .causal = causal});
    if (family_.eager) eager_scores(b, stack);
    copy_of_result(b);
    b.linear("self_attn.out_proj", hidden, hidden, true);
  }

  void cross_attention(LayerBuilder& b, const BartStack& stack) {
    const std::int64_t hidden = model_.hidden;
    if (heard_ == 0) {
      b.linear("encoder_attn.k_proj", hidden, hidden, family_.key_bias);
      b.linear("encoder_attn.v_proj", hidden, hidden, true);
    } else {
      b.tensor("encoder_attn.k_proj.weight", {hidden, hidden});
      if (family_.key_bias) b.tensor("encoder_attn.k_proj.bias", {hidden});
      b.tensor("encoder_attn.v_proj.weight", {hidden, hidden});
      b.tensor("encoder_attn.v_proj.bias", {hidden});
      b.keep(-2 * as_double(hidden), 0);  // keys and values: `keys_of_decoder` counts them
    }
    b.linear("encoder_attn.q_proj", hidden, hidden, true);
    b.attention({.heads = stack.heads,
                 .kv_heads = stack.heads,
                 .head_dim = stack.head_dim,
                 .value_dim = stack.head_dim,
                 .causal = false,
                 .key_tokens = heard_});
    if (family_.eager) eager_scores(b, stack);
    copy_of_result(b);
    b.linear("encoder_attn.out_proj", hidden, hidden, true);
  }

  /// Probabilities, and where some are dropped what is left of them and the mask.
  void eager_scores(LayerBuilder& b, const BartStack& stack) {
    const bool drops = config_.number_or("attention_dropout", 0) > 0;
    b.keep_pairs((drops ? 5 : 2) * as_double(stack.heads));
  }

  /// Whisper's queries have a layout that the result of attention takes over: the next product
  /// reads a copy of it.
  void copy_of_result(LayerBuilder& b) const {
    if (heard_ > 0) b.keep(as_double(model_.hidden), 0);
  }

  /// Keys and values of the decoder's blocks are products of what is heard, of another number of
  /// tokens than the decoder's: they are counted with the encoder's blocks, an equal part each.
  void keys_of_decoder(LayerBuilder& b) const {
    const double part = as_double(decoder_.layers) / as_double(encoder_.layers);
    b.product("encoder_attn.k_proj", model_.hidden, model_.hidden, {1, part});
    b.product("encoder_attn.v_proj", model_.hidden, model_.hidden, {1, part});
    b.keep(2 * part * as_double(model_.hidden), 0);
  }

  void add_head_of_class(std::string_view language) {
    const std::int64_t hidden = model_.hidden;
    LayerBuilder head("head", "", hidden);
    if (family_.final_norms) {
      head.norm(Norm::kLayer, top_ + "encoder.layer_norm", hidden);
      head.norm(Norm::kLayer, top_ + "decoder.layer_norm", hidden);
    }
    if (config_.head() == Head::kLanguage) {
      model_.outputs = parts_ ? decoder_vocab_ : model_.vocab;
      model_.narrow_loss = true;
      if (model_.tied_embeddings) {
        head.product(language, hidden, model_.outputs);
      } else {
        head.linear(language, hidden, model_.outputs, false);
      }
      if (family_.logits_bias) head.chain(ChainKind::kResidual, as_double(model_.outputs));
    } else if (config_.head() == Head::kSequence) {
      const bool says = config_.has("num_labels") || config_.has("id2label");
      model_.outputs = says ? config_.labels() : family_.labels;
      sentence_head(head, hidden, model_.outputs);
    } else if (config_.head() == Head::kAnswer) {
      model_.outputs = 2;  // whatever num_labels says
      head.linear("qa_outputs", hidden, model_.outputs, true);
    }
    model_.head = head.take();
  }

  HubConfig& config_;
  const BartFamily& family_;
  ModelSpec& model_;
  BartStack encoder_;
  BartStack decoder_;
  std::string top_;
  double dropped_ = 0;
  double inner_dropped_ = 0;
  PlainActivation activation_;
  bool parts_ = false;  ///< each stream has an embedding of its own
  std::int64_t decoder_vocab_ = 0;
  std::int64_t heard_ = 0;  ///< tokens of the encoder's stream; 0: the training's
};

constexpr T5Family kT5{.classes = "T5", .feed_forward = "relu", .intermediate = 2048};
constexpr T5Family kMt5{.classes = "MT5"};
constexpr T5Family kUmt5{.classes = "UMT5", .biases_everywhere = true};
constexpr BartFamily kBart{.classes = "Bart",
                           .norms_after = true,
                           .embedding_norms = true,
                           .final_norms = false,
                           .classifies = true,
                           .answers = true,
                           .labels = 3,
                           .logits_bias = true};
constexpr BartFamily kMbart{.classes = "MBart",
                            .embedding_norms = true,
                            .classifies = true,
                            .answers = true,
                            .logits_bias = true};
constexpr BartFamily kPegasus{
    .classes = "Pegasus", .positions = PositionTable::kExact, .logits_bias = true};
constexpr BartFamily kM2m100{
    .classes = "M2M100", .positions = PositionTable::kNone, .activation = "relu"};
constexpr BartFamily kMarian{.classes = "Marian",
                             .positions = PositionTable::kExact,
                             .norms_after = true,
                             .final_norms = false,
                             .may_part = true,
                             .logits_bias = true,
                             .language = "MTModel"};
constexpr BartFamily kBlenderbot{.classes = "Blenderbot",
                                 .positions = PositionTable::kLearned,
                                 .logits_bias = true,
                                 .intermediate = 10240,
                                 .max_positions = 128};
constexpr BartFamily kBlenderbotSmall{.classes = "BlenderbotSmall",
                                      .positions = PositionTable::kLearned,
                                      .norms_after = true,
                                      .embedding_norms = true,
                                      .final_norms = false,
                                      .logits_bias = true,
                                      .intermediate = 2048,
                                      .max_positions = 512};
constexpr BartFamily kPlbart{.classes = "PLBart",
                             .norms_after = true,
                             .embedding_norms = true,
                             .final_norms = false,
                             .classifies = true,
                             .logits_bias = true,
                             .intermediate = 3072};
constexpr BartFamily kMvp{.classes = "Mvp",
                          .norms_after = true,
                          .embedding_norms = true,
                          .final_norms = false,
                          .classifies = true,
                          .answers = true,
                          .eager = true,
                          .logits_bias = true};
constexpr BartFamily kWhisper{
    .classes = "Whisper", .key_bias = false, .intermediate = 1536, .dropped = 0};

}  // namespace

void read_t5(HubConfig& config, ModelSpec& model) {
  T5Reader(config, kT5, model).read();
}

void read_mt5(HubConfig& config, ModelSpec& model) {
  T5Reader(config, kMt5, model).read();
}

void read_umt5(HubConfig& config, ModelSpec& model) {
  T5Reader(config, kUmt5, model).read();
}

void read_bart(HubConfig& config, ModelSpec& model) {
  BartReader(config, kBart, model).read();
}

void read_mbart(HubConfig& config, ModelSpec& model) {
  BartReader(config, kMbart, model).read();
}

void read_pegasus(HubConfig& config, ModelSpec& model) {
  BartReader(config, kPegasus, model).read();
}

void read_m2m_100(HubConfig& config, ModelSpec& model) {
  BartReader(config, kM2m100, model).read();
}

void read_marian(HubConfig& config, ModelSpec& model) {
  BartReader(config, kMarian, model).read();
}

void read_blenderbot(HubConfig& config, ModelSpec& model) {
  BartReader(config, kBlenderbot, model).read();
}

void read_blenderbot_small(HubConfig& config, ModelSpec& model) {
  BartReader(config, kBlenderbotSmall, model).read();
}

void read_plbart(HubConfig& config, ModelSpec& model) {
  BartReader(config, kPlbart, model).read();
}

void read_mvp(HubConfig& config, ModelSpec& model) {
  BartReader(config, kMvp, model).read();
}

void read_whisper(HubConfig& config, ModelSpec& model) {
  BartReader(config, kWhisper, model).read_audio();
}

}  // namespace zenflow::sim::hub
