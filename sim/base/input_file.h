/// A file that is read at given places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace zenflow {

/// Read calls, not a mapping: a mapped file that is truncated or cannot be read ends the program
/// with SIGBUS, a call says what is wrong. May be read by several threads at once.
class InputFile {
 public:
  /// Throws Error(kInput) if there is no such file, it may not be read or is not a regular file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// In bytes, as it was when opened.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Fills `out` from byte `offset` on, and asks whether to stop meanwhile.
  /// Throws Error(kInput) if the file ends before, Error(kRuntime) if the system cannot read it, or
  /// Stopped.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  /// Hands bytes [first, last) to `consume` in pieces of at most 1 MiB, in order. Throws as
  /// read_at.
  void scan(
      std::uint64_t first, std::uint64_t last,
      const std::function<void(std::uint64_t offset, std::span<const std::byte>)>& consume) const;

  /// Throws Error(kInput): "path: what".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

/// The whole of it. Throws as InputFile does, and if it is larger than `most` MiB.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::uint64_t most = 4096);

/// Standard input to its end, whatever it is: a pipe or a terminal that says nothing is waited for,
/// until stop_asked. Throws Error(kInput) "<stdin>: cannot read: ..." if it is larger than `most`
/// MiB, Stopped, or Error(kRuntime) if the system cannot read it.
[[nodiscard]] std::string read_standard_input(std::uint64_t most);

}  // namespace zenflow
