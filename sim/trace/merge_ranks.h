/// The recordings of ranks that trained together, as one timeline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

struct RankRecording {
  std::string file;
  Timeline timeline;
};

/// A rank's recording, without a copy of it.
struct RankTimeline {
  const std::string& file;
  const Timeline& timeline;
};
/// By how much time zero of `one` is later than that of `first`, on rank 0's clock. Throws
/// Error(kInput) if that is more than 11 days, either way, or on no machine's clock. Precondition:
/// zenflow-train recorded both.
[[nodiscard]] Picoseconds later_than(const RankTimeline& one, const RankTimeline& first);

/// The metadata by which a merged timeline is known.
inline constexpr std::string_view kMergedRanksKey = "zenflow_ranks";

/// On rank 0's clock, as zenflow-train measured it: the metadata `zenflow_ranks` says by how much
/// each rank's was shifted, and how far off that may be. Each rank is a device, called "rank N:
/// ..." after its own; steps and setup are rank 0's. Throws Error(kInput) unless each rank of one
/// run is there once.
[[nodiscard]] Timeline merge_ranks(std::vector<RankRecording> recordings);

}  // namespace zenflow::sim
