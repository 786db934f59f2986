/// Reads a model from an unmodified Hugging Face config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/document.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

/// What decides on the head.
enum class HeadSource : std::uint8_t {
  kArchitectures,  ///< of the file; without it there is one to the vocabulary
  kLanguage,       ///< always one to the vocabulary: who trains chooses the head by the task
};

/// A config.json, or a description (description.h).
/// Unknown keys are allowed (the format is not ours); missing or ill-typed ones that the family
/// needs are errors.
/// Throws Error(kInput) with file:line:column and path, also for an unknown `model_type` (with the
/// known ones), a class in `architectures` or `auto_map` that is not the family's, experts or
/// latent attention in a dense family, towers in a plain one, a hidden size the heads do not
/// divide, kv heads that do not divide heads.
[[nodiscard]] ModelSpec read_model(const Node& root, const std::string& name,
                                   HeadSource head = HeadSource::kArchitectures);
/// `path`: whatever load_model_files (model_files.h) takes.
[[nodiscard]] ModelSpec load_model(const std::filesystem::path& path);
/// The file's stem; for Hugging Face's "config.json" the name of its folder, if it has one.
[[nodiscard]] std::string model_name(const std::filesystem::path& path);
/// All values of `model_type` that are read.
[[nodiscard]] std::vector<std::string> known_model_types();
[[nodiscard]] bool is_known_model_type(std::string_view type);
/// Throws Error(kInput) at `root` if the model is larger than any that is simulated.
void check_model_size(const ModelSpec& model, const Node& root);

}  // namespace zenflow::sim
