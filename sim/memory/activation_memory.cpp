#include "sim/memory/activation_memory.h"

namespace zenflow::sim {

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
    const Bytes full = Bytes(
        seen * (b * layer.saved.elements + layer.saved.bytes + length * layer.saved.pair_bytes));
    const double kept = layer.runs_backward ? static_cast<double>(layer.width) : 0;
    const Bytes input = Bytes(seen * b * kept);
    memory.layer.push_back(training.activation_checkpointing ? input : full);
    memory.recomputed.push_back(training.activation_checkpointing ? full : Bytes(0));
  }
  memory.embedding = Bytes(tokens * b * static_cast<double>(model.embedding.width));
  memory.logits_forward = Bytes(tokens * 4 * outputs);
  memory.logits_backward = Bytes(tokens * 8 * outputs);
  return memory;
}

}  // namespace zenflow::sim
