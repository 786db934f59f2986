/// Repeats experiments, round by round: what changes slowly on a machine (clocks, neighbours) then
/// shows in the spread of a figure, and not as a difference between figures.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/probe/statistics.h"

namespace zenflow::runtime {

/// One figure and how to get one repetition of it.
struct Experiment {
  std::string id;
  std::string unit;
  std::string what;
  std::function<double()> sample;  ///< value of one repetition, in `unit`
};

/// Experiments that share memory and threads, which exist between `prepare` and `release`.
class ExperimentGroup {
 public:
  virtual ~ExperimentGroup() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// The same list at any time; samples may be taken between `prepare` and `release`.
  [[nodiscard]] virtual std::vector<Experiment> experiments() = 0;
  virtual void prepare() = 0;
  virtual void release() = 0;
};
using ExperimentGroups = std::vector<std::unique_ptr<ExperimentGroup>>;

struct RunSettings {
  std::size_t rounds = 3;
  std::size_t least_repetitions = 4;  ///< a round, after one that is not counted
  /// A round. Many: what takes microseconds is then looked at for long enough to meet a neighbour.
  std::size_t most_repetitions = 1000;
  double seconds = 300;  ///< to be spent, shared equally; the least repetitions come first
};

struct RunEvents {
  std::function<double()> now;  ///< seconds, of a steady clock
  std::function<void(std::size_t done, std::size_t all)> progress{};
  std::function<bool()> stop{};  ///< asked between repetitions
};

/// Figures in the order of the experiments. Throws Error(kRuntime) if a sample is not a positive,
/// finite number, or if `stop` said so.
[[nodiscard]] std::vector<Figure> run_experiments(const ExperimentGroups& groups,
                                                  const RunSettings& settings,
                                                  const RunEvents& events);

}  // namespace zenflow::runtime
