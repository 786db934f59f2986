/// Causal attention with grouped queries: out = softmax(scale * q k^T) v for each sequence and
/// head, where a token sees itself and those before it, of a window the last of these.
///
/// Scores are never kept: backward computes them again from q and k, tile by tile, with the maximum
/// and sum of every row that forward kept, so memory grows with the sequence and not with its
/// square. Source: Dao et al. 2022, section 3.1 and appendix B.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model/numerics.h"

namespace zenflow::runtime {

/// A row of `qkv` holds heads * head_dim columns of queries, then kv_heads * head_dim of keys, then
/// as many of values. Query head h uses key head h / (heads / kv_heads).
struct AttentionShape {
  std::int64_t sequences;
  std::int64_t length;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  float scale;
  std::int64_t window = 0;  ///< keys that a token sees, its own among them; 0: all
  float cap = 0.0F;         ///< of scores, cap * tanh(score / cap); 0: none

  /// The first key that the token at `position` of its sequence sees.
  [[nodiscard]] std::int64_t first_key(std::int64_t position) const {
    return window > 0 && position >= window ? position + 1 - window : 0;
  }
  [[nodiscard]] std::int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  [[nodiscard]] std::int64_t out_row() const { return heads * head_dim; }
};

/// [sequences * length, heads] each: of the scaled scores of a row, kept for backward.
struct SoftmaxStatistics {
  float* maximum;
  float* inverse_sum;  ///< 1 / sum of exp(score - maximum)
};

/// Scratch of every thread of the pool.
using AttentionScratch = std::vector<std::vector<float>>;

/// out[sequences * length, heads * head_dim] from qkv.
void attention_forward(const Execution& run, const AttentionShape& shape, const float* qkv,
                       float* out, SoftmaxStatistics statistics, AttentionScratch& scratch);

/// d_qkv, laid out as qkv, is written. The statistics are forward's.
void attention_backward(const Execution& run, const AttentionShape& shape, const float* qkv,
                        const float* out, const float* maximum, const float* inverse_sum,
                        const float* d_out, float* d_qkv, AttentionScratch& scratch);

}  // namespace zenflow::runtime
