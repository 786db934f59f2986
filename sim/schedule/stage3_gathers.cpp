#include "sim/schedule/stage3_gathers.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

struct LayerTotals {
  LayerGather gather;
  double all = 0;
  double largest = 0;  ///< tensor
};

LayerTotals totals(const Layer& of, std::int64_t threshold, double b) {
  LayerTotals layer;
  std::int32_t above = 0;
  for (const Tensor& tensor : of.tensors) {
    // Of a quantised one as many of the training type as have its bytes.
    const double elements = static_cast<double>(tensor.parameters()) * tensor.width(b) / b;
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
  const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  std::vector<LayerTotals> kinds;
  for (const Layer& kind : model.kinds) {
    kinds.push_back(totals(kind, config.persistence_threshold, b));
  }
  std::vector<LayerTotals> layers = {totals(model.embedding, config.persistence_threshold, b)};
  for (const std::int32_t kind : model.order) {
    layers.push_back(kinds[static_cast<std::size_t>(kind)]);
  }
  layers.push_back(totals(model.head, config.persistence_threshold, b));
  Stage3Gathers gathers;
  // Elements of the modules between a layer's forward and its backward; a checkpointed block runs
  // forward once more.
  double between = 0;
  const double block_passes = job.scenario.training.activation_checkpointing ? 3 : 2;
  for (std::size_t i = layers.size(); i-- > 0;) {
    LayerTotals& layer = layers[i];
    // A layer without a backward is gathered once, and not held for one.
    layer.gather.kept = between < static_cast<double>(config.max_reuse_distance) ||
                        !model.part(static_cast<std::int64_t>(i)).runs_backward;
    const bool block = i > 0 && i + 1 < layers.size();
    between += (block ? block_passes : 2) * layer.all;
    gathers.persistent += layer.all - layer.gather.parameters;
  }
  for (LayerTotals& layer : layers) {
    layer.gather.prefetches = config.prefetch_bucket_size > 0 &&
                              static_cast<double>(config.max_live_parameters) > layer.largest;
    gathers.layers.push_back(layer.gather);
  }
  if (config.offload_param == OffloadDevice::kNvme) {
    const double in_ram = std::min(job.partition(), static_cast<double>(config.max_in_cpu));
    gathers.on_nvme = 1 - in_ram / job.partition();
  }
  return gathers;
}

}  // namespace zenflow::sim
