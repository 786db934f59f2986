/// The simulations behind the accuracy page.
#pragma once

#include <map>
#include <string>

#include "sim/accuracy/page_data.h"
#include "sim/simulate/simulation.h"

namespace zenflow::sim {

/// Simulates each case once.
class PageSimulation {
 public:
  /// Folders as in PageData.
  PageSimulation(std::filesystem::path scenarios, std::filesystem::path profiles)
      : scenarios_(std::move(scenarios)), profiles_(std::move(profiles)) {}

  /// In `unit`: "s", "ms", or none for ratios. Throws Error as loading and simulating do.
  [[nodiscard]] double value(const PageCase& simulated, PageMetric metric, const std::string& unit);
  [[nodiscard]] const SimulationResult& result(const PageCase& simulated,
                                               const std::string& schedule);
  /// What stands in a profile at a path: "36.7 GB/s". Throws Error(kInput) if nothing does.
  [[nodiscard]] std::string constant(const std::string& profile, const std::string& path) const;

 private:
  std::filesystem::path scenarios_;
  std::filesystem::path profiles_;
  std::map<std::string, SimulationResult> results_;
};

/// Relative errors of a row, as a table and a test count them.
[[nodiscard]] double relative_error(double predicted, double published);

}  // namespace zenflow::sim
