/// Simulates one schedule of a job and averages what it did: the numbers of a result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/schedule/schedule.h"
#include "sim/simulate/memory_report.h"
#include "sim/simulate/metrics.h"

namespace zenflow::sim {

/// All per step, averaged over a whole number of update windows after warm-up. Times in
/// picoseconds, bytes in bytes.
struct SimulationResult {
  std::string schedule;
  std::optional<std::string> deepspeed_version;  ///< of schedules that describe DeepSpeed
  std::optional<std::string> target;             ///< likewise
  std::optional<double> topk_ratio;
  std::optional<std::int64_t> update_interval;
  bool update_interval_is_auto = false;
  bool stall_removed = true;  ///< false: "auto" found no interval within max_staleness that does
  double step_time = 0;
  /// Micro steps of an optimizer step, which is what launchers count as a step: 1 without gradient
  /// accumulation.
  std::int64_t micro_steps = 1;
  double micro_step_time = 0;      ///< mean
  double optimizer_step_time = 0;  ///< of all micro steps and the update
  std::vector<double> step_times;  ///< of the steps of a window
  /// Whether the step ends a window, for each of step_times: then optimizer and upload follow.
  std::vector<bool> is_boundary;
  double compute = 0;
  double stall = 0;
  StallTimes stall_by_cause{};
  double d2h_bytes = 0;  ///< over one GPU's host link
  double h2d_bytes = 0;
  RankBytes between_ranks{};  ///< in a step
  std::int64_t ranks = 1;
  double model_sizes = 0;  ///< both directions, all GPUs, over the bf16 model
  double tokens_per_second = 0;
  double mfu = 0;
  Staleness staleness;
  MemoryReport memory;
  double critical_path = 0;
  std::int64_t tasks = 0;  ///< in a step
  std::int64_t measured_windows = 0;
  std::int64_t simulated_windows = 0;  ///< the others repeat them
  std::int64_t simulated_steps = 0;    ///< of these windows
};

/// A whole run with every window simulated: for traces, graphs and explanations.
struct FullRun {
  Program program;
  Execution execution;
  std::size_t measured_begin = 0;  ///< windows averaged
  std::size_t measured_end = 0;
};

enum class SimulationDetail : std::uint8_t {
  kAll,
  /// critical_path is 0, and steps that repeat within a window are not simulated again: faster
  /// where windows are long. Sums over a window may differ in their last bits.
  kNoCriticalPath,
};

/// `update_interval: auto` becomes the smallest interval, within scenario.max_staleness, at
/// which the GPU does not wait for the CPU update (at most 0.5 % of the step). Throws
/// Error(kInput) if the schedule lacks what it needs.
[[nodiscard]] SimulationResult simulate_schedule(const Job& job, const Schedule& schedule,
                                                 SimulationDetail detail = SimulationDetail::kAll);

/// The step_time of `simulate_schedule` and nothing else: faster.
[[nodiscard]] double simulate_step_time(const Job& job, const Schedule& schedule);

/// The memory of `simulate_schedule` and nothing else: faster.
[[nodiscard]] MemoryReport simulate_memory(const Job& job, const Schedule& schedule);

/// The job with "auto" replaced by the interval that `simulate_schedule` uses.
[[nodiscard]] Job with_update_interval(const Job& job, std::int64_t interval);

/// Every window of the run as configured. Precondition: update_interval is a number.
[[nodiscard]] FullRun simulate_fully(const Job& job, const Schedule& schedule);

/// What the machine's background gets in the windows that are averaged: of a host device, the cores
/// that other programs use.
[[nodiscard]] BytesPerSecond background_rate(const FullRun& run);

}  // namespace zenflow::sim
