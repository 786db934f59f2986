#include "sim/config/hub/decoder.h"

#include <algorithm>

#include <fmt/format.h>

namespace zenflow::sim::hub {
namespace {

/// A size that null means to be without. Missing: `otherwise`.
std::int64_t nullable(HubConfig& config, std::string_view key, std::int64_t otherwise,
                      std::int64_t limit) {
  const Node* node = config.map().node().find(key);
  if (node == nullptr) return otherwise;
  return config.size_or({key}, 0, limit);
}

struct Sizes {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
};

std::int64_t read_head_dim(HubConfig& config, const DecoderRow& row, const Sizes& sizes) {
  std::int64_t columns = 0;
  if (!row.reads_head_dim || config.map().node().find("head_dim") == nullptr) {
    columns = row.head_dim;
  } else {
    columns = config.positive_or({"head_dim"}, 0, kMaxHeadDim);
  }
  if (columns == 0) {
    columns =
        row.rounds_head_dim || row.latent != Latent::kNone
            ? std::max<std::int64_t>(1, sizes.hidden / sizes.heads)
            : head_dim_of(config, "hidden_size", sizes.hidden, "num_attention_heads", sizes.heads);
  }
  if (row.square && columns * sizes.heads != sizes.hidden) {
    config.fail("head_dim", fmt::format("expected hidden_size / num_attention_heads ({} / {}), "
                                        "found {}",
                                        sizes.hidden, sizes.heads, columns));
  }
  return columns;
}

Sizes read_sizes(HubConfig& config, const DecoderRow& row, ModelSpec& model) {
  Sizes sizes;
  sizes.hidden = config.size({"hidden_size"}, kMaxHidden, row.hidden);
  sizes.layers =
      config.size({config.has(row.layers_alias) ? row.layers_alias : "num_hidden_layers"},
                  kMaxLayers, row.layers);
  sizes.heads = config.size({"num_attention_heads"}, kMaxHeads, row.heads);
  sizes.kv_heads = nullable(config, "num_key_value_heads", row.kv_heads, kMaxHeads);
  if (sizes.kv_heads == 0) sizes.kv_heads = sizes.heads;
  if (row.latent != Latent::kNone) sizes.kv_heads = sizes.heads;
  check_kv_heads(config, "num_key_value_heads", sizes.kv_heads, "num_attention_heads", sizes.heads);
  sizes.head_dim = read_head_dim(config, row, sizes);
  if (row.experts == nullptr || !row.experts->everywhere) {
    sizes.intermediate = config.size({"intermediate_size"}, kMaxIntermediate, row.intermediate);
  }
  model.hidden = sizes.hidden;
  model.heads = sizes.heads;
  model.kv_heads = sizes.kv_heads;
  model.head_dim = sizes.head_dim;
  model.intermediate = sizes.intermediate;
  model.vocab = config.size({"vocab_size"}, kMaxVocab, row.vocab);
  model.embedding_dim = sizes.hidden;
  model.max_positions = config.size({"max_position_embeddings", "seq_length", "model_max_length"},
                                    kMaxPositions, row.positions);
  model.gated_mlp = row.mlp != Mlp::kPlain;
  return sizes;
}

/// Tokens that each layer's queries look back on; 0: all.
std::vector<std::int64_t> read_windows(HubConfig& config, const DecoderRow& row,
                                       std::int64_t layers) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(layers), 0);
  if (row.windows == Windows::kNone) return windows;
  if (row.windows == Windows::kQwen && !config.is({"use_sliding_window", false})) return windows;
  const std::int64_t width = nullable(config, row.window_key, row.window, std::int64_t{1} << 40);
  if (width == 0) return windows;
  // Where all layers have one, transformers does not look at their types.
  const auto types = row.windows == Windows::kAll ? std::nullopt : config.texts("layer_types");
  const bool late = row.windows == Windows::kLate;
  const std::int64_t from = row.windows == Windows::kQwen || late
                                ? config.size_or({"max_window_layers"}, late ? 62 : 28, kMaxLayers)
                                : 0;
  const std::int64_t period = row.windows != Windows::kMost || row.period == 0 ? 0
                              : row.period_key.empty()
                                  ? row.period
                                  : config.size_or({row.period_key}, row.period, kMaxLayers);
  for (std::int64_t i = 0; i < layers; ++i) {
    bool slides = i >= from && (period == 0 || (row.full_first ? i : i + 1) % period != 0);
    if (types) {
      slides = i < std::ssize(*types) && (*types)[static_cast<std::size_t>(i)] != "full_attention";
    }
    if (slides) windows[static_cast<std::size_t>(i)] = width;
  }
  return windows;
}

