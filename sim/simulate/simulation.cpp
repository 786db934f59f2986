#include "sim/simulate/simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/stop.h"
#include "sim/cost/gpu_cost.h"
#include "sim/engine/background_use.h"
#include "sim/graph/algorithms.h"
#include "sim/simulate/shortened_run.h"

namespace zenflow::sim {
namespace {

/// The windows of a whole run and which of them are averaged.
struct RunPlan {
  std::vector<WindowShape> windows;  ///< the last only closes the one before
  std::size_t measured_begin = 0;
  std::size_t measured_end = 0;
};

RunPlan plan_run(const Job& job, const Schedule& schedule) {
  const RunSettings& run = job.scenario.run;
  // The windows start and last as the schedule says; ask for more until enough are there.
  RunPlan plan;
  for (std::int64_t steps = run.warmup_steps + run.steps;; steps *= 2) {
    throw_if_stopped();
    plan.windows = schedule.windows(job, steps);
    plan.measured_begin = 0;
    while (plan.measured_begin < plan.windows.size() &&
           (plan.windows[plan.measured_begin].full_update ||
            plan.windows[plan.measured_begin].age < plan.windows[plan.measured_begin].settled_age ||
            plan.windows[plan.measured_begin].first_step < run.warmup_steps)) {
      ++plan.measured_begin;
    }
    if (plan.measured_begin >= plan.windows.size()) continue;
    // As many windows as end within run.steps, but at least one.
    std::int64_t left = run.steps;
    plan.measured_end = plan.measured_begin;
    while (plan.measured_end < plan.windows.size() &&
           (plan.measured_end == plan.measured_begin ||
            plan.windows[plan.measured_end].steps <= left)) {
      left -= plan.windows[plan.measured_end++].steps;
    }
    if (plan.measured_end < plan.windows.size()) break;
  }
  plan.windows.resize(plan.measured_end + 1);
  return plan;
}

bool equally_long(const RunPlan& plan) {
  return std::all_of(plan.windows.begin() + static_cast<std::ptrdiff_t>(plan.measured_begin),
                     plan.windows.begin() + static_cast<std::ptrdiff_t>(plan.measured_end),
                     [&](const WindowShape& shape) {
                       return shape.steps == plan.windows[plan.measured_begin].steps;
                     });
}

/// Mean time of each step of a window; of windows of unequal length, the time of every step.
std::vector<double> mean_step_times(const RunPlan& plan, const ShortenedRun& shortened,
                                    const std::vector<WindowMetrics>& metrics) {
  std::vector<double> times;
  const bool folds = equally_long(plan);
  const auto count = static_cast<double>(plan.measured_end - plan.measured_begin);
  for (std::size_t i = plan.measured_begin; i < plan.measured_end; ++i) {
    const std::vector<double>& window = metrics[shortened.shown_by[i]].step_times;
    if (!folds || times.empty()) times.resize(times.size() + window.size());
    for (std::size_t step = 0; step < window.size(); ++step) {
      times[times.size() - window.size() + step] += window[step] / (folds ? count : 1);
    }
  }
  return times;
}

double mean(const std::vector<double>& times) {
  double sum = 0;
  for (const double time : times) sum += time / static_cast<double>(times.size());
  return sum;
}

/// For the steps of mean_step_times.
std::vector<bool> step_boundaries(const RunPlan& plan, std::size_t steps) {
  std::vector<bool> ends(steps, false);
  std::size_t end = 0;
  for (std::size_t i = plan.measured_begin; i < plan.measured_end && end < steps; ++i) {
    end += static_cast<std::size_t>(plan.windows[i].steps);
    ends[end - 1] = true;
  }
  return ends;
}

/// Windows in the order of the long run, so that sums are those of a full simulation.
SimulationResult average(const Job& job, const RunPlan& plan, const ShortenedRun& shortened,
                         const std::vector<WindowMetrics>& metrics) {
  SimulationResult result;
  double steps = 0;
  for (std::size_t i = plan.measured_begin; i < plan.measured_end; ++i) {
    const WindowMetrics& window = metrics[shortened.shown_by[i]];
    steps += plan.windows[i].steps;
    result.compute += window.compute;
    for (std::size_t cause = 0; cause < kStallCauses; ++cause) {
      result.stall_by_cause[cause] += window.stall[cause];
    }
    result.d2h_bytes += window.d2h_bytes;
    result.h2d_bytes += window.h2d_bytes;
    result.between_ranks += window.between_ranks;
  }
  result.step_times = mean_step_times(plan, shortened, metrics);
  result.is_boundary = step_boundaries(plan, result.step_times.size());
  result.step_time = mean(result.step_times);
  result.compute /= steps;
  for (double& stall : result.stall_by_cause) {
    stall /= steps;
    result.stall += stall;
  }
  result.d2h_bytes /= steps;
  result.h2d_bytes /= steps;
  for (double* bytes : {&result.between_ranks.gradients, &result.between_ranks.weights,
                        &result.between_ranks.control, &result.between_ranks.selection}) {
    *bytes /= steps;
  }
  result.measured_windows = static_cast<std::int64_t>(plan.measured_end - plan.measured_begin);
  result.ranks = job.scenario.ranks();
  const auto ranks = static_cast<double>(result.ranks);
  // In 16-bit model sizes whatever the training type, so that scenarios compare.
  const double model_bytes = 2 * static_cast<double>(job.scenario.model.parameters());
  result.model_sizes = ranks * (result.d2h_bytes + result.h2d_bytes) / model_bytes;
  return result;
}

void add_rates(const Job& job, const Schedule& schedule, SimulationResult& result) {
  const double seconds =
      result.step_time * 1e-12 / static_cast<double>(schedule.micro_batches_per_step(job));
  const auto ranks = static_cast<double>(job.scenario.ranks());
  const TrainingSettings& training = job.scenario.training;
  result.tokens_per_second = ranks * static_cast<double>(training.tokens()) / seconds;
  result.mfu = model_flops(job.scenario.model, training).value() / seconds /
               job.scenario.hardware.gpu.peak.at(training.dtype).value();
}

/// ZenFlow's windows take the place of gradient accumulation, unless the launcher sets boundaries.
void add_optimizer_step(const Job& job, const Schedule& schedule, SimulationResult& result) {
  const std::int64_t batches = schedule.micro_batches_per_step(job);
  const bool own_windows = schedule.zenflow(job).has_value() &&
                           !(schedule.runs_deepspeed() && job.target != LaunchTarget::kDeepSpeed);
  if (batches > 1) {
    result.micro_steps = batches;
    result.micro_step_time = result.step_time / static_cast<double>(batches);
    result.optimizer_step_time = result.step_time;
    return;
  }
  result.micro_steps = own_windows ? 1 : job.deepspeed.gradient_accumulation_steps;
  result.micro_step_time = result.step_time;
  result.optimizer_step_time = static_cast<double>(result.micro_steps) * result.step_time;
}

/// Longest dependency chain from a window's start to the next one's, averaged over the run: what a
/// step would take with unlimited lanes and links. A window cannot be shorter than its chain.
double critical_path_per_step(const RunPlan& plan, const ShortenedRun& shortened,
                              const Program& program) {
  std::vector<double> of_window(program.windows.size(), -1);
  double total = 0;
  double steps = 0;
  for (std::size_t i = plan.measured_begin; i < plan.measured_end; ++i) {
    const std::size_t shown = shortened.shown_by[i];
    if (of_window[shown] < 0) {
      const CriticalPath path = critical_path(program.graph, program.windows[shown].marker,
                                              program.windows[shown + 1].marker);
      of_window[shown] = static_cast<double>(path.length.count);
    }
    total += of_window[shown];
    steps += plan.windows[i].steps;
  }
  return total / steps;
}

/// A run, shortened, in which all that has to repeat does.
struct Ran {
  RunPlan plan;
  ShortenedRun shortened;
  Program program;
  Execution execution;
};

Ran run_shortened(const Job& job, const Schedule& schedule, Kept kept) {
  RunPlan plan = plan_run(job, schedule);
  for (;;) {
    ShortenedRun shortened = shorten(plan.windows, kept);
    Program program = schedule.build(job, shortened.windows);
    auto [execution, repeats] = simulate_shortened(program, shortened);
    if (repeats) {
      return {std::move(plan), std::move(shortened), std::move(program), std::move(execution)};
    }
    // Twice as many windows, if these were whole.
    if (kept.steps == 0) kept.windows *= 2;
    kept.steps = 0;
  }
}

/// Steps kept of those between a window's first and last, at first; all if they do not repeat.
/// Until ZenFlow's worker is done each begins in a state of its own.
Kept fewest(const Job& job, const Schedule& schedule) {
  const auto knobs = schedule.zenflow(job);
  return {.steps = knobs && knobs->overlap_step ? 4U : 2U};
}

SimulationResult simulate_interval(const Job& job, const Schedule& schedule,
                                   SimulationDetail detail) {
  // A chain through a window is longer than one through a shorter window that shows it.
  const bool whole = detail == SimulationDetail::kAll;
  const Ran ran = run_shortened(job, schedule, whole ? Kept{} : fewest(job, schedule));
  const auto& [plan, shortened, program, execution] = ran;
  SimulationResult result =
      average(job, plan, shortened, shown_metrics(program, execution, shortened));
  result.schedule = schedule.name();
  if (schedule.runs_deepspeed()) {
    result.deepspeed_version = to_string(job.version);
    result.target = to_string(job.target);
  }
  if (const auto knobs = schedule.zenflow(job)) {
    result.topk_ratio = knobs->topk_ratio;
    result.update_interval = knobs->update_interval;
  }
  add_rates(job, schedule, result);
  add_optimizer_step(job, schedule, result);
  result.staleness = schedule.closed_form(job).staleness_steps;
  result.memory = memory_report(job, program, execution);
  if (whole) result.critical_path = critical_path_per_step(plan, shortened, program);
  const std::size_t begin = shortened.shown_by[plan.measured_begin];
  const TaskId measured_tasks = program.windows[begin + 1].first - program.windows[begin].first;
  result.tasks = std::int64_t{measured_tasks} / program.shapes[begin].steps;
  result.simulated_windows = static_cast<std::int64_t>(shortened.windows.size());
  for (const WindowShape& one : shortened.windows) result.simulated_steps += one.steps;
  return result;
}

bool needs_interval(const Job& job, const Schedule& schedule) {
  const auto knobs = schedule.zenflow(job);
  return knobs && !knobs->update_interval;
}

SimulationResult simulate_automatic(const Job& job, const Schedule& schedule,
                                    SimulationDetail detail) {
  constexpr double kNegligible = 0.005;
  SimulationResult result;
  for (std::int64_t interval = 1;; ++interval) {
    const Job tried = with_update_interval(job, interval);
    if (schedule.closed_form(tried).staleness_steps.max > job.scenario.max_staleness) break;
    result = simulate_interval(tried, schedule, detail);
    const double waits = result.stall_by_cause[static_cast<std::size_t>(WaitCause::kCpuUpdate)];
    result.stall_removed = waits <= kNegligible * result.step_time;
    if (result.stall_removed) break;
  }
  result.update_interval_is_auto = true;
  return result;
}

}  // namespace

Job with_update_interval(const Job& job, std::int64_t interval) {
  Job changed = job;
  changed.deepspeed.zenflow->update_interval = interval;
  return changed;
}

SimulationResult simulate_schedule(const Job& job, const Schedule& schedule,
                                   SimulationDetail detail) {
  schedule.check(job);
  return needs_interval(job, schedule) ? simulate_automatic(job, schedule, detail)
                                       : simulate_interval(job, schedule, detail);
}

double simulate_step_time(const Job& job, const Schedule& schedule) {
  if (needs_interval(job, schedule)) return simulate_schedule(job, schedule).step_time;
  schedule.check(job);
  const auto [plan, shortened, program, execution] =
      run_shortened(job, schedule, fewest(job, schedule));
  return mean(mean_step_times(plan, shortened, shown_step_times(program, execution, shortened)));
}

MemoryReport simulate_memory(const Job& job, const Schedule& schedule) {
  if (needs_interval(job, schedule)) return simulate_schedule(job, schedule).memory;
  schedule.check(job);
  const Ran ran = run_shortened(job, schedule, Kept{});
  return memory_report(job, ran.program, ran.execution);
}

FullRun simulate_fully(const Job& job, const Schedule& schedule) {
  schedule.check(job);
  const RunPlan plan = plan_run(job, schedule);
  Program program = schedule.build(job, plan.windows);
  Execution execution = simulate_windows(program.graph, program.windows);
  return {std::move(program), std::move(execution), plan.measured_begin, plan.measured_end};
}

BytesPerSecond background_rate(const FullRun& run) {
  const auto start = [&](std::size_t window) {
    return run.execution.spans[run.program.windows[window].marker].start;
  };
  return background_rate(run.program.graph, run.execution.spans, start(run.measured_begin),
                         start(run.measured_end));
}

}  // namespace zenflow::sim
