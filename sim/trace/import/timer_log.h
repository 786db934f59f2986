/// DeepSpeed's wall_clock_breakdown: the durations in its log lines.
///
///   [2024-11-21 02:14:39,317] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 710.61 |
///   bwd: ...
///
/// Records are found anywhere in a line (progress bars put them behind a carriage return and escape
/// sequences). Megatron's "elapsed time per iteration (ms): ..." is a step's duration; its own
/// timers it lists over several lines (rank_timers.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::sim {

/// NaN if there is none.
[[nodiscard]] double mean(const std::vector<double>& values);

/// What else a log says was done since the record before: a time may hold that.
struct Besides {
  bool evaluates = false;
  bool saves = false;
  bool skips = false;  ///< an update, as fp16's gradients overflowed
};

/// All values of one name, in milliseconds, in the order of the log.
struct TimerSeries {
  std::string name;
  std::vector<double> values;
  std::vector<Besides> besides{};  ///< of each of them

  [[nodiscard]] double sum() const;
  /// NaN if there is none.
  [[nodiscard]] double mean() const { return sim::mean(values); }
};

/// "world_size ....... 4".
inline constexpr std::array<std::string_view, 7> kPrintedSettings = {
    "world_size",       "data_parallel_size", "seq_length",
    "micro_batch_size", "train_batch_size",   "train_micro_batch_size_per_gpu",
    "global_batch_size"};

/// What a log prints of memory and of recomputing.
struct PrintedMachine {
  /// Bytes of the node's RAM, from the share of it that DeepSpeed's see_memory_usage says is used,
  /// where that is largest; 0: not said. Known as well as a share of 0.1 % steps tells.
  double host_memory = 0;
  double used_percent = 0;
  /// Bytes of /dev/shm, from DeepSpeed's report of the environment; 0: not said.
  double shared_memory = 0;
  /// Whether activations are recomputed, and the setting that says so.
  std::optional<bool> checkpoints_activations{};
  std::string checkpointing_setting{};

  /// What of it the line says.
  void take(std::string_view line);
};

/// What Megatron says of a timer on all ranks, in milliseconds, in the order of the log.
struct RankTimerSeries {
  std::string name;
  std::vector<double> shortest;  ///< of the lists that have it
  std::vector<double> longest;
};

/// Whether a line says that the model is evaluated, or saved, or an update skipped; settings,
/// "eval_interval .... 100", do not.
[[nodiscard]] Besides said_besides(std::string_view line);

/// The steps of a log that are like each other: without the first, which allocates and compiles,
/// and those with an evaluation or with saving or without an update, as long as any other is there;
/// else without the first alone. DeepSpeed's timers
/// of phases hold no saving, and evaluations only in the next step's forward; where none is spoken
/// of, one half as long again as most, also beside its backward, shows it.
struct UsualSteps {
  std::vector<double> usual;       ///< milliseconds
  std::vector<double> first;       ///< none or one
  std::vector<double> evaluating;  ///< maybe saving, too
  std::vector<double> saving;
  std::vector<double> skipping{};
  std::vector<double> long_forward{};
  std::size_t micro_steps = 1;  ///< of each; 0: the log has timers of micro steps alone

  /// "19 steps, without the first (1634.0) and 2 with an evaluation (mean 2000.0)"
  [[nodiscard]] std::string text() const;
};

/// A step's phases, in milliseconds.
struct SummedStep {
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  bool evaluates = false;  ///< the log says so
  bool skips = false;      ///< the same

  [[nodiscard]] double sum() const { return forward + backward + optimizer; }
};

struct TimerLog {
  std::vector<TimerSeries> timers;            ///< in order of first appearance, names as written
  std::vector<RankTimerSeries> across_ranks;  ///< the same
  TimerSeries iterations;                     ///< "elapsed time per iteration (ms)"
  /// Whole numbers among the settings that DeepSpeed and Megatron print when they begin, of those
  /// in kPrintedSettings; the first of each.
  std::map<std::string, std::int64_t, std::less<>> printed{};
  PrintedMachine machine{};
  std::uint64_t records = 0;            ///< "time (ms)" lists
  std::uint64_t not_at_line_start = 0;  ///< records behind other output on their line
  /// Means by phase under the names of every DeepSpeed version, else of the slowest rank. NaN: not
  /// in the log.
  double forward_ms;
  double backward_ms;
  double optimizer_ms;  ///< the engine's step: "step", or "step_microstep"
  double step_ms;       ///< mean of iterations, else the sum of the three

  [[nodiscard]] const TimerSeries* find(const std::string& name) const;
  /// Of iterations, else of the sums of the three phases.
  [[nodiscard]] UsualSteps usual_steps() const;
  std::vector<SummedStep> summed_steps{};  ///< of each step that has all three phases
  /// How many micro steps each of those sums up, by the numbers of timers of either: under
  /// ZenFlow an update interval of them. 0: those are of micro steps, 1: nothing says so.
  std::size_t summed_micro_steps = 1;
};

}  // namespace zenflow::sim
