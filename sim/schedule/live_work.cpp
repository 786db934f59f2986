#include "sim/schedule/live_work.h"

#include <algorithm>
#include <array>

#include "sim/cost/column_cost.h"
#include "sim/cost/gpu_cost.h"
#include "sim/offload/offload_rule.h"

namespace zenflow::sim {
namespace {

/// Of kernels/square_sum: blocks, those of large tensors again, totals.
constexpr double kKernelsOfSums = 3;

DeviceWork streamed(double bytes) {
  return {bytes, 0, 1};
}

DeviceWork picked(const ColumnChoice& choice, Bytes traffic) {
  if (choice.chosen == 0) return {};
  if (choice.chosen == choice.columns) return streamed(traffic.value());
  return {0, traffic.value(), 1};
}

}  // namespace

std::string_view live_schedule_name(OffloadSchedule schedule) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "live-gpu-only", "live-zero-offload", "live-zero-offload-dpu", "live-zenflow"};
  return kNames.at(static_cast<std::size_t>(schedule));
}

std::optional<OffloadSchedule> live_kind(std::string_view schedule) {
  constexpr std::string_view kLive = "live-";
  if (!schedule.starts_with(kLive)) return std::nullopt;
  return find_offload_schedule(schedule.substr(kLive.size()));
}

double cores_of_a_rank(const Scenario& scenario) {
  const auto cores = static_cast<double>(scenario.hardware.host.cores);
  if (!scenario.hardware.gpu.runs_on_host()) return cores;
  return std::max(1.0, cores / static_cast<double>(scenario.gpus));
}

LiveSettings live_settings(OffloadSchedule schedule, const Job& job) {
  const double cores = cores_of_a_rank(job.scenario);
  LiveSettings live;
  OffloadSetup& setup = live;
  setup = job.scenario.offload;
  setup.schedule = schedule;
  setup.interval_is_auto = false;  // all windows that are simulated have one size
  setup.gradient_accumulation_steps = job.deepspeed.gradient_accumulation_steps;
  if (schedule == OffloadSchedule::kZenFlow) {
    const ZenFlowSettings& zenflow = *job.deepspeed.zenflow;
    copy_knobs(zenflow, setup);
    if (zenflow.select_strategy == "epoch") setup.select_interval = 0;
  }
  setup = as_scheduled(setup);
  if (schedule == OffloadSchedule::kGpuOnly) setup.topk_ratio = 1;
  live.optimizer_cores = live.sum_cores = cores;
  const double reserved = job.deepspeed.zenflow ? job.deepspeed.zenflow->pt_reserved_cores_perc : 0;
  if (reserved > 0 && reserved < 1) {
    live.optimizer_cores = (1 - reserved) * cores;
    live.sum_cores = reserved * cores;
  }
  const auto at_most_cores = [cores](int threads) {
    return std::min(cores, static_cast<double>(threads));
  };
  if (setup.optimizer_threads > 0) live.optimizer_cores = at_most_cores(setup.optimizer_threads);
  if (setup.sum_threads > 0) live.sum_cores = at_most_cores(setup.sum_threads);
  return live;
}

void set_offload(Job& job, const OffloadSetup& setup) {
  job.scenario.offload = setup;
  job.deepspeed.gradient_accumulation_steps = setup.gradient_accumulation_steps;
  if (setup.schedule != OffloadSchedule::kZenFlow) return;
  copy_knobs(setup, job.deepspeed.zenflow.emplace());
  job.deepspeed.zenflow->select_strategy = "step";
}

bool runs_forward_again(const TrainingSettings& training, std::size_t layer, std::size_t layers) {
  return training.activation_checkpointing && layer > 0 && layer + 2 < layers;
}

TrainingSettings live_training(const Job& job) {
  TrainingSettings training = job.scenario.training;
  training.fused_framework |= !job.scenario.hardware.gpu.runs_on_host();
  return training;
}

StepPlan live_plan(const Job& job) {
  StepPlan plan = plan_step(job);
  const TrainingSettings training = live_training(job);
  const ModelTime time = model_time(job.scenario.hardware.gpu, job.scenario.model, training);
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    PlannedLayer& planned = plan.layers[l];
    const bool first = l == 0;
    const bool last = l + 1 == plan.layers.size();
    const LayerTime& layer =
        first  ? time.embedding
        : last ? time.head
               : time.kinds[static_cast<std::size_t>(job.scenario.model.order[l - 1])];
    const bool again = runs_forward_again(training, l, plan.layers.size());
    // Our runtime enqueues from C++, ahead of the device.
    planned.forward = to_picoseconds(layer.forward);
    planned.backward = to_picoseconds(again ? layer.backward + layer.forward : layer.backward);
    planned.activation_bytes = planned.transient_bytes = planned.logit_bytes = 0;
  }
  const std::vector<LiveLayer> layers = live_layers(job.scenario.model, 0);
  plan.buckets.clear();
  for (std::size_t l = layers.size(); l-- > 0;) {
    GradientBucket bucket{.elements = layers[l].elements(), .matrix_elements = 0};
    for (const LiveTensor& t : layers[l].tensors) {
      if (t.columns > 1) bucket.matrix_elements += static_cast<double>(t.elements());
    }
    bucket.tensors = static_cast<std::int32_t>(layers[l].tensors.size());
    bucket.first_layer = bucket.ready_layer = static_cast<std::int32_t>(l);
    bucket.begins_layer = true;
    plan.buckets.push_back(bucket);
  }
  return plan;
}

