#include "runtime/train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zenflow::runtime {

double LearningRate::at(std::int64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  const auto length = static_cast<double>(std::max<std::int64_t>(1, total_steps - warmup_steps));
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / length);
  switch (decay) {
    case Decay::kConstant:
      return peak;
    case Decay::kLinear:
      return peak * (1 - done);
    case Decay::kCosine:
      return peak * 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
  return peak;
}

}  // namespace zenflow::runtime
