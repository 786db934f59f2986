#include "runtime/data/token_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/crc32.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace zenflow::runtime {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are stored as they lie in memory");

constexpr std::string_view kMagic("ZFTOKEN\n", 8);
constexpr std::size_t kCoveredBytes = 28;

template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

TokenFileHeader read_token_header(const InputFile& file) {
  if (file.size() < TokenFileHeader::kBytes) {
    file.fail(
        fmt::format("{} bytes are too few for a token file, whose header has {} (text files "
                    "must not be named .bin)",
                    file.size(), TokenFileHeader::kBytes));
  }
  std::array<std::byte, TokenFileHeader::kBytes> bytes{};
  file.read_at(0, bytes);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    file.fail(
        "is not a token file: it does not begin like one (text files must not be named .bin)");
  }
  if (load<std::uint32_t>(bytes, kCoveredBytes) !=
      crc32(0, std::span<const std::byte>(bytes).first(kCoveredBytes))) {
    file.fail("damaged token file: its header does not match its checksum");
  }
  const auto version = load<std::uint32_t>(bytes, 8);
  if (version != TokenFileHeader::kVersion) {
    file.fail(fmt::format("token file of version {}; this program reads version {} only", version,
                          TokenFileHeader::kVersion));
  }
  const TokenFileHeader header{load<std::uint32_t>(bytes, 12), load<std::uint64_t>(bytes, 16),
                               load<std::uint32_t>(bytes, 24)};
  if (header.token_bytes != 2 && header.token_bytes != 4) {
    file.fail(fmt::format("{} bytes per token, expected 2 or 4", header.token_bytes));
  }
  const std::uint64_t payload = file.size() - TokenFileHeader::kBytes;
  if (payload % header.token_bytes != 0 || payload / header.token_bytes != header.tokens) {
    file.fail(fmt::format("{} bytes after the header, which promises {} tokens of {} bytes",
                          payload, header.tokens, header.token_bytes));
  }
  return header;
}

void write_token_file(const std::filesystem::path& path, std::span<const std::int32_t> tokens,
                      std::uint32_t token_bytes, bool overwrite) {
  if (token_bytes != 2 && token_bytes != 4) {
    throw Error(ErrorKind::kInput, fmt::format("{}: {} bytes per token, expected 2 or 4",
                                               path.generic_string(), token_bytes));
  }
  check_output(path, overwrite);
  std::string payload;
  payload.reserve(tokens.size() * token_bytes);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t id = tokens[i];
    if (id < 0 || (token_bytes == 2 && id > 0xFFFF)) {
      throw Error(ErrorKind::kInput, fmt::format("{}: token {} is {}, which does not fit {} bytes",
                                                 path.generic_string(), i, id, token_bytes));
    }
    if (token_bytes == 2) {
      append(payload, static_cast<std::uint16_t>(id));
    } else {
      append(payload, id);
    }
  }
  std::string header(kMagic);
  append(header, TokenFileHeader::kVersion);
  append(header, token_bytes);
  append(header, static_cast<std::uint64_t>(tokens.size()));
  append(header, crc32(0, std::as_bytes(std::span(payload))));
  append(header, crc32(0, std::as_bytes(std::span(header))));
  OutputFile file(path, overwrite);
  file.write(header);
  file.write(payload);
  file.commit(OutputFile::Durable::kNo);
}

}  // namespace zenflow::runtime
