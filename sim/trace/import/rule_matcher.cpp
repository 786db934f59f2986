#include "sim/trace/import/rule_matcher.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

/// Nothing if it is none. What is empty is not compiled: most rules name few things.
std::optional<std::regex> compiled(const std::string& pattern) {
  if (pattern.empty()) return std::regex();
  if (pattern.size() > kLongestPattern) return std::nullopt;
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_pattern(const std::string& text) {
  return compiled(text).has_value();
}

NamePatterns::NamePatterns(const std::vector<std::string>& patterns) {
  constexpr std::size_t kShown = 80;
  for (const std::string& pattern : patterns) {
    std::optional<std::regex> expression = compiled(pattern);
    if (!expression) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, found \"{}\"", kExpectedPattern, pattern.substr(0, kShown)));
    }
    patterns_.push_back(*std::move(expression));
    is_set_.push_back(!pattern.empty());
  }
}

bool NamePatterns::matches(std::size_t pattern, std::string_view name) const {
  if (!is_set_[pattern]) return false;
  const std::string_view head = name.substr(0, kLongestName);
  return std::regex_match(head.begin(), head.end(), patterns_[pattern]);
}

int NamePatterns::first_match(std::string_view name) const {
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (matches(i, name)) return static_cast<int>(i);
  }
  return -1;
}

bool MatchedNames::matches(std::size_t pattern, NameId name) {
  if (name >= known_.size()) known_.resize(names_->size());
  std::vector<bool>& known = known_[name];
  if (known.empty()) {
    known.resize(patterns_.size());
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      known[i] = patterns_.matches(i, (*names_)[name]);
    }
  }
  return known[pattern];
}

int MatchedNames::first_match(NameId name) {
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    if (matches(i, name)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace zenflow::sim
