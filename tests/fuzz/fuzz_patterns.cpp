/// Any bytes as a pattern and names that it is held against, a line each: as --steps and rules have
/// it, as adapters have it, and with wildcards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/name_pattern.h"
#include "sim/trace/import/rule_matcher.h"
#include "tests/fuzz/expect_input_error.h"

namespace {

using zenflow::fuzz::is_taken;
using zenflow::fuzz::require;
using zenflow::sim::NamePattern;
using zenflow::sim::NamePatterns;

void check_recordings(const std::string& pattern, const std::vector<std::string_view>& names) {
  std::optional<NamePatterns> patterns;
  const bool is_read = is_taken([&] { patterns.emplace(std::vector<std::string>{"", pattern}); });
  require(is_read == zenflow::sim::is_pattern(pattern), "what is a pattern can be matched");
  if (!is_read) return;
  for (const std::string_view name : names) {
    const bool matches = patterns->matches(1, name);
    require(!patterns->matches(0, name), "no pattern matches nothing");
    require(patterns->first_match(name) == (matches ? 1 : -1), "the first match is one");
  }
}

void check_tensors(const std::string& pattern, const std::vector<std::string_view>& names) {
  std::optional<NamePattern> whole;
  if (!is_taken([&] { whole.emplace(pattern); })) return;
  for (const std::string_view name : names) {
    const bool is_in = whole->is_in(name);
    require(is_in || !whole->is_all_of(name), "what is all of a name is in it");
  }
}

void check_wildcards(const std::string& pattern, const std::vector<std::string_view>& names) {
  std::optional<NamePattern> whole;
  if (!is_taken([&] { whole.emplace(NamePattern::of_wildcards(pattern)); })) {
    require(pattern.size() > 1000, "wildcards are refused for their length alone");
    return;
  }
  const bool is_plain =
      pattern.find('*') == std::string::npos && pattern.find("{}") == std::string::npos;
  if (is_plain) require(whole->is_all_of(pattern), "all else stands for itself");
  for (const std::string_view name : names) {
    require(!is_plain || whole->is_all_of(name) == (name == pattern), "and for nothing else");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto take_line = [&text] {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return line;
  };
  const std::string pattern(take_line());
  std::vector<std::string_view> names;
  while (!text.empty()) names.push_back(take_line());
  check_recordings(pattern, names);
  check_tensors(pattern, names);
  check_wildcards(pattern, names);
  return 0;
}
