#include "runtime/model/weight_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/weight_headers.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

std::vector<std::int64_t> shape_of(const Parameter& parameter) {
  if (!parameter.is_matrix) return {parameter.columns};
  return {parameter.rows, parameter.columns};
}

constexpr const char* kHead = "lm_head.weight";

/// What Hugging Face's checkpoints hold besides parameters, and its loaders pass over.
bool is_ignored(const std::string& name, const TransformerConfig& config) {
  if (name.ends_with(".rotary_emb.inv_freq")) return config.has_rotary();
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) {
    return config.model.type == "gpt2";
  }
  return name == kHead && (config.model.tied_embeddings || config.task.is_classification());
}

}  // namespace

WeightFile::WeightFile(const fs::path& path, const TransformerConfig& config,
                       const ParameterTable& table)
    : path_(path) {
  for (SafetensorsHeader& header : read_weight_headers(path)) {
    files_.emplace_back(std::move(header));
  }
  for (std::size_t file = 0; file < files_.size(); ++file) {
    for (const StoredTensor& tensor : files_[file].tensors()) {
      tensors_.emplace_back(tensor.name, Place{file, &tensor});
    }
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto twice =
      std::adjacent_find(tensors_.begin(), tensors_.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != tensors_.end()) {
    files_[std::next(twice)->second.file].fail(
        *twice->second.tensor,
        fmt::format("is in {} too", files_[twice->second.file].path().generic_string()));
  }
  match(config, table);
  if (config.has_tied_head()) check_tied_head(table);
}

const WeightFile::Place* WeightFile::find(const std::string& name) const {
  const auto place = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const auto& entry, const std::string& wanted) { return entry.first < wanted; });
  return place != tensors_.end() && place->first == name ? &place->second : nullptr;
}

void WeightFile::match(const TransformerConfig& config, const ParameterTable& table) {
  const std::string_view base = config.names.base;
  std::vector<const Place*> used;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const Parameter& parameter = table.parameters[i];
    const Place* place = find(parameter.name);
    if (place == nullptr && parameter.name.starts_with(base)) {
      place = find(parameter.name.substr(base.size()));
    }
    places_.push_back(place);
    if (place == nullptr) {
      if (parameter.name != "score.weight") {
        throw Error(ErrorKind::kInput, fmt::format("{}: tensor \"{}\": is missing",
                                                   path_.generic_string(), parameter.name));
      }
      missing_.push_back(i);
      continue;
    }
    used.push_back(place);
    const StoredTensor& tensor = *place->tensor;
    const SafetensorsFile& file = files_[place->file];
    if (tensor.shape != shape_of(parameter)) {
      file.fail(tensor, fmt::format("expected the shape {}, found {}",
                                    shape_text(shape_of(parameter)), shape_text(tensor.shape)));
    }
    if (tensor.type != "F32" && tensor.type != "BF16" && tensor.type != "F16") {
      file.fail(tensor, fmt::format("expected F32, BF16 or F16, found {}", tensor.type));
    }
  }
  std::sort(used.begin(), used.end());
  check_leftover(config, used);
}

void WeightFile::check_leftover(const TransformerConfig& config,
                                const std::vector<const Place*>& used) const {
  for (const auto& [name, place] : tensors_) {
    if (std::binary_search(used.begin(), used.end(), &place) || is_ignored(name, config)) continue;
    files_[place.file].fail(*place.tensor,
                            fmt::format("is not part of the model {}", config.model.name));
  }
}

/// A copy of the embedding may be there, and no other head: it would be lost.
void WeightFile::check_tied_head(const ParameterTable& table) const {
  const Place* const head = find(kHead);
  if (head == nullptr) return;
  const Parameter& embedding = table.parameters.front();
  const SafetensorsFile& file = files_[head->file];
  bool same = head->tensor->shape == shape_of(embedding);
  if (same) {
    const auto elements = static_cast<std::size_t>(embedding.elements());
    std::vector<float> there(elements);
    std::vector<float> here(elements);
    file.read_as(*head->tensor, ElementType::kFloat32, there.data());
    read(0, ElementType::kFloat32, here.data());
    same = there == here;
  }
  if (same) return;
  file.fail(
      *head->tensor,
      fmt::format("differs from {}, but by tie_word_embeddings the model has one tensor for "
                  "both. transformers would not tie them: set tie_word_embeddings to false in "
                  "config.json to train both",
                  embedding.name));
}

void WeightFile::read(std::size_t index, ElementType type, void* out) const {
  const Place& place = *places_[index];
  files_[place.file].read_as(*place.tensor, type, out);
}

std::vector<TensorToWrite> tensors_to_write(const ParameterTable& table,
                                            const std::function<const void*(std::size_t)>& values) {
  std::vector<TensorToWrite> tensors;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const Parameter& parameter = table.parameters[i];
    tensors.push_back({parameter.name, shape_of(parameter), [&values, i] { return values(i); }});
  }
  return tensors;
}

void write_weights(const fs::path& path, const ParameterTable& table, ElementType type,
                   const std::function<const void*(std::size_t)>& values, bool overwrite) {
  write_safetensors(path, type, tensors_to_write(table, values), overwrite);
}

}  // namespace zenflow::runtime
