#include "sim/schedule/deepspeed_step.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/framework_cost.h"
#include "sim/cost/gpu_cost.h"

namespace zenflow::sim {
namespace {

/// PyTorch's copy of fp32 to bf16 takes so much longer than its bytes do in a pass in place. With
/// one and two threads of a Zen 4 core machine 13.5 and 22.7 GB/s against mul_'s 25.4 and 39.1
/// (PyTorch 2.15), with 16 of an Emerald Rapids 90, 78 and 54 against 161, 110 and 139 (2.11).
constexpr double kNarrowingCast = 1.8;

/// What a thread takes to write the first byte of a page of 4 KiB that it got from the system. A
/// copy of 988 MB from the GPU into fresh memory took 0.54 s, where it takes 0.07 s into memory in
/// use (ZenFlow's selection in docs/accuracy/h200, in a virtual machine; without one it is less).
constexpr Seconds kFirstTouch(2e-6);
constexpr double kPage = 4096;
/// The C library takes blocks from so many bytes on from the system each time, and gives them back
/// (mallopt(3), M_MMAP_THRESHOLD: what it grows to on its own).
constexpr double kFreshBlock = 32 << 20;

/// What host threads of all ranks pass through memory, on so many of the node's cores; each rank
/// has an equal part of it.
BytesPerSecond host_pass_rate(const Job& job, double cores) {
  HostProfile host = job.scenario.hardware.host;
  if (!job.scenario.bind_cores_to_rank) {
    host.elementwise_bandwidth = host.unbound_efficiency * host.elementwise_bandwidth;
  }
  return pass_rate(host, std::min(cores, rank_threads(job).cores)) /
         static_cast<double>(job.scenario.gpus);
}

/// What stages 1 and 2 pass through the GPU's memory to see whether a gradient has values that are
/// not finite, in bytes an element of `b`, an fp32 copy included. Element by element that is x !=
/// x, then |x| and its comparison, both together, and as fp32 for the maximum.
double overflow_check_bytes(const Job& job, double b) {
  if (job.has(Change::kReducedOverflowCheck)) return 2 * b;
  const double copy = b < 4 ? b + 4 : 0;
  return copy + (job.has(Change::kElementwiseOverflowCheck) ? 5 + 8 + 5 + 3 + 5 + 4 : 4);
}

/// What a rank's thread waits for memory while gradients of so many bytes come down tensor by
/// tensor, each into a block of its own.
Seconds fresh_memory_time(const Job& job, double bytes) {
  const double ranks = static_cast<double>(job.scenario.ranks());
  const double block = kFreshBlock / stage3_gradient_bytes(job) * ranks;
  return share_in_tensors_from(job.scenario.model, block) * bytes / kPage * kFirstTouch;
}

/// Of stages 1 and 2, where a window has several micro steps: whether this one's gradients, or
/// their sum so far, go down. 0.17.5 to 0.18.9, which leave the first ones alone there as the
/// releases before, are simulated as those after.
bool leaves_sum(const Job& job, StepPlace which) {
  if (job.has(Change::kZenFlow)) return true;
  return job.has(Change::kOnlyFirstSum) ? which.first : !which.boundary;
}

}  // namespace

DeepSpeedStep::DeepSpeedStep(const Job& job, ProgramBuilder& builder, StepKind kind)
    : job_(job),
      builder_(builder),
      overlap_(overlaps_communication(job)),
      stage3_(job.deepspeed.zero_stage == 3),
      zenflow_(kind.zenflow),
      sums_single_steps_(kind.zenflow && !job.has(Change::kSumOnlyIfShared) &&
                         *job.deepspeed.zenflow->update_interval > 1),
      holds_backward_(stage3_ || job.has(Change::kReductionHoldsBackward)),
      stops_for_fp32_(!stage3_ || kind.zenflow || kind.swapped ||
                      !job.has(Change::kAsyncStage3Gradients)),
      swapped_(kind.swapped),
      swap_room_(kind.swapped
                     ? static_cast<double>(job.deepspeed.buffer_count) * sub_groups(job).largest()
                     : 0),
      partition_(job.partition()),
      offloaded_(kind.offloaded),
      gradient_bytes_(optimizer_bytes(job).gradient),
      gathers_(stage3_ ? stage3_gathers(job) : Stage3Gathers{}),
      down_(builder.classes(), PerClass(builder.plan().buckets.size(), kNoTask)),
      swap_(builder.classes()),
      stream_(builder.classes(), kNoTask),
      bucket_memory_(job, builder),
      temporaries_(job, builder, kind.swapped) {}

double DeepSpeedStep::owned(std::size_t bucket) const {
  return offloaded_ * builder_.plan().buckets[bucket].elements / builder_.ranks();
}

TaskId DeepSpeedStep::copy(std::size_t c, Operation operation, std::size_t bucket, double bytes,
                           TaskId after, bool pageable, std::int32_t pieces) {
  const auto index = static_cast<std::int64_t>(bucket);
  if (bytes == 0) return after;
  return pageable || !job_.deepspeed.pin_memory
             ? builder_.pageable_copy(c, operation, index, bytes, {after}, pieces)
             : builder_.copy(c, operation, index, bytes, {after}, pieces);
}

std::int32_t DeepSpeedStep::gradient_copies(std::size_t bucket) const {
  // Stage 3 cuts every tensor over all ranks; below it whole tensors are dealt out.
  const double owners = stage3_ ? 1 : static_cast<double>(job_.scenario.ranks());
  const double tensors = builder_.plan().buckets[bucket].tensors * offloaded_ / owners;
  return std::max(1, static_cast<std::int32_t>(std::ceil(tensors)));
}

TaskId DeepSpeedStep::enqueue(std::size_t c, std::size_t bucket, Seconds time, TaskId after) {
  if (time == Seconds(0)) return after;
  const TaskId enqueued =
      builder_.add(builder_.cluster().classes[c].training, to_picoseconds(time),
                   builder_.label(Operation::kEnqueue, static_cast<std::int64_t>(bucket)), {after});
  builder_.hold_compute(c, enqueued);
  return enqueued;
}

TaskId DeepSpeedStep::check(std::size_t c, std::size_t bucket, TaskId after) {
  const Seconds time = gradient_check_time(job_, owned(bucket));
  if (to_picoseconds(time).count == 0) return after;
  const auto index = static_cast<std::int64_t>(bucket);
  if (!stage3_) return builder_.compute(c, Operation::kGradientNorm, index, time, {after});
  builder_.compute(c, Operation::kGradientNorm, index, time, {});
  return after;
}

/// The running sum: up, added to on the GPU, down. Stages 1 and 2 skip it where a window has
/// one step, and the upload in its first; stage 3 does neither.
TaskId DeepSpeedStep::accumulate(std::size_t c, std::size_t bucket, StepPlace which, TaskId after) {
  if (sums_on_gpu(job_)) return after;
  if (!stage3_ && which.first && which.boundary && !sums_single_steps_) return after;
  const double width = stage3_ && job_.deepspeed.fp32_gradient_sums ? 4 : builder_.element_bytes();
  const double bytes = width * owned(bucket);
  if (stage3_ || !which.first)
    after = copy(c, Operation::kH2D, bucket, bytes, after, false, gradient_copies(bucket));
  if (!stage3_ && !leaves_sum(job_, which)) return after;
  return copy(c, Operation::kD2H, bucket, bytes, after, false, gradient_copies(bucket));
}

/// A bucket's gradients as the optimizer reads them, in fp32 or with 16-bit masters in 16 bits, to
/// the host and, if they are swapped, on to NVMe. They are copied
/// into buffers that are written one by one; when none is left, all have to be written first.
TaskId DeepSpeedStep::fp32_down(std::size_t c, std::size_t bucket, TaskId after, bool pageable) {
  const double width = gradient_bytes_;
  const double elements = owned(bucket);
  if (stage3_ && !swapped_ && !job_.has(Change::kStage3DirectGradients)) {
    return gradients_by_way_of_host(c, bucket, after);
  }
  const TaskId down =
      copy(c, Operation::kD2H, bucket, width * elements, after, pageable, gradient_copies(bucket));
  if (!swapped_ || elements == 0) return down;
  Swap& swap = swap_[c];
  if (swap.room < elements) {
    builder_.also_after(down, swap.written);
    swap.room = swap_room_;
  }
  swap.room -= elements;
  const Seconds time =
      nvme_time(*job_.scenario.hardware.nvme, NvmeAccess::kWrite, Bytes(width * elements));
  swap.written = builder_.add(
      builder_.cluster().classes[c].nvme_write, to_picoseconds(time),
      builder_.label(Operation::kNvmeWrite, static_cast<std::int64_t>(bucket), width * elements),
      {down});
  return down;
}

/// Before kStage3DirectGradients a copy within the host follows: of 16 bits in ordinary memory to
/// where the optimizer reads fp32, or from the page-locked buffer.
TaskId DeepSpeedStep::gradients_by_way_of_host(std::size_t c, std::size_t bucket, TaskId after) {
  const double elements = owned(bucket);
  if (elements == 0) return after;
  const double target = optimizer_bytes(job_).gradient;
  const bool buffered = job_.has(Change::kStage3PinnedBuffer);
  const double width = stage3_gradient_bytes(job_);
  const auto index = static_cast<std::int64_t>(bucket);
  const std::int32_t pieces = gradient_copies(bucket);
  if (!buffered && width == target) {
    return copy(c, Operation::kD2H, bucket, width * elements, after, false, pieces);
  }
  const TaskId down =
      buffered
          ? builder_.copy(c, Operation::kD2H, index, width * elements, {after}, pieces)
          : builder_.pageable_copy(c, Operation::kD2H, index, width * elements, {after}, pieces);
  const auto cores = static_cast<double>(job_.scenario.hardware.host.cores);
  Seconds time = Bytes((width + target) * elements) / host_pass_rate(job_, cores);
  if (!buffered) time = time + fresh_memory_time(job_, width * elements);
  return builder_.add(builder_.cluster().classes[c].cpu_accumulate, to_picoseconds(time),
                      builder_.label(Operation::kCpuCast, index), {down});
}

void DeepSpeedStep::bucket_ready(std::size_t bucket, const PerClass& reduced, StepPlace which,
                                 bool pageable_fp32) {
  bucket_memory_.reduced(bucket, reduced[0]);
  if (bucket == 0) temporaries_.reduced(reduced[0]);
  for (std::size_t c = 0; c < builder_.classes(); ++c) {
    // The reduction waits for all before it on every rank's stream.
    if (job_.scenario.ranks() > 1) builder_.also_after(reduced[c], stream_[c]);
    if (overlap_ && holds_backward_) builder_.hold_compute(c, stream_[c]);
  }
  const double tensors = builder_.plan().buckets[bucket].tensors;
  for (std::size_t c = 0; c < builder_.classes(); ++c) {
    TaskId last = reduced[c];
    const Seconds each =
        owned(bucket) > 0 ? gradient_host_time(job_, which, zenflow_, tensors) : Seconds(0);
    const double gradients = gradient_copies(bucket);
    // At an update the check of each gradient waits for the copy of the one before; in stage 3 and
    // between updates copies go on meanwhile, but for stage 3's last.
    const bool waits = which.boundary && !stage3_;
    const bool joins = which.boundary && stage3_;
    if (which.boundary) last = check(c, bucket, last);
    const TaskId enqueued = enqueue(c, bucket, (gradients - (joins ? 1 : 0)) * each, last);
    if (waits) last = enqueued;
    last = accumulate(c, bucket, which, last);
    if (which.boundary) {
      last = fp32_down(c, bucket, last, pageable_fp32);
      if (stops_for_fp32_) builder_.hold_compute(c, last);
    }
    if (joins) last = enqueue(c, bucket, each, last);
    stream_[c] = last;
    down_[c][bucket] = last;
    if (!overlap_) builder_.hold_compute(c, last);
  }
}

void DeepSpeedStep::forward_backward(StepPlace which, const std::vector<After>& before,
                                     bool pageable_fp32) {
  const bool on_host = job_.deepspeed.offload_param != OffloadDevice::kNone;
  const ParameterGather gather{.enabled = stage3_,
                               .from_host = on_host,
                               .from_nvme = job_.deepspeed.offload_param == OffloadDevice::kNvme,
                               .deepspeed = stage3_ ? &gathers_ : nullptr};
  bucket_memory_.begin();
  temporaries_.begin(which.boundary);
  for (Swap& swap : swap_) swap.room = swap_room_;  // the update before has emptied them
  builder_.forward_backward(before, gather, [&](std::size_t bucket, const PerClass& reduced) {
    bucket_ready(bucket, reduced, which, pageable_fp32);
    return PerClass(builder_.classes(), kNoTask);
  });
  bucket_memory_.end(stream_[0]);
  temporaries_.end(stream_[0]);
  for (std::size_t c = 0; c < builder_.classes(); ++c) builder_.hold_compute(c, stream_[c]);
}

TaskId DeepSpeedStep::gradients_down(std::size_t rank_class, double elements) const {
  double arrived = 0;
  for (std::size_t b = 0; b < down_[rank_class].size(); ++b) {
    arrived += owned(b);
    // Sums of bucket shares and of sub-groups differ in the last bits.
    if (arrived * (1 + 1e-9) >= elements) return down_[rank_class][b];
  }
  return stream_[rank_class];
}

TaskId DeepSpeedStep::weights_up(std::size_t rank_class, TaskId after) {
  return weights_up(rank_class, partition_, after);
}

TaskId DeepSpeedStep::snapshot_up(std::size_t rank_class, const After& after) {
  if (stage3_ && job_.deepspeed.offload_param != OffloadDevice::kNone) {
    return weights_up(rank_class, partition_, after.back());
  }
  const bool wide = zenflow_uploads_fp32(job_);
  const double bytes = (wide ? 4 : builder_.element_bytes()) * partition_;
  const TaskId up = builder_.pageable_copy(rank_class, Operation::kH2D, 0, bytes, after);
  if (wide) hold_for_cast(rank_class, up, bytes);
  return up;
}

void DeepSpeedStep::hold_for_cast(std::size_t rank_class, TaskId up, double bytes) {
  if (rank_class != 0) return;
  if (!snapshot_) {
    snapshot_ = builder_.buffer({.name = "fp32 weights, to be cast",
                                 .formula = "4 p",
                                 .category = MemoryCategory::kStaging,
                                 .held = "upload"});
  }
  builder_.memory(up, false, *snapshot_, bytes);
  builder_.memory(up, true, *snapshot_, -bytes);
}

TaskId DeepSpeedStep::weights_up(std::size_t rank_class, double elements, TaskId after) {
  const double bytes = builder_.element_bytes() * elements;
  if (sends_fp32_weights(job_)) {
    const double wide = optimizer_bytes(job_).master * elements;
    const TaskId up = copy(rank_class, Operation::kH2D, 0, wide, after, false);
    hold_for_cast(rank_class, up, wide);
    return up;
  }
  if (!stage3_ || job_.deepspeed.offload_param == OffloadDevice::kNone) {
    const bool buffered = !stage3_ && job_.has(Change::kBufferedUpload);
    return copy(rank_class, Operation::kH2D, 0, bytes, after, !buffered);
  }
  const double on_nvme = gathers_.on_nvme * bytes;
  if (on_nvme == 0) return after;
  const Seconds time = nvme_time(*job_.scenario.hardware.nvme, NvmeAccess::kWrite, Bytes(on_nvme));
  return builder_.add(builder_.cluster().classes[rank_class].nvme_write, to_picoseconds(time),
                      builder_.label(Operation::kNvmeWrite, 0, on_nvme), {after});
}

Seconds gradient_host_time(const Job& job, StepPlace which, bool zenflow, double tensors) {
  if (!counts_framework(job)) return Seconds(0);
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const double share = std::min(static_cast<double>(job.scenario.ranks()), std::max(tensors, 1.0));
  const Seconds selected = zenflow && !stage3 ? share * kGradientSelected : Seconds(0);
  const bool sums = !sums_on_gpu(job) && (stage3 || !which.first || !which.boundary);
  const Seconds down = which.boundary ? kGradientDown : Seconds(0);
  // What stage 3 was measured with has its sums.
  if (stage3 && which.boundary) return down;
  return selected + down + (sums ? kGradientSum : Seconds(0));
}

Seconds gradient_check_time(const Job& job, double elements) {
  const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const bool casts =
      optimizer_bytes(job).gradient > b && (!stage3 || job.has(Change::kStage3PinnedBuffer));
  const double norm = b + 16;
  const double bytes = norm + (stage3 ? 0 : overflow_check_bytes(job, b)) + (casts ? b + 4 : 0);
  return stream_time(job.scenario.hardware.gpu, Bytes(bytes * elements));
}

Cluster deepspeed_cluster(const Job& job, const RankRates& rates) {
  Cluster cluster = make_cluster(job.scenario, rates);
  if (counts_framework(job)) add_training_lanes(cluster);
  return cluster;
}

double stage3_gradient_bytes(const Job& job) {
  const double target = optimizer_bytes(job).gradient;
  const bool swapped = job.deepspeed.offload_optimizer == OffloadDevice::kNvme;
  if (swapped || job.has(Change::kStage3PinnedBuffer)) return target;
  const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  return std::min(target, job.deepspeed.fp32_gradient_sums ? 4 : b);
}

double sums_down(const Job& job) {
  const auto g = static_cast<double>(job.deepspeed.gradient_accumulation_steps);
  if (g == 1) return 0;
  if (job.has(Change::kZenFlow)) return g;
  return job.has(Change::kOnlyFirstSum) ? 1 : g - 1;
}

ClosedForm stage3_traffic(const Job& job, double offloaded) {
  const double b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const auto g = static_cast<double>(job.deepspeed.gradient_accumulation_steps);
  const double weights =
      job.deepspeed.offload_param == OffloadDevice::kNone
          ? b / g * offloaded
          : b * stage3_gathers(job).in_a_step() / static_cast<double>(job.scenario.ranks());
  const double sum = job.deepspeed.fp32_gradient_sums ? 4 : b;
  return {(sum + stage3_gradient_bytes(job) / g) * offloaded,
          sum * offloaded + weights,
          {0, job.deepspeed.gradient_accumulation_steps - 1}};
}

TaskId DeepSpeedStep::gather_weights(const After& after) {
  if (stage3_) return kNoTask;
  const double bytes = builder_.element_bytes() * partition_ * builder_.ranks();
  return builder_.collective(Operation::kAllGather, all_gather_time(builder_.group(), Bytes(bytes)),
                             0, bytes, after);
}

DeepSpeedCpu deepspeed_cpu(const Job& job, double training_cores, double update_cores,
                           OptimizerPlace place) {
  const HostProfile& bound = job.scenario.hardware.host;
  HostProfile host = bound;
  if (!job.scenario.bind_cores_to_rank) {
    host.adam_bandwidth = host.unbound_efficiency * host.adam_bandwidth;
    host.elementwise_bandwidth = host.unbound_efficiency * host.elementwise_bandwidth;
  }
  const double threads = rank_threads(job).cores;
  training_cores = std::min(training_cores, threads);
  const bool few = place == OptimizerPlace::kTraining && threads < update_cores;
  const auto ranks = static_cast<double>(job.scenario.gpus);
  const double p = job.partition();
  const BytesPerSecond training = host_pass_rate(job, training_cores);
  const OptimizerBytes optimizer = optimizer_bytes(job);
  const double cast_bytes =
      optimizer.master + static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  DeepSpeedCpu cpu;
  cpu.launch = host.adam_launch;
  // Gradients are read and written, in place.
  cpu.scale = framework_step_time(job) + Bytes(2 * optimizer.gradient * p) / training;
  const auto width = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const bool casts = place == OptimizerPlace::kWorker || !sends_fp32_weights(job);
  cpu.cast = (!casts ? 0 : 1) * (optimizer.master > width ? kNarrowingCast : 1) *
             (Bytes(cast_bytes * p) / training);
  // Weights go into fresh memory, by the thread that copies them; into more of it as fp32, by all;
  // and from there over the master.
  const double pages = p / kPage;
  cpu.overwrite = pages * width * kFirstTouch +
                  pages * optimizer.master / training_cores * ranks * kFirstTouch +
                  Bytes((width + 3 * optimizer.master) * p) / training;
  double traffic = optimizer.traffic;
  if (place == OptimizerPlace::kWorker) {
    // The worker binds its threads itself, whatever the launcher does.
    const HostProfile& own = host.worker_adam_bandwidth ? bound : host;
    // Before the native worker: clone, then copy.
    const double snapshot = job.has(Change::kNativeWorker) ? 8 : 16;
    traffic += snapshot;
    cpu.update = Bytes(optimizer.traffic * p) / (worker_adam_rate(own, update_cores) / ranks) +
                 Bytes(snapshot * p) / (pass_rate(own, update_cores) / ranks);
  } else {
    const BytesPerSecond rate =
        few ? few_threads_adam_rate(host, threads) : adam_rate(host, update_cores);
    cpu.update = Bytes(optimizer.traffic * p) / (rate / ranks);
  }
  const HostLinkProfile& link = job.scenario.hardware.host_link;
  cpu.rates = {copy_rate(link, Direction::kD2H, true), copy_rate(link, Direction::kH2D, true),
               Bytes(traffic * p) / cpu.update, training};
  return cpu;
}

bool SubGroups::is_on_gpu(std::size_t group) const {
  return first_on_gpu ? group < on_gpu : group >= elements.size() - on_gpu;
}

double SubGroups::gpu_elements() const {
  double sum = 0;
  for (std::size_t g = 0; g < elements.size(); ++g) sum += is_on_gpu(g) ? elements[g] : 0;
  return sum;
}

double SubGroups::cpu_elements() const {
  double sum = 0;
  for (std::size_t g = 0; g < elements.size(); ++g) sum += is_on_gpu(g) ? 0 : elements[g];
  return sum;
}

double SubGroups::largest() const {
  return elements.empty() ? 0 : *std::max_element(elements.begin(), elements.end());
}

SubGroups sub_groups(const Job& job) {
  SubGroups groups;
  groups.elements = sub_group_elements(job);
  if (job.deepspeed.offload_optimizer == OffloadDevice::kNvme) return groups;
  const auto count = static_cast<double>(groups.elements.size());
  const double ratio = job.deepspeed.offload_ratio;
  groups.first_on_gpu = job.has(Change::kLastGroupsOnCpu);
  groups.on_gpu = groups.first_on_gpu
                      ? static_cast<std::size_t>((1 - ratio) * count)
                      : groups.elements.size() - static_cast<std::size_t>(ratio * count);
  return groups;
}

void check_parameter_nvme(const Job& job, std::string_view schedule) {
  const bool wanted =
      job.deepspeed.zero_stage == 3 && job.deepspeed.offload_param == OffloadDevice::kNvme;
  if (!wanted || job.scenario.hardware.nvme) return;
  throw Error(ErrorKind::kInput,
              fmt::format("{}: zero_optimization.offload_param.device: nvme under schedule \"{}\", "
                          "but profile {} has no nvme block",
                          job.scenario.deepspeed.at.text(), schedule, job.scenario.hardware.name));
}

std::vector<std::string> ignored_by_deepspeed(const Job& job, std::string_view schedule) {
  std::vector<std::string> notes;
  if (job.deepspeed.offload_optimizer == OffloadDevice::kNvme) {
    notes.push_back(
        fmt::format("{} keeps the optimizer in CPU memory; offload_optimizer.device "
                    "nvme counts in deepspeed-zero-infinity",
                    schedule));
  }
  if (job.deepspeed.offload_param != OffloadDevice::kNone && job.deepspeed.zero_stage < 3) {
    notes.push_back(fmt::format("{}: offload_param has no effect below ZeRO stage 3", schedule));
  }
  return notes;
}

void check_stage3(const Job& job, std::string_view schedule) {
  check_parameter_nvme(job, schedule);
  if (job.deepspeed.zero_stage == 3) return;
  throw Error(ErrorKind::kInput,
              fmt::format("{}: zero_optimization.stage: schedule \"{}\" needs stage 3, found {}",
                          job.scenario.deepspeed.at.text(), schedule, job.deepspeed.zero_stage));
}

bool zenflow_uploads_fp32(const Job& job) {
  return job.deepspeed.zero_stage < 3 && !job.has(Change::kBf16Upload);
}

std::int64_t zenflow_window(const Job& job) {
  return job.target == LaunchTarget::kDeepSpeed ? *job.deepspeed.zenflow->update_interval
                                                : job.deepspeed.gradient_accumulation_steps;
}

std::vector<WindowShape> deepspeed_zenflow_windows(const Job& job, std::int64_t steps) {
  const ZenFlowSettings& settings = *job.deepspeed.zenflow;
  const bool own_boundaries = job.target == LaunchTarget::kDeepSpeed;
  const std::int64_t s = zenflow_window(job);
  const std::int64_t w = settings.full_warm_up_rounds;
  const std::int64_t interval =
      settings.select_strategy == "step" ? settings.select_interval.value_or(0) : 0;
  const auto is_boundary = [&](std::int64_t m) {
    if (!own_boundaries) return (m + 1) % s == 0;
    return m + 1 < w || (m + 1 - w) % s == 0 || (interval != 0 && (m + 1) % interval == 0);
  };
  std::vector<WindowShape> shapes;
  WindowShape open;
  std::int32_t regular = 0;
  for (std::int64_t m = 0; m < steps || open.steps != 0; ++m) {
    if (open.first_step == m) open.steps = 0;
    if (m >= w && (m == w || (interval != 0 && m % interval == 0))) {
      open.select_at.push_back(static_cast<std::int32_t>(m - open.first_step));
    }
    ++open.steps;
    if (!is_boundary(m)) continue;
    open.full_update = m < w;
    open.age = open.full_update ? (shapes.empty() ? 0 : 1)
                                : std::min(regular++, WindowShape::kSettledAgeOfDeepSpeed);
    open.settled_age = WindowShape::kSettledAgeOfDeepSpeed;
    shapes.push_back(open);
    open = WindowShape{.first_step = m + 1, .steps = 0};
  }
  return shapes;
}

}  // namespace zenflow::sim
