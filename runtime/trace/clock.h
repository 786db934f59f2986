/// The clock of everything that is measured in a run.
#pragma once

#include <chrono>

namespace zenflow::runtime {

/// std::chrono::steady_clock, but for the time that suspend_process has taken: then it stands
/// still.
struct Clock {
  using rep = std::chrono::steady_clock::rep;
  using period = std::chrono::steady_clock::period;
  using duration = std::chrono::steady_clock::duration;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;
  [[nodiscard]] static time_point now() noexcept;
};

/// If SIGTSTP is pending, lets it stop this process, with all of its threads, until SIGCONT comes;
/// one that has come since takes SIGTSTP back. Meanwhile Clock stands still: threads that ask for
/// the time in the microseconds before they are stopped wait. From one thread at a time.
/// Precondition: all threads block SIGTSTP.
void suspend_process();

}  // namespace zenflow::runtime
