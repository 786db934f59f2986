/// What candidates share that differ in other knobs: the layers, buckets and copies of a step, and
/// the buffers of a job. Bounds are computed from these.
#pragma once

#include <array>
#include <optional>

#include "sim/report/memory_report.h"
#include "sim/schedule/schedule.h"
#include "sim/tune/step_path.h"

namespace zenflow::sim {

[[nodiscard]] inline double picoseconds(Seconds time) {
  return time.value() * 1e12;
}

/// What jobs of one memory key share.
struct BufferFacts {
  std::array<double, kMemoryLimits> host_needs{};
  double gpu_resident = 0;
  double largest_tensor = 0;
  double selected = 0;  ///< parameters of one rank that ZenFlow updates on the GPU
};

/// What jobs of one step key share.
struct StepFacts {
  StepPlan plan;
  StepParts parts;
  double forward_backward = 0;  ///< compute alone
  double d2h_factor = 1;        ///< by how much a copy of every rank at once is slowed by links
  double h2d_factor = 1;
  double reduce = 0;       ///< collectives of the gradients
  double last_reduce = 0;  ///< of the last bucket
  double gathers = 0;      ///< stage 3: of all layers, once
  double parameters = 0;
  std::array<std::optional<StepPath>, 8> paths;
};

/// From a graph without a window: buffers are declared before the first.
[[nodiscard]] BufferFacts buffer_facts(const Job& job, const Schedule& schedule);
[[nodiscard]] StepFacts step_facts(const Job& job, const Schedule& schedule);
/// At the start of the head's backward all activations are held, and what backward begins with; in
/// stage 3 also the head's gathered parameters and, unless a bucket has to be reduced before, those
/// of the block below it, whose gather begins at the same instant.
[[nodiscard]] double held_at_head_backward(const Job& job, const Schedule& schedule,
                                           const BufferFacts& buffers, const StepPlan& plan);

}  // namespace zenflow::sim
