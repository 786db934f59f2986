/// The transformer on a GPU, for training runs.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/gpu/dynamic_library.h"
#include "runtime/model_config/transformer_config.h"
#include "runtime/offload/training_model.h"

namespace zenflow::runtime {

/// Allocates on `device`, which make_cuda_device made and which outlives the model, all that passes
/// over the largest batch need.
/// Throws Error(kInfeasible) if memory is short, Error(kInput) as HostTransformer, Error(kDevice)
/// if this build cannot.
[[nodiscard]] std::unique_ptr<TrainingModel> make_cuda_model(const TransformerConfig& config,
                                                             const TransformerSettings& settings,
                                                             const LibraryFolders& libraries,
                                                             Device& device);

}  // namespace zenflow::runtime
