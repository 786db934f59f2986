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
                         std::int64_t positions, ElementType type)
    : half_(head_dim / 2) {
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

void RotaryTable::apply(const Execution& run, Direction direction, float* x, std::int64_t rows,
                        std::int64_t length, std::int64_t heads, std::int64_t stride) const {
  const Rounding rounded = run.rounding();
  const float sign = direction == Direction::kForward ? 1.0F : -1.0F;
  const std::int64_t half = half_;
  for_ranges(run.pool, rows, rows_per_block(heads * 2 * half),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t r = first; r < last; ++r) {
                 const float* const cosine = cosines_.data() + r % length * half;
                 const float* const sine = sines_.data() + r % length * half;
                 for (std::int64_t head = 0; head < heads; ++head) {
                   float* const low = x + r * stride + head * 2 * half;
                   float* const high = low + half;
                   for (std::int64_t c = 0; c < half; ++c) {
                     const float a = low[c];
                     const float b = high[c];
                     low[c] = rounded(a * cosine[c] - sign * b * sine[c]);
                     high[c] = rounded(b * cosine[c] + sign * a * sine[c]);
                   }
                 }
               }
             });
}

}  // namespace zenflow::runtime
