#include "sim/trace/import/steps.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/stop.h"
#include "sim/trace/import/optimizer_steps.h"
#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_indices.h"

namespace zenflow::sim {
namespace {

/// The number at the end of a name, or -1.
std::int64_t number_of(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::string_view digits = name.substr(last == name.npos ? 0 : last + 1);
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool fits = error == std::errc() && number <= std::numeric_limits<std::int32_t>::max();
  return fits ? number : -1;
}

class StepFinder {
 public:
  explicit StepFinder(Timeline& timeline) : timeline_(timeline) {}

  /// Ranges whose names match, of one track, by start; of the first pattern that has any.
  std::vector<const TimelineSpan*> ranges(const std::vector<std::string>& patterns) {
    MatchedNames names(timeline_.names, patterns);
    using Place = std::tuple<std::size_t, bool, std::uint32_t>;  // pattern, on the GPU, track
    std::map<Place, std::vector<const TimelineSpan*>> found;
    for (const TimelineSpan& span : timeline_.spans) {
      if (kind_of(timeline_, span) != SpanKind::kRange) continue;
      const int pattern = names.first_match(span.name);
      if (pattern < 0) continue;
      const bool is_on_gpu = timeline_.tracks[span.track].process < 0;
      found[{static_cast<std::size_t>(pattern), is_on_gpu, span.track}].push_back(&span);
    }
    const std::vector<const TimelineSpan*>* best = nullptr;
    Place of{};
    for (const auto& [place, spans] : found) {
      const bool is_same_kind = best != nullptr && std::get<0>(place) == std::get<0>(of) &&
                                std::get<1>(place) == std::get<1>(of);
      if (best != nullptr && (!is_same_kind || spans.size() <= best->size())) continue;
      best = &spans;
      of = place;
    }
    return best == nullptr ? std::vector<const TimelineSpan*>() : outermost(*best);
  }

  /// Without a last range in which no optimizer updates, though one does in all others: what runs
  /// when a profiler's last step is over belongs to none.
  [[nodiscard]] std::vector<const TimelineSpan*> finished(
      std::vector<const TimelineSpan*> spans, const std::vector<const TimelineSpan*>& updates) {
    constexpr std::size_t kFewest = 3;
    const auto has_update = [&](const TimelineSpan* span) {
      const auto next = std::lower_bound(
          updates.begin(), updates.end(), span->start,
          [](const TimelineSpan* update, Picoseconds time) { return update->start < time; });
      return next != updates.end() && (*next)->start < span->end;
    };
    const bool is_open = spans.size() >= kFewest && !has_update(spans.back()) &&
                         std::all_of(spans.begin(), std::prev(spans.end()), has_update);
    if (is_open) spans.pop_back();
    return spans;
  }

  void steps_are(const std::vector<const TimelineSpan*>& spans) {
    std::set<std::int64_t> numbers;
    for (const TimelineSpan* span : spans) numbers.insert(number_of(timeline_.name_of(*span)));
    const bool are_numbered = numbers.size() == spans.size() && *numbers.begin() >= 0;
    std::int64_t next = 0;
    for (const TimelineSpan* span : spans) {
      const std::int64_t number = are_numbered ? number_of(timeline_.name_of(*span)) : next;
      timeline_.steps.push_back({number, span->start, span->end});
      ++next;
    }
  }

  /// Whether there are any.
  bool steps_end_with(const std::vector<const TimelineSpan*>& updates, const SpanLaunches& launch,
                      const std::vector<HostInterval>& intervals, const TraceRules& rules) {
    timeline_.steps = steps_between_updates(timeline_, launch, intervals, rules, updates);
    return !timeline_.steps.empty();
  }

  /// Periods of the kernels of the track that computes most.
  bool steps_repeat() {
    std::vector<std::int64_t> busy(timeline_.tracks.size(), 0);
    for (const TimelineSpan& span : timeline_.spans) {
      if (kind_of(timeline_, span) == SpanKind::kKernel) {
        busy[span.track] += (span.end - span.start).count;
      }
    }
    const auto most = std::max_element(busy.begin(), busy.end());
    if (most == busy.end() || *most == 0) return false;
    const auto track = static_cast<std::uint32_t>(most - busy.begin());
    const auto is_kernel = [&](const TimelineSpan& span) {
      return span.track == track && kind_of(timeline_, span) == SpanKind::kKernel;
    };
    SpanIndices kernels(static_cast<std::size_t>(
        std::count_if(timeline_.spans.begin(), timeline_.spans.end(), is_kernel)));
    for (std::uint32_t i = 0; i < timeline_.spans.size(); ++i) {
      if (is_kernel(timeline_.spans[i])) kernels.push_back(i);
    }
    const std::size_t period = find_period(
        kernels.size(), [&](std::size_t i) { return timeline_.spans[kernels[i]].name; });
    if (period == 0) return false;
    std::size_t place = 0;  // among the kernels
    std::int64_t number = 0;
    Picoseconds begin{};
    for (const TimelineSpan& span : timeline_.spans) {
      if (!is_kernel(span) || place++ % period != 0) continue;
      if (place > 1) timeline_.steps.push_back({number++, begin, span.start});
      begin = span.start;
    }
    return true;
  }