struct ExpertSizes {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t width = 0;
  std::int64_t shared = 0;  ///< width of the experts that see all tokens
};

/// One number, or the same one for each layer.
std::int64_t read_top_k(HubConfig& config, const Experts& row) {
  const std::string_view key = config.has(row.top_k_alias) ? row.top_k_alias : row.top_k_key;
  const auto value = config.map().optional(key);
  if (!value || value->node().is_scalar()) {
    return nullable(config, key, row.top_k, kMaxExperts);
  }
  const std::vector<ValueReader> items = value->items();
  std::int64_t top_k = 0;
  for (const ValueReader& item : items) {
    const std::int64_t one = item.integer(1, kMaxExperts);
    if (top_k != 0 && one != top_k) item.fail("expected the same number for all layers");
    top_k = one;
  }
  return top_k;
}

ExpertSizes read_experts(HubConfig& config, const Experts& row, const Sizes& sizes) {
  ExpertSizes experts;
  experts.experts = row.experts;
  bool said = false;
  for (const std::string_view key : row.count_keys) {
    if (!config.has(key)) continue;
    const std::int64_t count =
        row.may_lack ? config.size_or({key}, 0, kMaxExperts) : config.size({key}, kMaxExperts);
    if (said && count != experts.experts) {
      config.fail(key, fmt::format("expected {}, as another key says", experts.experts));
    }
    experts.experts = count;
    said = true;
  }
  experts.top_k = read_top_k(config, row);
  if (experts.experts == 0 && row.may_lack) {
    experts.top_k = 0;
  } else if (experts.experts == 0) {
    config.fail(row.count_keys[0], "expected the number of experts");
  } else if (experts.top_k == 0) {
    config.fail(row.top_k_key, "expected the number of experts that a token sees");
  }
  if (experts.top_k > experts.experts) {
    config.fail(row.top_k_key, fmt::format("expected at most the {} experts, found {}",
                                           experts.experts, experts.top_k));
  }
  experts.width = row.width_key.empty()
                      ? sizes.intermediate
                      : config.positive_or({row.width_key}, row.width, kMaxIntermediate);
  if (!row.shared_width_key.empty()) {
    experts.shared = config.size_or({row.shared_width_key}, row.shared_width, kMaxIntermediate);
  } else if (!row.shared_count_key.empty() || row.shared_count > 0) {
    const std::string_view key =
        config.has(row.shared_count_alias) ? row.shared_count_alias : row.shared_count_key;
    const std::int64_t count =
        key.empty() ? row.shared_count : nullable(config, key, row.shared_count, kMaxExperts);
    experts.shared =
        count == 0 && row.shared_by_default ? sizes.intermediate : count * experts.width;
  }
  return experts;
}

