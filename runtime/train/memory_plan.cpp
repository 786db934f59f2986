#include "runtime/train/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/report/simulation.h"
#include "sim/schedule/live_work.h"

namespace zenflow::runtime {
namespace {

sim::LiveKind live_kind_of(OffloadSchedule schedule) {
  switch (schedule) {
    case OffloadSchedule::kGpuOnly:
      return sim::LiveKind::kGpuOnly;
    case OffloadSchedule::kZeroOffload:
      return sim::LiveKind::kZeroOffload;
    case OffloadSchedule::kZeroOffloadDpu:
      return sim::LiveKind::kZeroOffloadDpu;
    case OffloadSchedule::kZenFlow:
      break;
  }
  return sim::LiveKind::kZenFlow;
}

/// A machine on which everything takes some time: how long does not decide what is held, as lanes
/// work in order.
sim::HardwareProfile some_machine(sim::DType dtype) {
  const BytesPerSecond rate(1e11);
  const Bytes unlimited(std::numeric_limits<double>::infinity());
  sim::HardwareProfile machine;
  machine.name = "any";
  sim::GpuProfile& gpu = machine.gpu;
  gpu.memory = unlimited;
  gpu.memory_bandwidth = rate;
  gpu.peak = {{dtype, FlopsPerSecond(1e14)}};
  gpu.gemm_half_size = Flops(1);
  gpu.gemm_efficiency = gpu.attention_efficiency = 1;
  gpu.elementwise_efficiency = gpu.streaming_efficiency = 1;
  sim::HostProfile& host = machine.host;
  host.memory = host.shared_memory = unlimited;
  host.dram_bandwidth = host.core_bandwidth = host.adam_bandwidth = rate;
  host.elementwise_bandwidth = rate;
  host.adam_half_cores = 1;
  sim::HostLinkProfile& link = machine.host_link;
  link.pinned = {.h2d = rate, .d2h = rate, .bidirectional = rate};
  link.pageable_h2d = link.pageable_d2h = rate;
  return machine;
}

sim::Job job_of(const sim::ModelSpec& model, const TrainOptions& options) {
  const OffloadSettings& s = options.offload;
  sim::Job job;
  sim::Scenario& scenario = job.scenario;
  scenario.name = model.name;
  scenario.model = model;
  scenario.training = {
      .micro_batch_size_per_gpu = options.feed.sequences,
      .sequence_length = options.feed.length,
      .dtype = options.dtype == ElementType::kBfloat16 ? sim::DType::kBf16 : sim::DType::kFp32};
  scenario.hardware = some_machine(scenario.training.dtype);
  // Two windows: memory is that of every later one.
  scenario.run = {.warmup_steps = 0, .steps = 2 * s.update_interval};
  if (options.schedule == OffloadSchedule::kZenFlow) {
    job.deepspeed.zenflow = sim::ZenFlowSettings{.topk_ratio = s.topk_ratio,
                                                 .update_interval = s.update_interval,
                                                 .select_interval = s.select_interval,
                                                 .select_strategy = "step",
                                                 .overlap_step = s.overlap_step};
  }
  return job;
}

bool is_activation(const sim::MemoryBuffer& buffer) {
  return buffer.category == sim::MemoryCategory::kActivations ||
         buffer.category == sim::MemoryCategory::kLogits ||
         buffer.category == sim::MemoryCategory::kContext;
}

MemoryPlan simulated_plan(const sim::ModelSpec& model, const TrainOptions& options) {
  const sim::Job job = job_of(model, options);
  const sim::Schedule& schedule =
      sim::find_schedule(sim::live_schedule_name(live_kind_of(options.schedule)));
  schedule.check(job);
  const sim::FullRun run = sim::simulate_fully(job, schedule);
  const std::vector<double> largest = sim::largest_sizes(run.program, run.execution);
  MemoryPlan plan;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const sim::MemoryBuffer& buffer = run.program.buffers[i];
    if (largest[i] <= 0 || buffer.of_framework || is_activation(buffer)) continue;
    auto& parts = place_of(buffer.home) == sim::MemoryPlace::kGpu ? plan.device : plan.host;
    parts.push_back({buffer.name, static_cast<std::uint64_t>(std::llround(largest[i]))});
  }
  return plan;
}

/// Of two plans of one schedule: each buffer at its larger size.
void take_larger(std::vector<PlannedMemory>& parts, const std::vector<PlannedMemory>& other) {
  for (const PlannedMemory& one : other) {
    const auto same = std::find_if(parts.begin(), parts.end(),
                                   [&](const auto& part) { return part.what == one.what; });
    if (same == parts.end()) {
      parts.push_back(one);
    } else {
      same->bytes = std::max(same->bytes, one.bytes);
    }
  }
}

/// What the simulated schedules do not know: where gradients are summed, and groups taking turns.
void place_gradients(const sim::ModelSpec& model, const TrainOptions& options, MemoryPlan& plan) {
  const OffloadSettings& s = options.offload;
  if (s.everything_on_device) return;
  double deferred = 0;
  double largest = 0;
  const double least = s.topk_range ? s.topk_range->low : s.topk_ratio;
  const double ratio = s.full_warm_up_rounds > 0 ? 0 : least;
  for (const sim::LiveLayer& layer : sim::live_layers(model, ratio)) {
    deferred += layer.deferred_elements();
    largest = std::max(largest, layer.deferred_elements());
  }
  if (s.accumulate_on_device) {
    plan.device.push_back({"gradient sums", static_cast<std::uint64_t>(sizeof(float) * deferred)});
  } else if (!s.whole_step_gradients) {
    const auto bytes = static_cast<double>(bytes_per_element(options.dtype));
    for (PlannedMemory& part : plan.device) {
      if (part.what != "gradients leaving") continue;
      part.bytes = static_cast<std::uint64_t>(2 * bytes * largest);
    }
  }
}

}  // namespace

