/// Arrays of gigabytes on the host.
#pragma once

#include <cstddef>
#include <vector>

namespace zenflow {

/// Makes `array`, which is empty, `count` zeros long. What takes long is the system's: it clears
/// the pages when they are touched first, on one core some 2 GB/s. So threads of several cores
/// touch them before, and large pages are asked for. Throws Stopped if the run is to stop.
void fill_with_zeros(std::vector<float>& array, std::size_t count);

}  // namespace zenflow
