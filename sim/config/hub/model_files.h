/// What describes a model on disk: a config.json, the headers of its weights, or both.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sim/config/document.h"
#include "sim/config/safetensors_header.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

struct ModelWeights {
  std::filesystem::path path;  ///< the file or index
  std::vector<SafetensorsHeader> files;

  /// The path with a checksum of names, types and shapes: the same for the same model.
  [[nodiscard]] std::string identity() const;
};

/// A config.json that is known by its model_type describes the model, and weights beside it are
/// only held against it. Otherwise the weights describe it.
struct ModelFiles {
  std::string name;
  Node config;                                  ///< null if there is none
  std::shared_ptr<const ModelWeights> weights;  ///< null if `config` says it all
};

/// `path`: a config.json or description alone; a folder; or weights (.safetensors, or the index of
/// several), which a config.json may lie beside.
/// Throws Error(kInput) for what cannot be read, and for weights that are not those of the model
/// that is described (hub::check_weights).
[[nodiscard]] ModelFiles load_model_files(const std::filesystem::path& path);

/// Whether a model may be loaded from it, by its name and what is in it.
[[nodiscard]] bool is_model_path(const std::filesystem::path& path);

/// Throws Error(kInput) as read_model and hub::read_weight_model do.
[[nodiscard]] ModelSpec read_model_files(const ModelFiles& files);

}  // namespace zenflow::sim
