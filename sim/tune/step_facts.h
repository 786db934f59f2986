/// What candidates share that differ in other knobs: the layers, buckets and copies of a step, and
/// the buffers of a job. Bounds are computed from these.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "sim/schedule/schedule.h"
#include "sim/simulate/memory_report.h"
#include "sim/tune/isolated_step.h"

namespace zenflow::sim {

[[nodiscard]] inline double picoseconds(Seconds time) {
  return time.value() * 1e12;
}

/// What jobs of one memory key share.
struct BufferFacts {
  std::array<double, kMemoryLimits> host_needs{};
  double gpu_resident = 0;
  double selected = 0;  ///< parameters of one rank that ZenFlow updates on the GPU
};

/// What jobs of one step key share.
struct StepFacts {
  StepPlan plan;
  StepParts parts;
  double forward_backward = 0;  ///< compute, without anything else
  CopyLinks links;  ///< of the first class; factors: by how much a copy of every rank at once slows
  double reduce = 0;       ///< collectives of the gradients
  double last_reduce = 0;  ///< of the last bucket
  double gathers = 0;      ///< stage 3: of all layers, once
  double parameters = 0;

  /// step_path, remembered.
  [[nodiscard]] double path(StepPlace which, bool pageable_fp32);
  /// The step in isolation (isolated_step.h), remembered.
  [[nodiscard]] const IsolatedStep& isolated(StepPlace which, bool pageable_fp32,
                                             const SwappedState& moments);
  /// The path of a window's micro steps, each until its reduction stream is empty.
  [[nodiscard]] double path_of_window(std::int64_t micro_steps);
  [[nodiscard]] double isolated_in_window(std::int64_t micro_steps);

 private:
  std::array<std::optional<double>, 8> paths_;
  std::map<std::pair<std::size_t, SwappedState>, IsolatedStep> isolated_;
};

/// From a graph without a window: buffers are declared before the first.
[[nodiscard]] BufferFacts buffer_facts(const Job& job, const Schedule& schedule);
[[nodiscard]] StepFacts step_facts(const Job& job, const Schedule& schedule);
/// What the GPU holds besides its resident buffers, at least, when the backward of the head or of
/// the last block starts: activations so far, what that backward begins with, its gradients; in
/// stage 3 also its gathered parameters and, unless a bucket has to be reduced before, those of the
/// layer below, whose gather has begun by then.
[[nodiscard]] double held_in_backward(const Job& job, const Schedule& schedule,
                                      const BufferFacts& buffers, const StepPlan& plan);

}  // namespace zenflow::sim
