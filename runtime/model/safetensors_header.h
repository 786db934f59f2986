/// The JSON header of a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/safetensors.h"

namespace zenflow::runtime {

/// Tensors by name. `file` is for messages. Throws Error(kInput) "FILE: ..." for anything that the
/// format does not allow, also if the ranges do not cover `data_bytes` exactly.
[[nodiscard]] std::vector<StoredTensor> parse_header(std::string_view json, const std::string& file,
                                                     std::uint64_t data_bytes);

/// The header of tensors laid out one after the other, padded with spaces to a multiple of 8 bytes.
[[nodiscard]] std::string make_header(ElementType type, std::span<const TensorToWrite> tensors);

}  // namespace zenflow::runtime
