/// The transformer on the GPU, its passes called by the names that the host's have.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda_model/transformer.h"

namespace zenflow::runtime {

/// Whose passes a recording can tell apart.
class NamedPasses final : public CudaTransformer {
 public:
  using CudaTransformer::CudaTransformer;

  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override {
    const OperationScope scope = launching(compute, {Operation::kForward});
    CudaTransformer::forward(group, weights, compute);
  }
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override {
    const OperationScope scope = launching(compute, {Operation::kBackward});
    CudaTransformer::backward(group, weights, gradients, compute);
  }
};

}  // namespace zenflow::runtime
