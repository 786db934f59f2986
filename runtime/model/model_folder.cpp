#include "runtime/model/model_folder.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "runtime/model/weight_file.h"
#include "sim/base/error.h"
#include "sim/base/input_file.h"
#include "sim/base/output_file.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 12> kTokenizerFiles = {"tokenizer.json",
                                                              "tokenizer_config.json",
                                                              "special_tokens_map.json",
                                                              "added_tokens.json",
                                                              "tokenizer.model",
                                                              "spiece.model",
                                                              "sentencepiece.bpe.model",
                                                              "vocab.json",
                                                              "vocab.txt",
                                                              "merges.txt",
                                                              "chat_template.jinja",
                                                              "chat_template.json"};
constexpr std::string_view kGenerationFile = "generation_config.json";
constexpr std::string_view kStaged = "model.partial-";

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::kInput, fmt::format("{}: {}", path.generic_string(), what));
}

/// Throws Error(kRuntime) of what a call of the standard library said.
void require(const std::error_code& error, const fs::path& path, const char* what) {
  if (!error) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: {}: {}", path.generic_string(), what, error.message()));
}

ordered_json labels_by_id(std::int64_t labels) {
  ordered_json names = ordered_json::object();
  for (std::int64_t i = 0; i < labels; ++i) names[std::to_string(i)] = fmt::format("LABEL_{}", i);
  return names;
}

ordered_json ids_by_label(std::int64_t labels) {
  ordered_json ids = ordered_json::object();
  for (std::int64_t i = 0; i < labels; ++i) ids[fmt::format("LABEL_{}", i)] = i;
  return ids;
}

bool is_of_a_saved_model(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == "config.json" || name == "model.safetensors.index.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors")) || name == kGenerationFile ||
         name.starts_with(kStaged) ||
         std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end();
}

/// A folder for a saved model on its way, gone in the end: beside the name that it is to have, or,
/// where that is a folder already (a mount point, it may be, or all that one may write to), within
/// it.
class StagedFolder {
 public:
  explicit StagedFolder(fs::path name) : name_(std::move(name)) {
    std::error_code error;
    within_ = fs::is_directory(name_, error);
    path_ = within_ ? name_ / fmt::format("{}{}", kStaged, ::getpid())
                    : fs::path(fmt::format("{}.partial-{}", name_.string(), ::getpid()));
    fs::remove_all(path_, error);  // what a run of this number has left that was killed
    fs::create_directory(path_, error);
    require(error, path_, "cannot make this folder");
  }
  ~StagedFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  /// In place of the saved model that is there; config.json last, without which none is read.
  void publish() const {
    std::error_code error;
    if (!within_) {
      fs::rename(path_, name_, error);
      require(error, name_, "cannot rename to");
      return;
    }
    std::vector<fs::path> old;
    for (const auto& entry : fs::directory_iterator(name_, error)) old.push_back(entry.path());
    require(error, name_, "cannot read");
    fs::remove(name_ / "config.json", error);
    require(error, name_ / "config.json", "cannot replace");
    for (const fs::path& file : old) {
      if (file != path_) fs::remove_all(file, error);
      require(error, file, "cannot replace");
    }
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path_, error)) files.push_back(entry.path());
    require(error, path_, "cannot read");
    std::partition(files.begin(), files.end(),
                   [](const fs::path& f) { return f.filename() != "config.json"; });
    for (const fs::path& file : files) {
      fs::rename(file, name_ / file.filename(), error);
      require(error, name_ / file.filename(), "cannot rename to");
    }
  }

 private:
  fs::path name_;
  fs::path path_;
  bool within_ = false;
};

/// Where each file's tensors begin; one more than files.
std::vector<std::size_t> cut(std::span<const TensorToWrite> tensors, std::uint64_t most) {
  std::vector<std::size_t> begins = {0};
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t own = tensors[i].bytes(ElementType::kFloat32);
    if (i > begins.back() && bytes + own > most) {
      begins.push_back(i);
      bytes = 0;
    }
    bytes += own;
  }
  begins.push_back(tensors.size());
  return begins;
}

