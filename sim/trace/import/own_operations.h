/// Which operations the spans of zenflow-train's recordings and of simulated runs are, by their
/// names: found once, when a trace is read.
#pragma once

#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// Sets `operation`, and where a name says it the index, of every span on a track that
/// zenflow-train or the simulator has; all others stay as they are.
///
/// In simulated traces three operations are "gpu_update": after a layer's backward the first one
/// packs that layer's gradients, then the selected columns are updated, then carried over. A copy
/// without bytes puts what went up before it in its place.
void find_operations(Timeline& timeline);

}  // namespace zenflow::sim
