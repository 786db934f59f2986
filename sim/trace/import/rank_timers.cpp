#include "sim/trace/import/rank_timers.h"

#include <algorithm>
#include <array>

#include "sim/base/text.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/log_text.h"

namespace zenflow::sim {

bool RankTimers::take(std::string_view line) {
  if (begin(line)) return true;
  if (list_ == List::kNone) return false;
  const bool is_part = list_ == List::kOfTimers ? take_timer(line) : take_rank(line);
  if (!is_part) list_ = List::kNone;
  return is_part;
}

/// A list's first line; its first timer may stand on it.
bool RankTimers::begin(std::string_view line) {
  static constexpr std::array<std::string_view, 3> kBeginnings = {
      "time across ranks (ms):", "times across ranks (ms):", "time (ms):"};
  for (const std::string_view beginning : kBeginnings) {
    const std::size_t at = line.find(beginning);
    if (at == line.npos) continue;
    const std::string_view rest = trimmed(line.substr(at + beginning.size()), kBlanks);
    list_ = beginning.starts_with("times") ? List::kOfRanks : List::kOfTimers;
    name_.clear();
    if (rest.empty() || take_timer(rest)) return true;
    list_ = List::kNone;
    return false;
  }
  return false;
}

/// "NAME ....: VALUE" or "NAME ....: (SHORTEST, LONGEST)", behind any prefix.
bool RankTimers::take_timer(std::string_view line) {
  const std::size_t colon = line.rfind(": ");
  if (colon == line.npos) return false;
  std::string_view value = trimmed(line.substr(colon + 2), kBlanks);
  std::string_view name = line.substr(0, colon);
  const std::size_t last = name.find_last_not_of(" .");
  if (last == name.npos) return false;
  const bool is_filled = name.find('.', last) != name.npos;
  name = name.substr(0, last + 1);
  if (const std::size_t blank = name.find_last_of(" \t"); blank != name.npos) {
    name.remove_prefix(blank + 1);
  }
  const bool is_pair = value.starts_with('(') && value.ends_with(')');
  if (!is_pair && !is_filled) return false;
  if (is_pair) value = value.substr(1, value.size() - 2);
  const auto first = take_milliseconds(value);
  if (!first || *first > kLongestMilliseconds) return false;
  if (!is_pair) {
    if (!trimmed(value, kBlanks).empty()) return false;
    add(name, std::nullopt, *first);
    return true;
  }
  if (!value.starts_with(',')) return false;
  value.remove_prefix(1);
  const auto second = take_milliseconds(value);
  if (!second || *second > kLongestMilliseconds || !trimmed(value, kBlanks).empty()) return false;
  add(name, *first, *second);
  return true;
}

/// "NAME:" or, below one, "rank  N: VALUE".
bool RankTimers::take_rank(std::string_view line) {
  const std::string_view text = trimmed(line, kBlanks);
  const std::size_t rank = text.rfind("rank");
  if (!name_.empty() && rank != text.npos) {
    const std::size_t colon = text.find(':', rank);
    if (colon == text.npos) return false;
    std::string_view rest = text.substr(colon + 1);
    const auto value = take_milliseconds(rest);
    if (!value || *value > kLongestMilliseconds || !trimmed(rest, kBlanks).empty()) return false;
    if (!goes_on_) {
      add(name_, *value, *value);
    } else {
      RankTimerSeries& series = log_->across_ranks[places_.find(name_)->second];
      series.shortest.back() = std::min(series.shortest.back(), *value);
      series.longest.back() = std::max(series.longest.back(), *value);
    }
    goes_on_ = true;
    return true;
  }
  if (!text.ends_with(':')) return false;
  std::string_view name = text.substr(0, text.size() - 1);
  if (const std::size_t blank = name.find_last_of(" \t"); blank != name.npos) {
    name.remove_prefix(blank + 1);
  }
  if (name.empty()) return false;
  name_ = as_utf8(name);
  goes_on_ = false;
  return true;
}

void RankTimers::add(std::string_view name, std::optional<double> shortest, double longest) {
  const std::string key = as_utf8(name);
  const auto [entry, is_new] = places_.try_emplace(key, log_->across_ranks.size());
  if (is_new) log_->across_ranks.push_back({key, {}, {}});
  RankTimerSeries& series = log_->across_ranks[entry->second];
  if (shortest) series.shortest.push_back(*shortest);
  series.longest.push_back(longest);
}

}  // namespace zenflow::sim
