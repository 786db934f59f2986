#include "runtime/cuda/cuda_model.h"

#include <memory>

#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/model_cublas.h"
#include "runtime/cuda/model_transformer.h"

namespace zenflow::runtime {
namespace {

/// Whose passes a recording can tell apart.
class NamedPasses final : public CudaTransformer {
 public:
  using CudaTransformer::CudaTransformer;

  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override {
    const LaunchScope scope = launching(compute, {"forward"});
    CudaTransformer::forward(group, weights, compute);
  }
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override {
    const LaunchScope scope = launching(compute, {"backward"});
    CudaTransformer::backward(group, weights, gradients, compute);
  }
};

}  // namespace

std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig& config,
                                               const TransformerSettings& settings,
                                               const LibrarySurroundings& libraries,
                                               Device& device) {
  return std::make_unique<NamedPasses>(config, CudaTransformerSettings{settings}, device,
                                       std::make_unique<CublasGemm>(libraries, device), &handle_of);
}

}  // namespace zenflow::runtime
