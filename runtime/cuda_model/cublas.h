/// Matrix products by cuBLASLt, opened at run time.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/cuda_model/gemm.h"
#include "runtime/device/device.h"
#include "runtime/gpu/dynamic_library.h"

namespace zenflow::runtime {

/// What a CublasGemm takes of the device as workspace: what NVIDIA recommends for Hopper.
inline constexpr std::size_t kCublasWorkspaceBytes = std::size_t{32} << 20U;

/// bf16 and fp32 with fp32 sums; fp32 without TF32. Split sums are kept in fp32 and added up in a
/// step of their own, never in the output's type and not by atomics.
///
/// The library's first choice of algorithm for a shape (with its strides, alignment and epilogue)
/// is kept for the next product of that shape. An epilogue that it has no algorithm for is refused,
/// as multiply_fused says. Belongs to the GPU that is current when it is made; for one thread at a
/// time.
class CublasGemm final : public DeviceGemm {
 public:
  /// Throws Error(kDevice) if cuBLASLt is missing or fails, Error(kInfeasible) as Device::allocate.
  CublasGemm(const LibraryFolders& folders, Device& device);
  ~CublasGemm() override;
  CublasGemm(const CublasGemm&) = delete;
  CublasGemm& operator=(const CublasGemm&) = delete;

  void multiply(const GemmCall& call, cudaStream_t stream) override;
  [[nodiscard]] bool multiply_fused(const GemmCall& call, cudaStream_t stream) override;

 private:
  class Library;
  std::unique_ptr<Library> library_;
  Buffer workspace_;
};

}  // namespace zenflow::runtime
