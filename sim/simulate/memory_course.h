/// What each buffer of a simulated run holds over its time: what a picture of memory is drawn from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/simulate/simulation.h"

namespace zenflow::sim {

/// From `time` on a buffer holds `bytes` more, or less.
struct CourseChange {
  Picoseconds time;
  std::uint32_t buffer;  ///< index into MemoryCourse::buffers
  double bytes;
};

/// The memory of one place over a run. PyTorch's own is not part of it, as it is not of peaks.
struct MemoryCourse {
  MemoryPlace place = MemoryPlace::kGpu;
  std::optional<double> capacity{};     ///< bytes; empty: none is stated
  double framework = 0;                 ///< bytes of PyTorch's own, besides
  std::vector<MemoryBuffer> buffers{};  ///< that ever hold something; `resident`: throughout
  std::vector<CourseChange> changes{};  ///< by time
};

/// Of one GPU, the node's host and its NVMe, as far as the run uses them. Precondition: the whole
/// program has run.
[[nodiscard]] std::vector<MemoryCourse> memory_courses(const FullRun& run,
                                                       const MemoryReport& report);

}  // namespace zenflow::sim
