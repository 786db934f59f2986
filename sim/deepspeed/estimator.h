/// What DeepSpeed's own memory estimators would print.
///
/// Symbols: P parameters, L parameters of the largest layer (a module's own, without its
/// children's), g GPUs a node, n nodes, T = g n, f = 1.5 (additional_buffer_factor). Bytes.
///
///   ZeRO-2, optimizer offload   GPU 2 P                 CPU P max(4 T, 16) f
///   ZeRO-2                      GPU 2 P + int(18 P / T) CPU 4 P g f
///   ZeRO-3, both offloaded      GPU 4 L                 CPU 18 P f / n
///   ZeRO-3, optimizer offload   GPU 4 L + int(2 P / T)  CPU 16 P f / n
///   ZeRO-3                      GPU 4 L + int(18 P / T) CPU 4 L g f
///
/// ZeRO-3 with zero.Init (parameters never whole on a host). They count model states only: no
/// activations, logits, buckets, CUDA context, nor ZenFlow's second set of gradients and
/// moments; and ZeRO-2's CPU term takes all GPUs, not those of a node.
/// Source: estimate_zero2_model_states_mem_needs in deepspeed/runtime/zero/stage_1_and_2.py,
/// estimate_zero3_model_states_mem_needs in stage3.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/deepspeed/ds_config.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

struct DeepSpeedEstimate {
  double gpu_bytes = 0;       ///< of one GPU
  double cpu_bytes = 0;       ///< of a node
  std::string gpu_formula{};  ///< as in the table above
  std::string cpu_formula{};
};

/// additional_buffer_factor, by its default.
inline constexpr double kEstimatorBufferFactor = 1.5;

/// Nothing for stages 0 and 1, for which DeepSpeed has no estimator.
[[nodiscard]] std::optional<DeepSpeedEstimate> deepspeed_estimate(const ModelSpec& model,
                                                                  const DeepSpeedConfig& config,
                                                                  std::int64_t gpus_per_node,
                                                                  std::int64_t nodes);

/// Parameters of the module with the most of its own.
[[nodiscard]] std::int64_t largest_layer_parameters(const ModelSpec& model);

}  // namespace zenflow::sim
