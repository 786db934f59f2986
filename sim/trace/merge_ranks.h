/// The recordings of ranks that trained together, as one timeline.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

struct RankRecording {
  std::string file;
  Timeline timeline;
};

/// Where time zero of a rank's recording is on rank 0's clock, in nanoseconds. Throws Error(kInput)
/// if that is on no machine's clock. Precondition: zenflow-train recorded it.
[[nodiscard]] std::int64_t zero_on_first_clock(const Timeline& timeline, const std::string& file);

/// On rank 0's clock, as zenflow-train measured it: the metadata `zenflow_ranks` says by how much
/// each rank's was shifted, and how far off that may be. Each rank is a device, called "rank N:
/// ..." after its own; steps and setup are rank 0's. Throws Error(kInput) unless each rank of one
/// run is there once.
[[nodiscard]] Timeline merge_ranks(std::vector<RankRecording> recordings);

}  // namespace zenflow::sim
