#include "runtime/train/simulated_run.h"

namespace zenflow::runtime {

sim::ModelSpec simulated_model(const TransformerConfig& config) {
  sim::ModelSpec model = config.model;
  if (!config.task.is_classification()) return model;
  sim::Layer& head = model.head;
  std::erase_if(head.tensors, [](const auto& tensor) { return tensor.name == "lm_head.weight"; });
  head.tensors.push_back({"score.weight", {config.task.labels, model.hidden}});
  model.outputs = config.task.labels;
  head.products.back() = {"score", model.hidden, config.task.labels};
  return model;
}

}  // namespace zenflow::runtime
