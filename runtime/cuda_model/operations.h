/// The transformer's operations on the GPU: the kernels of kernels/ and products by a DeviceGemm,
/// enqueued on a stream.
#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "runtime/cuda_model/gemm.h"
#include "runtime/model/operations.h"

namespace zenflow::runtime {

/// What every operation on the device runs with.
struct CudaExecution {
  DeviceGemm* gemm;
  cudaStream_t stream;
  void* scratch;  ///< OperationMemory::scratch_bytes
};

/// There is Element = float and kernels::Bf16. `run` is read by each operation.
template <class Element>
[[nodiscard]] std::unique_ptr<Operations<Element>> cuda_operations(const CudaExecution& run);
/// For passes over at most `tokens`.
template <class Element>
[[nodiscard]] OperationMemory cuda_operation_memory(const sim::ModelSpec& model,
                                                    std::int64_t tokens, std::int64_t logit_bytes);

}  // namespace zenflow::runtime
