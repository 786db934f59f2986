/// What the GPU did during a run, as tracks for the run's trace.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/gpu/dynamic_library.h"
#include "runtime/trace/recorder.h"
#include "sim/trace/timeline.h"

namespace zenflow::runtime {

struct GpuTrace {
  sim::Timeline timeline;
  std::uint64_t spans = 0;           ///< kernels, copies, memsets and calls
  double overhead_seconds = 0;       ///< as CUPTI says, summed over threads
  std::vector<std::string> notes{};  ///< what is missing, and why
};

/// Records from its construction on. One at a time in a process.
class GpuRecording {
 public:
  virtual ~GpuRecording() = default;
  /// Ends it. Times count from `origin`, which is not later than the recording's start.
  /// Nothing may be under way on the GPU.
  [[nodiscard]] virtual GpuTrace finish(Clock::time_point origin) = 0;
};

/// Through CUPTI, which is opened now. Throws Error(kDevice) if it is not there or cannot record:
/// held by another tool, for instance.
[[nodiscard]] std::unique_ptr<GpuRecording> start_gpu_recording(const LibraryFolders& folders);

}  // namespace zenflow::runtime
