#include "runtime/cuda/cuda_handles.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

using kernels::cuda_check;

CudaStream make_cuda_stream() {
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags");
  return CudaStream(stream);
}

CudaEvent make_cuda_event() {
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreate(&event), "cudaEventCreate");
  return CudaEvent(event);
}

CudaMemory allocate_cuda_memory(std::size_t bytes) {
  void* memory = nullptr;
  check_allocation(cudaMalloc(&memory, bytes), "cudaMalloc", bytes);
  return CudaMemory(memory);
}

void check_allocation(cudaError_t status, const char* call, std::size_t bytes) {
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // else the next call reports it
    throw Error(ErrorKind::kInfeasible, fmt::format("{}: no {} bytes left", call, bytes));
  }
  cuda_check(status, call);
}

double seconds_between(cudaEvent_t earlier, cudaEvent_t later) {
  cuda_check(cudaEventSynchronize(earlier), "cudaEventSynchronize");
  cuda_check(cudaEventSynchronize(later), "cudaEventSynchronize");
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, earlier, later), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace zenflow::runtime
