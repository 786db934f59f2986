#include "runtime/cuda/cuda_model.h"

#include <memory>

#include "runtime/cuda/cuda_named_passes.h"
#include "runtime/cuda_model/cublas.h"

namespace zenflow::runtime {

std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig& config,
                                               const TransformerSettings& settings,
                                               const LibraryFolders& libraries, Device& device) {
  return std::make_unique<NamedPasses>(config, CudaTransformerSettings{settings}, device,
                                       std::make_unique<CublasGemm>(libraries, device), &handle_of);
}

}  // namespace zenflow::runtime