/// Which layers have experts.
std::vector<bool> read_sparse_layers(HubConfig& config, const DecoderRow& row,
                                     std::int64_t layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), row.experts != nullptr);
  if (row.experts == nullptr) return sparse;
  const Experts& experts = *row.experts;
  if (experts.layers != nullptr) return experts.layers(config, layers);
  std::int64_t first = experts.first_dense;
  std::int64_t step = 1;
  if (!experts.first_dense_key.empty()) {
    first = config.size_or({experts.first_dense_key}, first, kMaxLayers);
  }
  if (experts.sparse_step) step = config.size_or({"decoder_sparse_step"}, 1, kMaxLayers);
  if (!experts.interleave_key.empty()) {
    step = config.size_or({experts.interleave_key}, 1, kMaxLayers);
  }
  for (std::int64_t i = 0; i < layers; ++i) {
    sparse[static_cast<std::size_t>(i)] = i >= first && step > 0 && (i + 1) % step == 0;
  }
  if (experts.sparse_step) {
    for (const std::int64_t dense :
         config.numbers("mlp_only_layers").value_or(std::vector<std::int64_t>())) {
      if (dense < layers) sparse[static_cast<std::size_t>(dense)] = false;
    }
  }
  if (!experts.interleave_key.empty()) {
    if (const auto listed = config.numbers("moe_layers")) {
      std::fill(sparse.begin(), sparse.end(), false);
      for (const std::int64_t i : *listed) {
        if (i < layers) sparse[static_cast<std::size_t>(i)] = true;
      }
    }
  }
  if (experts.layer_types_key.empty()) return sparse;
  if (const auto types = config.texts(experts.layer_types_key)) {
    for (std::int64_t i = 0; i < std::min(layers, std::ssize(*types)); ++i) {
      sparse[static_cast<std::size_t>(i)] = (*types)[static_cast<std::size_t>(i)] == "sparse";
    }
  }
  return sparse;
}

class DecoderReader {
 public:
  DecoderReader(HubConfig& config, const DecoderRow& row, std::string prefix, ModelSpec& model)
      : config_(config),
        row_(row),
        prefix_(std::move(prefix)),
        model_(model),
        sizes_(read_sizes(config, row, model)),
        qkv_bias_(config.is(row.qkv_bias)),
        output_bias_(config.is(row.output_bias)),
        mlp_bias_(config.is(row.mlp_bias)),
        norms_after_(config.is(row.norms_after)),
        qk_norm_(row.qk_norm),
        norm_(row.rms_key.empty() || !config.has(row.rms_key) ? row.norm : Norm::kRms) {
    if (config.has(row.qkv_bias_alias)) qkv_bias_ = config.is({row.qkv_bias_alias, false});
    if (!config.is(row.qk_norm_if)) qk_norm_ = QkNorm::kNone;
    if (row.experts != nullptr) experts_ = read_experts(config, *row.experts, sizes_);
    activation_ = plain_activation(
        config.text_or("hidden_act", row.mlp == Mlp::kPlain ? "gelu_pytorch_tanh" : "silu"));
  }

  void read(std::optional<bool> tied, const std::string& top) {
    model_.tied_embeddings = tied ? *tied : config_.is(row_.tied);
    if (!tied && !row_.tied_alias.empty() && config_.has(row_.tied_alias)) {
      model_.tied_embeddings = config_.is({row_.tied_alias, false});
    }
    LayerBuilder embedding("embedding", prefix_, sizes_.hidden);
    embedding.tensor("embed_tokens.weight", {model_.vocab + row_.more_vocab, sizes_.hidden});
    embedding.chain(ChainKind::kEmbedding, as_double(sizes_.hidden));
    Layer first = embedding.take();
    // Towers have put theirs before.
    model_.embedding.name = first.name;
    model_.embedding.width = first.width;
    for (Tensor& tensor : first.tensors) model_.embedding.tensors.push_back(std::move(tensor));
    model_.embedding.chains.insert(model_.embedding.chains.end(), first.chains.begin(),
                                   first.chains.end());

    const std::vector<std::int64_t> windows = read_windows(config_, row_, sizes_.layers);
    const std::vector<bool> sparse = read_sparse_layers(config_, row_, sizes_.layers);
    const auto count = static_cast<std::size_t>(sizes_.layers);
    std::vector<bool> mixed(count, false);
    if (row_.mixer != nullptr) mixed = row_.mixer->layers(config_, sizes_.layers);
    std::vector<bool> indexed(count, row_.latent == Latent::kSparse);
    if (row_.indexers != nullptr) indexed = row_.indexers(config_, sizes_.layers);
    for (std::int64_t i = 0; i < sizes_.layers; ++i) {
      const auto at = static_cast<std::size_t>(i);
      append_layer(model_, block({windows[at], sparse[at], mixed[at], indexed[at]}));
    }
    LayerBuilder head("head", top, sizes_.hidden);
    head.norm(norm_, prefix_.substr(top.size()) + std::string(row_.final_norm), sizes_.hidden);
    add_head(config_, model_, head, sizes_.hidden, config_.is(row_.head_bias), head_vocab());
    model_.head = head.take();
  }

