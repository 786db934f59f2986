/// Trains under every setting of a scenario, fits to some of them and predicts the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/accuracy/setting_comparison.h"

namespace zenflow::runtime {

/// Besides, what trains here, each named as its flag is.
struct LiveComparisonFlags : sim::ComparisonFlags {
  std::string device = "cpu";
  std::filesystem::path data;  ///< empty: pseudo-random bytes
  std::vector<std::string> predict = {
      "gpu-only",      "zero-offload-dpu", "zenflow:0.05:2", "zenflow:0.05:4", "zenflow:0.1:1",
      "zenflow:0.1:2", "zenflow:0.1:8",    "zenflow:0.2:2",  "zenflow:0.2:4",  "zenflow:0.5:4"};
  std::string link_bandwidth;
  std::int64_t rounds = 3;
  std::int64_t most_rounds = 12;
  std::map<std::string, std::string> environment;  ///< in which a GPU's libraries are looked for
};

struct LiveComparisonEvents {
  std::function<bool()> stop;  ///< asked after every step
  /// Before each run; rounds count from 1.
  std::function<void(std::int64_t round, const std::string& setting)> run_begins;
};

/// `agreeing`: run_spread of a setting's runs up to which there are no more of them. `date`: of the
/// measurement. Throws Error; kDevice for a device that cannot train.
[[nodiscard]] sim::Comparison compare_live(const LiveComparisonFlags& flags, double agreeing,
                                           const LiveComparisonEvents& events,
                                           const std::string& date);

}  // namespace zenflow::runtime
