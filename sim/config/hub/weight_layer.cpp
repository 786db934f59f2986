#include "sim/config/hub/weight_layer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "sim/config/hub/layer_builder.h"
#include "sim/config/hub/weight_tensors.h"

namespace zenflow::sim::hub {
namespace {

using Synonyms = std::array<std::string_view, 8>;
constexpr Synonyms kQuery = {"q_proj", "query", "q",        "wq",
                             "to_q",   "q_lin", "q_b_proj", "query_proj"};
constexpr Synonyms kKey = {"k_proj", "key", "k", "wk", "to_k", "k_lin", "key_proj", ""};
constexpr Synonyms kValue = {"v_proj", "value", "v", "wv", "to_v", "v_lin", "value_proj", ""};
constexpr Synonyms kFused = {"qkv_proj", "qkv",    "query_key_value", "c_attn",
                             "Wqkv",     "W_pack", "att_proj",        "wqkv"};
constexpr Synonyms kOutput = {"o_proj", "out_proj", "o",     "wo",
                              "to_out", "out_lin",  "dense", "c_proj"};
constexpr Synonyms kQueryNorm = {"q_norm", "q_layernorm", "query_layernorm", "q_ln", "", "", "",
                                 ""};

bool is_one_of(std::string_view name, const Synonyms& names) {
  return !name.empty() && std::find(names.begin(), names.end(), name) != names.end();
}

/// A weight that tokens are multiplied by, or stacked ones.
struct Matrix {
  std::string module;  ///< "self_attn.q_proj"
  std::string parent;  ///< "self_attn"
  std::string last;    ///< "q_proj"
  std::string scope;   ///< the parent, where all experts have one: "mlp.experts.*"
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t stacked = 1;  ///< experts in this tensor
  bool of_experts = false;
  bool used = false;
};

std::string_view module_name(std::string_view tensor) {
  constexpr std::string_view kWeight = ".weight";
  if (tensor.ends_with(kWeight)) tensor.remove_suffix(kWeight.size());
  return tensor;
}

/// "experts.*.w1" of "experts.7.w1".
std::string without_number(const std::string& name) {
  const auto split = split_at_number(name);
  if (!split) return name;
  return std::string(split->before) + "*" + std::string(split->after);
}

bool is_norm_name(std::string_view module) {
  const std::string_view last = module.substr(module.rfind('.') + 1);
  return last.find("norm") != std::string_view::npos ||
         last.find("Norm") != std::string_view::npos || last.starts_with("ln") ||
         last.ends_with("_ln");
}

/// Tables of distances and positions, and the matrix of a state space's decays: no products.
bool is_looked_up(std::string_view module) {
  return mentions(module, {"emb", "relative", "position", "table", "A_log"});
}

class LayerEstimate {
 public:
  LayerEstimate(const std::string& prefix, const std::vector<LayerTensor>& tensors,
                const StackFacts& facts, Assumptions& assumptions)
      : facts_(facts), assumptions_(assumptions), b_("block", prefix, facts.width) {
    for (const LayerTensor& tensor : tensors) sort_in(tensor);
  }

  Layer take() {
    begin_half(0);
    const bool attends = attentions();
    if (!attends) assumptions_.without_attention = true;
    if (attends) {
      b_.residual();
      if (norms_.size() > 1) begin_half(1);
    }
    feed_forward();
    b_.residual();
    for (std::size_t i = 2; i < norms_.size(); ++i) norm(norms_[i], NormFeeds::kSum);
    return b_.take();
  }

 private:
  struct Vector {
    std::string module;
    std::int64_t size = 0;
    bool has_bias = false;
  };