 private:
  /// What differs between layers.
  struct Choice {
    std::int64_t window = 0;
    bool sparse = false;
    bool mixed = false;
    bool indexed = false;
  };

  [[nodiscard]] std::string name_of(const Choice& choice) const {
    if (choice.mixed) return std::string(row_.mixer->name);
    return choice.sparse && !all_sparse() ? "expert block" : "block";
  }

  [[nodiscard]] std::int64_t head_vocab() {
    if (model_.tied_embeddings || !config_.has(row_.head_vocab_key)) return 0;
    return config_.positive_or({row_.head_vocab_key}, 0, model_.vocab);
  }

  Layer block(const Choice& choice) {
    LayerBuilder b(name_of(choice), prefix_ + "layers.{}.", sizes_.hidden);
    const bool before = choice.mixed && row_.mixer->norms_first;
    switch (before ? NormPlace::kBefore : row_.place) {
      case NormPlace::kBefore:
        norm(b, before ? "input_layernorm" : row_.norms[0]);
        mix(b, choice);
        b.residual();
        norm(b, before ? "post_attention_layernorm" : row_.norms[1]);
        feed_forward(b, choice.sparse);
        b.residual();
        break;
      case NormPlace::kSandwich:
        norm(b, row_.norms[0]);
        mix(b, choice);
        if (norms_after_) norm(b, row_.norms[1], NormFeeds::kSum);
        b.residual();
        norm(b, row_.norms[2]);
        feed_forward(b, choice.sparse);
        if (norms_after_) norm(b, row_.norms[3], NormFeeds::kSum);
        b.residual();
        break;
      case NormPlace::kAfter:
        mix(b, choice);
        b.keep(as_double(sizes_.hidden), 0);  // the stream, which the products read
        norm(b, row_.norms[0], NormFeeds::kSum);
        b.residual();
        feed_forward(b, choice.sparse);
        b.keep(as_double(sizes_.hidden), 0);
        norm(b, row_.norms[1], NormFeeds::kSum);
        b.residual();
        break;
      case NormPlace::kShared:
        norm(b, row_.norms[0]);
        mix(b, choice);
        feed_forward(b, choice.sparse);
        b.residual();
        b.residual();
        break;
    }
    if (row_.extra != nullptr) row_.extra(config_, model_, b);
    return b.take();
  }

  void mix(LayerBuilder& b, const Choice& choice) {
    if (choice.mixed) row_.mixer->add(config_, model_, b);
    if (!choice.mixed || row_.mixer->beside) attention(b, choice);
  }

  [[nodiscard]] bool all_sparse() const {
    return row_.experts != nullptr && row_.experts->first_dense_key.empty() &&
           row_.experts->interleave_key.empty() && row_.experts->layers == nullptr &&
           row_.experts->layer_types_key.empty() && !row_.experts->sparse_step;
  }

  void norm(LayerBuilder& b, std::string_view name, NormFeeds feeds = NormFeeds::kProduct) {
    b.norm(norm_, name, sizes_.hidden, feeds);
  }

