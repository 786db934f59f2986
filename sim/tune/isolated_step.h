/// One micro step of a single rank as DeepSpeed's ZeRO optimizers with CPU offload run it
/// (sim/schedule/deepspeed_step.h), while nothing else uses its links: exactly as it is simulated,
/// with the copies up and down that are under way at once slowing each other.
///
/// With several ranks a bucket's copies wait for those of the bucket before on the reduction
/// stream, so that step_path says all there is to say.
#pragma once

#include "sim/graph/task_graph.h"
#include "sim/tune/step_path.h"

namespace zenflow::sim {

/// The links of a rank's copies, and how much longer than alone on its lane each takes, because a
/// link cannot carry even one: times of StepParts are longer by it.
struct CopyLinks {
  Machine machine;
  FlowId d2h = kNoFlow;
  FlowId h2d = kNoFlow;
  double d2h_factor = 1;
  double h2d_factor = 1;
};

/// zenflow.offload: moments that come up and go down again before the selected update; picoseconds
/// alone, 0: they stay on the GPU.
struct SwappedState {
  double up = 0;
  double down = 0;
  friend auto operator<=>(const SwappedState&, const SwappedState&) = default;
};

/// Picoseconds after the step's begin.
struct IsolatedStep {
  double gradients = 0;  ///< until all are down, and the last backward has ended
  double swapped = 0;    ///< until the moments are, too
};

/// Precondition: one rank; all lanes idle when the step begins.
[[nodiscard]] IsolatedStep isolated_step(const StepParts& parts, const CopyLinks& links,
                                         StepPlace which, bool pageable_fp32,
                                         const SwappedState& moments);

}  // namespace zenflow::sim
