/// Causal attention with grouped queries: out = softmax(scale * q k^T) v for each sequence and
/// head, where a token sees itself and those before it, of a window the last `window` of these. No
/// more than a tile of scores exists.
///
/// Arithmetic, from stored values, for token t of a sequence, head h with its key head, u <= t:
///   s[u] = scale * (sum over c of q[t, c] * k[u, c]), with a cap: cap * tanh(that / cap)
///   lse[t] = log(sum over u of exp(s[u])),  p[u] = exp(s[u] - lse[t])
///   out[t, c] = stored(sum over u of p[u] * v[u, c])
/// Backward, with delta[t] = sum over c of out[t, c] * d_out[t, c]:
///   ds[t, u] = p[u] * ((sum over c of d_out[t, c] * v[u, c]) - delta[t]) * scale, with a cap times
///              1 - (s[u] / cap)^2
///   d_q[t] = stored(sum over u of ds[t, u] * k[u])
///   d_k[u] = stored(sum over t and the key head's query heads of ds[t, u] * q[t]),
///   d_v[u] = stored(the same sum of p[t, u] * d_out[t])
/// Sources: Dao et al. 2022, section 3.1 and appendix B; Dao 2023, section 3.1; the window is
/// Mistral's (Jiang et al. 2023, section 2), the cap Gemma 2's (Gemma Team 2024, section 2).
///
/// The reference computes in double. Others have fp32 products and sums in an order of their own,
/// with tensor cores in tiles, from bfloat16 p and ds: p is then at most 2^-8 relative off before
/// it is summed. Neither uses atomics: equal inputs give equal bits.
#pragma once

#include <cstddef>

#include "kernels/bf16/bf16.h"

namespace zenflow::kernels {

/// A row of qkv holds heads * head_dim columns of queries, then kv_heads * head_dim of keys, then
/// as many of values. Query head h uses key head h / (heads / kv_heads).
struct AttentionShape {
  std::size_t sequences;
  std::size_t length;
  std::size_t heads;
  std::size_t kv_heads;  ///< divides heads
  std::size_t head_dim;
  float scale;
  std::size_t window = 0;  ///< keys that a token sees, its own among them; 0: all
  float cap = 0.0F;        ///< of scores; 0: none

  /// The first key that the token at `position` of its sequence sees.
  [[nodiscard]] constexpr std::size_t first_key(std::size_t position) const {
    return window > 0 && position + 1 > window ? position + 1 - window : 0;
  }
  /// One more than the last token that sees the key at `position`.
  [[nodiscard]] constexpr std::size_t end_of_queries(std::size_t position) const {
    return window > 0 && window < length - position ? position + window : length;
  }
  [[nodiscard]] constexpr std::size_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  [[nodiscard]] constexpr std::size_t out_row() const { return heads * head_dim; }
  [[nodiscard]] constexpr std::size_t tokens() const { return sequences * length; }
};

template <class Element>
struct AttentionForward {
  const Element* qkv;  ///< [tokens, row()]
  Element* out;        ///< [tokens, heads * head_dim]
  float* lse;          ///< [tokens, heads], kept for backward
};

template <class Element>
struct AttentionBackward {
  const Element* qkv;
  const Element* out;
  const float* lse;
  const Element* d_out;
  float* delta;    ///< [tokens, heads], scratch
  Element* d_qkv;  ///< laid out as qkv, written
};

// The references. There is Element = float and Bf16.
template <class Element>
void attention_forward_scalar(const AttentionShape& shape, const AttentionForward<Element>& values);
template <class Element>
void attention_backward_scalar(const AttentionShape& shape,
                               const AttentionBackward<Element>& values);

}  // namespace zenflow::kernels