  void sort_in(const LayerTensor& tensor) {
    const std::string module(module_name(tensor.name));
    const std::vector<std::int64_t>& shape = tensor.shape;
    const bool is_bias = tensor.name.ends_with("bias");
    if (shape.size() == 1 && !is_bias && is_norm_name(module)) {
      Vector vector{module, shape[0], false};
      (shape[0] == facts_.width ? norms_ : head_norms_).push_back(std::move(vector));
    } else if (tensor.name.ends_with(".bias")) {
      biased_.insert(module.substr(0, module.rfind('.')));
    }
    if (mentions(tensor.name, {"A_log", "dt_bias", "conv1d"})) {
      states_.insert(module.substr(0, module.find('.')));
    }
    const bool of_experts = mentions(module, {"expert", "moe"});
    const bool is_stack = shape.size() == 3 && of_experts && !is_bias;
    if ((shape.size() != 2 && !is_stack) || is_bias || is_looked_up(module)) return;
    Matrix one;
    one.module = module;
    const std::size_t dot = module.rfind('.');
    one.parent = dot == std::string::npos ? "" : module.substr(0, dot);
    one.last = module.substr(dot == std::string::npos ? 0 : dot + 1);
    one.of_experts = is_stack || (of_experts && split_at_number(module).has_value());
    one.scope = one.of_experts ? without_number(one.parent) : one.parent;
    one.stacked = is_stack ? shape[0] : 1;
    one.out = shape[shape.size() - 2];
    one.in = shape.back();
    // Some classes stack [experts, in, out].
    const bool is_down = one.last.find("down") != std::string::npos || one.last == "w2";
    if (is_stack && one.out == facts_.width && one.in != facts_.width && !is_down) {
      std::swap(one.in, one.out);
    }
    matrices_.push_back(std::move(one));
  }

  void norm(const Vector& vector, NormFeeds feeds) {
    b_.norm(biased_.contains(vector.module) ? Norm::kLayer : Norm::kRms, vector.module, vector.size,
            feeds);
  }
  /// The norm that attention or the MLP begins with.
  void begin_half(std::size_t i) {
    if (i < norms_.size()) {
      norm(norms_[i], NormFeeds::kProduct);
    } else {
      b_.norm(Norm::kNoParameters, "norm", facts_.width);
    }
  }

  void product(Matrix& matrix, Sharing sharing = {}) {
    matrix.used = true;
    b_.product(matrix.module, matrix.in, matrix.out, sharing);
  }

  Matrix* find(const std::string& parent, const Synonyms& names) {
    const auto found = std::find_if(matrices_.begin(), matrices_.end(), [&](const Matrix& one) {
      return !one.used && !one.of_experts && one.parent == parent && is_one_of(one.last, names);
    });
    return found == matrices_.end() ? nullptr : &*found;
  }

  /// The projection out of attention: beside its queries, or in a module of its own below one
  /// called attention, as BERT's.
  Matrix* find_output(const std::string& parent, std::int64_t columns) {
    if (Matrix* beside = find(parent, kOutput)) return beside;
    for (Matrix& one : matrices_) {
      const bool in_attention = one.module.find("att") != std::string::npos;
      const bool fits = columns == 0 || one.in == columns;
      if (!one.used && in_attention && fits && is_one_of(one.last, kOutput)) return &one;
    }
    return nullptr;
  }

  bool attentions() {
    bool any = false;
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      Matrix& one = matrices_[i];
      if (one.used || one.of_experts) continue;
      if (is_one_of(one.last, kFused)) {
        fused_attention(one);
        any = true;
      } else if (is_one_of(one.last, kQuery)) {
        any = attention(one) || any;
      }
    }
    return any;
  }

  void fused_attention(Matrix& all) {
    if (all.out < all.in) std::swap(all.out, all.in);  // GPT-2's weights are [in, out]
    product(all);
    Matrix* output = find_output(all.parent, 0);
    const bool fits = output != nullptr && output->in <= all.out - 2;  // keys and values have some
    const std::int64_t queries = fits ? output->in : all.out / 3;
    const std::int64_t keys = (all.out - queries) / 2;
    if (output != nullptr) product(*output);
    if (queries == 0) return;  // too narrow for any
    attend(all.parent, queries, keys, keys);
    b_.keep(as_double(queries + keys), 0);  // values are a view of the fused result
  }

  bool attention(Matrix& query) {
    if (Matrix* latent = find(query.parent, {"kv_b_proj"})) return latent_attention(query, *latent);
    Matrix* key = find(query.parent, kKey);
    Matrix* value = find(query.parent, kValue);
    if (key == nullptr || value == nullptr) return false;
    product(query);
    product(*key);
    product(*value);
    std::int64_t queries = query.out;
    Matrix* output = find_output(query.parent, 0);
    if (output != nullptr) {
      product(*output);
      // Queries and a gate of attention's result at once.
      if (2 * output->in == queries) queries = output->in;
    }
    attend(query.parent, queries, key->out, value->out);
    return true;
  }

