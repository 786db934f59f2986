/// Cores and NUMA nodes that this process may use.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace zenflow::runtime {

class CpuTopology {
 public:
  /// Throws Error(kRuntime) if hwloc cannot read the machine.
  CpuTopology();
  ~CpuTopology();
  CpuTopology(const CpuTopology&) = delete;
  CpuTopology& operator=(const CpuTopology&) = delete;

  struct Node {
    int number;              ///< the operating system's
    std::vector<int> cores;  ///< one logical CPU of each physical core, by number
  };
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] int sockets() const { return sockets_; }
  /// Bytes of all last-level caches; 0 if the system does not say.
  [[nodiscard]] std::size_t last_level_cache() const;
  /// One logical CPU of each physical core, node by node.
  [[nodiscard]] std::vector<int> cores() const;

  /// Whether memory can be bound to nodes: not if there is one alone, and some containers forbid
  /// it.
  [[nodiscard]] bool binds_memory() const { return binds_memory_; }
  /// Memory of a node, or of any if memory cannot be bound. Throws Error(kInfeasible) if there is
  /// not so much.
  struct Release {
    const CpuTopology* topology;
    std::size_t bytes;
    void operator()(void* address) const;
  };
  using Memory = std::unique_ptr<void, Release>;
  [[nodiscard]] Memory allocate_on(int node, std::size_t bytes) const;

 private:
  [[nodiscard]] bool try_binding() const;

  struct Handle;
  std::unique_ptr<Handle> handle_;
  std::vector<Node> nodes_;
  int sockets_ = 1;
  bool binds_memory_ = false;
};

}  // namespace zenflow::runtime
