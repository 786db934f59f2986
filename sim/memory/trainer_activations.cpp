#include "sim/memory/trainer_activations.h"

#include <algorithm>
#include <cmath>

namespace zenflow::sim {
namespace {

constexpr double kFewestRows = 64;

/// Columns of a model that activations have, and bytes of an element. In double, which is exact
/// where it matters: what a command line asks for may be anything.
struct Widths {
  Widths(const ModelSpec& model, const TrainingSettings& training)
      : b(static_cast<double>(bytes_per_element(training.dtype))),
        h(static_cast<double>(model.hidden)),
        q(static_cast<double>(model.heads * model.head_dim)),
        v(static_cast<double>(model.kv_heads * model.head_dim)),
        f(static_cast<double>(model.intermediate)),
        m(model.gated_mlp ? 3 : 2),
        a(static_cast<double>(model.heads)),
        outputs(static_cast<double>(model.outputs)),
        sequences(static_cast<double>(training.micro_batch_size_per_gpu)),
        tokens(sequences * static_cast<double>(training.sequence_length)) {
    const Layer& layer = model.kinds.front();
    for (const Tensor& tensor : layer.tensors) {
      if (tensor.shape.size() == 1 && tensor.name.ends_with(".weight")) ++n;
    }
    const Tensor* const queries = layer.tensor_ending("q_norm.weight");
    if (queries == nullptr) return;
    n -= 2;
    r = (q + v) / static_cast<double>(queries->columns());
    if (queries->columns() > model.head_dim) r = 2;
    n_qk = q + v;
  }
  double b, h, q, v, f, m, a, outputs, sequences, tokens;
  double n = 0;     ///< norms of the stream in a block
  double r = 0;     ///< rows of a token that norms of queries and keys have
  double n_qk = 0;  ///< columns of these norms, of all rows
};

/// What is kept of a whole pass: `block` of a block, and the stream in elements of `element` bytes.
Bytes kept(const ModelSpec& model, const TrainingSettings& training, double block, double element) {
  const auto layers = static_cast<double>(model.layers());
  const Widths w(model, training);
  return Bytes((layers + 1) * w.tokens * element * w.h +
               (training.activation_checkpointing ? 1 : layers) * block);
}

/// Logits of a chunk of tokens, and the fp32 sums that several chunks need.
double logits(const Widths& w, double logit_bytes) {
  constexpr double kMultiple = 64;
  const double row = w.b * kMultiple * std::ceil(w.outputs / kMultiple);
  const double sums = w.b == 2 ? 4 * w.h * w.outputs : 0;
  if (w.tokens * row <= logit_bytes + sums) return w.tokens * row;
  const double chunk = std::min(w.tokens, std::max(kFewestRows, std::floor(logit_bytes / row)));
  return chunk * row + (chunk < w.tokens ? sums : 0);
}

double largest_matrix(const ModelSpec& model) {
  std::int64_t largest = 0;
  const auto widen = [&largest](const Layer& layer) {
    for (const Linear& one : layer.products) largest = std::max(largest, one.in * one.out);
  };
  for (const Layer& layer : model.kinds) widen(layer);
  widen(model.head);
  return static_cast<double>(largest);
}

}  // namespace

TrainerActivations trainer_activations(const ModelSpec& model, const TrainingSettings& training,
                                       std::int64_t logit_bytes) {
  constexpr double kSumBlockRows = 64;
  const Widths w(model, training);
  const double block =
      w.tokens * (w.b * ((w.n + 1) * w.h + 2 * w.q + 2 * w.v + w.n_qk + w.m * w.f) +
                  8 * (w.n + w.r) + 4 * w.a);
  const double sums = 4 * std::ceil(w.tokens / kSumBlockRows) *
                      std::max({2 * w.h, w.q + 2 * w.v, w.f, w.n_qk > 0 ? 2 * w.q : 0.0});
  const double gradients = std::max(2 * w.f, 2 * w.q + 2 * w.v);
  const double work = w.tokens * (w.b * (4 * w.h + gradients) + 4 * w.a + 16) +
                      w.sequences * w.b * w.h + logits(w, static_cast<double>(logit_bytes)) + sums;
  return {kept(model, training, block, w.b), Bytes(work)};
}

TrainerActivations host_trainer_activations(const ModelSpec& model,
                                            const TrainingSettings& training, bool accumulates) {
  constexpr double kFloat = 4;
  constexpr double kRowLoss = 24;
  constexpr double kChunkedLogits = 0x1p24;
  const Widths w(model, training);
  const double attention = 2 * w.q + 2 * w.v;
  const double block =
      kFloat * w.tokens *
      ((w.n + 1) * w.h + attention + w.n_qk + w.m * w.f + 2 * (w.n + w.r) + 2 * w.a);

  const double chunk =
      std::min(w.tokens, std::max(kFewestRows, std::floor(kChunkedLogits / w.outputs)));
  const double head = w.sequences * w.h + std::max(w.sequences, chunk) * w.outputs;
  const double widened = w.b == 2 ? 2 : accumulates ? 1 : 0;
  const double stream = w.n > 2 ? 4 : 3;  // norms before and after branches
  const double work = kFloat * (w.tokens * (stream * w.h + attention + 2 * w.f + 2) + head +
                                widened * largest_matrix(model)) +
                      kRowLoss * w.tokens;
  return {kept(model, training, block, kFloat), Bytes(work)};
}

}  // namespace zenflow::sim
