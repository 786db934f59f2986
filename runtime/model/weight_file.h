/// A model's weights from and to safetensors files with Hugging Face's tensor names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/model/safetensors.h"
#include "runtime/model_config/transformer_config.h"

namespace zenflow::runtime {

/// Finds every parameter of a table in one file or several.
///
/// `path` is a .safetensors file, a "*.safetensors.index.json" with the files it names beside it,
/// or a folder with "model.safetensors" or "model.safetensors.index.json".
///
/// As in Hugging Face, the base model's names ("h.0..." for "transformer.h.0...", "layers.0..." for
/// "model.layers.0...") are accepted; buffers that are not parameters are ignored (rotary inv_freq,
/// GPT-2's attention masks), so is lm_head.weight in a classification and, where it is a copy of
/// the embedding, in a model that ties the two; and a classification's score.weight may be missing.
class WeightFile {
 public:
  /// Throws Error(kInput) naming file and tensor: a malformed file, a tensor that is missing, has
  /// another shape or a type other than F32, BF16 and F16, or is not part of the model, or a tied
  /// head that is not its embedding.
  WeightFile(const std::filesystem::path& path, const TransformerConfig& config,
             const ParameterTable& table);

  /// Parameters that the file does not have and that have to be initialised: those of a new
  /// classification.
  [[nodiscard]] const std::vector<std::size_t>& missing() const { return missing_; }
  /// Reads parameter `index` of the table. Precondition: not missing.
  void read(std::size_t index, ElementType type, void* out) const;

 private:
  struct Place {
    std::size_t file;
    const StoredTensor* tensor;
  };

  void check_tied_head(const ParameterTable& table) const;
  [[nodiscard]] const Place* find(const std::string& name) const;
  void match(const TransformerConfig& config, const ParameterTable& table);
  void check_leftover(const TransformerConfig& config, const std::vector<const Place*>& used) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::pair<std::string, Place>> tensors_;  // by name
  std::vector<const Place*> places_;                    // of every parameter; null if missing
  std::vector<std::size_t> missing_;
};

/// The table's parameters, in its order. `values` must outlive the result.
[[nodiscard]] std::vector<TensorToWrite> tensors_to_write(
    const ParameterTable& table, const std::function<const void*(std::size_t)>& values);

/// Writes the table's parameters, in its order, as one file of `type`. `values(i)` is asked once
/// for each parameter, in order, and needs to stay valid until the next call. Throws as
/// write_safetensors.
void write_weights(const std::filesystem::path& path, const ParameterTable& table, ElementType type,
                   const std::function<const void*(std::size_t)>& values, bool overwrite);

}  // namespace zenflow::runtime
