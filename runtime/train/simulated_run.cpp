#include "runtime/train/simulated_run.h"

namespace zenflow::runtime {

sim::ModelSpec simulated_model(const TransformerConfig& config) {
  sim::ModelSpec model = config.model;
  if (!config.task.is_classification()) return model;
  std::erase_if(model.head, [](const auto& tensor) { return tensor.name == "lm_head.weight"; });
  model.head.push_back({"score.weight", config.task.labels, model.hidden, true});
  model.head_linears.back() = {"score", model.hidden, config.task.labels};
  return model;
}

sim::TrainingSettings simulated_training(const TrainOptions& options) {
  return {.micro_batch_size_per_gpu = options.feed.sequences,
          .sequence_length = options.feed.length,
          .dtype = options.dtype == ElementType::kFloat32 ? sim::DType::kFp32 : sim::DType::kBf16,
          .activation_checkpointing = options.activation_checkpointing};
}

}  // namespace zenflow::runtime
