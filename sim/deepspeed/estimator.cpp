#include "sim/deepspeed/estimator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace zenflow::sim {
namespace {

constexpr double kBufferFactor = kEstimatorBufferFactor;

DeepSpeedEstimate zero2(double p, bool offload, double g, double n) {
  const double t = g * n;
  if (offload) {
    return {2 * p, p * std::max(4 * t, 16.0) * kBufferFactor, "2 P", "P max(4 T, 16) f"};
  }
  return {2 * p + std::floor(18 * p / t), 4 * p * g * kBufferFactor, "2 P + 18 P / T", "4 P g f"};
}

DeepSpeedEstimate zero3(double p, double largest, const DeepSpeedConfig& config, double g,
                        double n) {
  const double t = g * n;
  if (config.offload_optimizer == OffloadDevice::kNone) {
    return {4 * largest + std::floor(18 * p / t), 4 * largest * g * kBufferFactor, "4 L + 18 P / T",
            "4 L g f"};
  }
  if (config.offload_param == OffloadDevice::kNone) {
    return {4 * largest + std::floor(2 * p / t), 16 * p / n * kBufferFactor, "4 L + 2 P / T",
            "16 P f / n"};
  }
  return {4 * largest, 18 * p / n * kBufferFactor, "4 L", "18 P f / n"};
}

}  // namespace

std::int64_t largest_layer_parameters(const ModelSpec& model) {
  std::map<std::string, std::int64_t> modules;
  const auto add = [&modules](const Layer& layer) {
    std::map<std::string, std::int64_t> own;
    for (const Tensor& tensor : layer.tensors) {
      own[tensor.name.substr(0, tensor.name.rfind('.'))] += tensor.parameters();
    }
    for (const auto& [name, parameters] : own) {
      modules[name] = std::max(modules[name], parameters);
    }
  };
  add(model.embedding);
  for (const Layer& kind : model.kinds) add(kind);
  add(model.head);
  std::int64_t largest = 0;
  for (const auto& [name, parameters] : modules) largest = std::max(largest, parameters);
  return largest;
}

std::optional<DeepSpeedEstimate> deepspeed_estimate(const ModelSpec& model,
                                                    const DeepSpeedConfig& config,
                                                    std::int64_t gpus_per_node,
                                                    std::int64_t nodes) {
  const auto p = static_cast<double>(model.parameters());
  const auto g = static_cast<double>(gpus_per_node);
  const auto n = static_cast<double>(nodes);
  if (config.zero_stage == 2) {
    return zero2(p, config.offload_optimizer != OffloadDevice::kNone, g, n);
  }
  if (config.zero_stage == 3) {
    return zero3(p, static_cast<double>(largest_layer_parameters(model)), config, g, n);
  }
  return std::nullopt;
}

}  // namespace zenflow::sim
