/// How much of the gradient would be deferred with other shares of columns selected.
#pragma once

#include <vector>

#include "runtime/offload/engine.h"

namespace zenflow::runtime {

/// By ratio: the squared norm of this rank's matrices' gradients that falls on columns outside the
/// largest ones, by the L2 norms that the engine has (WindowObservation::norms_step); then that of
/// all columns. Vectors and matrices of one column are selected whole and do not count.
[[nodiscard]] std::vector<double> deferred_squares(const OffloadEngine& engine,
                                                   const std::vector<double>& topk_ratios);

}  // namespace zenflow::runtime
