#include "runtime/probe/cpu_topology.h"

#include <algorithm>

#include <fmt/format.h>
#include <hwloc.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

struct CpuTopology::Handle {
  hwloc_topology_t topology = nullptr;
  ~Handle() {
    if (topology != nullptr) hwloc_topology_destroy(topology);
  }
};

CpuTopology::CpuTopology() : handle_(std::make_unique<Handle>()) {
  hwloc_topology_t& topology = handle_->topology;
  if (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
    throw Error(ErrorKind::kRuntime, "hwloc: cannot read this machine's topology");
  }
  sockets_ = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE));
  const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  const int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int n = 0; n < nodes; ++n) {
    const hwloc_obj_t node =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(n));
    Node made{static_cast<int>(node->os_index), {}};
    for (int c = 0; c < cores; ++c) {
      const hwloc_obj_t core =
          hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(c));
      if (hwloc_bitmap_isincluded(core->cpuset, node->cpuset) != 0) {
        made.cores.push_back(hwloc_bitmap_first(core->cpuset));
      }
    }
    if (!made.cores.empty()) nodes_.push_back(std::move(made));
  }
  if (nodes_.empty()) throw Error(ErrorKind::kRuntime, "hwloc: found no cores");
  binds_memory_ = try_binding();
}

CpuTopology::~CpuTopology() = default;

std::vector<int> CpuTopology::cores() const {
  std::vector<int> all;
  for (const Node& node : nodes_) all.insert(all.end(), node.cores.begin(), node.cores.end());
  return all;
}

std::size_t CpuTopology::last_level_cache() const {
  for (const hwloc_obj_type_t level : {HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    std::size_t bytes = 0;
    hwloc_obj_t cache = nullptr;
    while ((cache = hwloc_get_next_obj_by_type(handle_->topology, level, cache)) != nullptr) {
      bytes += cache->attr->cache.size;
    }
    if (bytes > 0) return bytes;
  }
  return 0;
}

void CpuTopology::Release::operator()(void* address) const {
  hwloc_free(topology->handle_->topology, address, bytes);
}

namespace {

void* allocate_bound(hwloc_topology_t topology, int node, std::size_t bytes) {
  const hwloc_obj_t object =
      hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(node));
  if (object == nullptr) return nullptr;
  return hwloc_alloc_membind(topology, bytes, object->nodeset, HWLOC_MEMBIND_BIND,
                             HWLOC_MEMBIND_BYNODESET);
}

}  // namespace

bool CpuTopology::try_binding() const {
  if (nodes_.size() < 2) return false;
  constexpr std::size_t kPage = 4096;
  void* page = allocate_bound(handle_->topology, nodes_.front().number, kPage);
  if (page == nullptr) return false;
  hwloc_free(handle_->topology, page, kPage);
  return true;
}

CpuTopology::Memory CpuTopology::allocate_on(int node, std::size_t bytes) const {
  void* address = binds_memory_ ? allocate_bound(handle_->topology, node, bytes)
                                : hwloc_alloc(handle_->topology, bytes);
  if (address == nullptr) {
    throw Error(ErrorKind::kInfeasible,
                fmt::format("NUMA node {}: no {} bytes of memory", node, bytes));
  }
  return Memory(address, Release{this, bytes});
}

}  // namespace zenflow::runtime
