/// All experiments of a probe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/probe/cpu_topology.h"
#include "runtime/probe/probe_device.h"
#include "runtime/probe/runner.h"

namespace zenflow::runtime {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;  ///< bytes

/// The shape of attention for one sequence.
struct AttentionSize {
  std::int64_t heads = 32;
  std::int64_t length = 512;
  std::int64_t head_dim = 64;
};

struct ProbeSettings {
  bool quick = false;
  std::size_t largest_copy = std::size_t{1} << 30;   ///< bytes
  std::size_t array_bytes = std::size_t{640} << 20;  ///< of each array that CPU loops stream
  double largest_product = 8e9;                      ///< FLOPs
  AttentionSize attention{};
  std::size_t device_array_bytes = std::size_t{640} << 20;
  std::optional<std::filesystem::path> nvme{};  ///< a folder
};

/// What a machine with so much memory left is measured with: full sizes, or an eighth of the
/// memory for each group's largest array. Arrays that CPU loops stream are twice its last-level
/// `cache`, at least: in it they would be faster than memory.
[[nodiscard]] ProbeSettings probe_settings(bool quick, std::size_t available_memory,
                                           std::size_t cache);
/// The same for a GPU: products as large as keep one busy, arrays that fit in `free_memory` too.
[[nodiscard]] ProbeSettings gpu_probe_settings(bool quick, std::size_t available_memory,
                                               std::size_t cache, std::size_t free_memory);

/// Ids of what profiles use are in the functions below; the rest is for people.
[[nodiscard]] ExperimentGroups make_experiments(ProbeDevice& device, const CpuTopology& topology,
                                                const ProbeSettings& settings);

// The groups, in their order.
[[nodiscard]] std::unique_ptr<ExperimentGroup> copy_experiments(ProbeDevice& device,
                                                                const CpuTopology& topology,
                                                                const ProbeSettings& settings);
[[nodiscard]] std::unique_ptr<ExperimentGroup> memory_experiments(ProbeDevice& device,
                                                                  const ProbeSettings& settings);
[[nodiscard]] std::unique_ptr<ExperimentGroup> product_experiments(ProbeDevice& device,
                                                                   const ProbeSettings& settings);
[[nodiscard]] std::unique_ptr<ExperimentGroup> latency_experiments(ProbeDevice& device);
[[nodiscard]] std::unique_ptr<ExperimentGroup> cpu_experiments(const CpuTopology& topology,
                                                               const ProbeSettings& settings);
[[nodiscard]] std::unique_ptr<ExperimentGroup> dram_experiments(const CpuTopology& topology,
                                                                const ProbeSettings& settings);
[[nodiscard]] std::unique_ptr<ExperimentGroup> nvme_experiments(const std::filesystem::path& folder,
                                                                const ProbeSettings& settings);

/// "4KiB", "1GiB": for ids. Precondition: a multiple of 1 KiB.
[[nodiscard]] std::string size_name(std::size_t bytes);

/// Products of the probe: squares, and layers of known models at as many tokens as fit in
/// `largest` FLOPs.
struct NamedProduct {
  std::string name;  ///< "llama2_7b.up 192x11008x4096"
  GemmShape shape;
};
[[nodiscard]] std::vector<NamedProduct> probe_products(double largest, bool quick);

/// Parameters that a call of CPU Adam updates, from 4 Ki up to fewer than `most`.
[[nodiscard]] std::vector<std::size_t> adam_call_sizes(std::size_t most, bool quick);
/// "adam.64Ki".
[[nodiscard]] std::string adam_call_id(std::size_t parameters);

/// 1, 2, 4, ... and `cores`; 1 and `cores` if `quick`.
[[nodiscard]] std::vector<int> thread_counts(int cores, bool quick);

}  // namespace zenflow::runtime
