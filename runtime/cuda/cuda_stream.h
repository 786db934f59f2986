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

/// `stream` is of a CudaDevice. What the calling thread launches while the result lives is shown as
/// this operation of the stream in a trace.
[[nodiscard]] LaunchScope launching(Stream& stream, Label label);

}  // namespace zenflow::runtime
