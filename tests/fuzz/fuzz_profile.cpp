/// Any bytes as a hardware block, complete or by its parts: a profile with sane numbers, or an
/// input error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/config/document.h"
#include "sim/config/gpu_catalogue.h"
#include "sim/config/hardware_parts.h"
#include "sim/config/hardware_profile.h"
#include "tests/fuzz/expect_input_error.h"

namespace {

using namespace zenflow;

/// Few cards, which are read once.
const sim::GpuCatalogue& catalogue() {
  static const sim::GpuCatalogue kCatalogue = [] {
    sim::GpuCatalogue made({ZENFLOW_SOURCE_DIR "/profiles"});
    for (const char* name : {"a100_sxm_40g", "rtx_4090", "gh200"}) made.keep(name);
    return made;
  }();
  return kCatalogue;
}

/// Names of other cards would be looked for on the disk.
bool is_kept(const Node& hardware) {
  const Node* gpu = hardware.find("gpu");
  const Node* name = gpu != nullptr && gpu->is_map() ? gpu->find("name") : nullptr;
  return name != nullptr &&
         (name->scalar == "a100_sxm_40g" || name->scalar == "rtx_4090" || name->scalar == "gh200");
}

bool is_positive(double number) {
  return std::isfinite(number) && number > 0;
}

void check(const sim::HardwareProfile& profile) {
  using fuzz::require;
  require(profile.gpu.count >= 1 && profile.host.sockets >= 1 && profile.host.cores >= 1,
          "there is something");
  require(is_positive(profile.gpu.memory.value()) && is_positive(profile.host.memory.value()),
          "memory has a size");
  require(is_positive(profile.host.dram_bandwidth.value()) &&
              is_positive(profile.host.adam_bandwidth.value()) &&
              is_positive(profile.host_link.pinned.h2d.value()) &&
              is_positive(profile.host_link.pinned.d2h.value()),
          "rates are rates");
  require(profile.gpu.gemm_efficiency > 0 && profile.gpu.gemm_efficiency <= 1,
          "an efficiency is a share");
  require(profile.gpu.count == 1 || profile.gpu_link.has_value(), "several GPUs are joined");
  require(!profile.numbers.empty(), "numbers have sources");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::is_taken([text] {
    Node hardware = parse_yaml(text, "fuzz.yaml");
    if (!sim::is_by_parts(hardware)) {
      check(sim::read_hardware_profile(hardware));
      return;
    }
    sim::spread_parts(hardware);
    static const sim::GpuCatalogue kNone;
    check(sim::read_hardware_profile(
        sim::expand_parts(hardware, is_kept(hardware) ? catalogue() : kNone)));
  });
  return 0;
}
