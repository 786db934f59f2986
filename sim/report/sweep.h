/// Every combination of varied settings, simulated.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/simulate/simulation.h"

namespace zenflow::sim {

/// One varied key and its values, as YAML text.
struct Variation {
  std::string key;   ///< as the user wrote it
  std::string path;  ///< in full
  std::vector<std::string> values;
};

/// "topk_ratio=0.05,0.1" or "update_interval=1:16:1" (both ends included).
/// Throws Error(kInput) for a range without steps, of more than a million values or with a
/// step that never reaches its end; for an empty value; for a missing key.
[[nodiscard]] Variation parse_variation(const std::string& text);

/// The number of combinations. Throws Error(kInput) beyond ten million, or if a key is varied
/// twice.
[[nodiscard]] std::size_t combinations(const std::vector<Variation>& variations);
/// Combination `index`; the last key varies fastest.
[[nodiscard]] std::vector<Override> combination(const std::vector<Variation>& variations,
                                                std::size_t index);

/// Simulates points of a sweep. Schedules without ZenFlow's knobs are simulated once for all
/// points that differ only in those knobs; each result is that of a run of its own.
class Sweeper {
 public:
  using Reader = std::function<Job(const std::vector<Override>&)>;
  explicit Sweeper(Reader read) : read_(std::move(read)) {}

  struct Point {
    Job job;
    std::vector<SimulationResult> results;
  };
  /// `schedules`: names; empty for those of the scenario.
  [[nodiscard]] Point simulate(const std::vector<Override>& settings,
                               const std::vector<std::string>& schedules);

 private:
  Reader read_;
  std::map<std::string, SimulationResult> known_;  ///< by schedule and settings that matter to it
};

}  // namespace zenflow::sim
