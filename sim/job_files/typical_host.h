/// The node that such a card usually sits in, for what a user does not say.
#pragma once

#include <string>

#include "sim/config/gpu_catalogue.h"

namespace zenflow::sim {

struct TypicalHost {
  std::string name;  ///< "a workstation with GeForce RTX 4090"
  int sockets = 1;
  int cores_per_socket = 16;
  int dram_channels_per_socket = 2;
  int dram_rate = 3200;  ///< MT/s
  double memory_gib = 128;
  int network_gbit = 100;  ///< of a node
};

/// By the card and how many of them a node has. Sources: DGX A100 and H100 data sheets (two sockets
/// of 64 and 56 cores, 8 channels a socket); OEM servers with fewer cards, which have half of that;
/// desktop platforms (AM5, LGA1700: 16 cores, two channels) and HEDT or single-socket servers for
/// more than two of their cards. Real hosts vary by a factor of two either way.
[[nodiscard]] TypicalHost typical_host(const CatalogueGpu& card, int gpus);

}  // namespace zenflow::sim
