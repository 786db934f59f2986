/// The tokens of a training file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "sim/base/input_file.h"

namespace zenflow::runtime {

/// What a file's content is recognised by: a resumed run must read what the first one read.
struct Fingerprint {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  ///< CRC-32 of the tokens as stored; of text, of the whole file

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

/// What the name of a file says of its content.
enum class TokenFormat : std::uint8_t {
  kBytes,     ///< a text, each byte of which is a token
  kTokens,    ///< "*.bin": token_file.h
  kExamples,  ///< "*.safetensors": example_sequences.h
};
[[nodiscard]] TokenFormat token_format(const std::filesystem::path& path);

/// A file named `*.bin` is a token file (token_file.h); of any other file each byte is a token.
/// Tokens are read from the file as they are needed. May be read by several threads at once.
class TokenSource {
 public:
  /// Reads the whole file once, to check every id, the checksum, and to take the fingerprint.
  /// Throws Error(kInput) with the path and, for ids, the position, if the file cannot be read,
  /// is damaged, or holds an id that is not below `vocabulary`; a text file needs 256 ids.
  TokenSource(const std::filesystem::path& path, std::int64_t vocabulary);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] std::uint64_t size() const { return tokens_; }
  [[nodiscard]] Fingerprint fingerprint() const { return fingerprint_; }

  /// Tokens [first, first + out.size()), which must be there. Throws Error(kInput) if the file has
  /// become shorter or ids have become too large since it was opened, Error(kRuntime) if the system
  /// cannot read it.
  void read(std::uint64_t first, std::span<std::int32_t> out) const;

 private:
  /// Throws Error(kInput) if one of these stored ids, the first of which is token `first`, is not
  /// in the vocabulary.
  void check_ids(std::span<const std::byte> stored, std::uint64_t first) const;

  InputFile file_;
  std::int64_t vocabulary_;
  std::uint64_t begin_ = 0;  // of the tokens in the file
  std::uint32_t token_bytes_ = 1;
  std::uint64_t tokens_ = 0;
  Fingerprint fingerprint_;
};

}  // namespace zenflow::runtime
