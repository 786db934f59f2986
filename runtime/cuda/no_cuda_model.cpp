#include "runtime/cuda/cuda_model.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig&, const TransformerSettings&,
                                               const LibraryFolders&, Device&) {
  throw Error(ErrorKind::kDevice, "--device cuda: this build has no model for a GPU in it");
}

}  // namespace zenflow::runtime
