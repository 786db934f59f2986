#include "sim/config/weight_headers.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "sim/config/reader.h"

namespace zenflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "model.safetensors";
constexpr std::string_view kIndexEnding = ".index.json";
constexpr std::size_t kMaxFiles = 10'000;

bool is_index(const fs::path& path) {
  return path.generic_string().ends_with(kIndexEnding);
}

/// "model-00001-of-00003.safetensors".
bool is_shard(const fs::path& path) {
  if (path.extension() != ".safetensors") return false;
  const std::string name = path.stem().string();
  constexpr std::string_view kOf = "-of-";
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t of = name.rfind(kOf);
  if (of == std::string::npos || of == 0) return false;
  const std::size_t dash = name.find_last_not_of(kDigits, of - 1);
  return dash != std::string::npos && name[dash] == '-' && dash + 1 < of &&
         of + kOf.size() < name.size() &&
         name.find_first_not_of(kDigits, of + kOf.size()) == std::string::npos;
}

/// The shard of the lowest name in a folder: "model-00001-of-00030.safetensors"; or "".
std::string first_shard(const fs::path& folder) {
  std::string first;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_shard(entry.path()) && (first.empty() || name < first)) first = name;
  }
  return first;
}

/// What the index says of a tensor: the name of a file beside it.
std::string file_of(const ValueReader& value) {
  std::string file = value.string();
  if (fs::path(file).filename().string() != file || file == "." || file == "..") {
    value.fail(fmt::format("expected the name of a file beside the index, found \"{}\"", file));
  }
  return file;
}

std::vector<SafetensorsHeader> read_index(const fs::path& index) {
  const Node root = load_document(index);
  MapReader document(root, "");
  MapReader map = document.require_map("weight_map");
  std::map<std::string, std::size_t> opened;
  std::vector<std::size_t> named;  // tensors that the index places in each file
  std::vector<SafetensorsHeader> headers;
  for (const Node::Entry& entry : map.node().entries) {
    const ValueReader value(entry.value, "weight_map." + entry.key);
    const std::string file = file_of(value);
    const auto [place, is_new] = opened.try_emplace(file, headers.size());
    if (is_new) {
      if (headers.size() == kMaxFiles) {
        value.fail(fmt::format("expected at most {} files", kMaxFiles));
      }
      headers.push_back(read_safetensors_header(InputFile(index.parent_path() / file)));
      named.push_back(0);
    }
    if (headers[place->second].find(entry.key) == nullptr) {
      value.fail(fmt::format("tensor \"{}\" is not in {}", entry.key, file));
    }
    ++named[place->second];
  }
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (named[i] == headers[i].tensors.size()) continue;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: has {} tensors, of which {} names {}", headers[i].path.generic_string(),
                    headers[i].tensors.size(), index.filename().string(), named[i]));
  }
  if (headers.empty()) map.fail("", "expected the tensors' files, found none");
  return headers;
}

}  // namespace

std::optional<fs::path> find_weights(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path name : {std::string(kFile), std::string(kFile) + std::string(kIndexEnding)}) {
    // A link to nothing is a file that is missing, not one that is not asked for.
    if (fs::exists(fs::symlink_status(folder / name, ignored))) return folder / name;
  }
  const std::string shard = first_shard(folder);
  if (shard.empty()) return std::nullopt;
  throw Error(ErrorKind::kInput,
              fmt::format("{}: expected {}{} beside {}: it names the shards, of which some may be "
                          "missing",
                          folder.generic_string(), kFile, kIndexEnding, shard));
}

bool is_weight_file(const fs::path& path) {
  return path.extension() == ".safetensors" ||
         path.generic_string().ends_with(".safetensors.index.json");
}

std::vector<SafetensorsHeader> read_weight_headers(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (const std::optional<fs::path> found = find_weights(path)) {
      return read_weight_headers(*found);
    }
    throw Error(ErrorKind::kInput, fmt::format("{}: has neither {} nor {}{}", path.generic_string(),
                                               kFile, kFile, kIndexEnding));
  }
  if (is_index(path)) return read_index(path);
  if (is_shard(path)) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: is one of several files: expected {}{} or the folder",
                            path.generic_string(), kFile, kIndexEnding));
  }
  std::vector<SafetensorsHeader> headers;
  headers.push_back(read_safetensors_header(InputFile(path)));
  return headers;
}

}  // namespace zenflow