  void attention(LayerBuilder& b, const Choice& choice) {
    if (row_.latent != Latent::kNone) {
      latent_attention(b, choice.indexed);
      return;
    }
    const std::string at = std::string(row_.attention) + ".";
    const std::int64_t queries = sizes_.heads * sizes_.head_dim;
    const std::int64_t keys = sizes_.kv_heads * sizes_.head_dim;
    const bool gated = row_.gate != AttentionGate::kNone;
    const bool wide = row_.gate == AttentionGate::kInQueries;
    if (row_.fused_qkv) {
      b.linear(at + "qkv_proj", sizes_.hidden, queries + 2 * keys, qkv_bias_);
    } else {
      b.linear(at + "q_proj", sizes_.hidden, wide ? 2 * queries : queries, qkv_bias_);
      b.linear(at + "k_proj", sizes_.hidden, keys, qkv_bias_);
      b.linear(at + "v_proj", sizes_.hidden, keys, qkv_bias_);
    }
    if (gated && !wide) b.linear(at + "gate_proj", sizes_.hidden, queries, false);
    b.linear(at + std::string(row_.output), queries, sizes_.hidden, output_bias_);
    qk_norms(b, at);
    if (row_.sinks) b.tensor(at + "sinks", {sizes_.heads});
    b.chain(ChainKind::kRotary, as_double(queries));
    b.chain(ChainKind::kRotary, as_double(keys));
    b.attention({.heads = sizes_.heads,
                 .kv_heads = sizes_.kv_heads,
                 .head_dim = sizes_.head_dim,
                 .value_dim = sizes_.head_dim,
                 .window = choice.window,
                 .causal = row_.causal});
    // Values are a view of the fused result, which stays as long as they do.
    if (row_.fused_qkv) b.keep(as_double(queries + keys), 0);
    // Queries that were joined from a rotated and another part are laid out anew, and so is the
    // result.
    if (row_.joins_rotary) b.keep(as_double(queries), 0);
    if (row_.pair_bytes > 0) eager_scores(b);
    if (gated) {
      // The gate, its sigmoid and the product; the result before is attention's own.
      b.chain(ChainKind::kGate, as_double(queries));
      b.keep(3 * as_double(queries), 0);
    }
  }

  /// Keys and values are repeated for all heads then.
  void eager_scores(LayerBuilder& b) {
    b.keep(2 * as_double((sizes_.heads - sizes_.kv_heads) * sizes_.head_dim), 0);
    b.keep_pairs(row_.pair_bytes * as_double(sizes_.heads));
  }

  void qk_norms(LayerBuilder& b, const std::string& at) {
    if (qk_norm_ == QkNorm::kNone) return;
    const std::string query = at + std::string(row_.qk_norms[0]);
    const std::string key = at + std::string(row_.qk_norms[1]);
    const std::int64_t queries = sizes_.heads * sizes_.head_dim;
    const std::int64_t keys = sizes_.kv_heads * sizes_.head_dim;
    switch (qk_norm_) {
      case QkNorm::kNone:
        break;
      case QkNorm::kHead:
        b.head_norm(norm_, query, sizes_.head_dim, sizes_.heads);
        b.head_norm(norm_, key, sizes_.head_dim, sizes_.kv_heads);
        break;
      case QkNorm::kWhole:
        b.head_norm(norm_, query, queries, 1);
        b.head_norm(norm_, key, keys, 1);
        break;
      case QkNorm::kPerHead:
        b.tensor(query + ".weight", {sizes_.heads, sizes_.head_dim});
        b.tensor(key + ".weight", {sizes_.kv_heads, sizes_.head_dim});
        b.head_norm(Norm::kNoParameters, "", queries, 1);
        b.head_norm(Norm::kNoParameters, "", keys, 1);
        break;
    }
    // What they return is rotated, which keeps sines and cosines only.
    b.keep(-as_double(queries + keys), 0);
  }

