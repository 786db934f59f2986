#include "runtime/cuda/cuda_model.h"

#include <utility>

#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/model_cublas.h"
#include "runtime/cuda/model_transformer.h"

namespace zenflow::runtime {
namespace {

CudaTransformerSettings settings_of(std::int64_t max_sequences, std::int64_t max_length,
                                    ElementType type) {
  return {.max_sequences = max_sequences, .max_length = max_length, .type = type};
}

class CudaModel final : public TrainingModel {
 public:
  CudaModel(const TransformerConfig& config, const CudaTransformerSettings& settings,
            const LibrarySurroundings& libraries, Device& device)
      : transformer_(config, settings, device, std::make_unique<CublasGemm>(libraries, device),
                     &handle_of) {}

  [[nodiscard]] const TransformerConfig& config() const override { return transformer_.config(); }
  void begin(const Batch& batch) override { transformer_.begin(batch); }
  [[nodiscard]] Evaluation evaluate(const Batch& batch, std::span<const void* const> weights,
                                    Stream& compute) override {
    return transformer_.evaluate(batch, weights, compute);
  }

  [[nodiscard]] const ParameterTable& parameters() const override {
    return transformer_.parameters();
  }
  [[nodiscard]] bool shared(std::size_t parameter) const override {
    return transformer_.shared(parameter);
  }
  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override {
    const LaunchScope scope = launching(compute, {"forward"});
    transformer_.forward(group, weights, compute);
  }
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override {
    const LaunchScope scope = launching(compute, {"backward"});
    transformer_.backward(group, weights, gradients, compute);
  }
  [[nodiscard]] double loss() const override { return transformer_.loss(); }

 private:
  CudaTransformer transformer_;
};

}  // namespace

std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig& config,
                                               std::int64_t max_sequences, std::int64_t max_length,
                                               ElementType type,
                                               const LibrarySurroundings& libraries,
                                               Device& device) {
  return std::make_unique<CudaModel>(config, settings_of(max_sequences, max_length, type),
                                     libraries, device);
}

std::uint64_t cuda_model_bytes(const TransformerConfig& config, std::int64_t max_sequences,
                               std::int64_t max_length, ElementType type) {
  const CudaTransformerMemory memory =
      cuda_transformer_memory(config, settings_of(max_sequences, max_length, type));
  return memory.kept + memory.work;
}

}  // namespace zenflow::runtime
