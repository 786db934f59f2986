/// Which traces show GPUs of one machine at one time: their copies share links.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/calibrate/trace/trace_fit.h"

namespace zenflow::sim {

/// Traces whose copies can be read without knowing what ran, as indices; those of one machine
/// together: on one clock, at one time, each with GPUs of its own. Why another's cannot is remarked
/// in `baselines`, which are parallel to `traces`.
[[nodiscard]] std::vector<std::vector<std::size_t>> machines_of(
    const std::vector<FitTrace>& traces, std::vector<TraceBaseline>& baselines);

/// Copies of GPUs that the traces do not show may have slowed those that they do: if the job has
/// more ranks than `machine` shows, that is remarked.
void remark_unseen_gpus(const std::vector<FitTrace>& traces, const HardwareProfile& base,
                        const std::vector<std::size_t>& machine, TraceBaseline& baseline);

}  // namespace zenflow::sim
