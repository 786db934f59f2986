#include "runtime/model/rotary.h"

#include <cmath>
#include <numbers>

namespace zenflow::runtime {
namespace {

/// Low frequencies are divided by the factor, high ones kept, those between blended.
float llama3_frequency(const RotarySettings& settings, float frequency) {
  const double wavelength = 2.0 * std::numbers::pi / static_cast<double>(frequency);
  const double turns = settings.original_max_positions / wavelength;
  const auto scaled = static_cast<float>(static_cast<double>(frequency) / settings.factor);
  if (turns < settings.low_frequency_factor) return scaled;
  if (turns > settings.high_frequency_factor) return frequency;
  const double share = (turns - settings.low_frequency_factor) /
                       (settings.high_frequency_factor - settings.low_frequency_factor);
  return static_cast<float>((1.0 - share) * static_cast<double>(scaled) +
                            share * static_cast<double>(frequency));
}

}  // namespace

std::vector<float> rotary_frequencies(const RotarySettings& settings, std::int64_t head_dim) {
  std::vector<float> frequencies;
  for (std::int64_t column = 0; column < head_dim; column += 2) {
    const double exponent = static_cast<double>(column) / static_cast<double>(head_dim);
    auto frequency = static_cast<float>(std::pow(settings.theta, -exponent));
    if (settings.scaling == RotarySettings::Scaling::kLinear) {
      frequency = static_cast<float>(static_cast<double>(frequency) / settings.factor);
    } else if (settings.scaling == RotarySettings::Scaling::kLlama3) {
      frequency = llama3_frequency(settings, frequency);
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RotaryTable::RotaryTable(const RotarySettings& settings, std::int64_t head_dim,
                         std::int64_t positions, ElementType type) {
  const Rounding rounded(type);
  const std::vector<float> frequencies = rotary_frequencies(settings, head_dim);
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const float frequency : frequencies) {
      const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      cosines_.push_back(rounded(static_cast<float>(std::cos(angle))));
      sines_.push_back(rounded(static_cast<float>(std::sin(angle))));
    }
  }
}

}  // namespace zenflow::runtime
