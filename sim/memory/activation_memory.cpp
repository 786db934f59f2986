#include "sim/memory/activation_memory.h"

namespace zenflow::sim {
namespace {

/// What fused attention of a window that is not longer than the sequence keeps besides.
/// transformers makes a mask then, for which PyTorch has a kernel that takes neither fewer keys
/// than queries (they are repeated) nor a mask of another type (it is cast, in each layer).
SavedPerToken kept_by_windows(const Layer& layer, const TrainingSettings& training, double length) {
  SavedPerToken kept;
  if (training.fused_framework || layer.saved.pair_bytes > 0) return kept;
  for (const Attention& one : layer.attention) {
    const bool has_mask = one.window > 0 && static_cast<double>(one.window) <= length;
    if (!has_mask || one.linear || one.no_grad || one.key_tokens > 0) continue;
    kept.elements +=
        static_cast<double>((one.heads - one.kv_heads) * (one.head_dim + one.value_dim));
    kept.pair_bytes += static_cast<double>(bytes_per_element(training.dtype));
  }
  return kept;
}

}  // namespace

ActivationMemory activation_memory(const ModelSpec& model, const TrainingSettings& training) {
  const double sequences = static_cast<double>(training.micro_batch_size_per_gpu);
  const double tokens = static_cast<double>(training.tokens());
  const double b = static_cast<double>(bytes_per_element(training.dtype));
  const double outputs = static_cast<double>(model.outputs);
  ActivationMemory memory;
  for (const Layer& layer : model.kinds) {
    const double seen = layer.tokens > 0 ? sequences * static_cast<double>(layer.tokens) : tokens;
    const double length = layer.tokens > 0 ? static_cast<double>(layer.tokens)
                                           : static_cast<double>(training.sequence_length);
    const SavedPerToken windows = kept_by_windows(layer, training, length);
    const Bytes full =
        Bytes(seen * (b * (layer.saved.elements + windows.elements) + layer.saved.bytes +
                      length * (layer.saved.pair_bytes + windows.pair_bytes)));
    const double kept = layer.runs_backward ? static_cast<double>(layer.width) : 0;
    const Bytes input = Bytes(seen * b * kept);
    memory.layer.push_back(training.activation_checkpointing ? input : full);
    memory.recomputed.push_back(training.activation_checkpointing ? full : Bytes(0));
  }
  const SavedPerToken& embedding = model.embedding.saved;
  memory.embedding = Bytes(tokens * (b * embedding.elements + embedding.bytes));
  const double of_logit = model.narrow_loss ? b : 4;
  const SavedPerToken& head = model.head.saved;
  memory.logits_forward = Bytes(tokens * (of_logit * outputs + b * head.elements + head.bytes));
  memory.logits_backward = Bytes(tokens * 2 * of_logit * outputs);
  return memory;
}

}  // namespace zenflow::sim