  /// Queries, keys and values from compressed ones. Source: DeepSeek-V2 (arXiv 2405.04434).
  void latent_attention(LayerBuilder& b, bool indexed) {
    const std::string at = std::string(row_.attention) + ".";
    const std::int64_t hidden = sizes_.hidden;
    const LatentSizes& sizes = row_.latent_sizes;
    const bool has_query_rank = config_.map().node().find("q_lora_rank") == nullptr
                                    ? sizes.query_rank > 0
                                    : config_.has("q_lora_rank");
    const std::int64_t query_rank =
        has_query_rank ? config_.positive_or({"q_lora_rank"}, sizes.query_rank, kMaxHidden) : 0;
    const std::int64_t rank = config_.positive_or({"kv_lora_rank"}, sizes.rank, kMaxHidden);
    const std::int64_t rotated =
        config_.positive_or({sizes.rotated_alias, "qk_rope_head_dim"}, sizes.rotated, kMaxHeadDim);
    const std::int64_t plain = config_.positive_or({"qk_nope_head_dim"}, sizes.plain, kMaxHeadDim);
    const std::int64_t values = config_.positive_or(
        {"v_head_dim"},
        sizes.values > 0 ? sizes.values : std::max<std::int64_t>(1, hidden / sizes_.heads),
        kMaxHeadDim);
    const std::int64_t queries = sizes_.heads * (plain + rotated);
    if (query_rank > 0) {
      b.linear(at + "q_a_proj", hidden, query_rank, qkv_bias_);
      b.norm(Norm::kRms, at + "q_a_layernorm", query_rank);
      b.linear(at + "q_b_proj", query_rank, queries, false);
    } else {
      b.linear(at + "q_proj", hidden, queries, false);
    }
    b.linear(at + "kv_a_proj_with_mqa", hidden, rank + rotated, qkv_bias_);
    b.norm(Norm::kRms, at + "kv_a_layernorm", rank);
    b.linear(at + "kv_b_proj", rank, sizes_.heads * (plain + values), false);
    b.linear(at + "o_proj", sizes_.heads * values, hidden, output_bias_);
    std::int64_t window = 0;
    if (row_.latent == Latent::kSparse) {
      window = config_.positive_or({"index_topk"}, 2048, kMaxPositions);
    }
    if (indexed) indexer(b, at + "indexer.", query_rank);
    b.chain(ChainKind::kRotary, as_double(sizes_.heads * rotated));
    b.chain(ChainKind::kRotary, as_double(rotated));
    b.attention({.heads = sizes_.heads,
                 .kv_heads = sizes_.heads,
                 .head_dim = plain + rotated,
                 .value_dim = values,
                 .window = window});
    // Values are a view of what kv_b_proj returns.
    b.keep(as_double(sizes_.heads * plain), 0);
    // With heads as wide as their values attention takes a kernel whose result has the layout of
    // the queries: the next product reads a copy of it.
    const bool copies = row_.latent == Latent::kLatent && plain + rotated == values;
    if (copies) b.keep(as_double(sizes_.heads * values), 0);
  }

  /// Chooses the keys that a query sees, under torch.no_grad (modeling_deepseek_v32.py).
  void indexer(LayerBuilder& b, const std::string& at, std::int64_t query_rank) {
    const std::int64_t heads =
        config_.positive_or({"index_n_heads"}, row_.latent_sizes.index_heads, kMaxHeads);
    const std::int64_t columns = config_.positive_or({"index_head_dim"}, 128, kMaxHeadDim);
    b.linear(at + "wq_b", query_rank, heads * columns, false);
    b.without_grad();
    b.linear(at + "wk", sizes_.hidden, columns, false);
    b.without_grad();
    b.norm(Norm::kLayer, at + "k_norm", columns);
    b.linear(at + "weights_proj", sizes_.hidden, heads, false);
    b.without_grad();
    b.chosen_by_scores(heads, columns);
  }

  void feed_forward(LayerBuilder& b, bool sparse) {
    if (sparse) {
      experts(b);
      return;
    }
    std::int64_t columns = sizes_.intermediate;
    if (row_.mlp_width != nullptr) columns = row_.mlp_width(config_, columns);
    if (row_.experts != nullptr && row_.experts->dense_width_key != "intermediate_size") {
      const std::int64_t otherwise =
          row_.experts->dense_width > 0 ? row_.experts->dense_width : columns;
      columns = config_.positive_or({row_.experts->dense_width_key}, otherwise, kMaxIntermediate);
    }
    mlp(b, std::string(row_.feed_forward) + ".", columns);
  }

