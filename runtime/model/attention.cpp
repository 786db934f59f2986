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

/// The keys that a tile of queries sees, and of these the ones of a single row.
struct Keys {
  std::int64_t begin;  ///< of the sequence's
  std::int64_t count;

  Keys(const AttentionShape& shape, std::int64_t first, std::int64_t tile)
      : begin(shape.first_key(first)), count(first + tile - begin) {}
  [[nodiscard]] std::int64_t first_of(const AttentionShape& shape, std::int64_t position) const {
    return shape.first_key(position) - begin;
  }
  [[nodiscard]] std::int64_t end_of(std::int64_t position) const { return position + 1 - begin; }
};

float capped(const AttentionShape& shape, float score) {
  return shape.cap > 0.0F ? shape.cap * std::tanh(score / shape.cap) : score;
}

/// Products of one row become probabilities; those of keys that it does not see become 0.
void softmax(const AttentionShape& shape, const Keys& keys, std::int64_t position, Rounding rounded,
             float* row, float& maximum, float& inverse_sum) {
  const std::int64_t first = keys.first_of(shape, position);
  const std::int64_t end = keys.end_of(position);
  maximum = capped(shape, *std::max_element(row + first, row + end) * shape.scale);
  float sum = 0.0F;
  for (std::int64_t k = first; k < end; ++k) {
    row[k] = std::exp(capped(shape, row[k] * shape.scale) - maximum);
    sum += row[k];
  }
  inverse_sum = 1.0F / sum;
  for (std::int64_t k = first; k < end; ++k) row[k] = rounded(row[k] * inverse_sum);
  std::fill(row, row + first, 0.0F);
  std::fill(row + end, row + keys.count, 0.0F);
}

void forward_head(const Execution& run, const AttentionShape& shape, const float* qkv,
                  std::int64_t sequence, std::int64_t head, float* out,
                  SoftmaxStatistics statistics, std::vector<float>& scratch) {
  const auto [query, key, value] = views(shape, qkv, sequence, head);
  float* const scores = reserve(scratch, kTile * shape.length);
  for (std::int64_t first = 0; first < shape.length; first += kTile) {
    const std::int64_t tile = std::min(kTile, shape.length - first);
    const Keys keys(shape, first, tile);
    const std::int64_t begin = keys.begin * shape.row();
    products(shape, tile, keys.count, query + first * shape.row(), shape.row(), key + begin,
             scores);
    const std::int64_t token = sequence * shape.length + first;
    for (std::int64_t r = 0; r < tile; ++r) {
      const std::int64_t at = (token + r) * shape.heads + head;
      softmax(shape, keys, first + r, run.rounding(), scores + r * keys.count,
              statistics.maximum[at], statistics.inverse_sum[at]);
    }
    gemm({tile, shape.head_dim, keys.count}, {scores, keys.count}, {value + begin, shape.row()},
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
  const Keys keys(shape, first, tile);
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
    float* const p = scores + r * keys.count;
    float* const dp = d_scores + r * keys.count;
    const std::int64_t first_key = keys.first_of(shape, token);
    const std::int64_t end = keys.end_of(token);
    for (std::int64_t k = first_key; k < end; ++k) {
      const float score = capped(shape, p[k] * shape.scale);
      const float share = shape.cap > 0.0F ? score / shape.cap : 0.0F;
      const float probability = std::exp(score - maximum) * inverse_sum;
      dp[k] = rounded(probability * (dp[k] - mean) * shape.scale * (1.0F - share * share));
      p[k] = rounded(probability);
    }
    for (float* const row : {p, dp}) {
      std::fill(row, row + first_key, 0.0F);
      std::fill(row + end, row + keys.count, 0.0F);
    }
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
    const Keys keys(shape, first, tile);
    const std::int64_t count = keys.count;
    const std::int64_t begin = keys.begin * row;
    const float* const q = head.in.query + first * row;
    const float* const d_out = head.d_out + first * out_row;
    products(shape, tile, count, q, row, head.in.key + begin, scores);
    products(shape, tile, count, d_out, out_row, head.in.value + begin, d_scores);
    softmax_backward(run, shape, head, first, tile, scores, d_scores);
    gemm({tile, shape.head_dim, count}, {d_scores, count}, {head.in.key + begin, row},
         {head.gradient.query + first * row, row}, false);
    gemm({count, shape.head_dim, tile}, {d_scores, count, Transposed::kYes}, {q, row},
         {head.gradient.key + begin, row}, true);
    gemm({count, shape.head_dim, tile}, {scores, count, Transposed::kYes}, {d_out, out_row},
         {head.gradient.value + begin, row}, true);
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
