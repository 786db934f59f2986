#include "runtime/gpu/nvml.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "runtime/gpu/libraries.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

// As nvml.h declares them: nvmlReturn_t is an enumeration, nvmlDevice_t a pointer.
using Device = struct NvmlDevice*;
constexpr int kSuccess = 0;
constexpr unsigned kTextBytes = 96;  // of names and versions: NVML's own largest

struct PciInfo {
  std::array<char, 16> bus_id_legacy;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  std::array<char, 32> bus_id;
};
static_assert(sizeof(PciInfo) == 68);

using Plain = int (*)();
using ErrorText = const char* (*)(int);
using GetText = int (*)(char*, unsigned);
using GetCount = int (*)(unsigned*);
using GetDevice = int (*)(unsigned, Device*);
using GetDeviceText = int (*)(Device, char*, unsigned);
using GetPciInfo = int (*)(Device, PciInfo*);
using GetDeviceNumber = int (*)(Device, unsigned*);

}  // namespace

void Nvml::check(int status, const char* call) const {
  if (status == kSuccess) return;
  throw Error(ErrorKind::kDevice,
              fmt::format("{}: {}", call, library_.symbol<ErrorText>("nvmlErrorString")(status)));
}

Nvml::Nvml(const LibraryFolders& folders)
    : library_(DynamicLibrary::open(nvml_library(), folders)) {
  check(library_.symbol<Plain>("nvmlInit_v2")(), "nvmlInit_v2");
}

Nvml::~Nvml() {
  if (library_.has("nvmlShutdown")) library_.symbol<Plain>("nvmlShutdown")();
}

std::string Nvml::driver_release() const {
  std::array<char, kTextBytes> text{};
  check(library_.symbol<GetText>("nvmlSystemGetDriverVersion")(text.data(), kTextBytes),
        "nvmlSystemGetDriverVersion");
  return text.data();
}

std::vector<NvmlGpu> Nvml::gpus() const {
  unsigned count = 0;
  check(library_.symbol<GetCount>("nvmlDeviceGetCount_v2")(&count), "nvmlDeviceGetCount_v2");
  std::vector<NvmlGpu> gpus;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    check(library_.symbol<GetDevice>("nvmlDeviceGetHandleByIndex_v2")(i, &device),
          "nvmlDeviceGetHandleByIndex_v2");
    std::array<char, kTextBytes> name{};
    check(library_.symbol<GetDeviceText>("nvmlDeviceGetName")(device, name.data(), kTextBytes),
          "nvmlDeviceGetName");
    PciInfo pci{};
    check(library_.symbol<GetPciInfo>("nvmlDeviceGetPciInfo_v3")(device, &pci),
          "nvmlDeviceGetPciInfo_v3");
    // Not every link is PCIe: what does not apply is left out.
    const auto number = [&](const char* call) -> std::optional<unsigned> {
      unsigned value = 0;
      if (library_.symbol<GetDeviceNumber>(call)(device, &value) != kSuccess) return std::nullopt;
      return value;
    };
    // sysfs writes the domain with four digits and small letters.
    gpus.push_back(
        {.name = name.data(),
         .bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device),
         .link_generation = number("nvmlDeviceGetCurrPcieLinkGeneration"),
         .link_generation_max = number("nvmlDeviceGetMaxPcieLinkGeneration"),
         .link_width = number("nvmlDeviceGetCurrPcieLinkWidth"),
         .link_width_max = number("nvmlDeviceGetMaxPcieLinkWidth")});
  }
  return gpus;
}

}  // namespace zenflow::runtime
