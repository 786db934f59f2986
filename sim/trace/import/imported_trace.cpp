#include "sim/trace/import/imported_trace.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace zenflow::sim {

std::string to_string(TraceFormat format) {
  switch (format) {
    case TraceFormat::kChrome:
      return "chrome";
    case TraceFormat::kNsight:
      return "nsight";
    case TraceFormat::kTimerLog:
      return "timer_log";
  }
  return "";
}

std::string to_string(StepSource source) {
  switch (source) {
    case StepSource::kNone:
      return "none";
    case StepSource::kAnnotation:
      return "annotation";
    case StepSource::kPattern:
      return "pattern";
    case StepSource::kOptimizer:
      return "optimizer";
    case StepSource::kPeriod:
      return "period";
    case StepSource::kTimers:
      return "timers";
  }
  return "";
}

void note_unusable(const std::string& name, ImportedTrace& trace) {
  for (const LeftOut& one : trace.left_out) {
    if (!one.is_unusable) continue;
    trace.problems.push_back(fmt::format("{}: not used: {} ({}, the first at {})", name, one.what,
                                         one.count, one.first));
  }
}

void LeftOutCounter::add(std::string_view what, Picoseconds time, std::uint64_t place,
                         std::string_view unit) {
  static_cast<void>(count(what, time, place, unit));
}

void LeftOutCounter::add_unusable(std::string_view what, Picoseconds time, std::uint64_t place,
                                  std::string_view unit) {
  count(what, time, place, unit).is_unusable = true;
}

LeftOut& LeftOutCounter::count(std::string_view what, Picoseconds time, std::uint64_t place,
                               std::string_view unit) {
  const NameId id = names_.intern(what);
  if (id >= counts_.size()) counts_.resize(id + 1);
  LeftOut& one = counts_[id];
  if (one.count++ == 0) {
    one.what = what;
    one.first = fmt::format("{} {}", unit, place);
  }
  // A damaged file's durations add up to anything.
  if (!one.takes_longer && __builtin_add_overflow(one.time.count, time.count, &one.time.count)) {
    one.time.count = INT64_MAX;
    one.takes_longer = true;
  }
  return one;
}

std::vector<LeftOut> LeftOutCounter::take() {
  std::vector<LeftOut> all;
  for (LeftOut& one : counts_) {
    if (one.count > 0) all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(),
            [](const LeftOut& a, const LeftOut& b) { return a.what < b.what; });
  return all;
}

}  // namespace zenflow::sim