  void number_spans(const SpanLaunches& launch) {
    const std::vector<TimelineStep>& steps = timeline_.steps;
    const auto starts_later = [](Picoseconds time, const TimelineStep& step) {
      return time < step.start;
    };
    for (std::size_t i = 0; i < timeline_.spans.size(); ++i) {
      TimelineSpan& span = timeline_.spans[i];
      if (!is_gpu_work(kind_of(timeline_, span))) continue;
      const Picoseconds time = launch[i] == kNoSpan ? span.start : timeline_.spans[launch[i]].start;
      const auto behind = std::upper_bound(steps.begin(), steps.end(), time, starts_later);
      if (behind == steps.begin() || time >= (behind - 1)->end) continue;
      SpanExtra extra = timeline_.extra_of(span);
      extra.step = static_cast<std::int32_t>((behind - 1)->number);
      span.extra = timeline_.extras.intern(extra);
    }
  }

 private:
  /// Without those that lie in another.
  static std::vector<const TimelineSpan*> outermost(std::vector<const TimelineSpan*> spans) {
    std::stable_sort(spans.begin(), spans.end(), [](const TimelineSpan* a, const TimelineSpan* b) {
      return std::tuple(a->start, b->end) < std::tuple(b->start, a->end);
    });
    std::vector<const TimelineSpan*> kept;
    for (const TimelineSpan* span : spans) {
      if (kept.empty() || span->end > kept.back()->end) kept.push_back(span);
    }
    return kept;
  }

  Timeline& timeline_;
};

/// Whether nearly nothing stands outside the repetition: what comes once, at the beginning or the
/// end, says that the repeated parts are layers of one step.
bool is_all_repeated(const std::map<NameId, std::size_t>& counts, std::size_t length,
                     std::size_t period) {
  const std::size_t repeats = length / period;
  std::size_t outside = 0;
  for (const auto& [name, count] : counts) {
    if (count + 1 < repeats) outside += count;
  }
  constexpr std::size_t kOutsideOf = 500;
  return kOutsideOf * outside <= length;
}

}  // namespace

std::size_t find_period(std::size_t length, const std::function<NameId(std::size_t)>& name_at) {
  std::map<NameId, std::size_t> counts;
  for (std::size_t i = 0; i < length; ++i) ++counts[name_at(i)];
  constexpr std::size_t kRepeats = 3;
  // The rarest name that comes often enough marks the period: layers repeat more often than steps.
  auto mark = counts.end();
  for (auto one = counts.begin(); one != counts.end(); ++one) {
    if (one->second < kRepeats) continue;
    if (mark == counts.end() || one->second < mark->second) mark = one;
  }
  if (mark == counts.end()) return 0;
  const auto next_mark = [&](std::size_t from) {
    while (from < length && name_at(from) != mark->first) ++from;
    return from;
  };
  const std::size_t first = next_mark(0);
  std::set<std::size_t> candidates;
  constexpr std::size_t kMostCandidates = 64;
  for (std::size_t at = first; at < length && candidates.size() < kMostCandidates;) {
    at = next_mark(at + 1);
    if (at < length) candidates.insert(at - first);
  }
  constexpr std::size_t kWrongOf = 50;
  constexpr std::size_t kMostRepeats = 10'000;
  for (const std::size_t period : candidates) {
    if (kRepeats * period > length) break;
    throw_if_stopped();
    const std::size_t compared = length - period;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < compared && kWrongOf * wrong <= compared; ++i) {
      if (name_at(i) != name_at(i + period)) ++wrong;
    }
    if (kWrongOf * wrong <= compared && is_all_repeated(counts, length, period)) {
      return length / period <= kMostRepeats ? period : 0;
    }
  }
  return 0;
}

std::size_t find_period(const std::vector<NameId>& sequence) {
  return find_period(sequence.size(), [&](std::size_t i) { return sequence[i]; });
}

StepSource find_steps(Timeline& timeline, const SpanLaunches& launch,
                      const std::vector<HostInterval>& intervals, const TraceRules& rules,
                      const std::string& pattern) {
  StepFinder finder(timeline);
  StepSource source = StepSource::kNone;
  if (!pattern.empty()) {
    const auto found = finder.ranges({pattern});
    if (!found.empty()) {
      finder.steps_are(found);
      source = StepSource::kPattern;
    }
  } else if (const auto named = finder.ranges(rules.steps); !named.empty()) {
    finder.steps_are(finder.finished(named, finder.ranges(rules.optimizers)));
    source = StepSource::kAnnotation;
  } else if (finder.steps_end_with(finder.ranges(rules.optimizers), launch, intervals, rules)) {
    source = StepSource::kOptimizer;
  } else if (finder.steps_repeat()) {
    source = StepSource::kPeriod;
  }
  finder.number_spans(launch);
  return source;
}

}  // namespace zenflow::sim
