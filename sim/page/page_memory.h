/// The course of memory as a page carries it.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate/memory_course.h"

namespace zenflow::sim {

/// A JSON array with an object for each course. Times are nanoseconds from `from`, each given from
/// the one before it; changes from `until` on are left out.
[[nodiscard]] std::string memory_json(const std::vector<MemoryCourse>& courses, Picoseconds from,
                                      Picoseconds until);

}  // namespace zenflow::sim
