#include "sim/cost/column_cost.h"

#include <cmath>

namespace zenflow::sim {
namespace {

double packed_bytes(DType dtype, const ColumnChoice& choice) {
  return static_cast<double>(bytes_per_element(dtype)) *
         static_cast<double>(choice.rows * choice.chosen);
}

double touched_bytes(const GpuProfile& gpu, DType dtype, const ColumnChoice& choice) {
  const auto width = static_cast<double>(bytes_per_element(dtype));
  const double all = width * static_cast<double>(choice.rows * choice.columns);
  const double sector = gpu.runs_on_host() ? 64 : 32;
  const double left_out =
      1 - static_cast<double>(choice.chosen) / static_cast<double>(choice.columns);
  return all * (1 - std::pow(left_out, sector / width));
}

}  // namespace

Bytes gather_traffic(const GpuProfile& gpu, DType dtype, const ColumnChoice& choice) {
  return Bytes(touched_bytes(gpu, dtype, choice) + packed_bytes(dtype, choice));
}

Bytes scatter_traffic(const GpuProfile& gpu, DType dtype, const ColumnChoice& choice) {
  const double times = choice.chosen == choice.columns ? 1 : 2;
  return Bytes(times * touched_bytes(gpu, dtype, choice) + packed_bytes(dtype, choice));
}

}  // namespace zenflow::sim
