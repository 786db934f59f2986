/// Matrix products on the device, as the transformer asks for them.
///
/// An interface, so that tests run the model where there is no GPU; cublas.h is the one that
/// trains.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "runtime/model_config/parameters.h"

namespace zenflow::runtime {

/// A row-major matrix on the device, rows `stride` elements apart.
struct GemmInput {
  const void* values;
  std::int64_t stride;
  bool transposed = false;  ///< the product uses the transpose of what is stored
};

/// What is done with the sums of a product before they are stored, or with its inputs on the way.
enum class Epilogue : std::uint8_t {
  kNone,
  kBias,      ///< + bias[n] in every row
  kBiasGelu,  ///< z = that, stored at `before_gelu`; then GELU by its tanh approximation of z
  kSumsOfA,   ///< sums[m] = the sums of a's rows over k, as the product uses a
  kSumsOfB,   ///< sums[n] = the sums of b's columns over k
};

/// c[m, n] = a[m, k] * b[k, n], with fp32 products and sums; a and b are of `type`.
struct GemmCall {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  ElementType type;
  GemmInput a;
  GemmInput b;
  void* c;
  std::int64_t c_stride;
  bool c_is_float = false;  ///< else of `type`
  bool adds = false;        ///< to what c holds, in fp32 before c is rounded
  Epilogue epilogue = Epilogue::kNone;
  const void* bias = nullptr;   ///< of `type`
  void* before_gelu = nullptr;  ///< of `type`, [m, n] with c's stride
  void* sums = nullptr;         ///< of `type`, written
};

class DeviceGemm {
 public:
  virtual ~DeviceGemm() = default;
  /// Enqueues a product with Epilogue::kNone. For one stream at a time.
  /// Throws Error(kDevice) if the library has failed. Nothing to do if m or n is 0; k is not 0.
  virtual void multiply(const GemmCall& call, cudaStream_t stream) = 0;
  /// The same with any epilogue, if the library can do it at once. Otherwise false, and nothing is
  /// enqueued: the caller does it in several steps.
  [[nodiscard]] virtual bool multiply_fused(const GemmCall& call, cudaStream_t stream) = 0;
};

}  // namespace zenflow::runtime
