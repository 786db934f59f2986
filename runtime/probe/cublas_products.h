/// Matrix products on a GPU by cuBLAS, opened at run time.
#pragma once

#include <memory>

#include <cuda_runtime_api.h>

#include "runtime/gpu/dynamic_library.h"
#include "runtime/probe/probe_device.h"

namespace zenflow::runtime {

/// bf16 with fp32 sums, by the functions that PyTorch's linear layers and batched products call:
/// cublasGemmEx for one product, cublasGemmStridedBatchedEx for several. Belongs to the GPU that is
/// current when it is made; for one thread at a time.
class CublasProducts {
 public:
  /// Throws Error(kDevice) if cuBLAS, or the cuBLASLt that it is built on, is missing or fails.
  CublasProducts(const LibraryFolders& folders, cudaStream_t stream);
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  /// Enqueues; the arrays are in device memory. Throws Error(kDevice).
  void multiply(const ProbeProduct& product, const void* a, const void* b, void* c);

 private:
  class Library;
  std::unique_ptr<Library> library_;
};

}  // namespace zenflow::runtime
