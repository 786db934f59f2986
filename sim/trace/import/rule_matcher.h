/// Rules applied to names, each name once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// Regular expressions for whole names, byte by byte. Matched by RE2: in time linear in the name,
/// whatever the expression, and without a stack. Only the beginning of a long name is looked at.
class NamePatterns {
 public:
  /// Throws Error(kInput) for what is no pattern.
  explicit NamePatterns(const std::vector<std::string>& patterns);
  ~NamePatterns();
  NamePatterns(NamePatterns&&) noexcept;
  NamePatterns& operator=(NamePatterns&&) noexcept;
  /// The first pattern that matches, or -1. An empty pattern matches nothing.
  [[nodiscard]] int first_match(std::string_view name) const;
  [[nodiscard]] bool matches(std::size_t pattern, std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return patterns_.size(); }

  static constexpr std::size_t kLongestName = 2048;

 private:
  struct Expression;
  std::vector<std::unique_ptr<Expression>> patterns_;  // none for an empty pattern
};

/// Whether `text` can be matched.
[[nodiscard]] bool is_pattern(const std::string& text);
inline constexpr std::size_t kLongestPattern = 1024;
inline constexpr std::string_view kExpectedPattern =
    "expected a regular expression (RE2, no look-ahead, no \\1) of at most 1024 characters";

/// NamePatterns over a NameTable, remembered by number. The table must outlive it.
class MatchedNames {
 public:
  MatchedNames(const NameTable& names, const std::vector<std::string>& patterns)
      : names_(&names), patterns_(patterns) {}
  [[nodiscard]] int first_match(NameId name);
  [[nodiscard]] bool matches(std::size_t pattern, NameId name);

 private:
  const NameTable* names_;
  NamePatterns patterns_;
  std::vector<std::vector<bool>> known_;  // by name, then pattern; empty: not looked at yet
};

}  // namespace zenflow::sim
