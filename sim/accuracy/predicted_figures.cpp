#include "sim/accuracy/predicted_figures.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

constexpr double kMilliseconds = 1e-9;  // a picosecond

/// Adds the times of the first rank class's operations; lanes that all ranks share count too.
void add_phases(const Prediction& prediction, StepFigures& figures) {
  const Program& program = prediction.run.program;
  const WindowShape& first = program.shapes[prediction.run.measured_begin];
  const WindowShape& last = program.shapes[prediction.run.measured_end - 1];
  const std::int64_t end = last.first_step + last.steps;
  const auto steps = static_cast<double>(end - first.first_step);
  for (const Metric metric : all_metrics()) {
    if (group_of(metric) == MetricGroup::kPhase) figures[metric] = 0;
  }
  const auto tasks = program.graph.tasks();
  for (TaskId id = 0; id < tasks.size(); ++id) {
    const TaskLabel& label = program.labels[id];
    if (label.step < first.first_step || label.step >= end) continue;
    if (program.lanes[tasks[id].lane].rank_class > 0) continue;
    const auto metric = phase_of(label.operation);
    if (!metric) continue;
    const Span& span = prediction.run.execution.spans[id];
    *figures[*metric] += to_milliseconds(span.end - span.start) / steps;
  }
}

/// Forward is over when the GPU begins with backward, backward when the GPU ends it: what holds the
/// GPU up in between holds the thread that waits for it.
void add_timers(const Prediction& prediction, StepFigures& figures) {
  const Program& program = prediction.run.program;
  const std::vector<Span>& spans = prediction.run.execution.spans;
  const WindowShape& first = program.shapes[prediction.run.measured_begin];
  const WindowShape& last = program.shapes[prediction.run.measured_end - 1];
  const auto begin = static_cast<std::size_t>(first.first_step);
  const auto end = static_cast<std::size_t>(last.first_step + last.steps);
  const auto tasks = program.graph.tasks();
  const LaneId first_rank = tasks[program.step_markers[0]].lane;
  std::vector<std::optional<Span>> backward(end);
  for (TaskId id = 0; id < spans.size(); ++id) {
    const TaskLabel& label = program.labels[id];
    if (label.operation != Operation::kBackward || tasks[id].lane != first_rank) continue;
    const auto step = static_cast<std::size_t>(label.step);
    if (step < begin || step >= end) continue;
    std::optional<Span>& one = backward[step];
    if (!one) one = spans[id];
    one->start = std::min(one->start, spans[id].start);
    one->end = std::max(one->end, spans[id].end);
  }
  const auto start_of = [&](std::size_t step) {
    return step < program.step_markers.size() ? spans[program.step_markers[step]].start
                                              : prediction.run.execution.makespan;
  };
  double forward = 0;
  double back = 0;
  double rest = 0;
  for (std::size_t step = begin; step < end; ++step) {
    if (!backward[step]) return;  // a schedule without
    forward += to_milliseconds(backward[step]->start - start_of(step));
    back += to_milliseconds(backward[step]->end - backward[step]->start);
    rest += to_milliseconds(start_of(step + 1) - backward[step]->end);
  }
  const auto steps = static_cast<double>(end - begin);
  figures[Metric::kTimerForward] = forward / steps;
  figures[Metric::kTimerBackward] = back / steps;
  figures[Metric::kTimerStep] = rest / steps;
}

/// Most that is held at once of what an offload engine allocates.
double engine_peak(const FullRun& run, MemoryPlace place) {
  double peak = 0;
  for (const MemorySample& sample : memory_timeline(run.program, run.execution, place)) {
    double held = 0;
    for (std::size_t i = 0; i < kMemoryCategories; ++i) {
      const auto category = static_cast<MemoryCategory>(i);
      const bool is_of_the_model = category == MemoryCategory::kActivations ||
                                   category == MemoryCategory::kLogits ||
                                   category == MemoryCategory::kContext;
      if (!is_of_the_model) held += sample.by_category[i];
    }
    peak = std::max(peak, held);
  }
  return peak;
}

}  // namespace

StepFigures figures_of(const SimulationResult& result) {
  StepFigures figures;
  figures[Metric::kStep] = kMilliseconds * result.step_time;
  figures[Metric::kCompute] = kMilliseconds * result.compute;
  figures[Metric::kStall] = kMilliseconds * result.stall;
  for (std::size_t i = 0; i < kStallCauses; ++i) {
    figures[stall_by(static_cast<WaitCause>(i))] = kMilliseconds * result.stall_by_cause.at(i);
  }
  figures[Metric::kD2HBytes] = result.d2h_bytes;
  figures[Metric::kH2DBytes] = result.h2d_bytes;
  for (const double step : result.step_times) figures.step_times.push_back(kMilliseconds * step);
  return figures;
}

Prediction predict(const Job& job, const Schedule& schedule) {
  const SimulationResult result = simulate_schedule(job, schedule);
  const Job settled =
      result.update_interval_is_auto ? with_update_interval(job, *result.update_interval) : job;
  Prediction prediction{figures_of(result), simulate_fully(settled, schedule), settled};
  StepFigures& figures = prediction.figures;
  add_phases(prediction, figures);
  add_timers(prediction, figures);
  figures[Metric::kDeviceMemory] = engine_peak(prediction.run, MemoryPlace::kGpu);
  figures[Metric::kHostMemory] = engine_peak(prediction.run, MemoryPlace::kHost);
  return prediction;
}

}  // namespace zenflow::sim
