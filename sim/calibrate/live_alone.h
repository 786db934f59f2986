/// Rates that operations would have if they were alone, from rates that were measured while they
/// shared the host's cores.
///
/// A fit divides work by measured times, and on the host device those contain each other's
/// slowdown; a simulation slows them down itself. So the profile is sought under which a simulated
/// recording of the same setting is fitted to what the measured one was: rates are multiplied with
/// the ratio of the two fits until it is 1. On a GPU it is from the start.
///
/// Forward and backward are the same at every setting: of them only the sum has to be right. A
/// single batch size does not tell products, attention and element-wise work apart.
#pragma once

#include "sim/calibrate/live_prediction.h"

namespace zenflow::sim {

/// `fitted`: to the recording.
[[nodiscard]] HardwareProfile alone(const LiveModelSettings& settings, const LiveWindows& recording,
                                    const HardwareProfile& fitted);

}  // namespace zenflow::sim
