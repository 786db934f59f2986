/// A node described by what a person can look up: its GPU, its processors and memory, its PCIe
/// slots. Everything else follows by the rules below, each with its source in docs/model.md, and a
/// value that is stated where a profile has it wins over the rule.
///
///   dram_bandwidth        0.70 x sockets x channels x rate x 8 B
///   core_bandwidth        12 GB/s up to 2933 MT/s, else 20 GB/s
///   adam_bandwidth        0.188 of the theoretical DRAM bandwidth, 0.425 on one socket; at most
///                         dram_bandwidth, and core_bandwidth of all cores
///   worker_adam_bandwidth 0.425 of the theoretical DRAM bandwidth, at most the same
///   adam_half_cores       12, at most a quarter of the cores; on one socket half of
///                         adam_bandwidth over core_bandwidth
///   unbound_efficiency    0.78 on several sockets
///   elementwise_bandwidth 0.8 x dram_bandwidth
///   shared_memory         half of the memory
///   h2d, d2h              PCIe 3: 12, 4: 25, 5: 53 GB/s at 16 lanes, in proportion to lanes
///   bidirectional         1.5 times one direction
///   pageable_h2d, _d2h    1 / (1 / pinned + 1 / 19.3 GB/s): a copy to staging buffers comes first
///   gpu_link: pcie        0.8 of the pinned rate, 20 us
///   gpu_link: nvlinkN     as the catalogue has it of the card
///   network               0.9 of the line rate, 14 us
///   nvme                  drives x the rate of one, written plainly; {value, source} is of all
///                         drives, as in a profile; 100 us
#pragma once

#include "sim/config/document.h"
#include "sim/config/gpu_catalogue.h"

namespace zenflow::sim {

/// Whether a hardware block, as it is written, describes a node by its parts and not as a complete
/// profile, which has gpu.count.
[[nodiscard]] bool is_by_parts(const Node& hardware);

/// Writes `gpu: NAME` as `gpu: {name: NAME}` and `gpu_link` likewise, so that overrides reach into
/// them.
void spread_parts(Node& hardware);

/// The complete profile, as a document for read_hardware_profile; each number says its rule.
/// Throws Error(kInput), located, for a missing or unknown key, a GPU or link that the catalogue
/// does not have, and a link that cannot join that many cards.
[[nodiscard]] Node expand_parts(const Node& hardware, const GpuCatalogue& catalogue);

}  // namespace zenflow::sim