  /// DeepSeek's, of `h` heads: queries have h (n + r) columns, keys and values h (n + v), the
  /// result h v, and r is what the first projection has beside the latent vector.
  bool latent_attention(Matrix& query, Matrix& latent) {
    Matrix* first = find(query.parent, {"kv_a_proj_with_mqa", "kv_a_proj"});
    Matrix* output = find(query.parent, kOutput);
    if (first == nullptr || output == nullptr || first->out <= latent.in) return false;
    const std::int64_t rotated = first->out - latent.in;
    const std::int64_t heads = (query.out - (latent.out - output->in)) / rotated;
    if (heads <= 0 || query.out % heads != 0 || output->in % heads != 0) return false;
    for (Matrix* one : {&query, first, &latent, output}) product(*one);
    b_.chain(ChainKind::kRotary, as_double(heads * rotated));
    b_.attention({.heads = heads,
                  .kv_heads = heads,
                  .head_dim = query.out / heads,
                  .value_dim = output->in / heads,
                  .causal = facts_.causal});
    return true;
  }

  void attend(const std::string& parent, std::int64_t queries, std::int64_t keys,
              std::int64_t values) {
    const std::int64_t columns = head_dim(parent, queries, keys);
    const std::int64_t kv_heads = std::max<std::int64_t>(1, keys / columns);
    for (const Vector& one : head_norms_) {
      if (!one.module.starts_with(parent + ".")) continue;
      const bool of_queries =
          is_one_of(std::string_view(one.module).substr(one.module.rfind('.') + 1), kQueryNorm);
      const std::int64_t size = of_queries ? queries : keys;
      b_.head_norm(Norm::kRms, one.module, one.size, std::max<std::int64_t>(1, size / one.size));
      if (facts_.rotary) b_.keep(-as_double(size), 0);
    }
    if (facts_.rotary) {
      b_.chain(ChainKind::kRotary, as_double(queries));
      b_.chain(ChainKind::kRotary, as_double(keys));
    }
    const bool crosses = parent.find("cross") != std::string::npos ||
                         parent.find("encoder_attn") != std::string::npos ||
                         parent.find("EncDec") != std::string::npos;
    b_.attention({.heads = std::max<std::int64_t>(1, queries / columns),
                  .kv_heads = kv_heads,
                  .head_dim = columns,
                  .value_dim = std::max<std::int64_t>(1, values / kv_heads),
                  .causal = facts_.causal && !crosses,
                  .linear = states_.contains(parent.substr(0, parent.find('.')))});
  }

  /// Of the norm of each head; of the configuration; or assumed. FLOPs do not depend on it.
  std::int64_t head_dim(const std::string& parent, std::int64_t queries, std::int64_t keys) {
    constexpr std::int64_t kWide = 2048;  // from here on heads of 128 are usual
    const auto fits = [&](std::int64_t columns) {
      return columns > 0 && queries % columns == 0 && keys % columns == 0;
    };
    for (const Vector& one : head_norms_) {
      const std::string_view last = std::string_view(one.module).substr(one.module.rfind('.') + 1);
      const bool beside = one.module.starts_with(parent + ".");
      if (beside && is_one_of(last, kQueryNorm) && one.size < queries && fits(one.size)) {
        return one.size;
      }
    }
    if (fits(facts_.head_dim)) return facts_.head_dim;
    if (facts_.heads > 0 && queries % facts_.heads == 0 && fits(queries / facts_.heads)) {
      return queries / facts_.heads;
    }
    const auto usual = std::to_array<std::int64_t>({queries >= kWide ? 128 : 64, 128, 64, 32, 16});
    const auto* const found = std::find_if(usual.begin(), usual.end(), fits);
    const std::int64_t columns = found != usual.end() ? *found : std::min(queries, keys);
    assumptions_.head_dims.insert(columns);
    return columns;
  }

