/// The header of a safetensors file: what its tensors are called, of which type and shape they are
/// and where their bytes lie. The bytes themselves are not read.
///
/// Source: the format description of the safetensors library: an 8-byte little-endian header
/// length, a JSON header that gives type, shape and byte range of every tensor, then the bytes. As
/// there, ranges must cover the bytes after the header without overlap or hole, names are unique,
/// and a header has at most 100 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_file.h"

namespace zenflow {

struct StoredTensor {
  std::string name;
  std::string type;  ///< as written: "F32", "BF16", "F16", "I64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< byte range, from the end of the header
  std::uint64_t end = 0;
};

/// Bytes of one element of a safetensors type; 0 for a type that is not known.
[[nodiscard]] std::size_t bytes_of_type(std::string_view type);
/// "[2, 3]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// Tensors by name. `file` is for messages. Throws Error(kInput) "FILE: ..." for anything that the
/// format does not allow, also if the ranges do not cover `data_bytes` exactly.
[[nodiscard]] std::vector<StoredTensor> parse_safetensors_header(std::string_view json,
                                                                 const std::string& file,
                                                                 std::uint64_t data_bytes);

struct SafetensorsHeader {
  std::filesystem::path path;
  std::uint64_t data_start = 0;       ///< bytes before the tensors'
  std::vector<StoredTensor> tensors;  ///< by name

  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
};

/// Throws Error(kInput) "PATH: ..." if the file is truncated or malformed.
[[nodiscard]] SafetensorsHeader read_safetensors_header(const InputFile& file);

}  // namespace zenflow