  void mlp(LayerBuilder& b, const std::string& at, std::int64_t columns) {
    const std::int64_t hidden = sizes_.hidden;
    switch (row_.mlp) {
      case Mlp::kGated:
        b.linear(at + std::string(row_.gated[0]), hidden, columns, mlp_bias_);
        b.linear(at + std::string(row_.gated[1]), hidden, columns, mlp_bias_);
        b.gate(as_double(columns));
        b.linear(at + std::string(row_.gated[2]), columns, hidden, mlp_bias_);
        break;
      case Mlp::kGatedFused:
        b.linear(at + "gate_up_proj", hidden, 2 * columns, mlp_bias_);
        b.gate(as_double(columns));
        b.linear(at + "down_proj", columns, hidden, mlp_bias_);
        break;
      case Mlp::kPlain:
        b.linear(at + std::string(row_.up), hidden, columns, mlp_bias_);
        b.activation(activation_.kind, as_double(columns), activation_.kept);
        b.linear(at + std::string(row_.down), columns, hidden, mlp_bias_);
        break;
    }
  }

  void experts(LayerBuilder& b) {
    const Experts& row = *row_.experts;
    if (experts_.experts > 0) routed_experts(b);
    const std::string at = std::string(row.module) + ".";
    if (experts_.shared > 0 && row.shared_beside) {
      const std::string beside = std::string(row.shared) + ".";
      b.linear(beside + "input_linear", sizes_.hidden, 2 * experts_.shared, false);
      b.gate(as_double(experts_.shared));
      b.linear(beside + "output_linear", experts_.shared, sizes_.hidden, false);
      if (experts_.experts > 0) b.residual();
    } else if (experts_.shared > 0) {
      mlp(b, fmt::format("{}{}.", at, row.shared), experts_.shared);
      b.residual();
    }
    if (!row.shared_gate) return;
    b.linear(at + "shared_expert_gate", sizes_.hidden, 1, false);
    b.keep(as_double(sizes_.hidden), 0);  // what the gate multiplies
  }

  void routed_experts(LayerBuilder& b) {
    const Experts& row = *row_.experts;
    const std::string at = std::string(row.module) + ".";
    const std::int64_t hidden = sizes_.hidden;
    const std::int64_t n = experts_.experts;
    const double each = static_cast<double>(experts_.top_k) / static_cast<double>(n);
    b.linear(at + std::string(row.router), hidden, n, row.router_bias);
    if (!row.correction.empty()) {
      b.tensor(at + std::string(row.correction),
               row.correction_row ? std::vector<std::int64_t>{1, n} : std::vector{n});
    }
    const auto stacked = [&](std::string_view name, std::int64_t in, std::int64_t out) {
      b.tensor(at + std::string(name),
               row.transposed ? std::vector{n, in, out} : std::vector{n, out, in});
      if (row.biases) b.tensor(fmt::format("{}{}_bias", at, name), {n, out});
      b.product(name, in, out, row.see_all ? Sharing{n, 1, each} : Sharing{n, each});
    };
    stacked(row.up, hidden, 2 * experts_.width);
    const double seen = as_double(row.see_all ? n : experts_.top_k);
    b.gate(seen * as_double(experts_.width));
    // gpt-oss clamps both halves and scales the gate by a sigmoid of its own.
    if (row.biases) b.keep(3 * seen * as_double(experts_.width), 0);
    if (row.wide_router) b.keep(0, 4 * as_double(hidden));
    stacked(row.down, experts_.width, hidden);
    b.routing(n, seen, hidden);
  }

  HubConfig& config_;
  const DecoderRow& row_;
  std::string prefix_;
  ModelSpec& model_;
  Sizes sizes_;
  bool qkv_bias_;
  bool output_bias_;
  bool mlp_bias_;
  bool norms_after_;
  QkNorm qk_norm_;
  Norm norm_;
  ExpertSizes experts_;
  PlainActivation activation_;
};

