#include "runtime/train/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "runtime/train/simulated_run.h"
#include "sim/base/error.h"
#include "sim/base/quantity_text.h"
#include "sim/schedule/live_work.h"
#include "sim/simulate/simulation.h"

namespace zenflow::runtime {
namespace {

/// A machine on which everything takes some time, and no batch longer than the simulated clock
/// goes: how long does not decide what is held, as lanes work in order.
sim::HardwareProfile some_machine(sim::DType dtype, bool device_is_host) {
  const BytesPerSecond rate(1e15);
  const Bytes unlimited(std::numeric_limits<double>::infinity());
  sim::HardwareProfile machine;
  machine.name = "any";
  sim::GpuProfile& gpu = machine.gpu;
  gpu.memory = unlimited;
  gpu.memory_bandwidth = rate;
  gpu.peak = {{dtype, FlopsPerSecond(1e18)}};
  gpu.gemm_half_size = Flops(1);
  gpu.gemm_efficiency = gpu.attention_efficiency = 1;
  gpu.elementwise_efficiency = gpu.streaming_efficiency = 1;
  gpu.host_cores = device_is_host ? 1 : 0;
  sim::HostProfile& host = machine.host;
  host.cores = 1;
  host.memory = host.shared_memory = unlimited;
  host.dram_bandwidth = host.core_bandwidth = host.adam_bandwidth = rate;
  host.elementwise_bandwidth = rate;
  host.adam_half_cores = 1;
  sim::HostLinkProfile& link = machine.host_link;
  link.pinned = {.h2d = rate, .d2h = rate, .bidirectional = rate};
  link.pageable_h2d = link.pageable_d2h = rate;
  return machine;
}

sim::Job job_of(const TransformerConfig& config, const TrainOptions& options) {
  const OffloadSettings& s = options.offload;
  sim::Job job;
  sim::Scenario& scenario = job.scenario;
  scenario.model = simulated_model(config);
  scenario.name = scenario.model.name;
  scenario.training = options.training;
  scenario.hardware = some_machine(scenario.training.dtype, !options.cuda);
  sim::OffloadSetup setup = s;
  // A second micro-batch needs what every later one does.
  setup.gradient_accumulation_steps = std::min<std::int64_t>(2, s.gradient_accumulation_steps);
  // One that changes may come to be more than 1, for which there are sums.
  if (s.interval_is_auto) setup.update_interval = std::max<std::int64_t>(2, s.update_interval);
  // A warm-up's memory is planned apart; a machine that is any has a core for all threads.
  setup.full_warm_up_rounds = 0;
  sim::set_offload(job, setup);
  // Two windows: memory is that of every later one.
  scenario.run = {.warmup_steps = 0, .steps = 2 * setup.update_interval};
  return job;
}

/// What a command line asks for may be more than an integer holds.
std::uint64_t whole_bytes(double bytes) {
  constexpr double kBeyondAnyMachine = 1e18;
  return static_cast<std::uint64_t>(std::min(bytes, kBeyondAnyMachine));
}

MemoryPlan simulated_plan(const TransformerConfig& config, const TrainOptions& options) {
  const sim::Job job = job_of(config, options);
  const sim::Schedule& schedule =
      sim::find_schedule(sim::live_schedule_name(options.offload.schedule));
  schedule.check(job);
  const sim::FullRun run = sim::simulate_fully(job, schedule);
  const std::vector<double> largest = sim::largest_sizes(run.program, run.execution);
  MemoryPlan plan;
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const sim::MemoryBuffer& buffer = run.program.buffers[i];
    if (largest[i] <= 0 || buffer.of_framework) continue;
    auto& parts = place_of(buffer.home) == sim::MemoryPlace::kGpu ? plan.device : plan.host;
    parts.push_back({buffer.name, whole_bytes(largest[i])});
  }
  return plan;
}

/// Merges two plans of one schedule: each buffer gets the larger of its two sizes.
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

/// What the simulated schedules do not know: groups whose gradients take turns.
void plan_turns(const TransformerConfig& config, const TrainOptions& options, MemoryPlan& plan) {
  const OffloadSettings& s = options.offload;
  if (s.everything_on_device() || s.has_whole_step()) return;
  double largest = 0;
  const double least = s.topk_is_global ? kLeastTopkRatio
                       : s.topk_range   ? s.topk_range->low
                                        : s.topk_ratio;
  const double ratio = s.full_warm_up_rounds > 0 ? 0 : least;
  for (const sim::LiveLayer& layer : sim::live_layers(simulated_model(config), ratio)) {
    largest = std::max(largest, layer.deferred_elements());
  }
  const auto bytes = static_cast<double>(sim::bytes_per_element(options.training.dtype));
  for (PlannedMemory& part : plan.device) {
    if (part.what != "gradients leaving") continue;
    part.bytes = static_cast<std::uint64_t>(2 * bytes * largest);
  }
}

/// All of a step's are there before it, when those of the step before still are.
void plan_batches(const TrainOptions& options, MemoryPlan& plan) {
  const auto number = [](std::int64_t count) { return static_cast<double>(count); };
  const double tokens = number(options.training.micro_batch_size_per_gpu) *
                        number(options.training.sequence_length) *
                        number(options.offload.gradient_accumulation_steps);
  plan.host.push_back({"inputs and targets of two steps' batches",
                       whole_bytes(2 * 2 * sizeof(std::int32_t) * tokens)});
}

/// Where columns of all matrices compete all but one of a matrix may come or go, one way at a time,
/// as far as so many may be selected: weight and moments, and the sums of those that enter.
std::uint64_t state_on_its_way_of_all(const TransformerConfig& config, const OffloadSettings& s) {
  constexpr std::int64_t kBytes = 12 + 4;
  std::int64_t selected = 0;
  std::int64_t most = 0;
  for (const sim::LiveLayer& layer : sim::live_layers(simulated_model(config), s.topk_ratio)) {
    for (const sim::LiveTensor& tensor : layer.tensors) {
      if (!tensor.selectable()) continue;
      selected += tensor.rows * tensor.selected;
      most = std::max(most, tensor.rows * (tensor.columns - 1));
    }
  }
  return static_cast<std::uint64_t>(kBytes * std::min(most, selected));
}

/// Columns change place matrix by matrix. For the one at work the host holds what leaves the
/// selection and what enters it, weight and moments, and the latter's sums.
std::uint64_t state_on_its_way(const TransformerConfig& config, const TrainOptions& options) {
  const OffloadSettings& s = options.offload;
  if (s.topk_is_global) return state_on_its_way_of_all(config, s);
  if (!s.topk_range && s.select_interval == 0) return 0;
  constexpr std::int64_t kBytes = 12 + 12 + 4;
  const TopkRange ratios = s.topk_range.value_or(TopkRange{s.topk_ratio, s.topk_ratio});
  std::int64_t most = 0;
  for (const sim::LiveLayer& layer : sim::live_layers(simulated_model(config), ratios.high)) {
    for (const sim::LiveTensor& tensor : layer.tensors) {
      if (!tensor.selectable()) continue;
      const std::int64_t deferred =
          tensor.columns - sim::selected_columns(ratios.low, tensor.columns);
      most = std::max(most, tensor.rows * std::min(tensor.selected, deferred));
    }
  }
  return static_cast<std::uint64_t>(kBytes * most);
}

}  // namespace

