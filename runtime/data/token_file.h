/// Token files (`.bin`), format version 1. All numbers are little-endian.
///
///   header  32 bytes  magic "ZFTOKEN\n", u32 version, u32 bytes per token (2 or 4),
///                     u64 tokens, u32 CRC-32 of the tokens, u32 CRC-32 of the 28 bytes before
///   tokens            unsigned, each below 2^31
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "sim/base/input_file.h"

namespace zenflow::runtime {

struct TokenFileHeader {
  static constexpr std::uint64_t kBytes = 32;
  static constexpr std::uint32_t kVersion = 1;

  std::uint32_t token_bytes = 0;
  std::uint64_t tokens = 0;
  std::uint32_t crc = 0;
};

/// Throws Error(kInput) if the file does not begin with a header of this version or has not the
/// length that the header says.
[[nodiscard]] TokenFileHeader read_token_header(const InputFile& file);

/// Writes a token file of `token_bytes` (2 or 4) per token; throws Error(kInput) if an id does not
/// fit, naming its position, and as write_output does.
void write_token_file(const std::filesystem::path& path, std::span<const std::int32_t> tokens,
                      std::uint32_t token_bytes, bool overwrite);

}  // namespace zenflow::runtime
