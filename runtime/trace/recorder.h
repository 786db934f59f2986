/// What ran when in this process, on one clock: the measured side of sim/trace's Timeline.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/clock.h"
#include "runtime/trace/copy.h"
#include "sim/base/operation.h"
#include "sim/base/wait_cause.h"
#include "sim/trace/timeline.h"

namespace zenflow::runtime {

/// When a track's spans are kept.
enum class SpansKept : std::uint8_t {
  kAsTheRecorderDoes,  ///< throughout, if it was made to keep all, and whenever it is asked to
  kWhenAsked,          ///< by Recorder::keep_spans alone: a trace has them from elsewhere
};

/// Spans of one track. Written by one thread at a time; the totals are kept even when spans are
/// not, and may be read at any time. Where no spans are kept, writing takes no lock.
class TrackRecorder {
 public:
  /// Time that went into operations, and into waiting by cause.
  struct Totals {
    std::chrono::nanoseconds busy{0};
    std::array<std::chrono::nanoseconds, kWaitCauses> waiting{};
  };
  enum class Kind : std::uint8_t { kWork, kToDevice, kToHost, kWait };
  struct Span {
    Operation operation = Operation::kUnknown;
    Kind kind = Kind::kWork;
    Traffic traffic = Traffic::kGradients;
    WaitCause cause = WaitCause::kNone;
    std::int64_t step = -1;
    Clock::time_point start{};
    Clock::time_point end{};
    std::size_t bytes = 0;
  };
  [[nodiscard]] static Kind copy_kind(CopyDirection direction) {
    return direction == CopyDirection::kHostToDevice ? Kind::kToDevice : Kind::kToHost;
  }

  /// Work. On a track that computes what goes between ranks counts as waiting, as copies do.
  void span(Operation operation, std::int64_t step, Clock::time_point start,
            Clock::time_point end) {
    const bool waits = computes_ && is_collective(operation);
    add(waits ? waiting_[static_cast<std::size_t>(WaitCause::kCollective)] : busy_, end - start);
    if (!is_keeping()) return;
    keep({.operation = operation, .step = step, .start = start, .end = end});
  }
  /// A copy between the device's memory and pinned host memory. On a track that computes it is time
  /// in which nothing is computed: it counts as waiting.
  void copy(CopyDirection direction, Traffic traffic, Operation operation, std::int64_t step,
            Clock::time_point start, Clock::time_point end, std::size_t bytes) {
    const WaitCause cause =
        direction == CopyDirection::kHostToDevice ? WaitCause::kH2D : WaitCause::kD2H;
    add(computes_ ? waiting_[static_cast<std::size_t>(cause)] : busy_, end - start);
    if (!is_keeping()) return;
    keep({.operation = operation,
          .kind = copy_kind(direction),
          .traffic = traffic,
          .step = step,
          .start = start,
          .end = end,
          .bytes = bytes});
  }
  void wait(WaitCause cause, std::int64_t step, Clock::time_point start, Clock::time_point end) {
    add(waiting_[static_cast<std::size_t>(cause)], end - start);
    if (!is_keeping()) return;
    keep({.kind = Kind::kWait, .cause = cause, .step = step, .start = start, .end = end});
  }
  [[nodiscard]] Totals totals() const;

  // For a writer that learns times only afterwards, such as a GPU's.
  /// Which recording is being made, counted from 1; 0: no spans are kept.
  [[nodiscard]] std::uint32_t recording() const {
    return recording_.load(std::memory_order_acquire);
  }
  /// Totals alone.
  void add_busy(Clock::duration time) { add(busy_, time); }
  void add_waiting(WaitCause cause, Clock::duration time) {
    add(waiting_[static_cast<std::size_t>(cause)], time);
  }
  /// Spans alone; while a recording is being made.
  void keep(const Span& span) {
    const std::lock_guard lock(mutex_);  // nobody else's but while a recording is taken
    spans_.push_back(span);
  }

