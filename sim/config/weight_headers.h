/// The headers of a model's weights: one safetensors file, or several with an index beside them.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "sim/config/safetensors_header.h"

namespace zenflow {

/// Where a folder has its weights: "model.safetensors" or "model.safetensors.index.json". Nothing
/// if it has neither. Throws Error(kInput) if it has shards, but not the index that says which
/// there should be.
[[nodiscard]] std::optional<std::filesystem::path> find_weights(
    const std::filesystem::path& folder);

/// "x.safetensors" or "x.safetensors.index.json".
[[nodiscard]] bool is_weight_file(const std::filesystem::path& path);

/// Of the file, of all files that an index names, or of those that a folder has.
/// Throws Error(kInput) naming file and tensor if a file cannot be read or is malformed, if an
/// index names files that are not there or not beside it, or if it and the files differ in which
/// tensors there are.
[[nodiscard]] std::vector<SafetensorsHeader> read_weight_headers(const std::filesystem::path& path);

}  // namespace zenflow
