/// A training run as a result document: the fields of `zenflow-sim run --json`, measured.
#pragma once

#include <string>

#include "runtime/train/trainer.h"

namespace zenflow::runtime {

/// `steps.measured` is what times and bytes are means of: whole windows in steady state, or, if
/// there are none and `steps.steady` is false, all steps, the slow first one among them. Device
/// memory is what the engine allocates; a host model's activations are not in it. schema_version 1,
/// with `losses` (one a step), `final_loss`, `validations`, and for adaptive intervals `decisions`
/// or `tuning`.
/// What only a simulation knows (mfu without a peak, critical path) is null.
[[nodiscard]] std::string measured_result_json(const TrainOptions& options,
                                               const TrainReport& report,
                                               const std::string& version);

}  // namespace zenflow::runtime
