/// Whether a series of times still is what it was: noise and two-sided CUSUM (Page 1954).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace zenflow::runtime {

/// Spread of a time from window to window, relative: from differences of neighbours, so that a
/// slow trend does not count. Begins with a guess that is worth a few windows.
class NoiseEstimate {
 public:
  /// `log_ratio`: of a window's time to that of the window before, at the same setting.
  void add(double log_ratio);
  [[nodiscard]] double sigma() const;

 private:
  double weight_ = 4;  ///< differences that the sum stands for
  double sum_;         ///< of squared differences

 public:
  NoiseEstimate();
};

/// How far a time has to have moved, and for how long.
struct DriftLimits {
  double allowance = 0.02;  ///< relative changes up to this are nobody's concern
  double threshold = 0.06;  ///< sum of what lies beyond the allowance
};

/// Follows one time. The median of the first windows after `restart` is the reference, three at
/// least; what exceeds it by more than allowance and noise adds up until it is alarming. A single
/// window, however long, never is, nor if it is among the first.
class DriftMonitor {
 public:
  explicit DriftMonitor(DriftLimits limits) : limits_(limits) {}

  /// A new reference: another setting, or times that are known to have changed.
  void restart();
  /// `seconds` > 0. `patience` >= 1 raises the thresholds.
  void add(double seconds, double patience);

  /// A window of which the time is not known: what looked like a drift so far is forgotten.
  void skip();

  [[nodiscard]] bool alarmed() const { return alarmed_; }
  /// Halfway there.
  [[nodiscard]] bool suspicious() const { return suspicious_; }
  /// The last windows' step time by the reference's: 2 is twice as long.
  [[nodiscard]] double factor() const;
  [[nodiscard]] double sigma() const { return noise_.sigma(); }

 private:
  DriftLimits limits_;
  NoiseEstimate noise_;
  std::array<double, 4> first_{};  ///< logarithms that the reference is the median of
  std::size_t references_ = 0;
  double reference_ = 0;
  double last_ = 0;  ///< logarithm; valid if references_ > 0
  double recent_ = 0;
  double up_ = 0;
  double down_ = 0;
  bool alarmed_ = false;
  bool suspicious_ = false;
};

/// Follows what other programs use of the cores, in cores: a load is seen there before times,
/// which have noise of their own, tell. The median of three values after `restart` is the
/// reference; what stays near it moves it slowly. A single value is never alarming, nor if it is
/// among these.
class UseMonitor {
 public:
  void restart() { *this = {}; }
  /// `patience` >= 1: so many values in a row, two at least, have to be away from the reference.
  void add(double cores, double patience);

  [[nodiscard]] bool alarmed() const { return alarmed_; }
  [[nodiscard]] bool suspicious() const { return away_ > 0; }
  [[nodiscard]] double reference() const { return reference_; }
  /// From the reference, by more than what changes from value to value. False if there is none yet.
  [[nodiscard]] bool away(double cores) const;

 private:
  std::array<double, 3> first_{};
  std::size_t references_ = 0;  ///< of these
  double reference_ = 0;
  int away_ = 0;  ///< values in a row
  bool alarmed_ = false;
};

}  // namespace zenflow::runtime
