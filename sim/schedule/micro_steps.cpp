#include "sim/schedule/micro_steps.h"

#include <algorithm>

#include "sim/schedule/deepspeed_step.h"

namespace zenflow::sim {
namespace {

std::int64_t last_step(const WindowShape& shape) {
  return shape.first_step + shape.steps - 1;
}

std::size_t window_of(const Program& program, TaskId task) {
  const auto after =
      std::upper_bound(program.windows.begin(), program.windows.end(), task,
                       [](TaskId id, const Window& window) { return id < window.first; });
  return static_cast<std::size_t>(after - program.windows.begin()) - 1;
}

/// For every window the boundary whose update it casts and sends up. `casts`: on the host; else it
/// sends up what the worker has written.
std::vector<std::optional<std::int64_t>> weights_sent(const Program& program, bool casts) {
  const Operation sender = casts ? Operation::kCpuCast : Operation::kH2D;
  std::vector<std::optional<std::int64_t>> sent(program.windows.size());
  for (TaskId task = 0; task < program.labels.size(); ++task) {
    if (program.labels[task].operation != sender) continue;
    for (const TaskId before : program.graph.predecessors(task)) {
      if (program.labels[before].operation != Operation::kCpuUpdate) continue;
      sent[window_of(program, task)] = last_step(program.shapes[window_of(program, before)]);
    }
  }
  return sent;
}

}  // namespace

std::vector<MicroStep> micro_steps(const Job& job, const Schedule& schedule, std::int64_t count) {
  schedule.check(job);
  const std::vector<WindowShape> shapes = schedule.windows(job, count);
  // Only overlapped ZenFlow has two gradient buffers, and only it may upload without a cast.
  const bool overlapped = schedule.gradient_buffer(job, 0).has_value();
  const auto sent =
      weights_sent(schedule.build(job, shapes), !overlapped || !zenflow_uploads_fp32(job));
  std::vector<MicroStep> steps;
  for (std::size_t w = 0; w < shapes.size(); ++w) {
    const WindowShape& shape = shapes[w];
    for (std::int32_t i = 0; i < shape.steps; ++i) {
      MicroStep step{.step = shape.first_step + i, .window = static_cast<std::int64_t>(w)};
      if (step.step == count) return steps;
      step.selects =
          std::find(shape.select_at.begin(), shape.select_at.end(), i) != shape.select_at.end();
      step.boundary = step.step == last_step(shape);
      step.full_update = step.boundary && shape.full_update;
      if (step.boundary) step.buffer = schedule.gradient_buffer(job, step.step);
      if (step.boundary) step.weights_of = sent[w];
      steps.push_back(step);
    }
  }
  return steps;
}

}  // namespace zenflow::sim