/// What would make a dense decoder another network.
void check_family(HubConfig& config, const DecoderRow& row) {
  MapReader& map = config.map();
  if (row.experts == nullptr) {
    for (const std::string_view key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      const auto experts = map.optional(key);
      if (experts && experts->integer(0, kMaxExperts) > 1) {
        experts->fail("a mixture of experts, but the model_type is one of dense layers");
      }
    }
  }
  if (row.latent != Latent::kNone) return;
  if (const auto rank = map.optional("kv_lora_rank")) {
    rank->fail("latent attention, which the model_type does not have");
  }
}

bool same(const Tensor& a, const Tensor& b) {
  return a.name == b.name && a.shape == b.shape;
}
bool same(const Attention& a, const Attention& b) {
  return a.window == b.window && a.linear == b.linear && a.causal == b.causal &&
         a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim &&
         a.value_dim == b.value_dim && a.key_tokens == b.key_tokens;
}

template <typename T>
bool all_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& one, const T& other) { return same(one, other); });
}

}  // namespace

void append_layer(ModelSpec& model, Layer layer) {
  // Layers alternate between few kinds, the last ones most likely.
  for (std::size_t i = model.kinds.size(); i-- > 0;) {
    const Layer& known = model.kinds[i];
    if (known.name != layer.name || !all_same(known.tensors, layer.tensors) ||
        !all_same(known.attention, layer.attention)) {
      continue;
    }
    model.order.push_back(static_cast<std::int32_t>(i));
    return;
  }
  model.order.push_back(static_cast<std::int32_t>(model.kinds.size()));
  model.kinds.push_back(std::move(layer));
}

void append_layers(ModelSpec& model, std::int64_t count, Layer layer) {
  append_layer(model, std::move(layer));
  model.order.insert(model.order.end(), static_cast<std::size_t>(count - 1), model.order.back());
}

PlainActivation plain_activation(std::string_view name) {
  if (name == "gelu_new" || name == "gelu_fast") return {ChainKind::kNewGelu, 5};
  // x * sigmoid(1.702 x) keeps the sigmoid besides.
  if (name == "quick_gelu") return {ChainKind::kActivation, 3};
  if (name == "relu") return {ChainKind::kActivation, 1};  // keeps its result
  return {ChainKind::kActivation, 2};
}

void add_head(HubConfig& config, ModelSpec& model, LayerBuilder& head, std::int64_t width,
              bool has_bias, std::int64_t vocab) {
  switch (config.head()) {
    case Head::kNone:
    case Head::kImage:
      model.outputs = 0;
      return;
    case Head::kLanguage:
      model.outputs = vocab > 0 ? vocab : model.vocab;
      if (model.tied_embeddings) {
        head.product("lm_head", width, model.outputs);
        if (has_bias) head.tensor("lm_head.bias", {model.outputs});
      } else {
        head.linear("lm_head", width, model.outputs, has_bias);
      }
      return;
    case Head::kSequence:
      model.outputs = config.labels();
      head.linear("score", width, model.outputs, false);
      return;
    case Head::kTokens:
      model.outputs = config.labels();
      head.linear("score", width, model.outputs, true);
      return;
    case Head::kAnswer:
      model.outputs = 2;
      head.linear("qa_outputs", width, model.outputs, true);
      return;
    case Head::kPreTraining:
    case Head::kEncoder:
      config.fail("architectures", "no class of this model_type that is known");
  }
}

std::string decoder_prefix(const DecoderRow& row, Head head) {
  if (head == Head::kNone) return "";
  return std::string(head == Head::kAnswer ? row.answer_prefix : "model.");
}

void read_decoder(HubConfig& config, const DecoderRow& row, const std::string& prefix,
                  ModelSpec& model, std::optional<bool> tied, const std::string& top) {
  check_family(config, row);
  DecoderReader(config, row, prefix, model).read(tied, top);
}

}  // namespace zenflow::sim::hub
