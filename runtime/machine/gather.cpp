#include "runtime/machine/gather.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kernels/dispatch.h"
#include "runtime/gpu/cupti_subscription.h"
#include "runtime/gpu/libraries.h"
#include "runtime/machine/system_files.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

std::optional<std::string> variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<std::uint64_t> file_system_bytes(const fs::path& folder) {
  struct statvfs answer {};
  if (::statvfs(folder.c_str(), &answer) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(answer.f_blocks) * answer.f_frsize;
}

/// Folders of LD_LIBRARY_PATH that hold a libcuda and are named as toolkits name their stubs'.
std::vector<std::string> stub_folders(const Environment& environment) {
  std::vector<std::string> folders;
  std::istringstream paths(variable(environment, "LD_LIBRARY_PATH").value_or(""));
  for (std::string path; std::getline(paths, path, ':');) {
    const fs::path folder =
        fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
    std::error_code unreadable;
    if (folder.filename() == "stubs" && (fs::exists(folder / "libcuda.so.1", unreadable) ||
                                         fs::exists(folder / "libcuda.so", unreadable))) {
      folders.push_back(folder.string());
    }
  }
  return folders;
}

LibraryFact try_library(std::string id, LibraryName name, const LibraryFolders& folders) {
  LibraryFact fact{.id = std::move(id), .name = std::move(name)};
  try {
    fact.path = DynamicLibrary::open(fact.name, folders).path().string();
  } catch (const Error& error) {  // what is missing is a fact here
    fact.problem = error.what();
  }
  return fact;
}

std::vector<LibraryFact> try_libraries(const LibraryFolders& folders) {
  std::vector<LibraryFact> facts;
  facts.push_back(try_library("cuda", cuda_driver_library(), folders));
  facts.push_back(try_library("nvml", nvml_library(), folders));
  const int major = built_cuda_version() / 1000;
  if (major == 0) return facts;  // a build without CUDA calls none of the toolkit's
  facts.push_back(try_library("cublas", cublas_library(major), folders));
  facts.push_back(try_library("cublaslt", cublas_lt_library(major), folders));
  facts.push_back(try_library("cupti", cupti_library(major), folders));
  facts.push_back(try_library("nccl", nccl_library(major), folders));
  return facts;
}

}  // namespace

void add_nvml(MachineFacts& facts, const std::vector<NvmlGpu>& gpus, const std::string& release) {
  const auto speed = [](std::optional<unsigned> generation) -> std::optional<double> {
    constexpr std::array kSpeeds = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};  // GT/s, from PCIe 1.0 on
    if (!generation || *generation == 0 || *generation > kSpeeds.size()) return std::nullopt;
    return kSpeeds.at(*generation - 1);
  };
  const auto width = [](std::optional<unsigned> lanes) -> std::optional<int> {
    if (!lanes || *lanes == 0) return std::nullopt;
    return static_cast<int>(*lanes);
  };
  for (const NvmlGpu& gpu : gpus) {
    auto slot = std::find_if(facts.gpus.begin(), facts.gpus.end(),
                             [&](const GpuSlot& one) { return one.bus_id == gpu.bus_id; });
    if (slot == facts.gpus.end()) {
      slot = facts.gpus.insert(slot, {.bus_id = gpu.bus_id});
    }
    if (!slot->speed) slot->speed = speed(gpu.link_generation);
    if (!slot->speed_max) slot->speed_max = speed(gpu.link_generation_max);
    if (!slot->width) slot->width = width(gpu.link_width);
    if (!slot->width_max) slot->width_max = width(gpu.link_width_max);
  }
  if (!facts.driver.release) facts.driver.release = release;
}

void ask_nvml(MachineFacts& facts, const LibraryFolders& folders) {
  std::optional<Nvml> nvml;
  try {
    nvml.emplace(folders);
    add_nvml(facts, nvml->gpus(), nvml->driver_release());
  } catch (const Error& error) {
    facts.nvml_problem = error.what();
  }
}

std::vector<std::string> tracing_tools(const Environment& environment,
                                       const std::string& proc_status) {
  std::vector<std::string> signs;
  for (const char* name : {"CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"}) {
    if (const auto value = variable(environment, name)) {
      signs.push_back(fmt::format("{}={}", name, *value));
    }
  }
  const auto tracer = keyed_value(proc_status, "TracerPid");
  if (tracer && *tracer != "0") signs.push_back(fmt::format("process {} debugs this one", *tracer));
  return signs;
}

MachineFacts gather_host_facts(const FactSources& sources) {
  const fs::path& root = sources.root;
  MachineFacts facts;
  const std::string status = text_of(root / "proc/self/status");
  const std::string meminfo = text_of(root / "proc/meminfo");
  facts.gpus = gpu_slots(root);
  if (const auto only =
          keyed_value(text_of(root / "proc/driver/nvidia/params"), "RmProfilingAdminOnly")) {
    facts.counters_for_root_only = *only != "0";
  }
  facts.is_root = ::geteuid() == 0;
  facts.stub_folders = stub_folders(sources.environment);
  facts.tracing_tools = tracing_tools(sources.environment, status);
  facts.lock_limit = lock_limit(text_of(root / "proc/self/limits"));
  facts.shared_memory = file_system_bytes(root / "dev/shm");
  facts.memory = meminfo_bytes(meminfo, "MemTotal");
  facts.memory_available = meminfo_bytes(meminfo, "MemAvailable");
  const ControlGroupLimits limits = control_group_limits(root);
  facts.cpu_quota = limits.cpus;
  // A group without a limit names a number beyond any machine's memory.
  if (limits.memory && (!facts.memory || *limits.memory < *facts.memory)) {
    facts.memory_limit = limits.memory;
  }
  facts.cpu_name = keyed_value(text_of(root / "proc/cpuinfo"), "model name").value_or("");
  facts.online_cpus = parse_cpu_list(text_of(root / "sys/devices/system/cpu/online"));
  facts.allowed_cpus = parse_cpu_list(keyed_value(status, "Cpus_allowed_list").value_or(""));
  std::istringstream loadavg(text_of(root / "proc/loadavg"));
  if (double load = 0; loadavg >> load) facts.load = load;
  facts.steal = stolen_share(text_of(root / "proc/stat"));
  for (const kernels::Isa isa : kernels::available_isas()) {
    facts.vector_sets.emplace_back(kernels::to_string(isa));
  }
  facts.numa_cpus = numa_cpus(root);
  return facts;
}

MachineFacts gather_facts(const FactSources& sources) {
  MachineFacts facts = gather_host_facts(sources);
  const LibraryFolders folders = library_folders(sources.environment);
  facts.driver = ask_driver();
  facts.libraries = try_libraries(folders);
  for (const LibraryFact& library : facts.libraries) {
    if (library.id == "nvml" && library.path) ask_nvml(facts, folders);
  }
  // Without a GPU CUPTI answers "unknown error", which says nothing about other tools.
  if (judge_driver(facts.driver).state == DriverState::kUsable) {
    facts.cupti_subscription = try_cupti_subscription(folders);
  }
  return facts;
}

}  // namespace zenflow::runtime
