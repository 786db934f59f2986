/// A setting of the live runtime.
#pragma once

#include <cstdint>
#include <string>

#include "sim/schedule/live_work.h"

namespace zenflow::sim {

/// A schedule and its knobs, as run and as simulated.
struct LivePoint {
  LiveKind kind = LiveKind::kZenFlow;
  double topk_ratio = 0.1;
  std::int64_t update_interval = 4;
  bool overlap = true;

  friend bool operator==(const LivePoint&, const LivePoint&) = default;
};
/// "zenflow k=0.1 S=4".
[[nodiscard]] std::string to_string(const LivePoint& point);
/// "zero-offload" or "zenflow:K:S". Throws Error(kInput) naming what is expected.
[[nodiscard]] LivePoint parse_live_point(const std::string& text);

}  // namespace zenflow::sim
