/// Isolated rates of operations, from rates that were measured under contention for the host's
/// cores.
///
/// A fit divides work by measured times, and on the host device those contain each other's
/// slowdown; a simulation slows them down itself. So simulated recordings of the same settings say
/// by how much each operation is slowed down, rates are fitted to the measured times without that
/// (live_operation_times.h), and that is repeated with the profile that comes of it until nothing
/// changes. On a GPU nothing does from the start.
///
/// Threads of other programs compete for the cores, too. What is measured of them is what they used
/// while they competed, which is less than what they want. How many there were is one more unknown
/// of each recording: as many as use, in the simulated one, what the others used in the recorded,
/// and the next whole number if with that, and rates fitted to it, they use as much.
///
/// Forward and backward compute the same at every setting: only their sum has to be right. With a
/// single batch size, products, attention and element-wise work are not identifiable one by one. By
/// how much the two take longer in a window's first half than in its second, beyond contention for
/// cores, is LiveFit::update_slowdown.
#pragma once

#include <vector>

#include "sim/calibrate/live_fit.h"

namespace zenflow::sim {

/// `fitted`: to the recordings, by `fit_as_recorded`. Numbers that the recordings do not identify
/// stay, but for attention's and element-wise work's efficiency, which are scaled with products'
/// where only all three together are identifiable. More than four other threads a core are not
/// identifiable: what they leave to training is too little by then. Precondition: there is a
/// recording, and all have one type of elements.
[[nodiscard]] LiveFit isolated_rates(const std::vector<LiveRecording>& recordings,
                                     const LiveFit& fitted);

}  // namespace zenflow::sim
