/// The one place that launches kernels: launch(kernel, grid, block, shared, stream, args...).
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/cuda/cuda_check.h"

namespace zenflow::kernels {

/// A stream and, unseen, the place that names it: the call site of an error.
struct LaunchStream {
  // Not explicit: launch() is called with a plain stream.
  LaunchStream(cudaStream_t stream, CallSite at = CallSite::here())  // NOLINT
      : handle(stream), launched_at(at) {}

  cudaStream_t handle;
  CallSite launched_at;
};

/// Enqueues `kernel` with `shared` bytes of dynamic shared memory. Throws Error(kDevice) if it
/// cannot be launched; what fails while it runs is reported by a later call on the stream.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
            LaunchStream stream, const std::type_identity_t<Parameters>&... arguments) {
  kernel<<<grid, block, shared, stream.handle>>>(arguments...);
  cuda_check(cudaGetLastError(), "kernel launch", stream.launched_at);
}

}  // namespace zenflow::kernels
