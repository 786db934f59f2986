#include "runtime/device/link_pacer.h"

#include <algorithm>

namespace zenflow::runtime {

Clock::time_point LinkPacer::occupy(Clock::time_point now, Clock::duration duration) {
  const bool goes_on = now - woke_ <= kRightAfter;
  const Clock::time_point ready = goes_on ? now - late_ : now;
  free_ = std::min(std::max(free_, ready) + duration, now + kLongest);
  return free_;
}

void LinkPacer::woke(Clock::time_point end, Clock::time_point now) {
  woke_ = now;
  late_ = std::max(now - end, Clock::duration::zero());
}

}  // namespace zenflow::runtime
