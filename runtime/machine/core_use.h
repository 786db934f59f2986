/// How much of the cores that a process may run on other programs use.
///
/// What others used is what the CPUs were busy for less what this process ran. CPUs count their
/// time in ticks of 1/100 s (USER_HZ); of their idle time, which Linux measures, a reading is less
/// than one tick short. Busy is what is neither idle nor waiting for a disk; so time that a
/// hypervisor gave to other machines, and interrupts, count as others', too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace zenflow::runtime {

/// What one CPU has done since the machine started, in clock ticks.
struct CpuTicks {
  std::int64_t idle = 0;  ///< or waiting for a disk
  std::int64_t all = 0;
  friend bool operator==(const CpuTicks&, const CpuTicks&) = default;
};

/// By CPU, from the text of /proc/stat. Those that are offline have no line; a line of another form
/// is none. Time of guests is in user and nice already.
[[nodiscard]] std::map<int, CpuTicks> cpu_ticks(const std::string& stat);

/// All at one moment.
struct CoreReading {
  std::map<int, CpuTicks> cpus{};
  double own_seconds = 0;  ///< that this process's threads ran, all together
  double at_seconds = 0;   ///< of a clock that does not jump

  /// As if what was counted between these two later readings had been counted before this one.
  void leave_out(const CoreReading& begin, const CoreReading& end);
};

struct OtherUse {
  std::optional<double> cores{};  ///< on average; nothing: not known
  std::string problem{};          ///< why not
};

/// Between two readings, of the CPUs named that have a line in both. Not known if none has, if less
/// than four ticks have passed, or if theirs are not of that time (containers that show no CPU's).
/// Exactly 0 below 3 % of a core or two standard errors of the ticks, whichever is more: 0.2 cores
/// for two CPUs in 80 ms, 0.03 from half a second on.
[[nodiscard]] OtherUse other_use(const CoreReading& begin, const CoreReading& end,
                                 const std::vector<int>& cpus, double ticks_a_second);

/// Now. Without CPUs where /proc/stat below `root` cannot be read. Takes tens of microseconds.
[[nodiscard]] CoreReading read_cores(const std::filesystem::path& root);

/// USER_HZ.
[[nodiscard]] double ticks_a_second();

/// CPUs that this process's main thread may run on, by /proc/self/status below `root`, and those of
/// `more`; ascending. Empty if neither names one.
[[nodiscard]] std::vector<int> allowed_cpus(const std::filesystem::path& root,
                                            const std::vector<int>& more);

}  // namespace zenflow::runtime
