/// Values of files for rows of the table of a setup's knobs.
#pragma once

#include "sim/config/reader.h"
#include "sim/offload/knobs.h"

namespace zenflow::sim {

/// Throws Error(kInput), located, for what the knob's row does not allow.
[[nodiscard]] double read_knob(const SetupKnob& knob, const ValueReader& value);

}  // namespace zenflow::sim
