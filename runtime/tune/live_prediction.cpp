#include "runtime/tune/live_prediction.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/live_fit.h"
#include "sim/calibrate/live_run.h"
#include "sim/schedule/live_work.h"
#include "sim/schedule/schedule.h"
#include "sim/simulate/simulation.h"

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kMeasuredWindows = 4;
constexpr double kStateBytes = 12;  // of an element: weight and two moments in fp32
constexpr const char* kSchedule = "live-zenflow";

/// Seconds a step.
double update_slowdown(const LiveMachine& machine, const TunePoint& point) {
  const double recorded = 1 - machine.recorded.topk_ratio;
  if (recorded <= 0) return 0;
  return machine.update_slowdown * (1 - point.topk_ratio) / recorded /
         static_cast<double>(point.update_interval);
}

}  // namespace

sim::HardwareProfile unknown_machine(const LiveModelSettings& settings) {
  constexpr double kGiga = 1e9;
  // A GPU's own work is so much faster that a host's rates would not be negligible there, and what
  // its copies and the optimizer slow each other down by stays in the rates that are fitted.
  const bool is_gpu = settings.device_cores == 0;
  const FlopsPerSecond peak((is_gpu ? 1e6 : 100) * kGiga);
  const BytesPerSecond memory((is_gpu ? 1e4 : 100) * kGiga);
  const BytesPerSecond fast(100 * kGiga);
  const Bytes plenty(1e15);
  sim::HardwareProfile machine;
  machine.name = "this run";
  sim::GpuProfile& gpu = machine.gpu;
  gpu.name = "device";
  gpu.memory = plenty;
  gpu.memory_bandwidth = memory;
  gpu.peak = {{sim::DType::kBf16, peak}, {sim::DType::kFp32, peak}};
  gpu.gemm_efficiency = 0.8;
  gpu.attention_efficiency = 0.3;
  gpu.elementwise_efficiency = 0.5;
  gpu.streaming_efficiency = 0.9;
  gpu.kernel_launch = Seconds(1e-7);
  gpu.host_cores = settings.device_cores;
  sim::HostProfile& host = machine.host;
  host.name = "host";
  host.cores = settings.cores;
  host.memory = host.shared_memory = plenty;
  host.dram_bandwidth = memory;
  host.core_bandwidth = host.adam_bandwidth = host.elementwise_bandwidth = fast;
  const BytesPerSecond link(10 * kGiga);
  machine.host_link.kind = "link";
  machine.host_link.pinned = {link, link, 2.0 * link};
  machine.host_link.pageable_h2d = machine.host_link.pageable_d2h = link;
  machine.host_link.latency = Seconds(1e-7);
  if (settings.ranks > 1) {
    machine.gpu_link = sim::GpuLinkProfile{"between ranks", link, Seconds(1e-6)};
  }
  return machine;
}

sim::Job live_job(const LiveModelSettings& settings, const TunePoint& point,
                  const sim::HardwareProfile& hardware, std::int64_t first_step) {
  sim::Job job;
  job.scenario.name = settings.model.name;
  job.scenario.model = settings.model;
  job.scenario.hardware = hardware;
  job.scenario.gpus = settings.ranks;
  job.scenario.training = settings.training;
  // Enough to settle; windows that repeat are not simulated twice.
  job.scenario.run = {.warmup_steps = kMeasuredWindows * point.update_interval,
                      .steps = kMeasuredWindows * point.update_interval};
  job.deepspeed.zero_stage = 2;
  job.deepspeed.offload_optimizer = sim::OffloadDevice::kCpu;
  sim::OffloadSetup setup = settings.offload;
  setup.topk_ratio = point.topk_ratio;
  setup.update_interval = point.update_interval;
  setup.select_interval = 0;
  setup.full_warm_up_rounds = first_step;
  set_offload(job, setup);
  return job;
}

LiveMachine fit_windows(const LiveModelSettings& settings, const LiveWindows& windows) {
  const sim::Job job =
      live_job(settings, windows.point, unknown_machine(settings), windows.first_step);
  sim::LiveRecording recording{&job, kSchedule, &windows.timeline, windows.first_step,
                               windows.other_cores.value_or(0)};
  if (settings.ranks > 1) {
    recording.place = {0, static_cast<int>(settings.ranks)};
    recording.collectives = &windows.collectives;
    if (windows.collectives.empty()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("windows from step {} on: the ranks have not recorded the same "
                              "exchanges",
                              windows.first_step));
    }
  }
  const sim::LiveRun run = sim::read_live_run(recording);
  for (const auto& [operation, path] : {std::pair(Operation::kCpuUpdate, "host.adam_bandwidth"),
                                        std::pair(Operation::kWeightsUp, "host_link.h2d"),
                                        std::pair(Operation::kGradientsDown, "host_link.d2h")}) {
    if (std::any_of(
            run.samples.begin(), run.samples.end(),
            [kind = operation](const sim::LiveSample& one) { return one.operation == kind; })) {
      continue;
    }
    throw Error(ErrorKind::kInput, fmt::format("windows from step {} on: nothing to fit {} to "
                                               "what was recorded",
                                               windows.first_step, path));
  }
  sim::LiveFit fit = sim::fit_live({recording});
  const auto first = [](const std::vector<double>& all) { return all.empty() ? 0 : all.front(); };
  return {std::move(fit.profile), first(fit.other_threads), first(fit.update_slowdown),
          windows.point};
}

std::vector<TunePrediction> predict(const LiveModelSettings& settings, const LiveMachine& machine,
                                    const std::vector<TunePoint>& points) {
  constexpr double kPicosecond = 1e-12;
  std::vector<TunePrediction> predictions;
  for (const TunePoint& point : points) {
    sim::Job job = live_job(settings, point, machine.hardware);
    job.scenario.other_threads = machine.other_threads;
    const sim::SimulationResult result = sim::simulate_schedule(job, sim::find_schedule(kSchedule));
    const double busy = result.step_time > 0 ? result.compute / result.step_time : 0;
    predictions.push_back({point, result.step_time * kPicosecond +
                                      busy * (update_slowdown(machine, point) -
                                              update_slowdown(machine, machine.recorded))});
  }
  return predictions;
}

TuneFit fit_and_predict(const LiveModelSettings& settings, const LiveWindows& windows,
                        const std::vector<TunePoint>& points) {
  TuneFit fit;
  fit.other_cores = windows.other_cores;
  fit.remark = windows.remark;
  try {
    const LiveMachine machine = fit_windows(settings, windows);
    fit.other_threads = machine.other_threads;
    fit.predictions = predict(settings, machine, points);
    const Bytes state(kStateBytes * static_cast<double>(settings.model.parameters()));
    const sim::HostPath& link = machine.hardware.host_link.pinned;
    fit.carry_seconds = (state / std::min(link.h2d, link.d2h)).value();
    fit.reorder_seconds = (2.0 * state / machine.hardware.host.adam_bandwidth).value();
  } catch (const Error& error) {
    fit.failure = error.what();
  }
  return fit;
}

}  // namespace zenflow::runtime
