#include "runtime/cuda/cuda_model.h"

#include <memory>

#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/model_cublas.h"
#include "runtime/cuda/model_transformer.h"

namespace zenflow::runtime {
namespace {

CudaTransformerSettings settings_of(const TransformerSettings& settings) {
  return {.max_sequences = settings.max_sequences,
          .max_length = settings.max_length,
          .type = settings.type,
          .checkpoints_activations = settings.checkpoints_activations};
}

}  // namespace

std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig& config,
                                               const TransformerSettings& settings,
                                               const LibrarySurroundings& libraries,
                                               Device& device) {
  return std::make_unique<CudaTransformer>(config, settings_of(settings), device,
                                           std::make_unique<CublasGemm>(libraries, device),
                                           &handle_of);
}

}  // namespace zenflow::runtime
