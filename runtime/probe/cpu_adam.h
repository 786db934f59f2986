/// CPU Adam as the offload engine runs it: on a pool, a piece a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

inline constexpr double kAdamBytesPerParameter = 28;

/// Threads as the offload engine's CPU optimizer has them.
[[nodiscard]] inline std::unique_ptr<ThreadPool> optimizer_pool(int threads,
                                                                const std::vector<int>& cores) {
  return std::make_unique<ThreadPool>(ThreadPool::OwnThreads{"optimizer", threads, cores});
}

/// fp32 arrays of one length, of at least as many elements as are updated.
struct AdamArrays {
  float* parameters;
  float* first_moment;
  float* second_moment;
  const float* gradient;
};

/// One update of `n` parameters by all threads of the pool.
inline void update_all(ThreadPool& pool, const AdamArrays& arrays, std::size_t n) {
  static constexpr kernels::AdamWSettings kSettings{
      .learning_rate = 1e-4F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F, .weight_decay = 0};
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  constexpr std::size_t kLine = 16;  // floats of a cache line: threads write no line together
  const std::size_t threads = pool.threads();
  const std::size_t share = (n + threads - 1) / threads;
  const std::size_t piece = (std::min(kPiece, share) + kLine - 1) / kLine * kLine;
  const kernels::BiasCorrection correction = kernels::bias_correction(kSettings, 10);
  pool.run((n + piece - 1) / piece, [&](std::size_t i) {
    const std::size_t first = i * piece;
    kernels::adamw<float, float, float>(
        kSettings, correction, 1.0F, std::min(piece, n - first),
        {arrays.parameters + first, arrays.first_moment + first, arrays.second_moment + first},
        arrays.gradient + first);
  });
}

}  // namespace zenflow::runtime
