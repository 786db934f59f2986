#include "sim/trace/import/collector.h"

#include <algorithm>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include <sys/mman.h>

namespace zenflow::sim {
namespace {

static_assert(std::is_trivially_copyable_v<TimelineSpan>);
constexpr std::size_t kPieceBytes = SpanPiece::kCapacity * sizeof(TimelineSpan);
// Operations that launch nothing are not kept, so a pass has gaps.
constexpr Picoseconds kBridged{100'000'000};  // 100 us
// Between operations of one thread that follow each other PyTorch's own code runs.
constexpr Picoseconds kBetweenOperations{20'000'000};  // 20 us
constexpr std::size_t kNoInterval = static_cast<std::size_t>(-1);

/// By start, those that touch or nearly do as one.
std::vector<Interval> joined(std::vector<Interval> parts) {
  std::sort(parts.begin(), parts.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  std::vector<Interval> found;
  for (const Interval& one : parts) {
    if (found.empty() || one.start > found.back().end + kBetweenOperations) {
      found.push_back(one);
    } else {
      found.back().end = std::max(found.back().end, one.end);
    }
  }
  return found;
}

}  // namespace

SpanPiece::SpanPiece() {
  void* pages =
      ::mmap(nullptr, kPieceBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  spans_.reset(static_cast<TimelineSpan*>(pages));
}

void SpanPiece::Unmap::operator()(TimelineSpan* pages) const {
  static_cast<void>(::munmap(pages, kPieceBytes));  // fails only for what is no mapping
}

void SpanPiece::add(const TimelineSpan& span) {
  std::construct_at(spans_.get() + size_, span);
  ++size_;
}

std::uint32_t TraceCollector::track(const RowKey& key) {
  if (!rows_.empty() && key == last_key_) return last_track_;
  const auto next = static_cast<std::uint32_t>(timeline_->tracks.size());
  const auto [entry, is_new] = rows_.try_emplace(key, next);
  if (is_new) {
    Track& made = timeline_->tracks.emplace_back();
    const bool is_host = key.row == RowKey::Row::kThread;
    made.kind = key.row == RowKey::Row::kStream ? TrackKind::kGpuKernels : TrackKind::kRuntime;
    if (is_host) {
      made.process = key.owner;
    } else {
      made.device = static_cast<int>(key.owner);
    }
    if (key.row != RowKey::Row::kGpuRanges) made.number = key.number;
  }
  last_key_ = key;
  last_track_ = entry->second;
  return last_track_;
}

bool TraceCollector::add(const TimelineSpan& span) {
  Picoseconds time;
  std::int64_t sum = 0;
  const double bytes = std::max(timeline_->extra_of(span).bytes, 0.0);
  if (bytes > kMostBytes ||
      __builtin_add_overflow(time_.count, (span.end - span.start).count, &time.count) ||
      __builtin_add_overflow(bytes_, static_cast<std::int64_t>(bytes), &sum)) {
    return false;
  }
  time_ = time;
  bytes_ = sum;
  if (pieces_.empty() || pieces_.back().is_full()) pieces_.emplace_back();
  pieces_.back().add(span);
  ++count_;
  return true;
}

bool TraceCollector::add_step(const TimelineStep& step) {
  Picoseconds time;
  if (__builtin_add_overflow(time_.count, (step.end - step.start).count, &time.count)) return false;
  time_ = time;
  timeline_->steps.push_back(step);
  return true;
}

void TraceCollector::add_interval(const HostInterval& interval) {
  if (interval.track >= open_interval_.size())
    open_interval_.resize(interval.track + 1, kNoInterval);
  std::size_t& open = open_interval_[interval.track];
  if (open != kNoInterval) {
    HostInterval& last = intervals_[open];
    const bool joins = last.rule == interval.rule && interval.start >= last.start &&
                       interval.start <= last.end + kBridged;
    if (joins) {
      last.end = std::max(last.end, interval.end);
      return;
    }
  }
  open = intervals_.size();
  intervals_.push_back(interval);
}

void TraceCollector::add_activity(const RowKey& thread, Picoseconds start, Picoseconds end) {
  if (last_activity_ == nullptr || thread != last_active_) {
    last_activity_ = &activity_[thread];
    last_active_ = thread;
  }
  if (!last_activity_->empty()) {
    Interval& last = last_activity_->back();
    if (start >= last.start && start <= last.end + kBetweenOperations) {
      last.end = std::max(last.end, end);
      return;
    }
  }
  last_activity_->push_back({start, end});
}

std::vector<ThreadActivity> TraceCollector::take_activity() {
  std::vector<ThreadActivity> found;
  for (auto& [thread, parts] : activity_) {
    const auto row = rows_.find(thread);
    if (row == rows_.end()) continue;  // it neither launched nor waited
    for (const Interval& one : joined(std::move(parts))) {
      found.push_back({row->second, one.start, one.end});
    }
  }
  activity_.clear();
  last_activity_ = nullptr;
  std::sort(found.begin(), found.end(), [](const ThreadActivity& a, const ThreadActivity& b) {
    return std::tuple(a.track, a.start) < std::tuple(b.track, b.start);
  });
  return found;
}

std::int64_t TraceCollector::count_from_earliest() {
  std::vector<TimelineSpan>& spans = timeline_->spans;
  if (spans.empty()) return 0;
  const auto first = std::min_element(
      spans.begin(), spans.end(),
      [](const TimelineSpan& a, const TimelineSpan& b) { return a.start < b.start; });
  constexpr std::int64_t kPerNanosecond = 1000;
  const std::int64_t earliest = first->start.count;
  const std::int64_t whole =
      (earliest >= 0 ? earliest : earliest - (kPerNanosecond - 1)) / kPerNanosecond;
  const Picoseconds by{whole * kPerNanosecond};
  const auto shift = [by](auto& one) {
    one.start = one.start - by;
    one.end = one.end - by;
  };
  std::for_each(spans.begin(), spans.end(), shift);
  std::for_each(intervals_.begin(), intervals_.end(), shift);
  std::for_each(shaped_.begin(), shaped_.end(), shift);
  for (auto& [thread, parts] : activity_) std::for_each(parts.begin(), parts.end(), shift);
  return whole;
}

void TraceCollector::move_spans() {
  std::vector<TimelineSpan>& spans = timeline_->spans;
  spans.reserve(static_cast<std::size_t>(count_));
  for (SpanPiece& piece : pieces_) {
    const SpanPiece taken = std::move(piece);
    spans.insert(spans.end(), taken.spans().begin(), taken.spans().end());
  }
  pieces_.clear();
}

/// Sorts the tracks by key; new number by old.
std::vector<std::uint32_t> TraceCollector::order_rows() {
  std::vector<std::uint32_t> new_number(timeline_->tracks.size());
  std::vector<Track> tracks;
  tracks.reserve(timeline_->tracks.size());
  for (auto& [key, number] : rows_) {
    new_number[number] = static_cast<std::uint32_t>(tracks.size());
    tracks.push_back(std::move(timeline_->tracks[number]));
    number = new_number[number];
  }
  timeline_->tracks = std::move(tracks);
  return new_number;
}

void TraceCollector::finish(bool sorts) {
  move_spans();
  if (!sorts) return;
  const std::vector<std::uint32_t> new_number = order_rows();
  for (TimelineSpan& span : timeline_->spans) span.track = new_number[span.track];
  for (HostInterval& interval : intervals_) interval.track = new_number[interval.track];
  for (HostInterval& operation : shaped_) operation.track = new_number[operation.track];
  const auto by_time = [](const TimelineSpan& a, const TimelineSpan& b) {
    return std::tuple(a.track, a.start, b.end) < std::tuple(b.track, b.start, a.end);
  };
  // Not stable_sort, which needs as much memory again; ties fall by what else the spans hold.
  const auto by_all = [&](const TimelineSpan& a, const TimelineSpan& b) {
    if (by_time(a, b)) return true;
    if (by_time(b, a)) return false;
    const auto rest = [&](const TimelineSpan& one) {
      return std::tuple(one.correlation, one.name, timeline_->extra_of(one).bytes);
    };
    return rest(a) < rest(b);
  };
  if (!std::is_sorted(timeline_->spans.begin(), timeline_->spans.end(), by_all)) {
    std::sort(timeline_->spans.begin(), timeline_->spans.end(), by_all);
  }
  std::sort(intervals_.begin(), intervals_.end(), [](const HostInterval& a, const HostInterval& b) {
    return std::tuple(a.track, a.start, a.end) < std::tuple(b.track, b.start, b.end);
  });
}

}  // namespace zenflow::sim
