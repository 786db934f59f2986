/// The one place that launches kernels: launch(kernel, grid, block, shared, stream, args...).
///
/// Without `<<<>>>`, so that any C++ compiler reads it: with the headers of tests/emulator in the
/// place of CUDA's, the same source files run on the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <cuda_runtime.h>

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
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream.handle;
  cuda_check(cudaLaunchKernelEx(&config, kernel, arguments...), "kernel launch",
             stream.launched_at);
}

/// Blocks of `block_size` threads for `threads` threads. More than a grid can have become a number
/// that launch() refuses, not one that has wrapped around.
inline unsigned blocks_of(std::size_t threads, unsigned block_size) {
  constexpr std::size_t kRefused = 0xFFFFFFFF;
  return static_cast<unsigned>(std::min((threads + block_size - 1) / block_size, kRefused));
}

}  // namespace zenflow::kernels
