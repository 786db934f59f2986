#include "sim/trace/import/phases.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

template <class Field>
std::vector<std::string> texts(const TraceRules& rules, Field field) {
  std::vector<std::string> found;
  for (const PhaseRule& rule : rules.phases) found.push_back(rule.*field);
  return found;
}

using RuleSet = std::vector<bool>;  // by rule

class PhaseAssigner {
 public:
  PhaseAssigner(Timeline& timeline, const SpanLaunches& launch,
                const std::vector<HostInterval>& intervals, const TraceRules& rules)
      : timeline_(timeline),
        launch_(launch),
        intervals_(intervals),
        rules_(rules.phases),
        kernels_(timeline.names, texts(rules, &PhaseRule::kernel)),
        ranges_(timeline.names, texts(rules, &PhaseRule::range)),
        threads_(texts(rules, &PhaseRule::thread)),
        steps_(timeline.names, rules.steps),
        optimizers_(timeline.names, rules.optimizers) {
    for (const HostInterval& one : intervals) {
      if (rules_[one.rule].phase == SpanPhase::kBackward) backwards_.push_back(one);
    }
    std::sort(backwards_.begin(), backwards_.end(),
              [](const HostInterval& a, const HostInterval& b) { return a.start < b.start; });
  }

  void assign() {
    contexts_.try_emplace(RuleSet(rules_.size(), false), 0);
    sets_.push_back(contexts_.begin()->first);
    context_.assign(timeline_.spans.size(), 0);
    find_main_tracks();
    for (std::size_t first = 0; first < timeline_.spans.size();) {
      std::size_t last = first;
      while (last < timeline_.spans.size() &&
             timeline_.spans[last].track == timeline_.spans[first].track) {
        ++last;
      }
      sweep(first, last);
      first = last;
    }
    for (std::size_t i = 0; i < timeline_.spans.size(); ++i) {
      TimelineSpan& span = timeline_.spans[i];
      if (is_gpu_work(kind_of(timeline_, span))) span.phase = phase_of(i);
    }
  }

