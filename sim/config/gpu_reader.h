/// The blocks that a hardware profile and a file of the GPU catalogue share.
#pragma once

#include "sim/config/hardware_profile.h"
#include "sim/config/number_reader.h"
#include "sim/config/reader.h"

namespace zenflow::sim {

/// All keys of a profile's gpu block but `count`. Unknown keys are left to the caller.
/// Throws Error(kInput), located.
void read_gpu_numbers(MapReader& map, NumberReader& numbers, GpuProfile& gpu);
/// The keys of a gpu_link block. Unknown keys are left to the caller.
/// Throws Error(kInput), located.
[[nodiscard]] GpuLinkProfile read_gpu_link(MapReader& map, NumberReader& numbers);

}  // namespace zenflow::sim
