/// Writes a checkpoint file (format.h), which appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/checkpoint/format.h"
#include "sim/base/output_file.h"

namespace zenflow::runtime {

/// Memory: a few bytes per section; payloads go from the caller's spans to the file. Checksums are
/// taken on the way. Every function throws Error(kRuntime) if writing fails, and for sections that
/// break the rules of format.h: those are mistakes of the caller.
class CheckpointWriter {
 public:
  /// Replaces `path` when committed. Throws Error(kInput) as check_output.
  CheckpointWriter(const std::filesystem::path& path, std::uint64_t step);

  /// A section of one dimension, or of `shape` with values.size() elements.
  template <class T, std::size_t count>
  requires CheckpointElement<std::remove_const_t<T>>
  void add(std::string_view name, std::span<T, count> values) {
    add(name, values, {values.size()});
  }
  template <class T, std::size_t count>
  requires CheckpointElement<std::remove_const_t<T>>
  void add(std::string_view name, std::span<T, count> values, std::vector<std::uint64_t> shape) {
    begin(name, kSectionTypeOf<std::remove_const_t<T>>, std::move(shape));
    append(std::as_bytes(values));
    end();
  }
  /// A section of no dimensions: one element.
  template <CheckpointElement T>
  void add_value(std::string_view name, const T& value) {
    add(name, std::span<const T, 1>(&value, 1), {});
  }
  /// UTF-8 as u8 elements.
  void add_text(std::string_view name, std::string_view text);

  /// The same in pieces, for what does not lie in one place.
  void begin(std::string_view name, SectionType type, std::vector<std::uint64_t> shape);
  void append(std::span<const std::byte> bytes);
  /// Throws if the pieces are not as many bytes as the shape says.
  void end();

  /// Writes the table and gives the file its name, on the disk when this returns.
  void commit();

 private:
  void write(std::string_view bytes);

  OutputFile file_;
  std::vector<Section> sections_;
  std::set<std::string, std::less<>> names_;  // of sections_
  std::uint64_t written_ = 0;
  std::uint64_t section_written_ = 0;
  bool is_section_open_ = false;
};

}  // namespace zenflow::runtime
