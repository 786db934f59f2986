/// Reads the files under /proc and /sys that describe a machine. `root` stands for "/", so that
/// tests can describe machines. Nothing is returned for what is missing or has another form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/machine/machine_facts.h"

namespace zenflow::runtime {

/// "0-2,8" as 0 1 2 8; empty if the text has another form.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view text);

/// The value after "KEY" (and a colon) in a file of such lines, spaces trimmed.
[[nodiscard]] std::optional<std::string> keyed_value(const std::string& text, std::string_view key);

/// The soft limit of "Max locked memory", from the text of /proc/self/limits.
[[nodiscard]] std::optional<LockLimit> lock_limit(const std::string& limits);

/// Bytes of a "kB" line of /proc/meminfo.
[[nodiscard]] std::optional<std::uint64_t> meminfo_bytes(const std::string& meminfo,
                                                         std::string_view key);

/// Share of stolen time in the first line of /proc/stat.
[[nodiscard]] std::optional<double> stolen_share(const std::string& stat);

/// The tightest CPU quota and memory limit of this process's control group and those above it, of
/// version 2 or 1. What is left of a limit counts file pages that nobody has used for a while
/// (inactive_file): the kernel gives them up before it refuses memory.
struct ControlGroupLimits {
  std::optional<double> cpus{};
  std::optional<std::uint64_t> memory{};
  std::optional<std::uint64_t> memory_left{};  ///< the least of any group; needs its use
};
[[nodiscard]] ControlGroupLimits control_group_limits(const std::filesystem::path& root);

/// NVIDIA's display and 3D controllers, by bus id.
[[nodiscard]] std::vector<GpuSlot> gpu_slots(const std::filesystem::path& root);

/// "0000:3a:00.0" of ".../pci0000:3a/0000:3a:00.0/0000:3b:00.0"; empty without a port above.
[[nodiscard]] std::string root_port(const std::filesystem::path& device);

/// CPUs by NUMA node.
[[nodiscard]] std::map<int, std::vector<int>> numa_cpus(const std::filesystem::path& root);

/// The whole file; empty if it cannot be read.
[[nodiscard]] std::string text_of(const std::filesystem::path& file);

}  // namespace zenflow::runtime
