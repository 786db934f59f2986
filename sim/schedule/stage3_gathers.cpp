#include "sim/schedule/stage3_gathers.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

struct LayerTotals {
  LayerGather gather;
  double all = 0;
  double largest = 0;  ///< tensor
};

LayerTotals totals(const std::vector<Tensor>& tensors, std::int64_t threshold) {
  LayerTotals layer;
  std::int32_t above = 0;
  for (const Tensor& tensor : tensors) {
    const auto elements = static_cast<double>(tensor.parameters());
    layer.all += elements;
    layer.largest = std::max(layer.largest, elements);
    if (tensor.parameters() <= threshold) continue;
    layer.gather.parameters += elements;
    ++above;
  }
  layer.gather.tensors = std::max(above, 1);
  return layer;
}

}  // namespace

double Stage3Gathers::in_a_step() const {
  double sum = 0;
  for (const LayerGather& layer : layers) sum += (layer.kept ? 1 : 2) * layer.parameters;
  return sum;
}

Stage3Gathers stage3_gathers(const Job& job) {
  const ModelSpec& model = job.scenario.model;
  const DeepSpeedConfig& config = job.deepspeed;
  std::vector<LayerTotals> layers = {totals(model.embedding, config.persistence_threshold)};
  layers.insert(layers.end(), static_cast<std::size_t>(model.layers),
                totals(model.block, config.persistence_threshold));
  layers.push_back(totals(model.head, config.persistence_threshold));
  Stage3Gathers gathers;
  // Elements of the modules between a layer's forward and its backward; a checkpointed block runs
  // forward once more.
  double between = 0;
  const double block_passes = job.scenario.training.activation_checkpointing ? 3 : 2;
  for (std::size_t i = layers.size(); i-- > 0;) {
    LayerTotals& layer = layers[i];
    layer.gather.kept = between < static_cast<double>(config.max_reuse_distance);
    const bool block = i > 0 && i + 1 < layers.size();
    between += (block ? block_passes : 2) * layer.all;
    gathers.persistent += layer.all - layer.gather.parameters;
  }
  double largest = 0;
  for (const LayerTotals& layer : layers) {
    gathers.layers.push_back(layer.gather);
    largest = std::max(largest, layer.largest);
  }
  gathers.prefetches =
      config.prefetch_bucket_size > 0 && static_cast<double>(config.max_live_parameters) > largest;
  if (config.offload_param == OffloadDevice::kNvme) {
    const double in_ram = std::min(job.partition(), static_cast<double>(config.max_in_cpu));
    gathers.on_nvme = 1 - in_ram / job.partition();
  }
  return gathers;
}

}  // namespace zenflow::sim