 private:
  friend class Recorder;
  // Relaxed: the numbers are for reports, nothing is ordered by them.
  static void add(std::atomic<std::int64_t>& total, Clock::duration time) {
    const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    total.fetch_add(count, std::memory_order_relaxed);
  }
  // A writer may learn of a change a few spans late.
  [[nodiscard]] bool is_keeping() const { return recording() != 0; }
  std::atomic<std::uint32_t> recording_ = 0;
  SpansKept kept_ = SpansKept::kAsTheRecorderDoes;
  bool computes_ = false;
  std::atomic<std::int64_t> busy_{0};  // nanoseconds
  std::array<std::atomic<std::int64_t>, kWaitCauses> waiting_{};
  mutable std::mutex mutex_;  // guards spans_
  std::deque<Span> spans_;    // a deque never moves what it holds: no pause of a growing vector
};

/// A step of the training thread.
struct RecordedStep {
  std::int64_t number;
  Clock::time_point start;
  Clock::time_point end;
};

/// All tracks of a run. `add_track` may be called from any thread; the tracks themselves belong
/// to their writers.
class Recorder {
 public:
  explicit Recorder(bool enabled) : enabled_(enabled), origin_(Clock::now()) {}

  /// The reference stays valid for the recorder's life. A track to which another one's work leads
  /// is added after it: spans of an upload can then be without those of its update, not the
  /// reverse.
  TrackRecorder& add_track(std::string name, sim::TrackKind kind,
                           SpansKept kept = SpansKept::kAsTheRecorderDoes);
  /// The first track of this name; null if there is none.
  [[nodiscard]] const TrackRecorder* find(std::string_view name) const;
  /// Called by the training thread after every step.
  void step(std::int64_t number, Clock::time_point start, Clock::time_point end);

  [[nodiscard]] bool enabled() const { return enabled_; }
  /// Begins to keep spans, or ends that and drops what has been kept, while the tracks are written:
  /// for a part of a run. Tracks that are kept throughout stay as they are. By the training thread.
  void keep_spans(bool keep);
  /// What has been kept of steps from `first_step` on, and what ran late of the one before; times
  /// and names are `timeline`'s. `at_hand` is the step that `step` does not know yet, up to now. By
  /// the training thread, while the tracks are written.
  [[nodiscard]] sim::Timeline recent(std::int64_t first_step, const RecordedStep& at_hand,
                                     std::string name, std::string device) const;
  /// Time zero of `timeline`.
  [[nodiscard]] Clock::time_point origin() const { return origin_; }
  /// Spans recorded so far, of those that `timeline` has if the recorder keeps all; and what
  /// recording one costs: measured here and now, on a track of its own.
  [[nodiscard]] std::size_t span_count() const;
  [[nodiscard]] static std::chrono::duration<double> cost_of_a_span();
  /// In the PyTorch profiler's terms: a copy is "Memcpy DtoH (Device -> Pinned)", with what it
  /// carries and of which kind of Traffic that is as fields; a wait is a synchronization with its
  /// cause. Times count from the recorder's construction. Tracks must be at rest; those whose spans
  /// are kept only when asked are left out.
  [[nodiscard]] sim::Timeline timeline(std::string name, std::string device) const;

 private:
  class TimelineBuilder;
  [[nodiscard]] Picoseconds since_origin(Clock::time_point time) const;
  [[nodiscard]] sim::TimelineStep timeline_step(const RecordedStep& step) const;
  /// A timeline of the tracks that are wanted, with the spans that are wanted; without steps.
  template <class TrackIsWanted, class IsWanted>
  [[nodiscard]] sim::Timeline timeline_of(std::string name, std::string device,
                                          TrackIsWanted track_is_wanted, IsWanted is_wanted) const;
  [[nodiscard]] bool keeps_throughout(const TrackRecorder& track) const {
    return enabled_ && track.kept_ == SpansKept::kAsTheRecorderDoes;
  }

  bool enabled_;
  bool keeping_ = false;          // for now
  std::uint32_t recordings_ = 1;  // of parts of the run, and the one of all
  Clock::time_point origin_;
  mutable std::mutex mutex_;  // guards tracks_ and their names, not the spans
  std::vector<sim::Track> names_;
  std::vector<std::unique_ptr<TrackRecorder>> tracks_;
  std::vector<RecordedStep> steps_;
};

}  // namespace zenflow::runtime
