/// What layers of transformers are put together from: each part adds its tensors, its products, its
/// element-wise kernels and what autograd keeps of it.
///
/// Bytes kept are those of Hugging Face's eager modules with fused attention (docs/model.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/model/model_spec.h"

namespace zenflow::sim::hub {

enum class Norm : std::uint8_t {
  kRms,
  kGemmaRms,  ///< its weight is multiplied in fp32: Gemma's, and some others'
  kLayer,     ///< LayerNorm with weight and bias
  kLayerNoBias,
  kWideLayer,     ///< Cohere's LayerNorm without bias, written out in fp32
  kLayerInFp32,   ///< OLMo's LayerNorm without parameters, of the input in fp32
  kNoParameters,  ///< OLMo's LayerNorm
  kRmsNoParameters,
};

/// Whether what a norm returns is kept: as the input of a product, but not as that of a sum.
enum class NormFeeds : std::uint8_t { kProduct, kSum };

struct Sharing {
  std::int64_t count = 1;
  double share = 1;
  double needed = 0;  ///< Linear::needed
};

[[nodiscard]] inline double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

class LayerBuilder {
 public:
  /// `prefix`: "model.layers.{}.". `width`: elements a token of the stream that enters.
  LayerBuilder(std::string name, std::string prefix, std::int64_t width);

  /// A parameter without a product of its own, named in full below the prefix.
  void tensor(std::string_view name, std::vector<std::int64_t> shape);
  void norm(Norm kind, std::string_view name, std::int64_t size,
            NormFeeds feeds = NormFeeds::kProduct);
  /// A norm of each of `heads` vectors of `size` columns, with one weight for all of them.
  void head_norm(Norm kind, std::string_view name, std::int64_t size, std::int64_t heads);
  /// torch.nn.Linear: weight [out, in].
  void linear(std::string_view name, std::int64_t in, std::int64_t out, bool has_bias,
              Sharing sharing = {});
  /// GPT-2's Conv1D: weight [in, out], always with a bias.
  void conv1d(std::string_view name, std::int64_t in, std::int64_t out);
  /// A product with a weight that is counted elsewhere: of a tied head, of stacked experts.
  void product(std::string_view name, std::int64_t in, std::int64_t out, Sharing sharing = {});
  void chain(ChainKind kind, double width);
  void residual() { chain(ChainKind::kResidual, static_cast<double>(layer_.width)); }
  /// And its mask of a byte an element.
  void dropout(double width);
  /// Softmax attention, of which q, k, v, the result and the log-sum-exp are kept.
  void attention(const Attention& attention);
  /// Linear attention, of which the caller says what is kept.
  void linear_attention(const Attention& attention) { layer_.attention.push_back(attention); }
  /// Scores of queries and keys of `columns`, of all pairs, which choose what attention sees.
  void chosen_by_scores(std::int64_t heads, std::int64_t columns) {
    layer_.attention.push_back(
        {.heads = heads, .kv_heads = 1, .head_dim = columns, .causal = false, .no_grad = true});
  }
  /// The product added last runs under torch.no_grad.
  void without_grad() { layer_.products.back().no_grad = true; }
  /// activation(gate) * up of `width` columns: gate, up, the activation and the product are kept.
  void gate(double width);
  /// A plain MLP's activation: its input, and its result for the next product.
  void activation(ChainKind kind, double width, double kept);
  /// Tokens to `seen` of `experts` each, sorted by expert, and their results weighted and added.
  void routing(std::int64_t experts, double seen, std::int64_t width);
  void keep(double elements, double bytes);
  /// Scores that attention keeps which is not fused.
  void keep_pairs(double bytes) { layer_.saved.pair_bytes += bytes; }
  /// Tokens of a sequence, where they are not the training's.
  void tokens(std::int64_t count) { layer_.tokens = count; }

  [[nodiscard]] Layer take() { return std::move(layer_); }

 private:
  /// What products read from now on is kept for their weights only.
  void begin_input(double elements);

  std::string prefix_;
  Layer layer_;
  double input_ = 0;  ///< elements a token of the input that has begun; 0: none
};

/// Adds what another part of the network runs and keeps to the same layer.
void append_part(Layer& layer, Layer part);

}  // namespace zenflow::sim::hub
