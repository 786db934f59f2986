/// A window that has ended, as the tuner sees it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/tune/live_prediction.h"

namespace zenflow::runtime {

/// Where operations run: whose busy time is watched beside the step's.
inline constexpr std::size_t kTuneTracks = 5;
inline constexpr std::array<const char*, kTuneTracks> kTuneTrackNames = {
    "compute", "d2h", "h2d", "cpu sums", "cpu optimizer"};

/// The share of the squared gradient norm that falls on columns that are not selected.
struct DeferredShare {
  double topk_ratio = 0;
  double share = 0;
};

struct TuneWindow {
  std::int64_t window = 0;
  TunePoint point;  ///< that it had
  /// k of the window that begins. If it is another one, columns have changed place at this one's
  /// end.
  double next_topk_ratio = 0;
  std::int64_t steps = 0;
  double step_seconds = 0;                 ///< mean
  std::array<double, kTuneTracks> busy{};  ///< seconds in the window, by track; 0: not known
  std::int64_t importance_due = 0;  ///< steps after which deferred gradients are due; 0: not known
  /// With the largest columns selected, by ascending ratio; where nothing is known, none.
  std::vector<DeferredShare> deferred_shares{};
  double selection_seconds = 0;             ///< of the step time, to select columns anew
  std::optional<double> other_cores{};      ///< that other programs used lately; nothing: not known
  std::int64_t steps_left = 1'000'000'000;  ///< of the run
};

}  // namespace zenflow::runtime
