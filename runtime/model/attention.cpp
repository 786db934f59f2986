#include "runtime/model/attention.h"

#include <algorithm>
#include <cmath>

#include "runtime/model/gemm.h"

namespace zenflow::runtime {
namespace {

/// Rows of queries whose scores are held at once.
constexpr std::int64_t kTile = 128;

/// Where one head of one sequence lies in a buffer laid out as qkv.
template <class Float>
struct HeadViews {
  Float* query;
  Float* key;
  Float* value;
};

template <class Float>
HeadViews<Float> views(const AttentionShape& shape, Float* qkv, std::int64_t sequence,
                       std::int64_t head) {
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  Float* const base = qkv + sequence * shape.length * shape.row();
  return {base + head * shape.head_dim, base + (shape.heads + kv_head) * shape.head_dim,
          base + (shape.heads + shape.kv_heads + kv_head) * shape.head_dim};
}

float* reserve(std::vector<float>& scratch, std::int64_t count) {
  if (scratch.size() < static_cast<std::size_t>(count)) {
    scratch.resize(static_cast<std::size_t>(count));
  }
  return scratch.data();
}

/// scores[tile, keys] = q[tile, head_dim] * k[keys, head_dim]^T.
void products(const AttentionShape& shape, std::int64_t tile, std::int64_t keys, const float* q,
              std::int64_t q_stride, const float* k, float* scores) {
  gemm({tile, keys, shape.head_dim}, {q, q_stride}, {k, shape.row(), Transposed::kYes},
       {scores, keys}, false);
}

/// Scores of one row become probabilities; those of keys after the row become 0.
void softmax(float scale, std::int64_t visible, std::int64_t keys, Rounding rounded, float* row,
             float& maximum, float& inverse_sum) {
  maximum = *std::max_element(row, row + visible) * scale;
  float sum = 0.0F;
  for (std::int64_t k = 0; k < visible; ++k) {
    row[k] = std::exp(row[k] * scale - maximum);
    sum += row[k];
  }
  inverse_sum = 1.0F / sum;
  for (std::int64_t k = 0; k < visible; ++k) row[k] = rounded(row[k] * inverse_sum);
  std::fill(row + visible, row + keys, 0.0F);
}

void forward_head(const Execution& run, const AttentionShape& shape, const float* qkv,
                  std::int64_t sequence, std::int64_t head, float* out,
                  SoftmaxStatistics statistics, std::vector<float>& scratch) {
  const auto [query, key, value] = views(shape, qkv, sequence, head);
  float* const scores = reserve(scratch, kTile * shape.length);
  for (std::int64_t first = 0; first < shape.length; first += kTile) {
    const std::int64_t tile = std::min(kTile, shape.length - first);
    const std::int64_t keys = first + tile;
    products(shape, tile, keys, query + first * shape.row(), shape.row(), key, scores);
    const std::int64_t token = sequence * shape.length + first;
    for (std::int64_t r = 0; r < tile; ++r) {
      const std::int64_t at = (token + r) * shape.heads + head;
      softmax(shape.scale, first + r + 1, keys, run.rounding(), scores + r * keys,
              statistics.maximum[at], statistics.inverse_sum[at]);
    }
    gemm({tile, shape.head_dim, keys}, {scores, keys}, {value, shape.row()},
         {out + token * shape.out_row() + head * shape.head_dim, shape.out_row()}, false);
  }
}

/// One query head of one sequence, and what of it the tiles need.
struct BackwardHead {
  HeadViews<const float> in;
  HeadViews<float> gradient;
  const float* out;  // from the sequence's first token, at the head's columns
  const float* d_out;
  const float* maximum;  // from the sequence's first token, `heads` apart
  const float* inverse_sum;
};

/// probabilities[tile, keys] from scores, and d_scores[tile, keys] from the gradients by the
/// probabilities, both in place.
void softmax_backward(const Execution& run, const AttentionShape& shape, const BackwardHead& head,
                      std::int64_t first, std::int64_t tile, float* scores, float* d_scores) {
  const Rounding rounded = run.rounding();
  const std::int64_t keys = first + tile;
  for (std::int64_t r = 0; r < tile; ++r) {
    const std::int64_t token = first + r;
    const float maximum = head.maximum[token * shape.heads];
    const float inverse_sum = head.inverse_sum[token * shape.heads];
    double sum = 0.0;  // of probability * gradient over keys = of out * d_out over columns
    for (std::int64_t c = 0; c < shape.head_dim; ++c) {
      const std::int64_t at = token * shape.out_row() + c;
      sum += static_cast<double>(head.out[at]) * static_cast<double>(head.d_out[at]);
    }
    const auto mean = static_cast<float>(sum);
    float* const p = scores + r * keys;
    float* const dp = d_scores + r * keys;
    for (std::int64_t k = 0; k <= token; ++k) {
      const float probability = std::exp(p[k] * shape.scale - maximum) * inverse_sum;
      dp[k] = rounded(probability * (dp[k] - mean) * shape.scale);
      p[k] = rounded(probability);
    }
    std::fill(p + token + 1, p + keys, 0.0F);
    std::fill(dp + token + 1, dp + keys, 0.0F);
  }
}

void backward_head(const Execution& run, const AttentionShape& shape, const BackwardHead& head,
                   std::vector<float>& scratch) {
  const std::int64_t row = shape.row();
  const std::int64_t out_row = shape.out_row();
  float* const scores = reserve(scratch, 2 * kTile * shape.length);
  float* const d_scores = scores + kTile * shape.length;
  for (std::int64_t first = 0; first < shape.length; first += kTile) {
    const std::int64_t tile = std::min(kTile, shape.length - first);
    const std::int64_t keys = first + tile;
    const float* const q = head.in.query + first * row;
    const float* const d_out = head.d_out + first * out_row;
    products(shape, tile, keys, q, row, head.in.key, scores);
    products(shape, tile, keys, d_out, out_row, head.in.value, d_scores);
    softmax_backward(run, shape, head, first, tile, scores, d_scores);
    gemm({tile, shape.head_dim, keys}, {d_scores, keys}, {head.in.key, row},
         {head.gradient.query + first * row, row}, false);
    gemm({keys, shape.head_dim, tile}, {d_scores, keys, Transposed::kYes}, {q, row},
         {head.gradient.key, row}, true);
    gemm({keys, shape.head_dim, tile}, {scores, keys, Transposed::kYes}, {d_out, out_row},
         {head.gradient.value, row}, true);
  }
}

}  // namespace

void attention_forward(const Execution& run, const AttentionShape& shape, const float* qkv,
                       float* out, SoftmaxStatistics statistics, AttentionScratch& scratch) {
  scratch.resize(run.pool.threads());
  const auto blocks = static_cast<std::size_t>(shape.sequences * shape.heads);
  run.pool.run(blocks, [&](std::size_t number, std::size_t worker) {
    const auto block = static_cast<std::int64_t>(number);
    forward_head(run, shape, qkv, block / shape.heads, block % shape.heads, out, statistics,
                 scratch[worker]);
  });
  round_in_place(run, out, shape.sequences * shape.length, shape.out_row(), shape.out_row());
}

void attention_backward(const Execution& run, const AttentionShape& shape, const float* qkv,
                        const float* out, const float* maximum, const float* inverse_sum,
                        const float* d_out, float* d_qkv, AttentionScratch& scratch) {
  scratch.resize(run.pool.threads());
  const std::int64_t tokens = shape.sequences * shape.length;
  std::fill_n(d_qkv, tokens * shape.row(), 0.0F);
  // One block owns a key head: the gradients of its query heads are summed in their order.
  const std::int64_t per_key = shape.heads / shape.kv_heads;
  const auto blocks = static_cast<std::size_t>(shape.sequences * shape.kv_heads);
  run.pool.run(blocks, [&](std::size_t number, std::size_t worker) {
    const auto block = static_cast<std::int64_t>(number);
    const std::int64_t sequence = block / shape.kv_heads;
    const std::int64_t token = sequence * shape.length;
    for (std::int64_t i = 0; i < per_key; ++i) {
      const std::int64_t head = block % shape.kv_heads * per_key + i;
      const std::int64_t column = token * shape.out_row() + head * shape.head_dim;
      const std::int64_t row = token * shape.heads + head;
      backward_head(run, shape,
                    {views(shape, qkv, sequence, head), views(shape, d_qkv, sequence, head),
                     out + column, d_out + column, maximum + row, inverse_sum + row},
                    scratch[worker]);
    }
  });
  round_in_place(run, d_qkv, tokens, shape.row(), shape.row());
}

}  // namespace zenflow::runtime
