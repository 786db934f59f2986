/// Chrome trace JSON in the PyTorch profiler's field conventions: Perfetto, chrome://tracing
/// and HTA open it.
///
/// Times are microseconds with six decimals, exact to the picosecond, relative to the run's
/// start. A process for each device, a thread for each track; copies are named as CUPTI
/// names them, so direction and page-locking can be read off. Steps are "ProfilerStep#N"
/// annotations. Source: pytorch/kineto, output_json.cpp.
#pragma once

#include <string>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

[[nodiscard]] std::string chrome_trace(const Timeline& timeline);

}  // namespace zenflow::sim
