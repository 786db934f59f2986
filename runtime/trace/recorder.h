/// What ran when in this process, on one clock: the measured side of sim/trace's Timeline.
#pragma once

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

/// Spans of one track. Written by one thread at a time, without a lock.
class TrackRecorder {
 public:
  /// `name` and `cause` must outlive the recorder: they are literals, or owned by the model.
  void span(std::string_view name, std::int64_t step, Clock::time_point start,
            Clock::time_point end, double bytes = 0, std::string_view cause = {}) {
    if (enabled_) spans_.push_back({name, cause, step, start, end, bytes});
  }
  [[nodiscard]] bool enabled() const { return enabled_; }

 private:
  friend class Recorder;
  struct Span {
    std::string_view name;
    std::string_view cause;
    std::int64_t step;
    Clock::time_point start;
    Clock::time_point end;
    double bytes;
  };
  bool enabled_ = false;
  std::deque<Span> spans_;  // a deque never moves what it holds: no pause of a growing vector
};

/// All tracks of a run. `add_track` may be called from any thread; the tracks themselves belong
/// to their writers, which must be at rest when `timeline` is called.
class Recorder {
 public:
  explicit Recorder(bool enabled) : enabled_(enabled), origin_(Clock::now()) {}

  /// The reference stays valid for the recorder's life.
  TrackRecorder& add_track(std::string name, sim::TrackKind kind);
  /// Called by the training thread at the start of every step, and once after the last.
  void begin_step(std::int64_t step);

  [[nodiscard]] bool enabled() const { return enabled_; }
  /// Times count from the recorder's construction.
  [[nodiscard]] sim::Timeline timeline(std::string name, std::string device) const;

 private:
  [[nodiscard]] Picoseconds since_origin(Clock::time_point time) const;

  bool enabled_;
  Clock::time_point origin_;
  mutable std::mutex mutex_;  // guards tracks_ and their names, not the spans
  std::vector<sim::Track> names_;
  std::vector<std::unique_ptr<TrackRecorder>> tracks_;
  std::vector<std::pair<std::int64_t, Clock::time_point>> steps_;
};

}  // namespace zenflow::runtime
