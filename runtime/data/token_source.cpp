#include "runtime/data/token_source.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "runtime/data/token_file.h"
#include "sim/base/crc32.h"

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kByteValues = 256;
constexpr std::uint64_t kMaxIds = std::uint64_t{1} << 31U;  // ids are int32 from here on

template <class Id>
std::uint32_t id_at(std::span<const std::byte> stored, std::size_t index) {
  Id id;
  std::memcpy(&id, stored.data() + index * sizeof id, sizeof id);
  return id;
}

template <class Id>
std::uint32_t largest_id(std::span<const std::byte> stored) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < stored.size() / sizeof(Id); ++i) {
    largest = std::max(largest, id_at<Id>(stored, i));
  }
  return largest;
}

/// `visit` with a zero of the type that ids of this width are stored as.
template <class Visit>
auto with_id_type(std::uint32_t width, const Visit& visit) {
  switch (width) {
    case 1:
      return visit(std::uint8_t{});
    case 2:
      return visit(std::uint16_t{});
    default:
      return visit(std::uint32_t{});
  }
}

}  // namespace

TokenFormat token_format(const std::filesystem::path& path) {
  const std::filesystem::path ending = path.extension();
  if (ending == ".bin") return TokenFormat::kTokens;
  return ending == ".safetensors" ? TokenFormat::kExamples : TokenFormat::kBytes;
}

TokenSource::TokenSource(const std::filesystem::path& path, std::int64_t vocabulary)
    : file_(path), vocabulary_(vocabulary) {
  const bool is_token_file = token_format(path) == TokenFormat::kTokens;
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

  std::uint32_t crc = 0;
  // Pieces are whole tokens: 1 MiB is a multiple of 4.
  file_.scan(begin_, file_.size(), [&](std::uint64_t offset, std::span<const std::byte> piece) {
    crc = crc32(crc, piece);
    check_ids(piece, (offset - begin_) / token_bytes_);
  });
  if (is_token_file && crc != expected_crc) {
    file_.fail("damaged token file: the tokens do not match their checksum");
  }
  fingerprint_ = {file_.size(), crc};
}

void TokenSource::check_ids(std::span<const std::byte> stored, std::uint64_t first) const {
  const auto limit = std::min(static_cast<std::uint64_t>(vocabulary_), kMaxIds);
  with_id_type(token_bytes_, [&](auto zero) {
    using Id = decltype(zero);
    // The position is looked for only if there is one to be found: this is the whole file, once.
    if (largest_id<Id>(stored) < limit) return;
    std::size_t i = 0;
    while (id_at<Id>(stored, i) < limit) ++i;
    file_.fail(fmt::format("token {} is {}, the vocabulary has {} ids", first + i,
                           id_at<Id>(stored, i), vocabulary_));
  });
}

void TokenSource::read(std::uint64_t first, std::span<std::int32_t> out) const {
  std::vector<std::byte> stored(out.size() * token_bytes_);
  file_.read_at(begin_ + first * token_bytes_, stored);
  check_ids(stored, first);
  with_id_type(token_bytes_, [&](auto zero) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::int32_t>(id_at<decltype(zero)>(stored, i));
    }
  });
}

}  // namespace zenflow::runtime
