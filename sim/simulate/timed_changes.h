/// In which order a run takes and gives back memory.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/schedule/program.h"

namespace zenflow::sim {

struct TimedChange {
  std::int64_t key;     ///< twice the time, one more for allocations
  std::uint32_t index;  ///< into Program::memory

  [[nodiscard]] Picoseconds time() const { return {key / 2}; }
  friend auto operator<=>(const TimedChange&, const TimedChange&) = default;
};

/// The changes of a place as far as the program has run. Frees come before allocations of the same
/// instant: the engine lets the freed go first.
[[nodiscard]] std::vector<TimedChange> changes_in_time(const Program& program,
                                                       const Execution& execution,
                                                       MemoryPlace place);

}  // namespace zenflow::sim
