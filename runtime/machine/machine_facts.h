/// Facts of a machine and of this process's environment, as files and the system state them:
/// no judgement, and nothing where the system does not say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/gpu/driver.h"
#include "runtime/gpu/dynamic_library.h"

namespace zenflow::runtime {

/// An NVIDIA GPU on PCI, from sysfs, which needs no driver.
struct GpuSlot {
  std::string bus_id;                 ///< "0000:3b:00.0"
  std::optional<double> speed{};      ///< GT/s of the link now; an idle GPU may have lowered it
  std::optional<double> speed_max{};  ///< what both GPU and slot can do
  std::optional<int> width{};         ///< lanes
  std::optional<int> width_max{};
  std::optional<int> numa_node{};  ///< nothing where the firmware names none
  /// The root port that it hangs below, alone or through switches: GPUs with the same one share its
  /// link. Empty if it hangs at the root itself (virtual machines).
  std::string root_port{};
};

/// A library of runtime/gpu/libraries.h: `path` if it opened, else `problem`.
struct LibraryFact {
  std::string id;  ///< "cublas"
  LibraryName name;
  std::optional<std::string> path{};
  std::string problem{};
};

struct LockLimit {
  std::optional<std::uint64_t> bytes;  ///< none: unlimited
};

struct MachineFacts {
  // GPU
  DriverAnswer driver{};
  std::vector<LibraryFact> libraries{};
  std::string nvml_problem{};               ///< why NVML, which was found, says nothing
  std::vector<std::string> stub_folders{};  ///< with a stub libcuda, on the loader's path
  std::vector<GpuSlot> gpus{};
  std::optional<bool> counters_for_root_only{};  ///< the kernel module's RmProfilingAdminOnly
  bool is_root = false;
  std::vector<std::string> tracing_tools{};  ///< evidence of one in this process
  std::optional<int> cupti_subscription{};   ///< what cuptiSubscribe returned; needs a GPU

  // Memory
  std::optional<LockLimit> lock_limit{};
  std::optional<std::uint64_t> shared_memory{};     ///< bytes of /dev/shm
  std::optional<std::uint64_t> memory{};            ///< bytes
  std::optional<std::uint64_t> memory_available{};  ///< bytes
  std::optional<std::uint64_t> memory_limit{};      ///< bytes, of the control group

  // Processors
  std::string cpu_name{};
  std::vector<int> online_cpus{};
  std::vector<int> allowed_cpus{};         ///< of this process
  std::optional<double> cpu_quota{};       ///< CPUs' worth of time, of the control group
  std::optional<double> load{};            ///< runnable threads, mean of the last minute
  std::optional<double> steal{};           ///< share of time since start that the hypervisor took
  std::vector<std::string> vector_sets{};  ///< instruction sets, ascending: "avx512"
  std::map<int, std::vector<int>> numa_cpus{};  ///< by node
};

}  // namespace zenflow::runtime
