/// The CUDA stream behind a device's stream, for models that launch their own kernels on it.
///
/// Only for files that are built with CUDA; everything else includes cuda_device.h.
#pragma once

#include <cuda_runtime_api.h>

#include "runtime/device/device.h"
#include "runtime/trace/launch_log.h"

namespace zenflow::runtime {

/// `stream` is of a CudaDevice. Makes the device's GPU the calling thread's current one, and notes
/// that work follows: ask anew before every batch of launches, do not keep the handle.
///
/// What is launched on it obeys the rules of device.h. In particular nothing on it may wait for the
/// host or for the default stream, and memory comes from Device::allocate, before the first step.
/// Throws Error(kDevice) if CUDA has failed.
[[nodiscard]] cudaStream_t handle_of(Stream& stream);

class StreamClock;

/// While it lives the thread launches an operation of a stream; others may be launched within it.
class OperationScope {
 public:
  /// `log` may be null. `stream` is the stream's name.
  OperationScope(StreamClock& clock, const TrackRecorder::Span& what, LaunchLog* log,
                 std::string_view stream);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  StreamClock& clock_;
  LaunchScope launch_;
};

/// `stream` is of a CudaDevice. What the calling thread launches on it while the result lives is
/// shown as this operation of the stream in a trace, and in a recording of a part of the run.
[[nodiscard]] OperationScope launching(Stream& stream, Label label);

}  // namespace zenflow::runtime
