#include "runtime/device/link_pacer.h"

#include <algorithm>

namespace zenflow::runtime {

Clock::time_point LinkPacer::occupy(Clock::time_point ready, Clock::time_point now,
                                    Clock::duration duration) {
  const Clock::time_point start = std::min(std::max(ready, now - late_), now);
  free_ = std::min(std::max(free_, start) + duration, now + kLongest);
  return free_;
}

void LinkPacer::woke(Clock::time_point end, Clock::time_point now) {
  late_ = std::max(now - end, Clock::duration::zero());
}

}  // namespace zenflow::runtime
