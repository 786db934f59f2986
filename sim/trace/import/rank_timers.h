/// Megatron's lists of timers over several lines of a log.
///
///   (min, max) time across ranks (ms):                   max time across ranks (ms):
///       optimizer ......: (1.25, 2.50)                        optimizer ......: 2.50
///   times across ranks (ms):                              time (ms):          (of one rank)
///     optimizer:                                              optimizer ......: 2.50
///        rank  0: 1.25
///        rank  1: 2.50
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sim/trace/import/timer_log.h"

namespace zenflow::sim {

class RankTimers {
 public:
  explicit RankTimers(TimerLog& log) : log_(&log) {}

  /// Takes a line without its end and terminal escapes; whether it was a list's beginning or part.
  bool take(std::string_view line);

 private:
  enum class List { kNone, kOfTimers, kOfRanks };

  bool begin(std::string_view line);
  bool take_timer(std::string_view line);
  bool take_rank(std::string_view line);
  void add(std::string_view name, std::optional<double> shortest, double longest);

  TimerLog* log_;
  List list_ = List::kNone;
  std::string name_;      // kOfRanks: whose ranks follow
  bool goes_on_ = false;  // kOfRanks: its first rank was there
  std::map<std::string, std::size_t, std::less<>> places_;
};

}  // namespace zenflow::sim
