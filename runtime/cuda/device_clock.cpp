#include "runtime/cuda/device_clock.h"

#include <algorithm>
#include <utility>

namespace zenflow::runtime {

void DeviceClock::saw(std::shared_ptr<const RecordedEvent> event) {
  const std::lock_guard lock(mutex_);
  seen_.swap(event);  // the one before goes when the lock has gone
}

bool DeviceClock::places(std::uint32_t recording) {
  const std::lock_guard lock(mutex_);
  if (recording < recording_) return false;
  if (recording > recording_) {
    recording_ = recording;
    zero_.reset();
    zero_on_host_ = Clock::time_point::min();
  }
  if (!zero_) zero_ = seen_;
  return zero_ != nullptr;
}

std::optional<std::chrono::nanoseconds> DeviceClock::time_of(std::uint32_t recording,
                                                             const RecordedEvent& event) const {
  const std::lock_guard lock(mutex_);
  if (recording != recording_) return std::nullopt;
  return event.since(*zero_);
}

void DeviceClock::passed(std::uint32_t recording, std::chrono::nanoseconds then,
                         Clock::time_point not_before) {
  const std::lock_guard lock(mutex_);
  if (recording == recording_) zero_on_host_ = std::max(zero_on_host_, not_before - then);
}

std::optional<Clock::time_point> DeviceClock::on_host(std::uint32_t recording,
                                                      std::chrono::nanoseconds time) const {
  const std::lock_guard lock(mutex_);
  if (recording != recording_) return std::nullopt;
  return zero_on_host_ + time;
}

}  // namespace zenflow::runtime