  void feed_forward() {
    std::map<std::string, std::vector<Matrix*>> scopes;
    for (Matrix& one : matrices_) {
      if (!one.used) scopes[one.scope].push_back(&one);
    }
    std::vector<Matrix*> rest;
    for (auto& [scope, matrices] : scopes) {
      if (matrices.front()->of_experts) {
        experts(matrices);
      } else if (matrices.size() > 1) {
        mlp(matrices);
      } else {
        rest.push_back(matrices.front());
      }
    }
    if (!rest.empty()) mlp(rest);
  }

  /// Columns of matrices that read the stream, and of those that write it.
  struct Columns {
    std::int64_t up = 0;
    std::int64_t down = 0;
  };

  [[nodiscard]] Columns columns_of(const std::vector<Matrix*>& matrices) const {
    Columns columns;
    for (const Matrix* one : matrices) {
      if (one->out == facts_.width && one->in != facts_.width) {
        columns.down = std::max(columns.down, one->in);
      }
    }
    for (const Matrix* one : matrices) {
      const bool reads = one->in == facts_.width && one->out >= columns.down;
      if (reads) columns.up += one->out;
    }
    return columns;
  }

  void activate(const Columns& columns, double seen) {
    if (columns.down == 0 || columns.up == 0) return;
    if (columns.up >= 2 * columns.down) {
      b_.gate(seen * as_double(columns.down));
    } else {
      b_.activation(ChainKind::kActivation, seen * as_double(columns.down), 2);
    }
  }

  void mlp(const std::vector<Matrix*>& matrices) {
    const auto is_down = [this](const Matrix* one) { return one->out == facts_.width; };
    for (Matrix* one : matrices) {
      if (!is_down(one)) product(*one);
    }
    activate(columns_of(matrices), 1);
    for (Matrix* one : matrices) {
      if (is_down(one)) product(*one);
    }
  }

  void experts(const std::vector<Matrix*>& matrices) {
    std::map<std::string, std::vector<Matrix*>> alike;  // the same matrix of all experts
    for (Matrix* one : matrices) alike[without_number(one->module)].push_back(one);
    const std::vector<Matrix*>& first = alike.begin()->second;
    const std::int64_t count = std::max(first.front()->stacked, std::ssize(first));
    const std::int64_t seen = experts_seen(count);
    const double share = as_double(seen) / as_double(count);
    std::vector<Matrix*> of_one;
    for (const auto& [name, all] : alike) of_one.push_back(all.front());
    const auto add = [&](bool down) {
      for (const auto& [name, all] : alike) {
        if ((all.front()->out == facts_.width) != down) continue;
        for (Matrix* one : all) product(*one, {one->stacked, share});
      }
    };
    add(false);
    activate(columns_of(of_one), as_double(seen));
    add(true);
    b_.routing(count, as_double(seen), facts_.width);
  }

  std::int64_t experts_seen(std::int64_t count) {
    constexpr std::int64_t kFew = 16;  // Mixtral sees 2 of 8, families of many experts about 8
    if (facts_.experts_per_token > 0) return std::min(count, facts_.experts_per_token);
    const std::int64_t seen = std::min<std::int64_t>(count, count <= kFew ? 2 : 8);
    assumptions_.experts.emplace(seen, count);
    return seen;
  }

  const StackFacts& facts_;
  Assumptions& assumptions_;
  LayerBuilder b_;
  std::vector<Matrix> matrices_;
  std::vector<Vector> norms_;       ///< of the stream
  std::vector<Vector> head_norms_;  ///< of parts of it
  std::set<std::string> biased_;
  std::set<std::string> states_;  ///< modules with the tensors of a state space
};

}  // namespace

Layer estimate_layer(const std::string& prefix, std::vector<LayerTensor> tensors,
                     const StackFacts& facts, Assumptions& assumptions) {
  Layer layer = LayerEstimate(prefix, tensors, facts, assumptions).take();
  // As they are stored, whatever the parts above are made of.
  layer.tensors.clear();
  for (LayerTensor& one : tensors) {
    layer.tensors.push_back({prefix + one.name, std::move(one.shape)});
  }
  return layer;
}

}  // namespace zenflow::sim::hub