MemoryPlan plan_memory(const sim::ModelSpec& model, const TrainOptions& options) {
  MemoryPlan plan = simulated_plan(model, options);
  const auto take_ratio = [&](double topk_ratio) {
    TrainOptions other = options;
    other.offload.topk_ratio = topk_ratio;
    const MemoryPlan with = simulated_plan(model, other);
    take_larger(plan.device, with.device);
    take_larger(plan.host, with.host);
  };
  if (const std::optional<TopkRange>& range = options.offload.topk_range) {
    // Most is deferred with the smallest ratio, most selected with the largest.
    take_ratio(range->low);
    take_ratio(range->high);
  }
  if (options.offload.full_warm_up_rounds > 0) take_ratio(0);  // at first everything is deferred
  place_gradients(model, options, plan);
  if (options.offload.everything_on_device) {
    constexpr std::uint64_t kStateBytes = 12;
    plan.host.push_back({"weights, m and v, fp32, of all columns, until the first step",
                         kStateBytes * static_cast<std::uint64_t>(model.parameters())});
  }
  return plan;
}

std::uint64_t host_activation_bytes(const sim::ModelSpec& model, const FeedOptions& feed) {
  // In double: what a command line asks for may be anything.
  const auto tokens = static_cast<double>(feed.sequences) * static_cast<double>(feed.length);
  const std::int64_t width = model.layers * (8 * model.hidden + 3 * model.intermediate);
  return static_cast<std::uint64_t>(std::min(4 * tokens * static_cast<double>(width), 1e18));
}

std::uint64_t total(const std::vector<PlannedMemory>& parts) {
  return std::accumulate(
      parts.begin(), parts.end(), std::uint64_t{0},
      [](std::uint64_t sum, const PlannedMemory& part) { return sum + part.bytes; });
}

void require_memory(const std::string& place, const std::vector<PlannedMemory>& parts,
                    std::uint64_t free, std::uint64_t capacity) {
  const std::uint64_t needed = total(parts);
  if (needed <= free) return;
  std::string each;
  for (const PlannedMemory& part : parts) {
    each += fmt::format("{}{}: {}", each.empty() ? "" : ", ", part.what, part.bytes);
  }
  throw Error(ErrorKind::kInfeasible,
              fmt::format("{}: the run needs {} bytes, {} of {} are free; {}", place, needed, free,
                          capacity, each));
}

}  // namespace zenflow::runtime
