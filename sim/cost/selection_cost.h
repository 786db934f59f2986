/// Time of selecting ZenFlow's columns.
///
/// Symbols: m matrix parameters of one rank, b bytes of an element, c columns of all matrices,
/// s W the rate of a streaming kernel (gpu_cost.h).
///
///   column norms   b m / (s W)               gradients read once, one fp32 norm a column
///   exchange       all-reduce of 4 c bytes    (transfer_cost.h)
///   top-k          4 x 4 c / (s W)            a radix select passes over the norms four times
///
/// Exchanging norms in place of gradients makes the exchange smaller by the number of rows.
/// Source: ZenFlow (arXiv 2505.12242), proxy selection.
#pragma once

#include <cstdint>

#include "sim/base/units.h"
#include "sim/config/hardware_profile.h"
#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {

[[nodiscard]] Bytes column_norm_bytes(std::int64_t columns);
[[nodiscard]] Seconds column_norm_time(const GpuProfile& gpu, DType dtype, double parameters);
[[nodiscard]] Seconds norm_exchange_time(const Communicator& group, std::int64_t columns);
[[nodiscard]] Seconds top_k_time(const GpuProfile& gpu, std::int64_t columns);

}  // namespace zenflow::sim
