/// The transformer on the emulated GPU, in the place of the one whose products are cuBLASLt's.
#include <memory>

#include "runtime/cuda/cuda_model.h"
#include "runtime/cuda/cuda_named_passes.h"
#include "tests/emulator/kernel_gemm.h"

namespace zenflow::runtime {

std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig& config,
                                               const TransformerSettings& settings,
                                               const LibraryFolders&, Device& device) {
  return std::make_unique<NamedPasses>(config, CudaTransformerSettings{settings}, device,
                                       std::make_unique<zenflow::testing::KernelGemm>(true),
                                       &handle_of);
}

}  // namespace zenflow::runtime
