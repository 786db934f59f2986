/// The checksum of every binary file that this project writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zenflow {

/// CRC-32 of ISO 3309 and ITU-T V.42, as in zlib, PNG and gzip: polynomial 0x04C11DB7, bits
/// reflected, start and final value inverted; "123456789" gives 0xCBF43926. Pass the result for the
/// bytes so far to continue, 0 to start. Any error of one bit, or of one burst of up to 32 bits,
/// changes it, however long the input.
[[nodiscard]] std::uint32_t crc32(std::uint32_t so_far, std::span<const std::byte> bytes);

}  // namespace zenflow
