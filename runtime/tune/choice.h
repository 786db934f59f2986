/// Which setting is chosen, given what is known: functions of values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "runtime/tune/gradient_limits.h"
#include "runtime/tune/setting_times.h"

namespace zenflow::runtime {

struct TuneSettings {
  TunePoint first;
  std::int64_t max_staleness = 31;
  bool overlap_step = true;
  double slack = 0.01;       ///< of step time, given up for less staleness
  double least_gain = 0.01;  ///< by which a change must pay at least, whatever the noise
  double confidence = 2;     ///< standard errors by which it must
  /// A limit on the share of the squared gradient norm that is deferred: k is not lowered to where
  /// more is deferred, or where the share is not known, and is raised where more is. 1: no limit.
  double max_deferred_share = 1;
  /// The first window that is reported has what no other has: it belongs to no setting.
  bool begins_cold = false;
};

/// Windows in a row at one setting.
struct Visit {
  double seconds = 0;  ///< mean step time
  std::int64_t windows = 0;

  void add(double step_seconds);
};

/// What a change of k takes, since columns have to be carried.
struct SelectionCost {
  double carry_seconds = 0;  ///< TuneFit's
  double reorder_seconds = 0;
  double expected = 0;  ///< of the change of k under way, seconds
  double factor = 1;    ///< longest change of k to what was expected of it, at least 1

  /// Seconds for the most columns that can change place, and as much longer as a change has taken
  /// before.
  [[nodiscard]] double of(double from, double to) const;
  /// The change of k under way has taken so long.
  void learn(double seconds);
};

/// What was left since the last drift, and is not gone back to.
struct Left {
  std::set<TunePoint> too_slow;  ///< for a faster one
  double deferred_too_much = 0;  ///< the largest topk_ratio left for what it deferred
};

/// What a choice is made by.
struct Known {
  const TuneSettings& settings;
  TunePoint here;
  Visit visit;  ///< of `here`
  std::int64_t steps_left = 0;
  double sigma = 0;  ///< relative spread of windows' step times
  const SettingTimes& times;
  const SelectionCost& cost;
  const DueLimit& due;
  const ShareLimit& shares;
  const Left& left;
  double explained = 0;    ///< of the step, by the last profile; 0: there is none
  double model_error = 0;  ///< relative, of the last prediction that was checked
};

struct Choice {
  TunePoint to;
  std::string reason;
};

/// Another setting, if one is better beyond noise, or less stale within the slack of the fastest.
/// Precondition: windows have been measured at `here`.
[[nodiscard]] std::optional<Choice> choose(const Known& known);

/// Seconds a step, from what is measured at `here`.
[[nodiscard]] double estimate(const SettingTimes& times, const TunePoint& here, const Visit& visit,
                              const TunePoint& point);

/// Relative: what the mean of so many windows is off by only if something has changed.
[[nodiscard]] double beyond_noise(const TuneSettings& settings, double noise, std::int64_t windows);

}  // namespace zenflow::runtime
