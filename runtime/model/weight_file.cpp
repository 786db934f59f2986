#include "runtime/model/weight_file.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".index.json";

fs::path resolve(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(path / name, ignored)) return path / name;
  }
  throw Error(ErrorKind::kInput,
              fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json",
                          path.generic_string()));
}

std::vector<std::int64_t> shape_of(const Parameter& parameter) {
  if (!parameter.is_matrix) return {parameter.columns};
  return {parameter.rows, parameter.columns};
}

/// What Hugging Face's checkpoints hold besides parameters, and its loaders pass over.
bool is_ignored(const std::string& name, const TransformerConfig& config) {
  if (name.ends_with(".rotary_emb.inv_freq")) return config.has_rotary();
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) {
    return config.model.type == "gpt2";
  }
  return name == "lm_head.weight" &&
         (config.model.tied_embeddings || config.task.is_classification());
}

}  // namespace

WeightFile::WeightFile(const fs::path& path, const TransformerConfig& config,
                       const ParameterTable& table)
    : path_(resolve(path)) {
  if (path_.generic_string().ends_with(kIndexEnding)) {
    open_index(path_);
  } else {
    files_.emplace_back(path_);
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
}

void WeightFile::open_index(const fs::path& index) {
  const Node root = load_document(index);
  MapReader document(root, "");
  MapReader map = document.require_map("weight_map");
  std::map<std::string, std::size_t> opened;
  std::vector<std::size_t> named;  // tensors that the index places in each file
  for (const Node::Entry& entry : map.node().entries) {
    const ValueReader value(entry.value, "weight_map." + entry.key);
    const std::string file = value.string();
    if (fs::path(file).filename().string() != file || file == "." || file == "..") {
      value.fail(fmt::format("expected the name of a file beside the index, found \"{}\"", file));
    }
    const auto [place, is_new] = opened.try_emplace(file, files_.size());
    if (is_new) {
      files_.emplace_back(index.parent_path() / file);
      named.push_back(0);
    }
    if (files_[place->second].find(entry.key) == nullptr) {
      value.fail(fmt::format("tensor \"{}\" is not in {}", entry.key, file));
    }
    ++named[place->second];
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (named[i] == files_[i].tensors().size()) continue;
    files_[i].fail(fmt::format("has {} tensors, of which {} names {}", files_[i].tensors().size(),
                               index.filename().string(), named[i]));
  }
  if (files_.empty()) map.fail("", "expected the tensors' files, found none");
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

void WeightFile::read(std::size_t index, ElementType type, void* out) const {
  const Place& place = *places_[index];
  files_[place.file].read_as(*place.tensor, type, out);
}

void write_weights(const fs::path& path, const ParameterTable& table, ElementType type,
                   const std::function<const void*(std::size_t)>& values, bool overwrite) {
  std::vector<TensorToWrite> tensors;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const Parameter& parameter = table.parameters[i];
    tensors.push_back({parameter.name, shape_of(parameter), [&values, i] { return values(i); }});
  }
  write_safetensors(path, type, tensors, overwrite);
}

}  // namespace zenflow::runtime
