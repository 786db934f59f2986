/// Where a GPU's events lie on the host's clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/cuda/cuda_events.h"
#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

/// Events say how far apart they are, and nothing else. A recording (TrackRecorder::recording)
/// counts a GPU's time from the last event that the host had waited for when it began. Where that
/// lies on the host's clock follows from all others: none passes before it is recorded, nor while
/// it is seen not to have passed, so that time of the host's, less the GPU's time of passing, is a
/// lower bound; the largest one is taken.
///
/// No event is placed before it was recorded then. Each is early by the shortest time that any of
/// them waited in its stream: a launch's, microseconds, because every step finds the compute stream
/// idle once, behind the gradients' norms. What the two clocks drift apart within a recording adds
/// to that; distances between events of the GPU are exact.
///
/// Any thread.
class DeviceClock {
 public:
  /// The host has waited for it.
  void saw(std::shared_ptr<const RecordedEvent> event);
  /// Whether events that are recorded from now on can be placed in this recording: nothing can
  /// before the host has waited for an event, nor in a recording that is over.
  [[nodiscard]] bool places(std::uint32_t recording);

  /// The GPU's time, from the recording's zero, of an event that was recorded after `places` had
  /// said yes and has passed. None: that recording is over.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> time_of(std::uint32_t recording,
                                                                const RecordedEvent& event) const;
  /// An event that passed then did not before `not_before`.
  void passed(std::uint32_t recording, std::chrono::nanoseconds then, Clock::time_point not_before);
  /// On the host's clock, by what is known so far. None: that recording is over.
  [[nodiscard]] std::optional<Clock::time_point> on_host(std::uint32_t recording,
                                                         std::chrono::nanoseconds time) const;

 private:
  mutable std::mutex mutex_;  // guards all below
  std::shared_ptr<const RecordedEvent> seen_;
  std::uint32_t recording_ = 0;
  std::shared_ptr<const RecordedEvent> zero_;                  // null: nothing can be placed
  Clock::time_point zero_on_host_ = Clock::time_point::min();  // not before this
};

}  // namespace zenflow::runtime
