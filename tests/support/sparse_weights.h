/// Safetensors files of any size that take no room: a header, and a hole where the weights would
/// be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/config/safetensors_header.h"
#include "sim/model/model_spec.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {

struct SparseTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string type = "BF16";
};

/// What a checkpoint of `model` has under the names of transformers' classes.
inline std::vector<SparseTensor> tensors_of(const sim::ModelSpec& model) {
  std::vector<SparseTensor> tensors;
  std::vector<std::pair<std::string, std::int64_t>> next;  // layers of a stack are numbered from 0
  for (std::int64_t i = 0; i <= model.layers() + 1; ++i) {
    const std::vector<sim::Tensor>& own = model.part(i).tensors;
    if (own.empty()) continue;
    const std::string stack = own.front().name.substr(0, own.front().name.find("{}"));
    auto place = std::find_if(next.begin(), next.end(),
                              [&stack](const auto& one) { return one.first == stack; });
    if (place == next.end()) place = next.insert(next.end(), {stack, 0});
    for (const sim::Tensor& tensor : own) {
      std::string name = tensor.name;
      if (const std::size_t at = name.find("{}"); at != std::string::npos) {
        name.replace(at, 2, std::to_string(place->second));
      }
      tensors.push_back({std::move(name), tensor.shape});
    }
    ++place->second;
  }
  return tensors;
}

/// The bytes that such a file begins with, and how many there would be.
inline std::pair<std::string, std::uint64_t> sparse_bytes(
    const std::vector<SparseTensor>& tensors) {
  std::string header;
  std::uint64_t at = 0;
  for (const SparseTensor& tensor : tensors) {
    std::uint64_t bytes = bytes_of_type(tensor.type);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<std::uint64_t>(size);
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.empty() ? "" : ",", tensor.name, tensor.type,
                          fmt::join(tensor.shape, ","), at, at + bytes);
    at += bytes;
  }
  std::string file = safetensors_bytes("{" + header + "}", 0);
  return {file, file.size() + at};
}

inline std::filesystem::path write_sparse(const TemporaryFolder& folder, std::string_view name,
                                          const std::vector<SparseTensor>& tensors) {
  const auto [bytes, size] = sparse_bytes(tensors);
  const std::filesystem::path file = folder.write(name, bytes);
  std::filesystem::resize_file(file, size);
  return file;
}

}  // namespace zenflow::testing
