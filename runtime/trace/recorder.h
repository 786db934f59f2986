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

#include "sim/trace/timeline.h"

namespace zenflow::runtime {

using Clock = std::chrono::steady_clock;

/// What a track's thread waits for. The names are those of a result's stall_by_cause_ms.
enum class WaitCause : std::uint8_t { kNone, kCpuUpdate, kD2H, kH2D, kCompute };
inline constexpr std::size_t kWaitCauses = 5;
[[nodiscard]] std::string_view name_of(WaitCause cause);

/// Spans of one track. Written by one thread at a time; the totals are kept even when spans are
/// not, and may be read at any time.
class TrackRecorder {
 public:
  /// Time that went into operations, and into waiting by cause.
  struct Totals {
    std::chrono::nanoseconds busy{0};
    std::array<std::chrono::nanoseconds, kWaitCauses> waiting{};
  };

  /// `name` must outlive the recorder: it is a literal.
  void span(std::string_view name, std::int64_t step, Clock::time_point start,
            Clock::time_point end, double bytes = 0) {
    add(busy_, end - start);
    if (enabled_.load(std::memory_order_relaxed)) {
      keep({name, WaitCause::kNone, step, start, end, bytes});
    }
  }
  void wait(WaitCause cause, std::int64_t step, Clock::time_point start, Clock::time_point end) {
    add(waiting_[static_cast<std::size_t>(cause)], end - start);
    if (enabled_.load(std::memory_order_relaxed)) keep({"wait", cause, step, start, end, 0});
  }
  [[nodiscard]] Totals totals() const;

 private:
  friend class Recorder;
  // Relaxed: the numbers are for reports, nothing is ordered by them.
  static void add(std::atomic<std::int64_t>& total, Clock::duration time) {
    const auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    total.fetch_add(count, std::memory_order_relaxed);
  }
  struct Span {
    std::string_view name;
    WaitCause cause;
    std::int64_t step;
    Clock::time_point start;
    Clock::time_point end;
    double bytes;
  };
  void keep(const Span& span) {
    const std::lock_guard lock(mutex_);  // nobody else's but while a recording is taken
    spans_.push_back(span);
  }
  std::atomic<bool> enabled_ = false;
  std::atomic<std::int64_t> busy_{0};  // nanoseconds
  std::array<std::atomic<std::int64_t>, kWaitCauses> waiting_{};
  mutable std::mutex mutex_;  // guards spans_
  std::deque<Span> spans_;    // a deque never moves what it holds: no pause of a growing vector
};

/// All tracks of a run. `add_track` may be called from any thread; the tracks themselves belong
/// to their writers.
class Recorder {
 public:
  explicit Recorder(bool enabled) : enabled_(enabled), origin_(Clock::now()) {}

  /// The reference stays valid for the recorder's life.
  TrackRecorder& add_track(std::string name, sim::TrackKind kind);
  /// The first track of this name; null if there is none.
  [[nodiscard]] const TrackRecorder* find(std::string_view name) const;
  /// Called by the training thread at the start of every step, and once after the last.
  void begin_step(std::int64_t step);

  [[nodiscard]] bool enabled() const { return enabled_; }
  /// Begins to keep spans, or ends that and drops what has been kept, while the tracks are written:
  /// for a part of a run. No effect on a recorder that keeps all. By the training thread.
  void keep_spans(bool keep);
  /// What has been kept of steps from `first_step` on, and what ran late of the one before. The
  /// step at hand ends now. By the training thread, within a step.
  [[nodiscard]] sim::Timeline recent(std::int64_t first_step, std::string name,
                                     std::string device) const;
  /// Time zero of `timeline`.
  [[nodiscard]] Clock::time_point origin() const { return origin_; }
  /// Spans recorded so far, and what recording one costs: measured here and now, on a track of its
  /// own.
  [[nodiscard]] std::size_t span_count() const;
  [[nodiscard]] static std::chrono::duration<double> cost_of_a_span();
  /// Times count from the recorder's construction. Tracks must be at rest.
  [[nodiscard]] sim::Timeline timeline(std::string name, std::string device) const;

 private:
  [[nodiscard]] Picoseconds since_origin(Clock::time_point time) const;

  /// Of the spans that `wanted` accepts; without steps.
  template <class Wanted>
  [[nodiscard]] sim::Timeline timeline_of(std::string name, std::string device,
                                          Wanted&& wanted) const;

  bool enabled_;
  bool keeping_ = false;  // for now
  Clock::time_point origin_;
  mutable std::mutex mutex_;  // guards tracks_ and their names, not the spans
  std::vector<sim::Track> names_;
  std::vector<std::unique_ptr<TrackRecorder>> tracks_;
  std::vector<std::pair<std::int64_t, Clock::time_point>> steps_;
};

}  // namespace zenflow::runtime
