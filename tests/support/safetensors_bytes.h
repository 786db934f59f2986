/// Safetensors files put together by hand, valid or not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zenflow::testing {

/// A header of any text with its length before it, then `data_bytes` bytes 0, 1, 2, ...
inline std::string safetensors_bytes(std::string_view header, std::size_t data_bytes) {
  std::string file;
  const std::uint64_t length = header.size();
  for (unsigned byte = 0; byte < 8; ++byte) {
    file += static_cast<char>((length >> (8 * byte)) & 0xFFU);
  }
  file += header;
  for (std::size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

}  // namespace zenflow::testing
