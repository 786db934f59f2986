/// A trained model as a folder that Hugging Face's from_pretrained reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/model_config/transformer_config.h"

namespace zenflow::runtime {

/// What goes into it besides weights.
struct ModelFolder {
  std::filesystem::path path;
  std::string config;                           ///< the text of config.json
  std::vector<std::filesystem::path> copied{};  ///< files that are taken along, under their names
  std::uint64_t shard_bytes = 5'000'000'000;    ///< of a file's tensors, unless one alone has more
};

/// The text of `config_file` for weights in fp32: with its class, and for a classification its
/// labels. Throws Error(kInput) if it cannot be read or is not JSON.
[[nodiscard]] std::string saved_config(const std::filesystem::path& config_file,
                                       const TransformerConfig& config);

/// A tokenizer's files in the first of `folders` that has any; with their folder.
[[nodiscard]] std::vector<std::filesystem::path> tokenizer_files(
    const std::vector<std::filesystem::path>& folders);
/// generation_config.json in `folder`, if it is there.
[[nodiscard]] std::vector<std::filesystem::path> generation_files(
    const std::filesystem::path& folder);

/// Throws Error(kInput) unless a model can be saved there, before any work whose result would be
/// lost: `path` is not there in a folder that is, or is an empty folder; with `overwrite` one of a
/// saved model, which has nothing else in it, will do.
void check_model_folder(const std::filesystem::path& path, bool overwrite);

/// The table's parameters in fp32, in model.safetensors, or in several files with an index. The
/// folder appears whole or not at all; one that is there gets config.json last. `values(i)` is
/// asked once for each parameter, in order, and needs to stay valid until the next call. Throws as
/// check_model_folder; Error(kRuntime) if writing fails.
void write_model_folder(const ModelFolder& folder, const ParameterTable& table,
                        const std::function<const void*(std::size_t)>& values, bool overwrite);

}  // namespace zenflow::runtime