 private:
  void find_main_tracks() {
    is_main_.assign(timeline_.tracks.size(), false);
    bool has_main = false;
    bool has_other = false;
    thread_rules_.resize(timeline_.tracks.size());
    for (const TimelineSpan& span : timeline_.spans) {
      if (kind_of(timeline_, span) != SpanKind::kRange) continue;
      const bool updates = optimizers_.first_match(span.name) >= 0;
      if (!updates && steps_.first_match(span.name) < 0) continue;
      // A hook of the backward pass may update parameters, in the pass's thread.
      (updates && is_in_backward(span) ? has_other : has_main) = true;
      if (!updates || !is_in_backward(span)) is_main_[span.track] = true;
    }
    for (std::size_t track = 0; track < timeline_.tracks.size(); ++track) {
      thread_rules_[track].assign(rules_.size(), false);
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        thread_rules_[track][rule] = threads_.matches(rule, timeline_.tracks[track].name);
      }
    }
    if (has_other && !has_main) find_launching_track();
  }

  /// Of the range's own thread.
  [[nodiscard]] bool is_in_backward(const TimelineSpan& range) const {
    // One interval at a time for each rule, of which there are few.
    constexpr int kMost = 4;
    auto next = std::upper_bound(intervals_.begin(), intervals_.end(), range,
                                 [](const TimelineSpan& one, const HostInterval& interval) {
                                   return std::tuple(one.track, one.start) <
                                          std::tuple(interval.track, interval.start);
                                 });
    for (int i = 0; i < kMost && next != intervals_.begin(); ++i) {
      --next;
      if (next->track != range.track) return false;
      if (rules_[next->rule].phase != SpanPhase::kBackward) continue;
      if (next->end >= range.end) return true;
    }
    return false;
  }

  /// The thread that launches most, of those that run no backward.
  void find_launching_track() {
    std::vector<std::int64_t> launches(timeline_.tracks.size(), 0);
    for (const TimelineSpan& span : timeline_.spans) {
      if (kind_of(timeline_, span) == SpanKind::kLaunch) ++launches[span.track];
    }
    for (const HostInterval& one : backwards_) launches[one.track] = 0;
    const auto most = std::max_element(launches.begin(), launches.end());
    if (most != launches.end() && *most > 0) {
      is_main_[static_cast<std::size_t>(most - launches.begin())] = true;
    }
  }

  /// When a range begins to say a phase: one of an optimizer that is given a closure, behind the
  /// backward pass that runs in it.
  [[nodiscard]] Picoseconds begin_of(const TimelineSpan& range) {
    const auto behind = std::upper_bound(
        backwards_.begin(), backwards_.end(), range.end,
        [](Picoseconds time, const HostInterval& one) { return time < one.start; });
    if (behind == backwards_.begin()) return range.start;
    const HostInterval& last = *std::prev(behind);
    const bool lies_inside = last.start >= range.start && last.end <= range.end;
    return lies_inside && optimizers_.first_match(range.name) >= 0 ? last.end : range.start;
  }

  /// The rules that hold where some ranges and operations are open.
  class Open {
   public:
    Open(MatchedNames& ranges, std::size_t rules) : ranges_(&ranges), counts_(rules, 0) {}

    void add(const TimelineSpan& range) {
      if (count(range, true)) open_ranges_.push(&range);
    }
    void add(const HostInterval& operation) {
      count(operation, true);
      open_operations_.push(&operation);
    }
    void close_before(Picoseconds time) {
      close(open_ranges_, time);
      close(open_operations_, time);
    }
    [[nodiscard]] bool is_changed() const { return is_changed_; }
    [[nodiscard]] RuleSet take_rules() {
      is_changed_ = false;
      RuleSet holds(counts_.size());
      for (std::size_t rule = 0; rule < counts_.size(); ++rule) holds[rule] = counts_[rule] > 0;
      return holds;
    }

   private:
    struct EndsLater {
      bool operator()(const auto* a, const auto* b) const { return a->end > b->end; }
    };
    template <class T>
    using ByEnd = std::priority_queue<const T*, std::vector<const T*>, EndsLater>;

    template <class T>
    void close(ByEnd<T>& open, Picoseconds time) {
      for (; !open.empty() && open.top()->end < time; open.pop()) count(*open.top(), false);
    }

    /// Whether any rule asks for it.
    bool count(const TimelineSpan& range, bool begins) {
      bool is_asked_for = false;
      for (std::size_t rule = 0; rule < counts_.size(); ++rule) {
        if (!ranges_->matches(rule, range.name)) continue;
        step(rule, begins);
        is_asked_for = true;
      }
      return is_asked_for;
    }
    void count(const HostInterval& operation, bool begins) { step(operation.rule, begins); }
    void step(std::size_t rule, bool begins) {
      counts_[rule] += begins ? 1 : -1;
      is_changed_ = true;
    }

    MatchedNames* ranges_;
    std::vector<std::int64_t> counts_;  // of what is open, by rule
    bool is_changed_ = true;
    ByEnd<TimelineSpan> open_ranges_;
    ByEnd<HostInterval> open_operations_;
  };

  using Later = std::priority_queue<std::pair<Picoseconds, const TimelineSpan*>,
                                    std::vector<std::pair<Picoseconds, const TimelineSpan*>>,
                                    std::greater<>>;  // by when they begin to say a phase

  /// Goes along one track and notes for each launch which rules hold there.
  void sweep(std::size_t first, std::size_t last) {
    const std::uint32_t track = timeline_.spans[first].track;
    const auto begins_before = [](const HostInterval& a, std::uint32_t of) { return a.track < of; };
    auto interval = std::lower_bound(intervals_.begin(), intervals_.end(), track, begins_before);
    Open open(ranges_, rules_.size());
    Later later;
    std::uint32_t context = 0;
    for (std::size_t i = first; i < last; ++i) {
      const TimelineSpan& span = timeline_.spans[i];
      const SpanKind kind = kind_of(timeline_, span);
      if (kind == SpanKind::kRange) {
        if (const Picoseconds begin = begin_of(span); begin > span.start) {
          later.emplace(begin, &span);
        } else {
          open.add(span);
        }
      }
      if (kind != SpanKind::kLaunch) continue;
      for (; !later.empty() && later.top().first <= span.start; later.pop()) {
        open.add(*later.top().second);
      }
      for (; interval != intervals_.end() && interval->track == track &&
             interval->start <= span.start;
           ++interval) {
        open.add(*interval);
      }
      open.close_before(span.start);
      if (open.is_changed()) context = context_of(open.take_rules());
      context_[i] = context;
    }
  }

  /// The number of the set.
  std::uint32_t context_of(RuleSet holds) {
    const auto [entry, is_new] =
        contexts_.try_emplace(holds, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(std::move(holds));
    return entry->second;
  }

  SpanPhase phase_of(std::size_t index) {
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (holds(rule, index)) return rules_[rule].phase;
    }
    return SpanPhase::kNone;
  }

  bool holds(std::size_t number, std::size_t index) {
    const PhaseRule& rule = rules_[number];
    const TimelineSpan& span = timeline_.spans[index];
    if (!rule.kernel.empty() && !kernels_.matches(number, span.name)) return false;
    if (rule.stream && timeline_.tracks[span.track].number != *rule.stream) return false;
    const bool is_about_launch =
        !rule.range.empty() || !rule.operation.empty() || !rule.thread.empty() || rule.main_thread;
    if (!is_about_launch) return true;
    const std::uint32_t launch = launch_[index];
    if (launch == kNoSpan) return false;
    const bool names_context = !rule.range.empty() || !rule.operation.empty();
    if (names_context && !sets_[context_[launch]][number]) return false;
    const std::uint32_t thread = timeline_.spans[launch].track;
    if (!rule.thread.empty() && !thread_rules_[thread][number]) return false;
    if (!rule.main_thread) return true;
    // A CUDA graph holds what was captured, backward and the optimizer's work maybe: that nothing
    // else is around its launch says nothing of it.
    return is_main_[thread] && !is_graph(timeline_.spans[launch]);
  }

  [[nodiscard]] bool is_graph(const TimelineSpan& launch) const {
    return timeline_.name_of(launch).find("GraphLaunch") != std::string::npos;
  }

  Timeline& timeline_;
  const SpanLaunches& launch_;
  const std::vector<HostInterval>& intervals_;
  const std::vector<PhaseRule>& rules_;
  MatchedNames kernels_;
  MatchedNames ranges_;
  NamePatterns threads_;
  MatchedNames steps_;
  MatchedNames optimizers_;
  std::vector<HostInterval> backwards_;        // by start, of all tracks
  std::vector<bool> is_main_;                  // by track
  std::vector<RuleSet> thread_rules_;          // by track
  std::map<RuleSet, std::uint32_t> contexts_;  // number in sets_
  std::vector<RuleSet> sets_;
  std::vector<std::uint32_t> context_;  // of each launch
};

}  // namespace

void assign_phases(Timeline& timeline, const SpanLaunches& launch,
                   const std::vector<HostInterval>& intervals, const TraceRules& rules) {
  PhaseAssigner(timeline, launch, intervals, rules).assign();
}

}  // namespace zenflow::sim