void write_shards(const fs::path& folder, std::span<const TensorToWrite> tensors,
                  std::uint64_t most) {
  const std::vector<std::size_t> begins = cut(tensors, most);
  const std::size_t files = begins.size() - 1;
  if (files == 1) {
    write_safetensors(folder / "model.safetensors", ElementType::kFloat32, tensors, false);
    return;
  }
  std::uint64_t bytes = 0;
  ordered_json places = ordered_json::object();
  for (std::size_t f = 0; f < files; ++f) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, files);
    const auto part = tensors.subspan(begins[f], begins[f + 1] - begins[f]);
    for (const TensorToWrite& tensor : part) {
      bytes += tensor.bytes(ElementType::kFloat32);
      places[tensor.name] = name;
    }
    write_safetensors(folder / name, ElementType::kFloat32, part, false);
  }
  const ordered_json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", places}};
  write_output(folder / "model.safetensors.index.json", index.dump(2) + "\n", false);
}

/// Without a separator at its end, and what a link stands for.
fs::path plain(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path), error);
  if (error) fail(path, error.message());
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

std::string saved_config(const fs::path& config_file, const TransformerConfig& config) {
  ordered_json root = ordered_json::parse(read_file(config_file), nullptr, false);
  if (!root.is_object()) {
    fail(config_file, "expected JSON, which --save-model writes, too; found another format");
  }
  root["architectures"] = {config.class_name};
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (root.contains(key)) root[key] = "float32";
  }
  if (!root.contains("dtype")) root["torch_dtype"] = "float32";
  root.erase("quantization_config");  // the weights are whole
  if (config.task.is_classification()) {
    root["id2label"] = labels_by_id(config.task.labels);
    root["label2id"] = ids_by_label(config.task.labels);
    root["problem_type"] = config.task.labels == 1 ? "regression" : "single_label_classification";
  }
  return root.dump(2) + "\n";
}

std::vector<fs::path> tokenizer_files(const std::vector<fs::path>& folders) {
  std::vector<fs::path> found;
  for (const fs::path& folder : folders) {
    for (const std::string_view name : kTokenizerFiles) {
      std::error_code error;
      if (fs::is_regular_file(folder / name, error)) found.push_back(folder / name);
    }
    if (!found.empty()) break;
  }
  return found;
}

std::vector<fs::path> generation_files(const fs::path& folder) {
  std::error_code error;
  const fs::path file = folder / kGenerationFile;
  return fs::is_regular_file(file, error) ? std::vector{file} : std::vector<fs::path>();
}

void check_model_folder(const fs::path& path, bool overwrite) {
  const fs::path folder = plain(path);
  std::error_code error;
  if (!fs::exists(folder, error)) {
    check_output(folder, overwrite);
    return;
  }
  if (!fs::is_directory(folder, error)) fail(path, "is there and is not a folder");
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!overwrite) fail(path, "is there and not empty; give -f to replace a saved model");
    if (is_of_a_saved_model(entry.path())) continue;
    fail(path, fmt::format("has more in it than a saved model: {}; expected a new folder",
                           entry.path().filename().string()));
  }
  if (error) fail(path, "cannot read: " + error.message());
  check_output(folder / "config.json", true);  // may be written to
}

void write_model_folder(const ModelFolder& folder, const ParameterTable& table,
                        const std::function<const void*(std::size_t)>& values, bool overwrite) {
  check_model_folder(folder.path, overwrite);
  const StagedFolder staged(plain(folder.path));
  write_shards(staged.path(), tensors_to_write(table, values), folder.shard_bytes);
  for (const fs::path& file : folder.copied) {
    write_output(staged.path() / file.filename(), read_file(file), false);
  }
  write_output(staged.path() / "config.json", folder.config, false);
  staged.publish();
}

}  // namespace zenflow::runtime
