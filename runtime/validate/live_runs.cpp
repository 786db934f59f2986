#include "runtime/validate/live_runs.h"

#include <algorithm>
#include <array>
#include <random>

#include "sim/base/output_file.h"

namespace zenflow::runtime {
namespace {

constexpr double kMilliseconds = 1e3;
constexpr std::int64_t kRampWindows = 2;

std::int64_t window_of(const sim::OffloadSetup& point) {
  return sim::as_scheduled(point).update_interval;
}

/// Whole windows: two that do not count, and at least as many as asked for.
std::int64_t steps_of(const LiveRunSettings& settings, const sim::OffloadSetup& point) {
  const std::int64_t window = window_of(point);
  const std::int64_t least = (settings.least_steps + window - 1) / window;
  return (kRampWindows + std::max(settings.windows, least)) * window;
}

std::uint64_t of_kind(const std::array<std::uint64_t, kTrafficKinds>& counts, Traffic kind) {
  return counts.at(static_cast<std::size_t>(kind));
}

/// What the engine holds on the GPU: the peak less what the model and its libraries allocate, which
/// no prediction has.
double engine_bytes(const MemoryUse& use) {
  constexpr std::array<const char*, 8> kOfTheModel = {
      "activations", "batch",           "cuBLASLt workspace", "evaluation logits",
      "loss",        "model workspace", "rotary angles",      "workspace"};
  std::uint64_t bytes = use.peak;
  for (const char* purpose : kOfTheModel) {
    const auto held = use.by_purpose.find(purpose);
    if (held != use.by_purpose.end()) bytes -= held->second;
  }
  return static_cast<double>(bytes);
}

void add_summary(const TrainReport& report, sim::StepFigures& figures) {
  using sim::Metric;
  const StepTimes& mean = report.times.mean;
  figures[Metric::kStep] = kMilliseconds * mean.total;
  figures[Metric::kCompute] = kMilliseconds * mean.compute;
  figures[Metric::kStall] = kMilliseconds * (mean.total - mean.compute);
  for (std::size_t i = 0; i < kStallCauses; ++i) {  // one device, no drive
    figures[sim::stall_by(static_cast<WaitCause>(i))] = 0;
  }
  figures[sim::stall_by(WaitCause::kCpuUpdate)] = kMilliseconds * mean.cpu_update;
  figures[sim::stall_by(WaitCause::kD2H)] = kMilliseconds * mean.d2h;
  figures[sim::stall_by(WaitCause::kH2D)] = kMilliseconds * mean.h2d;
  figures[sim::stall_by(WaitCause::kCollective)] = kMilliseconds * mean.collective;
  figures[sim::stall_by(WaitCause::kLaunch)] = kMilliseconds * mean.launch;
  const auto steps = static_cast<double>(report.times.steps);
  figures[Metric::kD2HBytes] =
      static_cast<double>(of_kind(report.traffic.d2h, Traffic::kGradients)) / steps;
  figures[Metric::kH2DBytes] =
      static_cast<double>(of_kind(report.traffic.h2d, Traffic::kParameters)) / steps;
  figures[Metric::kDeviceMemory] = engine_bytes(report.device_memory);
  figures[Metric::kHostMemory] =
      engine_bytes(report.pinned_memory) + static_cast<double>(report.host_optimizer_bytes);
}

}  // namespace

LiveRun live_run(const LiveRunSettings& settings, const sim::OffloadSetup& point,
                 const std::function<bool()>& stop) {
  TrainOptions options;
  options.model = settings.model;
  options.data = settings.data;
  options.feed.validation_fraction = 0.01;
  options.feed.byte_tokens = true;  // how long a step takes does not depend on the words
  options.training = settings.setup;
  options.threads = settings.setup.threads;
  static_cast<sim::OffloadSetup&>(options.offload) = with_setting(settings.setup, point);
  options.offload.max_staleness = 2 * point.update_interval;
  options.offload = settings_for(point.schedule, options.offload);
  options.steps = steps_of(settings, point);
  options.device.link_bandwidth = settings.link_bandwidth;
  options.cuda = settings.cuda;
  options.record_trace = true;
  TrainEvents events;
  events.stop = stop;
  TrainReport report = train(options, events);
  LiveRun run;
  run.stopped = report.stopped;
  if (run.stopped) return run;
  run.steps =
      sim::recorded_steps(report.timeline, kRampWindows * window_of(point), window_of(point));
  run.figures = sim::recorded_figures(report.timeline, run.steps);
  add_summary(report, run.figures);
  run.timeline = std::move(report.timeline);
  return run;
}

void write_training_bytes(const std::filesystem::path& file, std::int64_t sequences,
                          std::int64_t length) {
  std::string bytes(static_cast<std::size_t>(sequences * length + 1), '\0');
  std::mt19937 random(1);
  for (char& one : bytes) one = static_cast<char>(random() & 0xFFU);
  write_output(file, bytes, true);
}

}  // namespace zenflow::runtime
