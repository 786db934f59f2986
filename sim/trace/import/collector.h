/// Gathers spans in the order of a file and makes a Timeline of them.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/intervals.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// A row of the timeline by what it belongs to; rows are shown in this order.
struct RowKey {
  enum class Row : std::uint8_t { kStream, kGpuRanges, kThread };
  Row row = Row::kStream;
  std::int64_t owner = 0;     ///< device, or process of a thread
  std::int64_t process = -1;  ///< whose stream, if several processes use the device
  std::int64_t number = 0;    ///< stream or thread

  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};

/// Host operations of one thread that say a phase, run together where little lies between them.
struct HostInterval {
  std::uint32_t track = 0;
  std::uint32_t rule = 0;  ///< of TraceRules::phases
  Picoseconds start;
  Picoseconds end;
};

/// A run of spans on pages of its own, which go back to the system at once: an allocator would keep
/// them.
class SpanPiece {
 public:
  SpanPiece();

  [[nodiscard]] bool is_full() const { return size_ == kCapacity; }
  /// Precondition: not full.
  void add(const TimelineSpan& span);
  [[nodiscard]] std::span<const TimelineSpan> spans() const { return {spans_.get(), size_}; }

  static constexpr std::size_t kCapacity = 16'384;  ///< 640 KiB

 private:
  struct Unmap {
    void operator()(TimelineSpan* pages) const;
  };
  std::unique_ptr<TimelineSpan[], Unmap> spans_;
  std::size_t size_ = 0;
};

/// Spans are kept in pieces that are given back while the timeline is filled: a vector that grows
/// would for a moment need three times their memory.
class TraceCollector {
 public:
  explicit TraceCollector(Timeline& timeline) : timeline_(&timeline) {}

  /// The track of a row, a new one at first; its name can be set in `timeline.tracks` at any time.
  std::uint32_t track(const RowKey& key);
  /// False, and nothing is added, if the times or bytes of all spans, each at most kMostBytes,
  /// would then exceed what 64 bits count. So no sum over spans of the timeline can overflow.
  [[nodiscard]] bool add(const TimelineSpan& span);
  /// A step that the file states; false as above. Its duration counts as a span's.
  [[nodiscard]] bool add_step(const TimelineStep& step);
  void add_interval(const HostInterval& interval);
  /// A thread ran something that is not kept, and so gets no row.
  void add_activity(const RowKey& thread, Picoseconds start, Picoseconds end);
  /// An operation whose shapes are known; `rule` is an index into Timeline::details.
  void add_shaped(const HostInterval& operation) { shaped_.push_back(operation); }
  [[nodiscard]] std::uint64_t size() const { return count_; }
  static constexpr double kMostBytes = 0x1p53;  ///< whole numbers up to here are exact
  /// What is said to be left out where `add` is false.
  static constexpr std::string_view kBeyondSums =
      "spans with more than 8 PiB, or after 106 days of spans or 8 EiB of copies";

  /// Rows in their order, spans by row, start and the longer first. Spans keep the file's order
  /// otherwise, and altogether if not `sorts`.
  void finish(bool sorts);
  [[nodiscard]] const std::vector<HostInterval>& intervals() const { return intervals_; }
  [[nodiscard]] std::deque<HostInterval> take_shaped() { return std::move(shaped_); }
  /// After `finish`: ImportedTrace::activity.
  [[nodiscard]] std::vector<ThreadActivity> take_activity();
  /// After `finish`: moves everything so that the first span starts within the timeline's first
  /// nanosecond; by how many nanoseconds.
  std::int64_t count_from_earliest();

 private:
  void move_spans();
  std::vector<std::uint32_t> order_rows();

  Timeline* timeline_;
  std::map<RowKey, std::uint32_t> rows_;
  RowKey last_key_;
  std::uint32_t last_track_ = 0;
  std::vector<SpanPiece> pieces_;
  std::uint64_t count_ = 0;
  Picoseconds time_{};      // of all spans and added steps
  std::int64_t bytes_ = 0;  // of all spans that have some
  std::vector<HostInterval> intervals_;
  std::deque<HostInterval> shaped_;         // grows without a second copy
  std::vector<std::size_t> open_interval_;  // by track, the last one; count of intervals_: none
  std::map<RowKey, std::vector<Interval>> activity_;
  std::vector<Interval>* last_activity_ = nullptr;  // of activity_
  RowKey last_active_;
};

}  // namespace zenflow::sim
