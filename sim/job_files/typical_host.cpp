#include "sim/job_files/typical_host.h"

#include <algorithm>

#include <fmt/format.h>

namespace zenflow::sim {

TypicalHost typical_host(const CatalogueGpu& card, int gpus) {
  const auto is_any = [&card](std::initializer_list<const char*> stems) {
    return std::any_of(stems.begin(), stems.end(),
                       [&card](const char* stem) { return card.key.starts_with(stem); });
  };
  const bool desktop = is_any({"rtx_3", "rtx_4", "rtx_5", "titan"});
  const bool old = is_any({"v100", "t4", "titan"});
  const bool new_slot = card.pcie && card.pcie->generation >= 5;
  TypicalHost host;
  if (card.key == "gh200") {  // its own processor, with its own memory
    host.name = "a GH200's own processor";
    host.cores_per_socket = 72;
    host.dram_channels_per_socket = 8;
    host.dram_rate = 8000;  // 512 GB/s of LPDDR5X
    host.memory_gib = 480;
    host.network_gbit = 400;
    return host;
  }
  if (desktop && gpus <= 2) {
    host.name = fmt::format("a workstation with {}", card.gpu.name);
    host.dram_rate = new_slot || card.key.starts_with("rtx_4") ? 5600 : 3200;
    host.memory_gib = 128;
    host.network_gbit = 10;
    return host;
  }
  if (desktop) {
    host.name = fmt::format("a server of one socket with {} {}", gpus, card.gpu.name);
    host.cores_per_socket = 32;
    host.dram_channels_per_socket = 8;
    host.memory_gib = 256;
    host.network_gbit = 25;
    return host;
  }
  host.name = fmt::format("a server of two sockets with {} {}", gpus, card.gpu.name);
  host.sockets = 2;
  host.cores_per_socket = old ? 20 : new_slot ? 48 : 32;
  host.dram_channels_per_socket = old ? 6 : 8;
  host.dram_rate = old ? 2666 : new_slot ? 4800 : 3200;
  const double each = old ? 64 : new_slot ? 256 : 128;
  host.memory_gib = std::max(256.0, each * gpus);
  host.network_gbit = new_slot ? 400 : 200;
  return host;
}

}  // namespace zenflow::sim
