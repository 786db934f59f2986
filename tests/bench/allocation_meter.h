/// How many bytes the program holds on the heap: counts every operator new and delete.
#pragma once

#include <cstddef>

namespace zenflow::testing {

[[nodiscard]] std::size_t live_bytes();
/// The most bytes held at once since the last `reset_peak`.
[[nodiscard]] std::size_t peak_bytes();
void reset_peak();

}  // namespace zenflow::testing