DeviceWork& DeviceWork::operator+=(const DeviceWork& other) {
  streamed += other.streamed;
  columns += other.columns;
  kernels += other.kernels;
  return *this;
}

Seconds device_time(const GpuProfile& gpu, const DeviceWork& work) {
  return Bytes(work.streamed) / (gpu.streaming_efficiency * gpu.memory_bandwidth) +
         Bytes(work.columns) / (gpu.column_share_of_bandwidth() * gpu.memory_bandwidth) +
         work.kernels * gpu.kernel_launch;
}

double LiveWork::width() const {
  return static_cast<double>(bytes_per_element(job_.scenario.training.dtype));
}

DeviceWork LiveWork::gather(const LiveTensor& tensor, std::int64_t columns) const {
  const ColumnChoice choice{tensor.rows, tensor.columns, columns};
  return picked(choice,
                gather_traffic(job_.scenario.hardware.gpu, job_.scenario.training.dtype, choice));
}

DeviceWork LiveWork::scatter(const LiveTensor& tensor, std::int64_t columns) const {
  const ColumnChoice choice{tensor.rows, tensor.columns, columns};
  return picked(choice,
                scatter_traffic(job_.scenario.hardware.gpu, job_.scenario.training.dtype, choice));
}

DeviceWork LiveWork::after_backward(const LiveLayer& layer) const {
  DeviceWork work;
  DeviceWork all;
  DeviceWork chosen;
  for (const LiveTensor& t : layer.tensors) {
    all += streamed(width() * static_cast<double>(t.elements()));
    if (t.selected > 0) {
      work += gather(t, t.selected);
      chosen += streamed(width() * static_cast<double>(t.rows * t.selected));
    }
    work += gather(t, t.deferred());
  }
  // Sums of squares: a call for each tensor on the host, on a GPU kernels for all of a layer's.
  if (!job_.scenario.hardware.gpu.runs_on_host()) {
    all.kernels = std::min(all.kernels, kKernelsOfSums);
    chosen.kernels = std::min(chosen.kernels, kKernelsOfSums);
  }
  work += all;
  work += chosen;
  return work;
}

DeviceWork LiveWork::update_selected(const LiveLayer& layer) const {
  constexpr double kReadAndWritten = 24;  // fp32 weight and two moments, both ways
  DeviceWork work;
  for (const LiveTensor& t : layer.tensors) {
    if (t.selected == 0) continue;
    DeviceWork one = scatter(t, t.selected);
    one.streamed += (kReadAndWritten + width()) * static_cast<double>(t.rows * t.selected);
    work += one;  // one kernel
  }
  return work;
}

DeviceWork LiveWork::carry_selected(const LiveLayer& layer) const {
  DeviceWork work;
  for (const LiveTensor& t : layer.tensors) {
    work += gather(t, t.selected);
    work += scatter(t, t.selected);
  }
  return work;
}

DeviceWork LiveWork::place_upload(const LiveLayer& layer) const {
  DeviceWork work;
  for (const LiveTensor& t : layer.tensors) work += scatter(t, t.deferred());
  return work;
}

DeviceWork LiveWork::column_norms(const LiveLayer& layer) const {
  DeviceWork work;
  for (const LiveTensor& t : layer.tensors) {
    if (t.selectable()) work += streamed(width() * static_cast<double>(t.elements()));
  }
  return work;
}

Seconds LiveWork::sum_on_device(double elements, bool first) const {
  const HardwareProfile& hardware = job_.scenario.hardware;
  const double bytes = elements * sum_bytes(first);
  if (hardware.gpu.runs_on_host()) return Bytes(bytes) / pass_rate(hardware.host, 1);
  return device_time(hardware.gpu, streamed(bytes));
}

double LiveWork::bytes_down(const LiveLayer& layer) const {
  return (live_.sums_on_device() ? kSumBytes : width()) * layer.deferred_elements();
}

double LiveWork::bytes_up(const LiveLayer& layer) const {
  return width() * layer.deferred_elements();
}

double LiveWork::update_bytes() const {
  const double gradient = live_.reads_staging() ? width() : kSumBytes;
  return kAdamBytes - 4 + gradient + width();
}

double LiveWork::sum_bytes(bool first) const {
  return width() + (first ? kSumBytes : 2 * kSumBytes);
}

CpuWork LiveWork::update() const {
  const BytesPerSecond rate = adam_rate(job_.scenario.hardware.host, live_.optimizer_cores);
  return {update_bytes(), Bytes(update_bytes()) / rate, job_.scenario.hardware.host.adam_launch};
}

CpuWork LiveWork::sum(bool first) const {
  const BytesPerSecond rate = pass_rate(job_.scenario.hardware.host, live_.sum_cores);
  return {sum_bytes(first), Bytes(sum_bytes(first)) / rate, Seconds(0)};
}

}  // namespace zenflow::sim
