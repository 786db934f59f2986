/// Tensors from and to safetensors files (sim/config/safetensors_header.h has the format).
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
#include "sim/base/input_file.h"
#include "sim/config/safetensors_header.h"

namespace zenflow::runtime {

/// An open file. The header is checked completely when it is opened; tensors are read on demand.
class SafetensorsFile {
 public:
  /// Throws Error(kInput) "PATH: ..." if it cannot be read, is truncated or malformed.
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// The same of a header that has been read. Throws Error(kInput) if its file cannot be read.
  explicit SafetensorsFile(SafetensorsHeader header);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  [[nodiscard]] const StoredTensor* find(std::string_view name) const { return header_.find(name); }

  /// Bytes [offset, offset + out.size()) of the tensor. Throws Error(kInput) if the file has become
  /// shorter, Error(kRuntime) if reading fails. Precondition: within the tensor.
  void read(const StoredTensor& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  /// The tensor's elements as `type`: F32 and BF16 as they are or converted to each other (rounded
  /// to nearest even), F16 converted. Throws Error(kInput) naming the tensor for other types.
  void read_as(const StoredTensor& tensor, ElementType type, void* out) const;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail(const StoredTensor& tensor, const std::string& what) const;

 private:
  InputFile file_;
  SafetensorsHeader header_;
};

/// A tensor to write. The bytes are asked for when they are written, one tensor at a time.
struct TensorToWrite {
  std::string name;
  std::vector<std::int64_t> shape;
  std::function<const void*()> values;

  [[nodiscard]] std::uint64_t bytes(ElementType type) const;
};

/// Writes all tensors as F32 or BF16, in the given order, with the metadata that Hugging Face's
/// loaders ask for. The file appears whole or not at all; its header is a multiple of 8 bytes.
/// Throws as OutputFile does.
void write_safetensors(const std::filesystem::path& path, ElementType type,
                       std::span<const TensorToWrite> tensors, bool overwrite);

}  // namespace zenflow::runtime
