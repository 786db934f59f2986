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
  figures[Metric::kDeviceMemory] = engine_peak(prediction.run, MemoryPlace::kGpu);
  figures[Metric::kHostMemory] = engine_peak(prediction.run, MemoryPlace::kHost);
  return prediction;
}

}  // namespace zenflow::sim
