#include "sim/base/quantity_text.h"

#include <array>

#include <fmt/format.h>

namespace zenflow {

std::string size_text(std::uint64_t bytes) {
  constexpr double kStep = 1024;
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (static_cast<double>(bytes) < kStep) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / kStep;
  std::size_t unit = 0;
  for (; value >= kStep && unit + 1 < kUnits.size(); ++unit) value /= kStep;
  return fmt::format("{:.4g} {}", value, kUnits.at(unit));
}

std::string count_text(double count) {
  constexpr double kBillion = 1e9;
  constexpr double kMillion = 1e6;
  if (count >= kBillion) return fmt::format("{:.4g} billion", count / kBillion);
  return count >= kMillion ? fmt::format("{:.4g} million", count / kMillion)
                           : fmt::format("{:.0f}", count);
}

}  // namespace zenflow
