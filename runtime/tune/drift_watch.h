/// Everything of a training that may drift: step time, time in each track's operations, and what
/// other programs use of the cores.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tune/drift.h"
#include "runtime/tune/window.h"

namespace zenflow::runtime {

class DriftWatch {
 public:
  DriftWatch();

  void add(const TuneWindow& seen);
  /// What has drifted, for people; empty: nothing.
  [[nodiscard]] std::string alarm(const TuneWindow& seen) const;
  /// After an alarm the bar for the next one is higher, until it has been calm for long.
  void raise_bar();
  /// New references: another setting, beside which others get more or less of the cores, too; or
  /// times that are known to have changed.
  void restart();

  /// What looks like a drift now. Whether something does that did not when this was called before.
  bool doubt(std::int64_t window);
  [[nodiscard]] bool in_doubt() const { return suspects_.any(); }
  /// The window since which something has looked like a drift.
  [[nodiscard]] std::optional<std::int64_t> in_doubt_since() const { return since_; }

  /// Relative spread of windows' step times.
  [[nodiscard]] double sigma() const { return step_.sigma(); }
  [[nodiscard]] const UseMonitor& others() const { return others_; }

 private:
  DriftMonitor step_;
  std::vector<DriftMonitor> tracks_;
  UseMonitor others_;
  std::bitset<2 + kTuneTracks> suspects_;  ///< step time, use by others, and tracks
  std::optional<std::int64_t> since_;      ///< window
  double patience_ = 1;
  std::int64_t quiet_ = 0;  ///< windows since patience changed
};

}  // namespace zenflow::runtime
