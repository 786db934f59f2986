/// Bytes that a run moves over the host link, from formulas alone: what the device counts must
/// equal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/offload/layout.h"
#include "runtime/offload/settings.h"

namespace zenflow::runtime {

struct LinkBytes {
  std::uint64_t d2h = 0;  ///< gradients
  std::uint64_t h2d = 0;  ///< updated weights
};

/// What one regular window moves, of `steps` steps. With n deferred elements of b bytes: n b down
/// in every step and n b up once; with sums on the device 4 n down once, unless a window is one
/// step that nothing overlaps. This is (1 - k)(1 + 1/S) model sizes a step where k S columns are
/// whole.
[[nodiscard]] LinkBytes window_traffic(const Layout& layout, ElementType type,
                                       const OffloadSettings& settings, std::int64_t steps);
/// What one warm-up step moves: all gradients down, all weights up.
[[nodiscard]] LinkBytes warm_up_traffic(const Layout& layout, ElementType type);

/// Columns of a matrix that change place between two windows.
struct ChangedColumns {
  std::size_t leaving = 0;   ///< the selection
  std::size_t entering = 0;  ///< as many, unless topk_ratio changes with it
  bool ratio_changes = false;
};
/// What a selection moves of a matrix; `overlap` as in the settings. Down: a norm of 4 bytes for
/// every column, and 12 bytes of state for every element that leaves. Up, if any column changes
/// place: 4 bytes for every column, for each leaving one and each entering one; state of those that
/// enter, with overlap 4 bytes for each of them and their weights in working precision besides; and
/// if the ratio changes 8 bytes for every column that stays selected.
[[nodiscard]] LinkBytes selection_traffic(const Slice& before, ElementType type,
                                          const ChangedColumns& changed, bool overlap);

}  // namespace zenflow::runtime
