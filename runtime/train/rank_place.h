/// Where each of several ranks computes: one GPU and one set of cores each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"

namespace zenflow::runtime {

struct RankPlace {
  int local_rank = 0;  ///< among those of its machine
  int local_ranks = 1;
  int gpu = -1;                    ///< its number among the visible ones; -1: none
  std::vector<int> cpus{};         ///< that it may use
  bool bound_by_launcher = false;  ///< and not by this program
};

/// What this rank sees of its machine.
struct RankSurroundings {
  std::string machine;            ///< the same for ranks of one machine, and for no others
  std::vector<int> allowed_cpus;  ///< before any choice
  int gpus = 0;                   ///< visible; 0: the host trains
  /// "0000:3b:00.0" of a visible GPU.
  std::function<std::string(int gpu)> bus_id{};
};

/// Decides, with the others: ranks of a machine that may use the same cores share them out, near
/// their GPUs; whom the launcher has given cores of its own keeps them. A rank's GPU is that of its
/// number on the machine, or the only visible one. All ranks call this at the same time. Throws
/// Error(kInput) if a machine has more ranks than GPUs.
[[nodiscard]] RankPlace place_rank(Communicator& ranks, const RankSurroundings& here);

/// What every rank says, at all of them. Bytes beyond 200 are left out.
[[nodiscard]] std::vector<std::string> texts_of_ranks(Communicator& ranks, const std::string& text);

}  // namespace zenflow::runtime
