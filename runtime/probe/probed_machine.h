/// What a profile says of a machine besides figures, with where it comes from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/machine/machine_facts.h"
#include "runtime/probe/cpu_topology.h"
#include "runtime/probe/cuda_probe_device.h"
#include "runtime/probe/probe_profile.h"

namespace zenflow::runtime {

/// Throws Error(kRuntime) if the system does not state `fact`.
[[nodiscard]] std::uint64_t required(const std::optional<std::uint64_t>& fact, const char* what);

/// The host and its device, which takes a third of the memory: as much as a step's weights and
/// activations need beside the optimizer's state. Throws Error(kRuntime) if the system does not
/// state how much there is.
[[nodiscard]] ProbedMachine probed_host(const MachineFacts& facts, const CpuTopology& topology,
                                        const std::string& date);
/// The host and a GPU, which `name` is that of. Throws likewise.
[[nodiscard]] ProbedMachine probed_gpu(const MachineFacts& facts, const CpuTopology& topology,
                                       const std::string& date, const CudaDeviceFacts& gpu,
                                       const std::string& name);

}  // namespace zenflow::runtime
