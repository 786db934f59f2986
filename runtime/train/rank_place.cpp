#include "runtime/train/rank_place.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "runtime/machine/core_share.h"
#include "sim/base/error.h"
#include "sim/base/fnv1a.h"

namespace zenflow::runtime {
namespace {

/// 52 bits, which a double holds, and never 0.
double mark_of(std::string_view text) {
  return static_cast<double>((fnv1a(text) >> 12U) + 1);
}

/// Every rank's, at all of them.
std::vector<double> marks_of_ranks(Communicator& ranks, double own) {
  std::vector<double> all(static_cast<std::size_t>(ranks.size()), 0.0);
  all[static_cast<std::size_t>(ranks.rank())] = own;
  ranks.sum(all);
  return all;
}

int gpu_of(const RankPlace& place, int gpus) {
  if (gpus == 0) return -1;
  if (gpus == 1) return 0;
  if (place.local_rank < gpus) return place.local_rank;
  throw Error(ErrorKind::kInput,
              fmt::format("{} ranks on a machine with {} visible GPUs: one for each rank",
                          place.local_ranks, gpus));
}

}  // namespace

RankPlace place_rank(Communicator& ranks, const RankSurroundings& here) {
  const std::string cpus = list_of_cpus(here.allowed_cpus);
  const std::vector<double> machines = marks_of_ranks(ranks, mark_of(here.machine));
  const std::vector<double> allowed = marks_of_ranks(ranks, mark_of(here.machine + " " + cpus));
  const auto own = static_cast<std::size_t>(ranks.rank());
  RankPlace place{.local_ranks = 0, .cpus = here.allowed_cpus};
  std::vector<int> sharers;  // local ranks that may use the same cores
  std::size_t position = 0;
  for (std::size_t r = 0; r < machines.size(); ++r) {
    if (machines[r] != machines[own]) continue;
    if (r == own) {
      place.local_rank = place.local_ranks;
      position = sharers.size();
    }
    if (allowed[r] == allowed[own]) sharers.push_back(place.local_ranks);
    ++place.local_ranks;
  }
  place.gpu = gpu_of(place, here.gpus);
  place.bound_by_launcher = static_cast<int>(sharers.size()) < place.local_ranks;
  if (sharers.size() == 1) return place;
  std::vector<std::string> devices(sharers.size());
  for (std::size_t i = 0; here.gpus > 1 && i < sharers.size(); ++i) {
    devices[i] = here.bus_id(sharers[i]);
  }
  place.cpus = share_cpus(here.allowed_cpus, devices)[position];
  return place;
}

std::vector<std::string> texts_of_ranks(Communicator& ranks, const std::string& text) {
  constexpr std::size_t kMost = 200;
  const auto count = static_cast<std::size_t>(ranks.size());
  std::vector<double> all(count * kMost, 0.0);
  const std::size_t own = static_cast<std::size_t>(ranks.rank()) * kMost;
  for (std::size_t i = 0; i < std::min(kMost, text.size()); ++i) {
    all[own + i] = static_cast<unsigned char>(text[i]);
  }
  ranks.sum(all);
  std::vector<std::string> texts(count);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != 0) texts[i / kMost] += static_cast<char>(static_cast<unsigned char>(all[i]));
  }
  return texts;
}

}  // namespace zenflow::runtime
