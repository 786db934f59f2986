/// What a step of ZenFlow as published takes at least (sim/schedule/zenflow.cpp): what its lanes
/// and links have to do, and the chains that no lane can shorten.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "sim/schedule/offload.h"
#include "sim/tune/step_facts.h"

namespace zenflow::sim {

/// The lanes of a rank that links of the host bear.
enum class HostWork { kDown, kUp, kUpdate, kSum };
inline constexpr std::size_t kHostWorks = 4;

/// What a link is busy with a picosecond of each of HostWork, all ranks doing it, of what it can
/// bear. Links whose ranks' work it bears all at once are none.
using LinkLoad = std::array<double, kHostWorks>;
[[nodiscard]] std::vector<LinkLoad> link_loads(const Scenario& scenario, const RankRates& rates);

/// link_loads, remembered for jobs that differ in nothing but rates and GPUs.
class LinkLoads {
 public:
  const std::vector<LinkLoad>& of(const Scenario& scenario, const RankRates& rates);

 private:
  std::map<std::array<double, 5>, std::vector<LinkLoad>> known_;
};

/// Picoseconds of a step, averaged over whole selection intervals.
[[nodiscard]] double published_zenflow_bound(const Job& job, const StepFacts& steps,
                                             LinkLoads& loads);

}  // namespace zenflow::sim
