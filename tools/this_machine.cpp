#include "tools/this_machine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "runtime/machine/system_files.h"
#include "sim/base/error.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

/// The NVIDIA driver's GPUs by name: "NVIDIA A100-SXM4-80GB".
std::map<std::string, std::int64_t> gpus_by_name(const fs::path& root) {
  std::map<std::string, std::int64_t> gpus;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", none)) {
    const std::string information = runtime::text_of(entry.path() / "information");
    if (const auto name = runtime::keyed_value(information, "Model")) ++gpus[*name];
  }
  return gpus;
}

/// The slot of all GPUs; none where they differ, or where the system does not say (virtual
/// machines), or says what no profile has.
std::optional<sim::PcieSlot> slot_of_gpus(const fs::path& root) {
  constexpr std::array kSpeeds = {8.0, 16.0, 32.0};  // GT/s, from PCIe 3.0 on
  std::set<std::pair<std::int64_t, std::int64_t>> slots;
  for (const runtime::GpuSlot& gpu : runtime::gpu_slots(root)) {
    // An idle GPU lowers its speed, not its width.
    const auto* const speed = std::find(kSpeeds.begin(), kSpeeds.end(), gpu.speed_max.value_or(0));
    if (speed == kSpeeds.end() || gpu.width.value_or(0) <= 0) return std::nullopt;
    slots.emplace(3 + (speed - kSpeeds.begin()), *gpu.width);
  }
  if (slots.size() != 1) return std::nullopt;
  return sim::PcieSlot{slots.begin()->first, slots.begin()->second};
}

struct Cores {
  std::int64_t count = 0;  ///< physical ones; 0: unknown
  std::int64_t sockets = 1;
};

Cores cores_of(const fs::path& root) {
  const fs::path cpus = root / "sys/devices/system/cpu";
  std::set<std::pair<std::string, std::string>> cores;
  std::set<std::string> sockets;
  for (const int cpu : runtime::parse_cpu_list(runtime::text_of(cpus / "online"))) {
    const fs::path topology = cpus / fmt::format("cpu{}", cpu) / "topology";
    const std::string socket = runtime::text_of(topology / "physical_package_id");
    cores.emplace(socket, runtime::text_of(topology / "core_id"));
    sockets.insert(socket);
  }
  return {static_cast<std::int64_t>(cores.size()),
          std::max<std::int64_t>(1, static_cast<std::int64_t>(sockets.size()))};
}

void take_gpus(const fs::path& root, sim::JobInputs& inputs) {
  if (inputs.gpu) return;  // a machine that is asked about for another card
  const auto gpus = gpus_by_name(root);
  if (gpus.empty()) {
    throw Error(
        ErrorKind::kInput,
        "--host this: no NVIDIA GPU is here (/proc/driver/nvidia/gpus): expected --gpu NAME "
        "beside it");
  }
  if (gpus.size() > 1) {
    throw Error(ErrorKind::kInput,
                fmt::format("--host this: GPUs differ here ({}, {}): expected --gpu NAME beside it",
                            gpus.begin()->first, std::next(gpus.begin())->first));
  }
  inputs.gpu = gpus.begin()->first;
  inputs.found.insert("--gpu");
  inputs.slot = slot_of_gpus(root);
  if (inputs.gpus) return;
  inputs.gpus = gpus.begin()->second;
  inputs.found.insert("--gpus");
}

}  // namespace

void look_at_this_machine(const fs::path& root, sim::JobInputs& inputs) {
  take_gpus(root, inputs);
  const auto take = [&inputs](const char* flag, auto& value, auto found) {
    if (value) return;
    value = std::move(found);
    inputs.found.insert(flag);
  };
  const runtime::ControlGroupLimits limits = runtime::control_group_limits(root);
  auto memory = runtime::meminfo_bytes(runtime::text_of(root / "proc/meminfo"), "MemTotal");
  if (memory && limits.memory) memory = std::min(*memory, *limits.memory);
  if (memory) {
    take("--ram", inputs.ram, fmt::format("{:.1f} GiB", static_cast<double>(*memory) / 0x1p30));
  }
  Cores cores = cores_of(root);
  if (cores.count == 0) return;
  if (limits.cpus && *limits.cpus < static_cast<double>(cores.count)) {
    cores = {std::max<std::int64_t>(1, static_cast<std::int64_t>(*limits.cpus)), 1};
  }
  // Sockets and cores only together: one of them given, the other follows as ever.
  if (inputs.sockets || inputs.cores || cores.count % cores.sockets != 0) return;
  take("--sockets", inputs.sockets, cores.sockets);
  take("--cores", inputs.cores, cores.count);
}

}  // namespace zenflow::tools
