#include "sim/memory/trainer_activations.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

/// Columns of a model that activations have, and bytes of an element.
struct Widths {
  Widths(const ModelSpec& model, DType dtype)
      : b(bytes_per_element(dtype)),
        h(model.hidden),
        q(model.heads * model.head_dim),
        v(model.kv_heads * model.head_dim),
        f(model.intermediate),
        a(model.heads) {}
  std::int64_t b, h, q, v, f, a;
};

/// Logits of a chunk of tokens, and the fp32 sums that several chunks need.
std::int64_t logits(const ModelSpec& model, const Widths& w, std::int64_t tokens,
                    std::int64_t logit_bytes) {
  constexpr std::int64_t kMultiple = 64;
  constexpr std::int64_t kFewest = 64;
  const std::int64_t row = w.b * ((model.vocab + kMultiple - 1) / kMultiple * kMultiple);
  const std::int64_t sums = w.b == 2 ? 4 * w.h * model.vocab : 0;
  if (tokens * row <= logit_bytes + sums) return tokens * row;
  const std::int64_t chunk = std::min(tokens, std::max(kFewest, logit_bytes / row));
  return chunk * row + (chunk < tokens ? sums : 0);
}

}  // namespace

TrainerActivations trainer_activations(const ModelSpec& model, const TrainingSettings& training,
                                       std::int64_t logit_bytes) {
  constexpr std::int64_t kSumBlockRows = 64;
  const Widths w(model, training.dtype);
  const std::int64_t tokens = training.tokens();
  const std::int64_t kept_of_feed_forward = (model.gated_mlp ? 3 : 2) * w.f;
  const std::int64_t block =
      tokens * (w.b * (3 * w.h + 2 * w.q + 2 * w.v + kept_of_feed_forward) + 16 + 4 * w.a);
  const std::int64_t blocks = training.activation_checkpointing ? 1 : model.layers;
  const std::int64_t kept = (model.layers + 1) * tokens * w.b * w.h + blocks * block;

  const std::int64_t row_blocks = (tokens + kSumBlockRows - 1) / kSumBlockRows;
  const std::int64_t sums = 4 * row_blocks * std::max({2 * w.h, w.q + 2 * w.v, w.f});
  const std::int64_t gradients = std::max(2 * w.f, 2 * w.q + 2 * w.v);
  const std::int64_t work = tokens * (w.b * (4 * w.h + gradients) + 4 * w.a + 16) +
                            training.micro_batch_size_per_gpu * w.b * w.h +
                            logits(model, w, tokens, logit_bytes) + sums;
  return {Bytes(static_cast<double>(kept)), Bytes(static_cast<double>(work))};
}

}  // namespace zenflow::sim
