#include "runtime/probe/probed_machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/probe/topology_text.h"
#include "sim/base/error.h"
#include "sim/base/text.h"

namespace zenflow::runtime {
namespace {

std::uint64_t memory_of(const MachineFacts& facts) {
  return facts.memory_limit ? *facts.memory_limit
                            : required(facts.memory, "how much memory there is");
}

ProbedMachine machine_of(const MachineFacts& facts, const CpuTopology& topology,
                         const std::string& date) {
  ProbedMachine machine;
  machine.date = date;
  machine.cpu_name = facts.cpu_name.empty() ? "an unnamed processor" : facts.cpu_name;
  machine.sockets = topology.sockets();
  machine.cores = static_cast<int>(topology.cores().size());
  machine.shared_memory = facts.shared_memory.value_or(0);
  machine.topology = cpu_topology_text(topology);
  const auto gpus = gpu_topology(facts.gpus);
  machine.topology.insert(machine.topology.end(), gpus.begin(), gpus.end());
  machine.host_memory = memory_of(facts);
  machine.host_memory_source = "/proc/meminfo, " + date;
  return machine;
}

}  // namespace

std::uint64_t required(const std::optional<std::uint64_t>& fact, const char* what) {
  if (!fact) throw Error(ErrorKind::kRuntime, fmt::format("the system does not state {}", what));
  return *fact;
}

ProbedMachine probed_host(const MachineFacts& facts, const CpuTopology& topology,
                          const std::string& date) {
  ProbedMachine machine = machine_of(facts, topology, date);
  machine.device_name = "host device (CPU)";
  machine.link_kind = "memcpy";
  machine.device_memory = machine.host_memory / 3;
  machine.device_memory_source =
      "a third of the host's memory, which this profile gives the device";
  machine.context_memory = std::uint64_t{64} << 20;
  machine.context_memory_source =
      "estimate: program, thread stacks and the packing buffers of the GEMM library";
  machine.host_memory -= machine.device_memory;
  machine.host_memory_source += ", less the device's third";
  return machine;
}

ProbedMachine probed_gpu(const MachineFacts& facts, const CpuTopology& topology,
                         const std::string& date, const CudaDeviceFacts& gpu,
                         const std::string& name) {
  ProbedMachine machine = machine_of(facts, topology, date);
  machine.device_name = name;
  const std::string bus_id = lower_case(gpu.bus_id);  // sysfs writes small letters
  machine.link_kind = "the GPU's link to the host";
  for (const GpuSlot& slot : facts.gpus) {
    if (slot.bus_id == bus_id) machine.link_kind = link_kind(slot);
  }
  machine.device_memory = gpu.memory;
  machine.device_memory_source = "cudaMemGetInfo, " + date;
  machine.context_memory = gpu.memory - gpu.free_memory;
  machine.context_memory_source =
      "cudaMemGetInfo, " + date + ": what is not free once CUDA and cuBLAS have started";
  machine.multiprocessors = gpu.multiprocessors;
  machine.lanes = gpu.lanes;
  machine.clock = gpu.clock;
  if (gpu.memory_bandwidth > 0) machine.device_bandwidth = gpu.memory_bandwidth;
  return machine;
}

}  // namespace zenflow::runtime
