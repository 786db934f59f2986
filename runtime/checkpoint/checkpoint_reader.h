/// Reads a checkpoint file (format.h) and refuses damaged ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/format.h"
#include "sim/base/input_file.h"

namespace zenflow::runtime {

/// Opening checks header, table, trailer and lengths; reading a section checks its payload.
/// Every function throws Error(kInput) with the path if the file is damaged, of another version
/// or not what was asked for, Error(kRuntime) if the system cannot read it.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& path);

  [[nodiscard]] std::uint64_t step() const { return step_; }
  [[nodiscard]] const std::vector<Section>& sections() const { return sections_; }
  [[nodiscard]] bool contains(std::string_view name) const;
  [[nodiscard]] const Section& section(std::string_view name) const;

  /// Fills `out`. Throws if the type or the number of elements differs. After an exception `out`
  /// may hold anything.
  template <CheckpointElement T>
  void read(std::string_view name, std::span<T> out) {
    read_payload(typed(name, kSectionTypeOf<T>), std::as_writable_bytes(out));
  }
  template <CheckpointElement T>
  [[nodiscard]] std::vector<T> read(std::string_view name) {
    const Section& section = typed(name, kSectionTypeOf<T>);
    std::vector<T> values(static_cast<std::size_t>(section.bytes / sizeof(T)));
    read_payload(section, std::as_writable_bytes(std::span(values)));
    return values;
  }
  template <CheckpointElement T>
  [[nodiscard]] T read_value(std::string_view name) {
    T value;
    read(name, std::span<T>(&value, 1));
    return value;
  }
  [[nodiscard]] std::string read_text(std::string_view name);

  /// Reads every payload and compares it with its checksum. Memory: 1 MiB.
  void verify() const;

  /// Throws if a section has never been read: state that the program does not know of.
  void reject_unread() const;

 private:
  [[nodiscard]] const Section& typed(std::string_view name, SectionType type) const;
  void read_payload(const Section& section, std::span<std::byte> out);

  InputFile file_;
  std::uint64_t step_ = 0;
  std::vector<Section> sections_;
  std::map<std::string, std::size_t, std::less<>> by_name_;  // of sections_
  std::set<std::string, std::less<>> read_;
};

}  // namespace zenflow::runtime
