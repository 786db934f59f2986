/// Work that runs beside a measurement.
#pragma once

#include <functional>
#include <latch>
#include <thread>
#include <utility>

namespace zenflow::runtime {

/// Repeats `work` on a thread of its own from construction, which waits until the first round has
/// begun, until destruction. `work` must not throw.
class Background {
 public:
  explicit Background(std::function<void()> work)
      : thread_([this, work = std::move(work)](const std::stop_token& stop) {
          begun_.count_down();
          while (!stop.stop_requested()) work();
        }) {
    begun_.wait();
  }

 private:
  std::latch begun_{1};
  std::jthread thread_;  // last: uses the latch
};

}  // namespace zenflow::runtime
