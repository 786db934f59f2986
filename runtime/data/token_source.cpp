#include "runtime/data/token_source.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "runtime/data/token_file.h"
#include "sim/base/crc32.h"

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kByteValues = 256;

std::uint32_t id_at(std::span<const std::byte> bytes, std::size_t index, std::uint32_t width) {
  // A narrow number is the low part of a wide one: the format is little-endian.
  std::uint32_t id = 0;
  std::memcpy(&id, bytes.subspan(index * width, width).data(), width);
  return id;
}

}  // namespace

TokenSource::TokenSource(const std::filesystem::path& path, std::int64_t vocabulary)
    : file_(path), vocabulary_(vocabulary) {
  const bool is_token_file = path.extension() == ".bin";
  std::uint32_t expected_crc = 0;
  if (is_token_file) {
    const TokenFileHeader header = read_token_header(file_);
    begin_ = TokenFileHeader::kBytes;
    token_bytes_ = header.token_bytes;
    expected_crc = header.crc;
  } else if (vocabulary_ < kByteValues) {
    file_.fail(
        fmt::format("each byte of a text file is a token, which needs a vocabulary of {}; "
                    "the model has {}",
                    kByteValues, vocabulary_));
  }
  tokens_ = (file_.size() - begin_) / token_bytes_;

  std::vector<std::byte> head(static_cast<std::size_t>(begin_));
  file_.read_at(0, head);
  std::uint32_t tokens_crc = 0;
  fingerprint_ = {file_.size(), crc32(0, head)};
  // Bytes cannot be out of a vocabulary of 256. Pieces are whole tokens: 1 MiB is a multiple of 4.
  file_.scan(begin_, file_.size(), [&](std::uint64_t offset, std::span<const std::byte> piece) {
    tokens_crc = crc32(tokens_crc, piece);
    fingerprint_.crc = crc32(fingerprint_.crc, piece);
    if (!is_token_file) return;
    for (std::size_t i = 0; i < piece.size() / token_bytes_; ++i) {
      static_cast<void>(
          checked(id_at(piece, i, token_bytes_), (offset - begin_) / token_bytes_ + i));
    }
  });
  if (is_token_file && tokens_crc != expected_crc) {
    file_.fail("damaged token file: the tokens do not match their checksum");
  }
}

std::int32_t TokenSource::checked(std::uint32_t id, std::uint64_t position) const {
  if (id >= static_cast<std::uint64_t>(vocabulary_) || id > 0x7FFFFFFFU) {
    file_.fail(fmt::format("token {} is {}, the vocabulary has {} ids", position, id, vocabulary_));
  }
  return static_cast<std::int32_t>(id);
}

void TokenSource::read(std::uint64_t first, std::span<std::int32_t> out) const {
  std::vector<std::byte> bytes(out.size() * token_bytes_);
  file_.read_at(begin_ + first * token_bytes_, bytes);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = checked(id_at(bytes, i, token_bytes_), first + i);
  }
}

}  // namespace zenflow::runtime
