/// Machines for tests of what is said about machines.
#pragma once

#include "runtime/machine/machine_facts.h"

namespace zenflow::testing {

/// A node with which nothing is wrong: two NUMA nodes, a GPU on the first, this process bound there
/// as a launcher binds ranks.
inline runtime::MachineFacts good_machine() {
  using namespace runtime;
  MachineFacts facts;
  facts.driver = {.built_with = 13000,
                  .status = 0,
                  .error = "cudaSuccess",
                  .devices = 1,
                  .supports = 13000,
                  .release = "580.65.06"};
  facts.libraries = {
      {.id = "cublas",
       .name = {.file = "libcublas.so.13", .purpose = "products", .provider = "CUDA"},
       .path = "/opt/cuda/lib64/libcublas.so.13"}};
  facts.gpus = {{.bus_id = "0000:3b:00.0",
                 .speed = 32,
                 .speed_max = 32,
                 .width = 16,
                 .width_max = 16,
                 .numa_node = 0,
                 .root_port = "0000:3a:00.0"}};
  facts.counters_for_root_only = false;
  facts.cupti_subscription = 0;
  facts.lock_limit = LockLimit{};
  facts.shared_memory = std::uint64_t{64} << 30;
  facts.memory = std::uint64_t{512} << 30;
  facts.memory_available = std::uint64_t{500} << 30;
  facts.cpu_name = "Processor";
  facts.online_cpus = {0, 1, 2, 3};
  facts.allowed_cpus = {0, 1, 2, 3};
  facts.load = 0.1;
  facts.steal = 0.0;
  facts.vector_sets = {"scalar", "avx2", "avx512"};
  facts.numa_cpus = {{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}};
  return facts;
}

}  // namespace zenflow::testing
