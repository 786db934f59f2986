/// How much of the gradient would be deferred with other shares of columns selected.
#pragma once

#include <vector>

#include "runtime/offload/engine.h"

namespace zenflow::runtime {

/// By ratio: the share of the squared norm of matrices' gradients that falls on columns outside the
/// largest ones, by the L2 norms that the engine has (WindowObservation::norms_step). Vectors and
/// matrices of one column are selected whole and do not count. Empty if all norms are zero.
[[nodiscard]] std::vector<double> deferred_shares(const OffloadEngine& engine,
                                                  const std::vector<double>& topk_ratios);

}  // namespace zenflow::runtime
