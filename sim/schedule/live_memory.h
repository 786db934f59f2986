/// What zenflow-train holds, on the device and on the host.
#pragma once

#include "sim/schedule/live_work.h"
#include "sim/schedule/program_builder.h"

namespace zenflow::sim {

/// Declares every buffer of the runtime's engine, and the model's activations and workspace: what
/// runtime/train/memory_plan.cpp plans. Source: runtime/offload/device_columns.cpp,
/// deferred_columns.cpp, column_carrier.cpp.
void declare_live_memory(const Job& job, const LiveSettings& live, ProgramBuilder& builder);

}  // namespace zenflow::sim
