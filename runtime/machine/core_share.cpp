#include "runtime/machine/core_share.h"

#include <climits>
#include <cstddef>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <hwloc.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

struct Free {
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using CpuSet = std::unique_ptr<hwloc_bitmap_s, Free>;

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorKind::kRuntime, fmt::format("hwloc: {}", what));
}

CpuSet set_of(const std::vector<int>& cpus) {
  CpuSet set(hwloc_bitmap_alloc());
  for (const int cpu : cpus) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  return set;
}

std::vector<int> cpus_of(hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

class Topology {
 public:
  explicit Topology(bool with_devices) {
    if (hwloc_topology_init(&topology_) != 0) fail("no memory");
    if (with_devices) {
      hwloc_topology_set_io_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    if (hwloc_topology_load(topology_) != 0) {
      hwloc_topology_destroy(topology_);
      fail("cannot read this machine's topology");
    }
  }
  ~Topology() { hwloc_topology_destroy(topology_); }
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  [[nodiscard]] hwloc_topology_t get() const { return topology_; }

  /// The part of the machine that the device is attached to.
  [[nodiscard]] hwloc_obj_t near(const std::string& device) const {
    const hwloc_obj_t machine = hwloc_get_root_obj(topology_);
    if (device.empty()) return machine;
    const hwloc_obj_t found = hwloc_get_pcidev_by_busidstring(topology_, device.c_str());
    if (found == nullptr) return machine;
    const hwloc_obj_t part = hwloc_get_non_io_ancestor_obj(topology_, found);
    const bool has_cpus = part != nullptr && hwloc_bitmap_iszero(part->cpuset) == 0;
    return has_cpus ? part : machine;
  }

 private:
  hwloc_topology_t topology_ = nullptr;
};

/// `count` shares of a part of the machine.
std::vector<std::vector<int>> shares_of(const Topology& topology, hwloc_obj_t part,
                                        std::size_t count) {
  std::vector<hwloc_cpuset_t> sets(count, nullptr);
  if (hwloc_distrib(topology.get(), &part, 1, sets.data(), static_cast<unsigned>(count), INT_MAX,
                    0) != 0) {
    fail("cannot share out the cores");
  }
  std::vector<std::vector<int>> shares;
  for (hwloc_cpuset_t set : sets) shares.push_back(cpus_of(CpuSet(set).get()));
  return shares;
}

}  // namespace

std::vector<int> allowed_cpus() {
  const Topology topology(false);
  const CpuSet set(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology.get(), set.get(), HWLOC_CPUBIND_THREAD) != 0) {
    fail("this system does not say which cores a thread may use");
  }
  return cpus_of(set.get());
}

void bind_to_cpus(const std::vector<int>& cpus) {
  const Topology topology(false);
  if (hwloc_set_cpubind(topology.get(), set_of(cpus).get(), HWLOC_CPUBIND_THREAD) != 0) {
    fail("this system does not bind threads to cores");
  }
}

std::vector<std::vector<int>> share_cpus(const std::vector<int>& allowed,
                                         const std::vector<std::string>& devices) {
  const Topology topology(true);
  if (hwloc_topology_restrict(topology.get(), set_of(allowed).get(), 0) != 0) {
    fail("none of the cores that this process may use is in the machine's topology");
  }
  std::map<hwloc_obj_t, std::vector<std::size_t>> neighbours;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    neighbours[topology.near(devices[i])].push_back(i);
  }
  std::vector<std::vector<int>> result(devices.size());
  for (const auto& [part, processes] : neighbours) {
    const auto shares = shares_of(topology, part, processes.size());
    for (std::size_t i = 0; i < processes.size(); ++i) result[processes[i]] = shares[i];
  }
  return result;
}

std::string list_of_cpus(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (end - i > 1) text += fmt::format("-{}", cpus[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace zenflow::runtime
