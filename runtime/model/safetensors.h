/// The safetensors file format: an 8-byte little-endian header length, a JSON header that gives
/// type, shape and byte range of every tensor, then the bytes.
///
/// Source: the format description of the safetensors library. As there, ranges must cover the bytes
/// after the header without overlap or hole, names are unique, and a header has at most 100 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model_config/parameters.h"

namespace zenflow::runtime {

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

/// An open file. The header is checked completely when it is opened; tensors are read on demand.
class SafetensorsFile {
 public:
  /// Throws Error(kInput) "PATH: ..." if it cannot be read, is truncated or malformed.
  explicit SafetensorsFile(std::filesystem::path path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }  ///< by name
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;

  /// Bytes [offset, offset + out.size()) of the tensor. Throws Error(kInput) if the file has become
  /// shorter, Error(kRuntime) if reading fails. Precondition: within the tensor.
  void read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  /// The tensor's elements as `type`: F32 and BF16 as they are or converted to each other (rounded
  /// to nearest even), F16 converted. Throws Error(kInput) naming the tensor for other types.
  void read_as(const StoredTensor& tensor, ElementType type, void* out) const;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(const StoredTensor& tensor, const std::string& what) const;

 private:
  void read_header();
  void read_at(std::uint64_t position, std::span<std::byte> out) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t data_start_ = 0;
  std::vector<StoredTensor> tensors_;
};

/// A tensor to write. The bytes are asked for when they are written, one tensor at a time.
struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::function<const void*()> values;
};

/// Writes all tensors as F32 or BF16, in the given order, with the metadata that Hugging Face's
/// loaders ask for. The file appears whole or not at all; its header is a multiple of 8 bytes.
/// Throws as OutputFile does.
void write_safetensors(const std::filesystem::path& path, ElementType type,
                       std::span<const TensorToWrite> tensors, bool overwrite);

}  // namespace zenflow::runtime
