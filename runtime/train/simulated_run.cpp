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

}  // namespace zenflow::runtime
