#include "sim/simulate/memory_course.h"

#include <cmath>

#include "sim/simulate/timed_changes.h"

namespace zenflow::sim {
namespace {

constexpr std::uint32_t kLeftOut = ~std::uint32_t{0};

std::optional<double> capacity_of(const LimitCheck& check) {
  if (!check.capacity || !std::isfinite(*check.capacity)) return std::nullopt;
  return check.capacity;
}

MemoryLimit limit_of(MemoryPlace place) {
  switch (place) {
    case MemoryPlace::kGpu:
      return MemoryLimit::kGpu;
    case MemoryPlace::kHost:
      return MemoryLimit::kHost;
    case MemoryPlace::kNvme:
      return MemoryLimit::kNvme;
  }
  return MemoryLimit::kGpu;
}

/// Place in the course of each of the program's buffers; kLeftOut: it is elsewhere, or PyTorch's.
std::vector<std::uint32_t> add_buffers(const Program& program, const std::vector<bool>& changes,
                                       MemoryCourse& course) {
  std::vector<std::uint32_t> places(program.buffers.size(), kLeftOut);
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const MemoryBuffer& buffer = program.buffers[i];
    if (place_of(buffer.home) != course.place) continue;
    if (buffer.of_framework) {
      course.framework += buffer.resident;
      continue;
    }
    if (buffer.resident == 0 && !changes[i]) continue;
    places[i] = static_cast<std::uint32_t>(course.buffers.size());
    course.buffers.push_back(buffer);
  }
  return places;
}

MemoryCourse course_of(const FullRun& run, const MemoryReport& report, MemoryPlace place) {
  MemoryCourse course{.place = place, .capacity = capacity_of(report.limit(limit_of(place)))};
  const std::vector<TimedChange> changes = changes_in_time(run.program, run.execution, place);
  std::vector<bool> is_changed(run.program.buffers.size(), false);
  for (const TimedChange& one : changes) {
    is_changed[run.program.memory[one.index].buffer] = true;
  }
  const std::vector<std::uint32_t> places = add_buffers(run.program, is_changed, course);
  for (const TimedChange& one : changes) {
    const MemoryChange& change = run.program.memory[one.index];
    if (places[change.buffer] == kLeftOut) continue;
    course.changes.push_back({one.time(), places[change.buffer], change.bytes});
  }
  return course;
}

}  // namespace

std::vector<MemoryCourse> memory_courses(const FullRun& run, const MemoryReport& report) {
  std::vector<MemoryCourse> courses;
  for (const MemoryPlace place : {MemoryPlace::kGpu, MemoryPlace::kHost, MemoryPlace::kNvme}) {
    MemoryCourse course = course_of(run, report, place);
    if (!course.buffers.empty()) courses.push_back(std::move(course));
  }
  return courses;
}

}  // namespace zenflow::sim
