/// When copies end on a link of limited bandwidth that is only emulated: by threads that sleep for
/// as long as a copy takes.
#pragma once

#include <chrono>

#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

/// One direction of the link, which copies occupy one after the other. A real link goes on with the
/// next copy at once. A thread that sleeps wakes up late, by up to milliseconds where others want
/// its core: the time between its copy's end and the next one's beginning is not the link's. A copy
/// that waited for that thread therefore counts from when the thread should have woken.
/// Not safe from several threads at once.
class LinkPacer {
 public:
  /// No copy ends later than this after it was handed over: clocks cannot say what lies further
  /// ahead than some centuries.
  static constexpr std::chrono::seconds kLongest{1'000'000'000};

  /// A copy that takes `duration` (at most kLongest), and that nothing but its thread kept from
  /// beginning since `ready`, is handed over. Returns when it ends.
  Clock::time_point occupy(Clock::time_point ready, Clock::time_point now,
                           Clock::duration duration);
  /// A thread that slept until its copy's `end` woke up now. Without sleep `now` is `end`: it was
  /// the copying that took longer.
  void woke(Clock::time_point end, Clock::time_point now);

 private:
  Clock::time_point free_{};  ///< the end of the copies so far
  Clock::duration late_{};    ///< how late somebody woke up last
};

}  // namespace zenflow::runtime
