#include "sim/cost/selection_cost.h"

#include "sim/cost/gpu_cost.h"

namespace zenflow::sim {

Bytes column_norm_bytes(std::int64_t columns) {
  constexpr double kNormBytes = 4;
  return Bytes(kNormBytes * static_cast<double>(columns));
}

Seconds column_norm_time(const GpuProfile& gpu, DType dtype, double parameters) {
  return stream_time(gpu, Bytes(static_cast<double>(bytes_per_element(dtype)) * parameters));
}

Seconds norm_exchange_time(const Communicator& group, std::int64_t columns) {
  return all_reduce_time(group, column_norm_bytes(columns));
}

Seconds top_k_time(const GpuProfile& gpu, std::int64_t columns) {
  constexpr double kRadixPasses = 4;
  return stream_time(gpu, kRadixPasses * column_norm_bytes(columns));
}

}  // namespace zenflow::sim
