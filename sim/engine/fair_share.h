/// Max-min fair rates of flows on shared links.
///
/// Unknowns: rate x_i of each active flow i. Constraints: 0 <= x_i <= solo_rate_i,
/// and for each link l: sum over i of a_il * x_i <= capacity_l. The max-min fair
/// solution is the one in which no x_i can grow without shrinking some x_j <= x_i.
/// Found by progressive filling: all rates rise together until a bound or a link
/// is reached, which fixes the flows concerned; repeat with the rest.
/// Source: Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2.
/// Cost: O(rounds * (flows + links)); at most one round per flow.
#pragma once

#include <span>
#include <vector>

#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// Rates in bytes/s, one for each entry of `active` (indices into machine.flows; the same
/// flow may occur more than once, as separate competitors), beside the machine's background.
/// Deterministic: a fixed order of operations. A flow that reaches its solo rate gets exactly that
/// value. Throws Error(kRuntime) if a flow does not exist.
[[nodiscard]] std::vector<double> fair_rates(const Machine& machine,
                                             std::span<const FlowId> active);

}  // namespace zenflow::sim
