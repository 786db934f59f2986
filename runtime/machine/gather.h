/// Fills in MachineFacts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/gpu/nvml.h"
#include "runtime/machine/machine_facts.h"

namespace zenflow::runtime {

/// Where the facts come from. Tests put a folder in place of "/".
struct FactSources {
  std::filesystem::path root = "/";
  std::map<std::string, std::string> environment{};  ///< of this process
};

/// The host's part: no GPU library is opened and no driver asked.
[[nodiscard]] MachineFacts gather_host_facts(const FactSources& sources);

/// All of it: opens every GPU library, asks the driver and, if it has a GPU, CUPTI.
[[nodiscard]] MachineFacts gather_facts(const FactSources& sources);

/// Adds what NVML says of GPUs: the links that sysfs keeps silent about (virtual machines), GPUs
/// that sysfs does not show, the driver's release where no file names it.
void add_nvml(MachineFacts& facts, const std::vector<NvmlGpu>& gpus, const std::string& release);
/// Opens NVML and adds it. Without NVML nothing changes; if NVML fails, `nvml_problem` says how.
void ask_nvml(MachineFacts& facts, const LibraryFolders& folders);

/// Signs of a tool that records the GPU or debugs this process: each is one sentence.
[[nodiscard]] std::vector<std::string> tracing_tools(
    const std::map<std::string, std::string>& environment, const std::string& proc_status);

}  // namespace zenflow::runtime
