/// What ZenFlow's worker does to a training step beside which it works: they share memory and,
/// unless it has cores of its own, those of the threads that feed the GPU.
#pragma once

#include "sim/schedule/cluster.h"

namespace zenflow::sim {

/// The share of their isolated rate that tasks have at most while the worker updates, whatever else
/// runs. (Alone: all ranks of a class at once.)
///
/// Compute is slowed by what the worker gets, which is least while all copies use its memory (the
/// training process only casts and unscales when the worker is done). A copy
/// is slowed most while it alone shares with the worker's full speed; but who else is there takes
/// from the same link, so alone with the worker is the most that it can have.
struct WorkerEffect {
  double compute = 1;
  double d2h = 1;
  double h2d = 1;
  double worker = 1;  ///< the share of its own speed that the worker has at least
  /// Nothing that a step does is slowed by the worker, and copies slow each other as without it.
  bool apart = true;
};
[[nodiscard]] WorkerEffect worker_effect(const Scenario& scenario, const RankRates& rates);

}  // namespace zenflow::sim
