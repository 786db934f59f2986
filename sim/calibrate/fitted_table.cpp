#include "sim/calibrate/fitted_table.h"

#include <fmt/format.h>

#include "sim/report/table.h"

namespace zenflow::sim {

std::string fitted_table(const LiveFit& fit, bool bold) {
  const std::vector<std::string> header = {"number",  "value",    "",     "standard error",
                                           "samples", "residual", "range"};
  std::vector<std::vector<std::string>> rows;
  for (const FittedNumber& one : fit.numbers) {
    rows.push_back({one.path, fmt::format("{:.4g} {}", one.value, one.unit),
                    one.fitted     ? "fitted"
                    : one.adjusted ? "adjusted"
                                   : "as before",
                    one.fitted ? fmt::format("{:.2g}", one.standard_error) : "",
                    one.fitted ? std::to_string(one.samples) : "",
                    one.fitted ? fmt::format("{:.1f} %", 100 * one.residual) : "", one.range});
  }
  return format_table(header, rows, bold);
}

}  // namespace zenflow::sim
