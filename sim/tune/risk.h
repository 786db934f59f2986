/// Which settings are alike, and which of two is the less risky.
#pragma once

#include <compare>
#include <cstdint>

#include "sim/tune/setting.h"

namespace zenflow::sim {

/// Settings of one kind differ in details only: a kind is a placement, stage, micro-batch,
/// update_interval and overlap_step.
[[nodiscard]] std::uint64_t kind_of(const Setting& setting);

/// Which of two settings within the slack is the less risky: less staleness, then the larger
/// topk_ratio (none counts as 1), then less GPU memory; then fewer knobs changed from `own`, then
/// the smaller index.
struct Risk {
  std::int64_t staleness;
  double minus_topk_ratio;
  double gpu_bytes;
  int changes;
  std::uint64_t index;
  friend auto operator<=>(const Risk&, const Risk&) = default;
};
[[nodiscard]] Risk risk_of(const Setting& setting, std::int64_t staleness, double gpu_bytes,
                           const Setting& own, std::uint64_t index);

}  // namespace zenflow::sim
