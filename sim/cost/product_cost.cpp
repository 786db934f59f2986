#include "sim/cost/product_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace zenflow::sim {
namespace {

struct Tile {
  double rows;
  double columns;
  double share;
};
constexpr std::array<Tile, 5> kTiles = {
    {{256, 128, 1}, {128, 256, 1}, {128, 128, 0.9}, {128, 64, 0.7}, {64, 64, 0.5}}};
constexpr double kMainLoop = 1.1;
constexpr double kManyWaves = 6;
constexpr double kMostParts = 16;
constexpr double kLeastDepth = 512;
constexpr double kWrittenAfter = 0.5;
constexpr Seconds kStart(2e-6);
constexpr Seconds kSumLaunch(3e-6);

}  // namespace

ProductRun product_run(const GpuProfile& gpu, DType dtype, double m, double n, double k) {
  const auto processors = static_cast<double>(gpu.multiprocessors);
  const FlopsPerSecond rate = gpu.gemm_efficiency * gpu.peak.at(dtype);
  const BytesPerSecond stream = gpu.streaming_efficiency * gpu.memory_bandwidth;
  const auto width = static_cast<double>(bytes_per_element(dtype));
  ProductRun run{Flops(0), Bytes(width * (m * k + k * n)), Seconds(0)};
  const Seconds written = Bytes(kWrittenAfter * width * m * n) / stream + kStart;
  Seconds least{};
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(m / tile.rows) * std::ceil(n / tile.columns);
    for (double parts = 1; parts <= kMostParts && (parts == 1 || k / parts >= kLeastDepth);
         parts *= 2) {
      const double waves = tiles * parts / processors;
      const double full = waves > kManyWaves ? waves : std::ceil(waves);
      const Flops busy(full * processors * 2 * tile.rows * tile.columns * (k / parts) /
                       (tile.share * kMainLoop));
      Seconds besides = written;
      if (parts > 1) besides += Bytes(8 * parts * m * n) / stream + kSumLaunch;
      const Seconds time = std::max(busy / rate, run.operands / stream) + besides;
      if (least == Seconds(0) || time < least) {
        least = time;
        run.busy = busy;
        run.besides = besides;
      }
      if (tiles * parts >= processors) break;
    }
  }
  return run;
}

}  // namespace zenflow::sim
