/// Whether the weights on disk are those of the model that a config.json describes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "sim/config/safetensors_header.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim::hub {

/// What is checked, in the words of messages.
struct WeightCheck {
  std::filesystem::path weights;  ///< the file or index
  std::filesystem::path config;   ///< whose model it is
  /// Layers behind the last one, that predict more tokens and are not loaded:
  /// num_nextn_predict_layers.
  std::int64_t extra_layers = 0;
};

/// Every tensor of the model has to be in the files, with its shape, and every tensor of the files
/// in the model.
///
/// Names are those of transformers' classes in the model, and may be others in the files: tensors
/// of the same name are held against each other; then, within the layers of one number, those of
/// the same shape, the names most alike first; then experts stored one by one against stacks of
/// them, and up to three matrices against one of all their rows or columns. So a renamed tensor
/// passes, but no tensor, layer or size that one side has and the other one does not.
/// Passed over are buffers, second copies of tied embeddings, heads that the class does not have,
/// and classification heads that are still to be trained.
///
/// Throws Error(kInput) "WEIGHTS: ..." naming the first tensors that differ, with their shapes and
/// files, and how many do.
void check_weights(const ModelSpec& model, std::span<const SafetensorsHeader> files,
                   const WeightCheck& check);

}  // namespace zenflow::sim::hub
