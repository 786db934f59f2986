/// The bytes of a file, inflated if it is gzip, from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace zenflow::sim {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills a part of `out`, at least one byte; 0 if nothing is left.
  /// Throws Error(kInput) with the offset in the file if what is compressed is damaged,
  /// Error(kRuntime) if the system cannot read.
  virtual std::size_t read(std::span<char> out) = 0;
  /// Bytes of the file that have been taken, of `size()`.
  [[nodiscard]] virtual std::uint64_t position() const = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// What was wrong with the end of the input though everything before it was usable: "" if
  /// nothing. Known once `read` has returned 0.
  [[nodiscard]] virtual const std::string& damage() const = 0;
};

/// Opens a file; gzip is recognised by its first bytes, whatever the file's name. Several gzip
/// members in a row are one text. Throws as InputFile.
[[nodiscard]] std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

/// The same bytes; each `read` first calls `progress` (if there is one) with `position` and `size`,
/// and throws Stopped if stop_asked: what passes over gigabytes of blanks is seen, and ends.
[[nodiscard]] std::unique_ptr<ByteSource> watched_bytes(
    std::unique_ptr<ByteSource> source,
    std::function<void(std::uint64_t position, std::uint64_t size)> progress);

/// Bytes that are in memory already, which must outlive the source. For tests and fuzzing.
[[nodiscard]] std::unique_ptr<ByteSource> memory_bytes(std::span<const char> bytes);

}  // namespace zenflow::sim
