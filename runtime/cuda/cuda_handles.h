/// CUDA's streams, events and memory, each destroyed with its owner.
#pragma once

#include <cstddef>
#include <memory>

#include <cuda_runtime_api.h>

namespace zenflow::runtime {

struct CudaStreamDestroy {
  using pointer = cudaStream_t;
  // A failed destruction means that the context is gone already; a destructor cannot report it.
  void operator()(cudaStream_t stream) const noexcept {
    static_cast<void>(cudaStreamDestroy(stream));
  }
};
using CudaStream = std::unique_ptr<cudaStream_t, CudaStreamDestroy>;

struct CudaEventDestroy {
  using pointer = cudaEvent_t;
  void operator()(cudaEvent_t event) const noexcept { static_cast<void>(cudaEventDestroy(event)); }
};
using CudaEvent = std::unique_ptr<cudaEvent_t, CudaEventDestroy>;

struct CudaFree {
  void operator()(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
};
using CudaMemory = std::unique_ptr<void, CudaFree>;

// All handles belong to the current GPU. The functions throw Error(kDevice) if CUDA fails.
/// Does not wait for the default stream, nor that one for it.
[[nodiscard]] CudaStream make_cuda_stream();
/// One that takes the time.
[[nodiscard]] CudaEvent make_cuda_event();
/// Throws Error(kInfeasible) if the GPU has no `bytes` left.
[[nodiscard]] CudaMemory allocate_cuda_memory(std::size_t bytes);

/// Throws Error(kInfeasible) if `status` says that there are no `bytes` left, else as cuda_check.
void check_allocation(cudaError_t status, const char* call, std::size_t bytes);

/// From one event to another of the same GPU, both recorded. Waits for both.
[[nodiscard]] double seconds_between(cudaEvent_t earlier, cudaEvent_t later);

}  // namespace zenflow::runtime
