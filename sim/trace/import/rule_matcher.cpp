#include "sim/trace/import/rule_matcher.h"

#include <utility>

#include <fmt/format.h>
#include <re2/re2.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::sim {

struct NamePatterns::Expression {
  re2::RE2 compiled;
};

namespace {

re2::RE2::Options options() {
  // Bytes, not characters: names of traces are not always UTF-8.
  re2::RE2::Options options(re2::RE2::Latin1);
  options.set_log_errors(false);
  options.set_never_capture(true);
  options.set_max_mem(1 << 19);  // refuses what is large once its repetitions are written out
  return options;
}

}  // namespace

bool is_pattern(const std::string& text) {
  if (text.empty()) return true;
  return text.size() <= kLongestPattern && re2::RE2(text, options()).ok();
}

NamePatterns::NamePatterns(const std::vector<std::string>& patterns) {
  constexpr std::size_t kShown = 80;
  for (const std::string& pattern : patterns) {
    std::unique_ptr<Expression>& expression = patterns_.emplace_back();
    if (pattern.empty()) continue;
    if (pattern.size() <= kLongestPattern) {
      expression.reset(new Expression{re2::RE2(pattern, options())});
    }
    if (expression == nullptr || !expression->compiled.ok()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}, found \"{}\"", kExpectedPattern, pattern.substr(0, kShown)));
    }
  }
}

NamePatterns::~NamePatterns() = default;
NamePatterns::NamePatterns(NamePatterns&&) noexcept = default;
NamePatterns& NamePatterns::operator=(NamePatterns&&) noexcept = default;

bool NamePatterns::matches(std::size_t pattern, std::string_view name) const {
  if (patterns_[pattern] == nullptr) return false;
  const std::string_view head = name.substr(0, kLongestName);
  return re2::RE2::FullMatch(re2::StringPiece(head.data(), head.size()),
                             patterns_[pattern]->compiled);
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
    throw_if_stopped();
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
