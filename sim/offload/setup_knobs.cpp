#include "sim/offload/knob_rows.h"

namespace zenflow::sim {

std::span<const SetupKnob> setup_knobs() {
  return kSetupKnobs;
}

}  // namespace zenflow::sim
