#include "sim/memory/activation_memory.h"

namespace zenflow::sim {
namespace {

double block_bytes_per_token(const ModelSpec& model, double b) {
  const double h = static_cast<double>(model.hidden);
  const double f = static_cast<double>(model.intermediate);
  const double heads = static_cast<double>(model.heads);
  const double qkvo = b * 2 * static_cast<double>((model.heads + model.kv_heads) * model.head_dim);
  const double attention = qkvo + 4 * heads;
  if (model.gated_mlp) return 2 * (4 * h + 2 * b * h) + attention + 4 * b * f;
  const double mlp = model.family == ModelFamily::kGpt2 ? 5 * b * f : b * f;
  return 4 * b * h + 2 * h + attention + mlp;
}

}  // namespace

ActivationMemory activation_memory(const ModelSpec& model, const TrainingSettings& training) {
  const double tokens = static_cast<double>(training.tokens());
  const double b = static_cast<double>(bytes_per_element(training.dtype));
  const double vocab = static_cast<double>(model.vocab);
  const Bytes full = Bytes(tokens * block_bytes_per_token(model, b));
  const Bytes input = Bytes(tokens * b * static_cast<double>(model.hidden));
  ActivationMemory memory;
  memory.block = training.activation_checkpointing ? input : full;
  memory.recomputed = training.activation_checkpointing ? full : Bytes(0);
  memory.embedding = input;
  memory.logits_forward = Bytes(tokens * 4 * vocab);
  memory.logits_backward = Bytes(tokens * 8 * vocab);
  return memory;
}

}  // namespace zenflow::sim
