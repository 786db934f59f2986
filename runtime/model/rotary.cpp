#include "runtime/model/rotary.h"

#include <algorithm>
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

/// Pairs of columns that turn `fast_turns` times or more within the original positions keep their
/// frequency, those that turn `slow_turns` times or less have it divided by the factor.
class YarnRamp {
 public:
  YarnRamp(const RotarySettings& settings, std::int64_t columns) {
    const auto pair_of = [&](double turns) {
      return static_cast<double>(columns) *
             std::log(settings.original_max_positions / (turns * 2.0 * std::numbers::pi)) /
             (2.0 * std::log(settings.theta));
    };
    double low = pair_of(settings.fast_turns);
    double high = pair_of(settings.slow_turns);
    if (settings.rounds_range) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low_ = std::max(low, 0.0);
    high_ = std::min(high, static_cast<double>(columns - 1));
    if (low_ == high_) high_ += 0.001;
  }
  /// Of 0 (as it is) to 1 (divided).
  [[nodiscard]] double scaled(std::int64_t pair) const {
    return std::clamp((static_cast<double>(pair) - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  double low_ = 0.0;
  double high_ = 0.0;
};

double yarn_frequency(const RotarySettings& settings, const YarnRamp& ramp, std::int64_t pair,
                      double frequency) {
  const double scaled = ramp.scaled(pair);
  return frequency / settings.factor * scaled + frequency * (1.0 - scaled);
}

const std::vector<double>& long_rope_factors(const RotarySettings& settings,
                                             std::int64_t positions) {
  const bool is_long = static_cast<double>(positions) > settings.original_max_positions;
  return is_long ? settings.long_factors : settings.short_factors;
}

}  // namespace

std::vector<float> rotary_frequencies(const RotarySettings& settings, std::int64_t columns,
                                      std::int64_t positions) {
  using Scaling = RotarySettings::Scaling;
  const YarnRamp ramp(settings, columns);
  std::vector<float> frequencies;
  for (std::int64_t pair = 0; pair < columns / 2; ++pair) {
    const double exponent = static_cast<double>(2 * pair) / static_cast<double>(columns);
    const double exact = std::pow(settings.theta, -exponent);
    auto frequency = static_cast<float>(exact);
    switch (settings.scaling) {
      case Scaling::kNone:
        break;
      case Scaling::kLinear:
        frequency = static_cast<float>(static_cast<double>(frequency) / settings.factor);
        break;
      case Scaling::kLlama3:
        frequency = llama3_frequency(settings, frequency);
        break;
      case Scaling::kYarn:
        frequency = static_cast<float>(yarn_frequency(settings, ramp, pair, exact));
        break;
      case Scaling::kLongRope: {
        const auto& factors = long_rope_factors(settings, positions);
        frequency = static_cast<float>(exact / factors[static_cast<std::size_t>(pair)]);
        break;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RotaryTable::RotaryTable(const RotarySettings& settings, std::int64_t columns,
                         std::int64_t positions, ElementType type) {
  const Rounding rounded(type);
  const auto factor = static_cast<float>(settings.attention_factor);
  const std::vector<float> frequencies = rotary_frequencies(settings, columns, positions);
  for (std::int64_t position = 0; position < positions; ++position) {
    for (const float frequency : frequencies) {
      const auto angle = static_cast<double>(static_cast<float>(position) * frequency);
      cosines_.push_back(rounded(static_cast<float>(std::cos(angle)) * factor));
      sines_.push_back(rounded(static_cast<float>(std::sin(angle)) * factor));
    }
  }
}

}  // namespace zenflow::runtime
