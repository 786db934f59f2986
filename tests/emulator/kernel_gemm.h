/// Matrix products by a kernel with a thread for 16 elements of a row, for models under the
/// emulator.
#pragma once

#include <cmath>

#include "kernels/activation/functions.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "runtime/cuda_model/gemm.h"

namespace zenflow::testing {

template <class Element>
float element_of(const runtime::GemmInput& input, std::int64_t row, std::int64_t column) {
  const auto* values = static_cast<const Element*>(input.values);
  return kernels::to_float(input.transposed ? values[column * input.stride + row]
                                            : values[row * input.stride + column]);
}

/// Columns of a thread: fibers cost more than sums.
inline constexpr std::int64_t kColumnsPerThread = 16;

template <class Element>
void compute_element(const runtime::GemmCall& call, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * call.c_stride + column;
  float sum = 0.0F;
  if (call.adds) {
    sum = call.c_is_float ? static_cast<float*>(call.c)[at]
                          : kernels::to_float(static_cast<Element*>(call.c)[at]);
  }
  float of_a = 0.0F;
  float of_b = 0.0F;
  for (std::int64_t k = 0; k < call.k; ++k) {
    const float a = element_of<Element>(call.a, row, k);
    const float b = element_of<Element>(call.b, k, column);
    sum += a * b;
    of_a += a;
    of_b += b;
  }
  using runtime::Epilogue;
  if (call.epilogue == Epilogue::kBias || call.epilogue == Epilogue::kBiasGelu) {
    sum += kernels::to_float(static_cast<const Element*>(call.bias)[column]);
  }
  if (call.epilogue == Epilogue::kBiasGelu) {
    static_cast<Element*>(call.before_gelu)[at] = kernels::stored<Element>(sum);
    sum = kernels::GeluTanh::both(sum).value;
  }
  if (call.epilogue == Epilogue::kSumsOfA && column == 0) {
    static_cast<Element*>(call.sums)[row] = kernels::stored<Element>(of_a);
  }
  if (call.epilogue == Epilogue::kSumsOfB && row == 0) {
    static_cast<Element*>(call.sums)[column] = kernels::stored<Element>(of_b);
  }
  if (call.c_is_float) {
    static_cast<float*>(call.c)[at] = sum;
  } else {
    static_cast<Element*>(call.c)[at] = kernels::stored<Element>(sum);
  }
}

template <class Element>
__global__ void product_kernel(runtime::GemmCall call) {
  const std::int64_t across = (call.n + kColumnsPerThread - 1) / kColumnsPerThread;
  const auto number = static_cast<std::int64_t>(kernels::thread_number());
  const std::int64_t row = number / across;
  if (row >= call.m) return;
  const std::int64_t first = number % across * kColumnsPerThread;
  for (std::int64_t column = first; column < first + kColumnsPerThread; ++column) {
    if (column < call.n) compute_element<Element>(call, row, column);
  }
}

class KernelGemm final : public runtime::DeviceGemm {
 public:
  explicit KernelGemm(bool fuses) : fuses_(fuses) {}

  void multiply(const runtime::GemmCall& call, cudaStream_t stream) override {
    constexpr unsigned kBlockSize = 128;
    if (call.m == 0 || call.n == 0) return;
    const std::int64_t threads = call.m * ((call.n + kColumnsPerThread - 1) / kColumnsPerThread);
    const unsigned blocks = kernels::blocks_of(static_cast<std::size_t>(threads), kBlockSize);
    if (call.type == runtime::ElementType::kFloat32) {
      kernels::launch(product_kernel<float>, blocks, kBlockSize, 0, stream, call);
    } else {
      kernels::launch(product_kernel<kernels::Bf16>, blocks, kBlockSize, 0, stream, call);
    }
  }
  [[nodiscard]] bool multiply_fused(const runtime::GemmCall& call, cudaStream_t stream) override {
    if (fuses_) multiply(call, stream);
    return fuses_;
  }

 private:
  bool fuses_;
};

}  // namespace zenflow::testing
