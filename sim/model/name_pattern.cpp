#include "sim/model/name_pattern.h"

#include <regex>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {

struct NamePattern::Compiled {
  std::regex regex;
};

/// libstdc++ adds up the digits of {n,m}, and of a back reference, without a limit.
static bool has_long_number(std::string_view pattern) {
  constexpr int kMostDigits = 9;
  const auto is_digit = [&pattern](std::size_t at) {
    return at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9';
  };
  bool in_braces = false;
  bool is_reference = false;
  int digits = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_digit(i)) {
      if ((in_braces || is_reference) && ++digits > kMostDigits) return true;
      continue;
    }
    digits = 0;
    const bool is_escape = pattern[i] == '\\';
    is_reference = is_escape && is_digit(i + 1);
    if (is_escape && !is_reference) {
      ++i;  // what is escaped stands for itself
    } else if (pattern[i] == '{' || pattern[i] == '}') {
      in_braces = pattern[i] == '{';
    }
  }
  return false;
}

NamePattern::NamePattern(const std::string& pattern) {
  constexpr std::size_t kLongest = 4096;
  if (pattern.size() > kLongest) {
    throw Error(ErrorKind::kInput,
                fmt::format("is a regular expression of {} characters: at most {}", pattern.size(),
                            kLongest));
  }
  if (has_long_number(pattern)) {
    throw Error(ErrorKind::kInput, "is a regular expression with a count of ten digits or more");
  }
  // libstdc++ follows all ways through the pattern at once then, instead of one after the other.
  const auto flags = std::regex::ECMAScript | std::regex_constants::__polynomial;
  try {
    compiled_ = std::make_shared<const Compiled>(Compiled{std::regex(pattern, flags)});
  } catch (const std::regex_error& error) {
    if (error.code() == std::regex_constants::error_space) {  // by a limit of the library
      throw Error(ErrorKind::kInput, "is too large a regular expression");
    }
    throw Error(ErrorKind::kInput,
                fmt::format("is no regular expression that is read here: {}", error.what()));
  }
}

NamePattern NamePattern::of_wildcards(std::string_view text) {
  constexpr std::string_view kSpecial = "^$\\.+?()[]{}|";
  std::string pattern;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "{}") {
      pattern += "[0-9]+";
      ++i;
    } else if (text[i] == '*') {
      pattern += ".*";
    } else {
      if (kSpecial.find(text[i]) != std::string_view::npos) pattern += '\\';
      pattern += text[i];
    }
  }
  return NamePattern(pattern);
}

bool NamePattern::is_all_of(std::string_view name) const {
  return std::regex_match(name.begin(), name.end(), compiled_->regex);
}

bool NamePattern::is_in(std::string_view name) const {
  return std::regex_search(name.begin(), name.end(), compiled_->regex);
}

}  // namespace zenflow::sim
