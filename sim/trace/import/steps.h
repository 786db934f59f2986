/// Where the steps of a recorded run begin and end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/trace/import/collector.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {

/// Sets `timeline.steps`, by the first of these that finds any: ranges that match `pattern` (then
/// nothing else is tried), ranges named as steps (but not a last one without an update, if all
/// others have one: a profiler that is stopped in a step leaves it open), optimizer ranges
/// (optimizer_steps.h), the period of the kernels. Ranges of host threads go before their copies on
/// the GPU; of several threads the one with most. Each span of the GPU gets the number of the step
/// in which it was launched, or ran if its launch is not known. `intervals`: by track and start.
StepSource find_steps(Timeline& timeline, const SpanLaunches& launch,
                      const std::vector<HostInterval>& intervals, const TraceRules& rules,
                      const std::string& pattern);

/// The smallest length after which a sequence repeats, at least three times, with at most a
/// fiftieth of its elements out of place; 0 if there is none. Layers of a model repeat too: names
/// that come less often than the period would have them must be rare (one element in 500). What
/// comes more than 10,000 times is no step: kernels that a program launches over and over.
[[nodiscard]] std::size_t find_period(const std::vector<NameId>& sequence);
/// The same of `length` names, of which `name_at` says each: there may be millions.
[[nodiscard]] std::size_t find_period(std::size_t length,
                                      const std::function<NameId(std::size_t)>& name_at);

}  // namespace zenflow::sim
