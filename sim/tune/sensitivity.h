/// How much the answer depends on each knob and on each uncertain number of the profile.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/tune/search.h"

namespace zenflow::sim {

/// The chosen setting with one knob at another value.
struct KnobValue {
  double value = 0;
  std::string refusal;  ///< nobody would run it; then there is no evaluation
  std::optional<Evaluation> evaluation;
};
struct KnobEffect {
  Knob knob;
  std::vector<KnobValue> values;  ///< all of the space, the chosen one among them
};
/// Knobs with several values that have an effect on the chosen setting; what the search has
/// simulated is not simulated again.
[[nodiscard]] std::vector<KnobEffect> knob_effects(Candidates& candidates,
                                                   const SearchResult& result,
                                                   const SearchOptions& options);

/// Relative standard errors of the profile's numbers, by path ("host.adam_bandwidth"); `other`: of
/// those without one.
struct Uncertainty {
  std::map<std::string, double> relative;
  double other = 0.1;
};
/// Paths of the numbers of a profile that may be uncertain, in order; of equal switches one stands
/// for all: "host_link.switches.h2d", "host_link.switches[0,2].h2d".
[[nodiscard]] std::vector<std::string> uncertain_numbers(const HardwareProfile& profile);
/// Such a number, or what is below it, in a profile as it is written; null if it is not there.
[[nodiscard]] const Node* find_number(const Node& profile, std::string_view path);

struct NumberEffect {
  std::string path;
  double relative_error = 0;
  bool measured = false;  ///< the error was given; else it is `Uncertainty::other`
  double elasticity =
      0;  ///< relative change of the chosen step time by relative change of the number
};
struct RunnerUp {
  std::size_t which = 0;  ///< into SearchResult::simulated
  double difference = 0;  ///< of cost, relative: runner-up less chosen
  double error = 0;       ///< standard error of that, relative, from those of the numbers
  double chance = 0;      ///< that the runner-up is really better
};
struct NumberEffects {
  std::vector<NumberEffect> numbers;  ///< largest contribution to the error first
  /// Relative standard error of the chosen step time: the root of the sum of squares of elasticity
  /// times relative_error.
  double error = 0;
  /// Standard error of the speed-up over the user's own setting, relative; 0 without such a
  /// setting.
  double gain_error = 0;
  std::vector<RunnerUp> runners_up;
};
/// To first order, by central differences of one standard error; errors are taken to be
/// independent. Runners-up: `result.top` without the chosen setting.
[[nodiscard]] NumberEffects number_effects(const Candidates& candidates, const SearchResult& result,
                                           const Uncertainty& uncertainty,
                                           const SearchOptions& options);

}  // namespace zenflow::sim
