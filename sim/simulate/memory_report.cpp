#include "sim/simulate/memory_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace zenflow::sim {
namespace {

double resident(const Program& program, MemoryHome home) {
  double bytes = 0;
  for (const MemoryBuffer& buffer : program.buffers) {
    if (buffer.home == home) bytes += buffer.resident;
  }
  return bytes;
}

double of_framework(const Program& program) {
  double bytes = 0;
  for (const MemoryBuffer& buffer : program.buffers) {
    if (buffer.of_framework) bytes += buffer.resident;
  }
  return bytes;
}

double total(const MemorySample& sample) {
  return std::accumulate(sample.by_category.begin(), sample.by_category.end(), 0.0);
}

/// Highest total in [from, to); the sample in force at `from` counts.
double highest(const std::vector<MemorySample>& samples, Picoseconds from, Picoseconds to) {
  const auto after = std::upper_bound(
      samples.begin(), samples.end(), from,
      [](Picoseconds time, const MemorySample& sample) { return time < sample.time; });
  double peak = after == samples.begin() ? 0 : total(*(after - 1));
  for (auto sample = after; sample != samples.end() && sample->time < to; ++sample) {
    peak = std::max(peak, total(*sample));
  }
  return peak;
}

/// Where the parts of a step begin on the first class's compute lane, and where the step ends.
struct StepTimes {
  Picoseconds forward;
  Picoseconds backward;
  Picoseconds update;
  Picoseconds end;
};

StepTimes step_times(const Program& program, const Execution& execution, std::size_t step) {
  const TaskId begin = program.step_markers[step];
  const TaskId next = program.step_markers[step + 1];
  const LaneId lane = program.classes.front().compute.lane;
  StepTimes times{execution.spans[begin].start, {}, {}, execution.spans[next].start};
  bool backward = false;
  for (TaskId id = begin; id < next; ++id) {
    if (program.graph.tasks()[id].lane != lane) continue;
    if (program.labels[id].operation != Operation::kBackward) continue;
    if (!std::exchange(backward, true)) times.backward = execution.spans[id].start;
    times.update = execution.spans[id].end;
  }
  return times;
}

}  // namespace

std::vector<std::pair<std::string, std::int64_t>> used_categories(const MemoryReport& report,
                                                                  MemoryPlace place) {
  const bool host = place == MemoryPlace::kHost;
  const auto& bytes = host ? report.host.by_category : report.gpu.by_category;
  std::vector<std::pair<std::string, std::int64_t>> used;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    used.emplace_back(to_string(static_cast<MemoryCategory>(i)), std::llround(bytes[i]));
  }
  if (host) used.emplace_back("framework", std::llround(report.host_framework));
  std::erase_if(used, [](const auto& one) { return one.second == 0; });
  return used;
}

std::string to_string(MemoryLimit limit) {
  switch (limit) {
    case MemoryLimit::kGpu:
      return "gpu_memory";
    case MemoryLimit::kHost:
      return "host_memory";
    case MemoryLimit::kShared:
      return "shared_memory";
    case MemoryLimit::kLocked:
      return "locked_memory";
    case MemoryLimit::kNvme:
      return "nvme";
  }
  return "";
}

std::string describe(MemoryLimit limit) {
  switch (limit) {
    case MemoryLimit::kGpu:
      return "GPU memory";
    case MemoryLimit::kHost:
      return "RAM of the node";
    case MemoryLimit::kShared:
      return "/dev/shm of the node";
    case MemoryLimit::kLocked:
      return "locked by a process";
    case MemoryLimit::kNvme:
      return "NVMe of the node";
  }
  return "";
}

std::string to_string(StepPart part) {
  switch (part) {
    case StepPart::kForward:
      return "forward";
    case StepPart::kBackward:
      return "backward";
    case StepPart::kUpdate:
      return "update";
  }
  return "";
}

MemoryReport memory_report(const Job& job, const Program& program, const Execution& execution) {
  const HardwareProfile& hardware = job.scenario.hardware;
  MemoryReport report;
  report.gpu = memory_peak(program, execution, MemoryPlace::kGpu);
  report.host = memory_peak(program, execution, MemoryPlace::kHost);
  report.gpu_capacity = hardware.gpu.memory.value();
  report.host_capacity = hardware.host.memory.value();
  report.host_framework = of_framework(program);
  const auto set = [&](MemoryLimit limit, double need, std::optional<double> capacity) {
    report.limits[static_cast<std::size_t>(limit)] = {need, capacity};
  };
  set(MemoryLimit::kGpu, report.gpu.total, report.gpu_capacity);
  set(MemoryLimit::kHost, report.host.total + report.host_framework, report.host_capacity);
  set(MemoryLimit::kShared, resident(program, MemoryHome::kShared),
      hardware.host.shared_memory.value());
  std::optional<double> locked;
  if (hardware.host.locked_memory_limit) locked = hardware.host.locked_memory_limit->value();
  set(MemoryLimit::kLocked,
      resident(program, MemoryHome::kPinned) / static_cast<double>(job.scenario.gpus), locked);
  std::optional<double> nvme;
  if (hardware.nvme) nvme = hardware.nvme->capacity.value();
  set(MemoryLimit::kNvme, resident(program, MemoryHome::kNvme), nvme);
  report.fits = std::all_of(report.limits.begin(), report.limits.end(),
                            [](const LimitCheck& one) { return one.holds(); });
  return report;
}

std::vector<PartMemory> memory_by_part(const Program& program, const Execution& execution,
                                       std::size_t window) {
  const auto gpu = memory_timeline(program, execution, MemoryPlace::kGpu);
  const auto host = memory_timeline(program, execution, MemoryPlace::kHost);
  std::size_t first = 0;
  for (std::size_t i = 0; i < window; ++i) {
    first += static_cast<std::size_t>(program.shapes[i].steps);
  }
  std::vector<PartMemory> parts;
  for (std::int32_t step = 0; step < program.shapes[window].steps; ++step) {
    const StepTimes at = step_times(program, execution, first + static_cast<std::size_t>(step));
    const auto add = [&](StepPart part, Picoseconds from, Picoseconds to) {
      parts.push_back({step, part, to - from, highest(gpu, from, to), highest(host, from, to)});
    };
    add(StepPart::kForward, at.forward, at.backward);
    add(StepPart::kBackward, at.backward, at.update);
    add(StepPart::kUpdate, at.update, at.end);
  }
  return parts;
}

}  // namespace zenflow::sim
