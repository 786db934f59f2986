#include "sim/base/crc32.h"

#include <zlib.h>

namespace zenflow {

std::uint32_t crc32(std::uint32_t so_far, std::span<const std::byte> bytes) {
  // zlib takes a null pointer as a request for the start value, whatever came before.
  if (bytes.empty()) return so_far;
  return static_cast<std::uint32_t>(
      ::crc32_z(so_far, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace zenflow
