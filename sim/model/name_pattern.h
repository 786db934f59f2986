/// Patterns that names are matched against: regular expressions as Python's `re` has them, as far
/// as ECMAScript's are the same (no named groups, no (?i)). Not RE2's, as patterns of recordings
/// are: PEFT's users leave towers out by look-ahead, "(?!.*vision).*q_proj", which RE2 does not
/// have.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace zenflow::sim {

class NamePattern {
 public:
  /// Throws Error(kInput) that says what is wrong with it: "is no regular ...". Matching takes time
  /// in proportion to pattern and name: back references are refused.
  explicit NamePattern(const std::string& pattern);

  /// `*` stands for any characters and "{}" for a number, all else for itself.
  [[nodiscard]] static NamePattern of_wildcards(std::string_view text);

  /// Python's re.fullmatch.
  [[nodiscard]] bool is_all_of(std::string_view name) const;
  /// Python's re.search.
  [[nodiscard]] bool is_in(std::string_view name) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace zenflow::sim
