#include <cmath>

#include "sim/base/table.h"
#include "sim/deepspeed/estimator.h"
#include "sim/report/fit.h"

namespace zenflow::sim {
namespace {

using Term = EstimatorComparison::Term;

/// What the estimator would be asked: where the schedule keeps things decides, not whether the
/// configuration that it was given says so.
DeepSpeedConfig as_simulated(const Job& job, const std::vector<BufferUse>& buffers) {
  bool offloads = false;
  bool weights_on_gpu = false;
  for (const BufferUse& use : buffers) {
    const bool gpu = use.buffer.home == MemoryHome::kGpu;
    if (use.buffer.resident == 0) continue;
    offloads = offloads || (!gpu && use.buffer.category == MemoryCategory::kOptimizerState);
    weights_on_gpu = weights_on_gpu || (gpu && use.buffer.category == MemoryCategory::kWeights);
  }
  DeepSpeedConfig config = job.deepspeed;
  config.offload_optimizer = offloads ? OffloadDevice::kCpu : OffloadDevice::kNone;
  config.offload_param = weights_on_gpu ? OffloadDevice::kNone : OffloadDevice::kCpu;
  if (!weights_on_gpu) config.zero_stage = 3;
  return config;
}

/// What DeepSpeed's CPU terms are multiplied by.
void add_factor(double& estimate, std::vector<Term>& terms) {
  const double without = estimate / kEstimatorBufferFactor;
  terms.push_back({"its additional_buffer_factor of 1.5", without - estimate});
  estimate = without;
}

/// Without offloading its 18 bytes a parameter include the gradients.
bool counted_by_estimator(const MemoryBuffer& buffer, bool offloads) {
  return buffer.model_state || (!offloads && buffer.category == MemoryCategory::kGradients);
}

EstimatorComparison compare(MemoryPlace place, bool offloads, double estimate,
                            const std::string& formula, double ours,
                            const std::vector<BufferUse>& buffers) {
  EstimatorComparison result{.place = place, .formula = formula, .estimate = estimate};
  result.ours = ours;
  double counted = estimate;
  if (place == MemoryPlace::kHost) add_factor(counted, result.terms);
  double states = 0;
  for (const BufferUse& use : buffers) {
    if (place_of(use.buffer.home) != place) continue;
    if (counted_by_estimator(use.buffer, offloads)) states += use.at_peak;
  }
  // Less than a byte is rounding of sums.
  if (std::abs(states - counted) >= 1) {
    // Without offloading the estimator's host memory is what loading the model takes.
    const bool start_up = place == MemoryPlace::kHost && !offloads;
    result.terms.push_back({start_up ? "start-up copies of the model, not counted here"
                                     : "model states are " + format_gib(states) + " here",
                            states - counted});
  }
  for (const BufferUse& use : buffers) {
    if (place_of(use.buffer.home) != place || use.at_peak == 0) continue;
    if (counted_by_estimator(use.buffer, offloads)) continue;
    result.terms.push_back({"left out: " + use.buffer.name, use.at_peak});
  }
  return result;
}

}  // namespace

std::vector<EstimatorComparison> compare_with_estimator(const Job& job, const MemoryReport& memory,
                                                        const std::vector<BufferUse>& buffers) {
  const DeepSpeedConfig config = as_simulated(job, buffers);
  const bool offloads = config.offload_optimizer != OffloadDevice::kNone;
  const auto estimate =
      deepspeed_estimate(job.scenario.model, config, job.scenario.gpus, job.scenario.nodes);
  if (!estimate) return {};
  return {compare(MemoryPlace::kGpu, offloads, estimate->gpu_bytes, estimate->gpu_formula,
                  memory.limit(MemoryLimit::kGpu).need, buffers),
          compare(MemoryPlace::kHost, offloads, estimate->cpu_bytes, estimate->cpu_formula,
                  memory.limit(MemoryLimit::kHost).need, buffers)};
}

}  // namespace zenflow::sim