MemoryPlan plan_memory(const TransformerConfig& config, const TrainOptions& options) {
  MemoryPlan plan = simulated_plan(config, options);
  const auto take_ratio = [&](double topk_ratio) {
    TrainOptions other = options;
    other.offload.topk_ratio = topk_ratio;
    const MemoryPlan with = simulated_plan(config, other);
    take_larger(plan.device, with.device);
    take_larger(plan.host, with.host);
  };
  if (const std::optional<TopkRange>& range = options.offload.topk_range) {
    // Most is deferred with the smallest ratio, most selected with the largest.
    take_ratio(range->low);
    take_ratio(range->high);
  }
  if (options.offload.full_warm_up_rounds > 0) take_ratio(0);  // at first everything is deferred
  plan_turns(config, options, plan);
  plan_batches(options, plan);
  if (const std::uint64_t bytes = state_on_its_way(config, options); bytes > 0) {
    plan.host.push_back({"columns of a matrix that change place, fp32", bytes});
  }
  if (options.offload.everything_on_device()) {
    constexpr std::uint64_t kStateBytes = 12;
    plan.host.push_back(
        {"weights, m and v, fp32, of all columns, until the first step",
         kStateBytes * static_cast<std::uint64_t>(simulated_model(config).parameters())});
  }
  return plan;
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
    each += fmt::format("{}{}: {}", each.empty() ? "" : ", ", part.what, size_text(part.bytes));
  }
  throw Error(ErrorKind::kInfeasible,
              fmt::format("{}: the run needs {}, {} of {} are free; {}", place, size_text(needed),
                          size_text(free), size_text(capacity), each));
}

}  // namespace zenflow::runtime
