/// What a simulation predicts of a step.
#pragma once

#include "sim/accuracy/step_figures.h"
#include "sim/simulate/simulation.h"

namespace zenflow::sim {

struct Prediction {
  StepFigures figures;
  /// The whole run; what an overlay shows.
  FullRun run;
  Job job;  ///< with "auto" resolved
};

/// `figures`: all, but a phase that the schedule does not have is 0. Memory is that of model
/// states, gradients and buffers, without activations, logits and what libraries take: what an
/// offload engine's own ledger holds. Throws as simulate_schedule.
[[nodiscard]] Prediction predict(const Job& job, const Schedule& schedule);

/// The same without phases and memory, from a result.
[[nodiscard]] StepFigures figures_of(const SimulationResult& result);

}  // namespace zenflow::sim
