/// The learning rate of a step.
#pragma once

#include <cstdint>

namespace zenflow::runtime {

enum class Decay : std::uint8_t { kConstant, kLinear, kCosine };

/// Rises linearly over `warmup_steps` from peak / warmup_steps to the peak, then stays, or falls to
/// zero at `total_steps` along a line or half a cosine.
struct LearningRate {
  double peak = 1e-3;
  Decay decay = Decay::kConstant;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;

  /// Steps count from 0.
  [[nodiscard]] double at(std::int64_t step) const;
};

}  // namespace zenflow::runtime
