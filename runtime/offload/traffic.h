/// Bytes that a run moves over the host link, from formulas alone: what the device counts must
/// equal.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/offload/layout.h"
#include "runtime/offload/settings.h"

namespace zenflow::runtime {

struct LinkBytes {
  std::uint64_t d2h = 0;  ///< gradients
  std::uint64_t h2d = 0;  ///< updated weights
};

/// Of one regular window of `steps` steps. With n deferred elements of b bytes: n b down in every
/// step and n b up once; with sums on the device 4 n down once, unless a window is one step that
/// nothing overlaps. This is (1 - k)(1 + 1/S) model sizes a step where k S columns are whole.
[[nodiscard]] LinkBytes window_traffic(const Layout& layout, ElementType type,
                                       const OffloadSettings& settings, std::int64_t steps);
/// Of one warm-up step: all gradients down, all weights up.
[[nodiscard]] LinkBytes warm_up_traffic(const Layout& layout, ElementType type);

}  // namespace zenflow::runtime
