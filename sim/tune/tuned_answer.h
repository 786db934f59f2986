/// The answer of a search: the chosen setting's DeepSpeed file, its command, and what it gains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/deepspeed/lint.h"
#include "sim/tune/base_text.h"
#include "sim/tune/request_reader.h"
#include "sim/tune/search.h"
#include "sim/tune/sensitivity.h"
#include "sim/tune/tuned_config.h"
#include "sim/tune/unsearched_changes.h"

namespace zenflow::sim {

struct TuneAnswer {
  const LoadedRequest& loaded;
  const Candidates& candidates;
  SearchResult result;
  std::vector<KnobEffect> knobs{};
  NumberEffects numbers{};
  TunedConfig config{};             ///< of the chosen setting
  EditedText text{};                ///< ds_config_optimal.json
  std::vector<Edit> changes{};      ///< that make it of the file as it was, --set included
  std::vector<Finding> findings{};  ///< warnings and notes of that file
  UnsearchedChanges unsearched{};   ///< what else would help the own setting's memory

  [[nodiscard]] const Simulated& chosen() const { return result.simulated[*result.chosen]; }
};

/// Fills in configuration, text, changes and findings of the chosen setting. Throws Error(kRuntime)
/// if what would be written is not what was chosen.
void write_config(TuneAnswer& answer);
/// What launches `script` on DeepSpeed with ds_config_optimal.json, one line for a POSIX shell.
[[nodiscard]] std::string launch_command(const TuneAnswer& answer, const std::string& script);

/// So many times as long as was measured, or as short, the model's step of the own setting is that
/// of another job: nothing is to be scaled by that. Both in one unit.
[[nodiscard]] bool is_of_another_job(double modelled, double measured);
/// How far the model is from the measured step of the own setting, relative: the longer of both
/// over the shorter, less 1. Empty: nothing was measured, or that setting is not simulated.
[[nodiscard]] std::optional<double> missed_share(const TuneAnswer& answer);
/// Whether something was measured that is_of_another_job.
[[nodiscard]] bool is_unreliable(const TuneAnswer& answer);
/// Standard errors of the chosen step time and of the gain, relative: from those of the profile's
/// numbers, and no less than what the model is known to miss.
[[nodiscard]] double step_error(const TuneAnswer& answer);
[[nodiscard]] double gain_error(const TuneAnswer& answer);

/// What is missed by less is not looked into.
inline constexpr double kMissWorthSaying = 0.05;
/// The part of the own setting's step that explains a miss with the least change of itself.
struct LikelyMiss {
  std::string part;  ///< "the GPU computes", "waits for cpu_update"
  double predicted = 0;
  double needed = 0;  ///< with all else as predicted; both in picoseconds of a step
};
/// Empty where nothing or little is missed, or where no part alone can be off by so much.
[[nodiscard]] std::optional<LikelyMiss> likely_miss(const TuneAnswer& answer);

/// The chosen step time if the model misses as much of it as of the measured own; empty: nothing
/// was measured, or the own setting is not simulated. Picoseconds.
[[nodiscard]] std::optional<double> scaled_step(const TuneAnswer& answer);
/// In the currency of --price. Precondition: the objective is the cost.
[[nodiscard]] double cost_per_million_tokens(const TuneAnswer& answer, const Setting& setting,
                                             const Evaluation& one);
/// How many of the simulated settings; SearchCounts has those that they stand for as well.
[[nodiscard]] std::uint64_t simulated_infeasible(const SearchResult& result);
/// Whether only the rule that a job which fits is not offloaded speaks against `best`. That rule is
/// of a number of GPUs; with another one it was the reason if the slack alone would have chosen it.
[[nodiscard]] bool offloads_in_vain(const TuneAnswer& answer, const Simulated& best);
/// describe() of each, with gpus and accumulation where the search goes through several; where that
/// says the same of some, also the knobs in which these differ.
[[nodiscard]] std::vector<std::string> setting_names(const TuneRequest& request,
                                                     const std::vector<Setting>& settings);

}  // namespace zenflow::sim
