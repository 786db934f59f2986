#include "sim/tune/candidates.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/report/simulation.h"
#include "sim/tune/tuned_config.h"

namespace zenflow::sim {
namespace {

/// Steps that are averaged, at least: as RunSettings' default.
constexpr std::int64_t kAveraged = 64;
/// Windows before the average begins.
constexpr std::int64_t kSettling = 4;
/// The same where a boundary waits for the update before the last, whose backlog fills slowly.
constexpr std::int64_t kDeepSettling = 256;

std::uint64_t key_of(const Space& space, const Setting& setting,
                     std::initializer_list<Knob> which) {
  std::uint64_t key = 0;
  for (const Knob knob : which) {
    const std::vector<double>& values = space.values(knob);
    const auto at = std::lower_bound(values.begin(), values.end(), setting.get(knob));
    key = key * (values.size() + 1) + static_cast<std::uint64_t>(at - values.begin());
  }
  return key;
}

/// A run whose average is that of ever longer ones: whole intervals of what repeats.
RunSettings long_run(std::int64_t warm_up, std::int64_t window, std::int64_t select,
                     std::int64_t settling = kSettling) {
  const std::int64_t period = select > 0 ? std::lcm(window, select) : window;
  const std::int64_t times = (kAveraged + period - 1) / period;
  return {.warmup_steps = warm_up + settling * window, .steps = period * times};
}

/// The strict JSON that DeepSpeed would read of a document that may be YAML.
Node as_json(const Node& document) {
  if (!document.is_map()) return document;
  return parse_ds_document(render_json(document), "deepspeed").root;
}

Job without_documents(Job job) {
  job.scenario.deepspeed = {};
  job.scenario.deepspeed.kind = Node::Kind::kMap;
  job.scenario.hardware.numbers.clear();
  job.scenario.schedules.clear();
  job.scenario.schedules_at.clear();
  job.scenario.overridden.clear();
  job.deepspeed.warnings.clear();
  job.deepspeed.offload_ratio = 1;
  job.deepspeed.super_offload = false;
  job.deepspeed.train_batch_size.reset();
  return job;
}

std::string_view schedule_name(Family family, Placement placement) {
  switch (family) {
    case Family::kDeepSpeed:
      if (placement == Placement::kCpu) return "deepspeed-zero-offload";
      if (placement == Placement::kZenFlow) return "deepspeed-zenflow";
      if (placement == Placement::kNvme) return "deepspeed-zero-infinity";
      return "gpu-only";
    case Family::kPublished:
      if (placement == Placement::kCpu) return "zero-offload";
      if (placement == Placement::kZenFlow) return "zenflow";
      if (placement == Placement::kNvme) return "zero-infinity";
      return "gpu-only";
    case Family::kLive:
      break;
  }
  if (placement == Placement::kCpu) return "live-zero-offload";
  if (placement == Placement::kZenFlow) return "live-zenflow";
  return "live-gpu-only";
}

}  // namespace

std::string_view to_string(Objective objective) {
  switch (objective) {
    case Objective::kStepTime:
      return "step_time";
    case Objective::kTokensPerSecond:
      return "tokens_per_second";
    case Objective::kCostPerToken:
      return "cost_per_token";
  }
  return "";
}

double ImportanceCurve::selected(double topk_ratio) const {
  std::pair<double, double> before = {0, 0};
  for (const std::pair<double, double>& point : points) {
    if (topk_ratio <= point.first) {
      const double along = (topk_ratio - before.first) / (point.first - before.first);
      return before.second + along * (point.second - before.second);
    }
    before = point;
  }
  if (before.first >= 1) return before.second;
  return before.second + (topk_ratio - before.first) / (1 - before.first) * (1 - before.second);
}

Candidates::Candidates(TuneRequest request)
    : request_(std::move(request)),
      own_(setting_of(request_.job)),
      document_(as_json(request_.job.scenario.deepspeed)),
      base_(without_documents(request_.job)) {}

std::int64_t Candidates::accumulation(const Setting& setting) const {
  const std::int64_t step =
      setting.whole(Knob::kMicroBatch) * setting.whole(Knob::kGpus) * request_.job.scenario.nodes;
  return request_.global_batch % step == 0 ? request_.global_batch / step : 0;
}

std::string Candidates::refusal_of_rest(const Setting& setting) const {
  const std::int64_t steps = accumulation(setting);
  if (steps == 0) return "batch: micro-batch and GPUs do not divide the global batch";
  const Placement placement = setting.placement();
  const bool own_launcher = request_.job.target == LaunchTarget::kDeepSpeed;
  const bool drops = request_.family != Family::kDeepSpeed || own_launcher;
  if (steps > 1 && setting.zenflow() && drops) {
    return "batch: ZenFlow takes no gradient_accumulation_steps, so one micro-batch is a step";
  }
  if (steps > 1 && request_.family == Family::kLive) {
    return "batch: steps of zenflow-train are searched with one micro-batch";
  }
  if (setting.stage() == 0 && placement != Placement::kGpu) {
    return "stage: an offloaded optimizer needs ZeRO stage 1, 2 or 3";
  }
  if (placement == Placement::kGpu && setting.stage() > 0 && !setting.flag(Knob::kOverlapComm) &&
      request_.family == Family::kDeepSpeed) {
    return "model: without offloading reductions are simulated beside backward, as overlap_comm "
           "has "
           "them";
  }
  if (placement == Placement::kNvme && setting.stage() != 3) return "stage: NVMe needs stage 3";
  if (placement == Placement::kNvme && !request_.job.scenario.hardware.nvme) {
    return "hardware: the profile has no nvme block";
  }
  if (setting.whole(Knob::kGpus) > request_.job.scenario.hardware.gpu.count) {
    return "hardware: more GPUs than the profile has";
  }
  return "";
}

const std::string& Candidates::refusal(const Setting& setting) {
  const std::uint64_t key =
      key_of(request_.space, setting,
             {Knob::kPlacement, Knob::kStage, Knob::kMicroBatch, Knob::kOverlapComm,
              Knob::kPinMemory, Knob::kGpus, Knob::kUpdateInterval, Knob::kSelectInterval,
              Knob::kWarmUp, Knob::kOverlapStep, Knob::kSelectedOffload});
  const auto known = refusals_.find(key);
  if (known != refusals_.end()) return known->second;
  std::string why = refusal_of_rest(setting);
  const bool own_launcher = request_.job.target == LaunchTarget::kDeepSpeed;
  if (why.empty() && setting.zenflow() && request_.family == Family::kDeepSpeed && !own_launcher &&
      setting.interval() != accumulation(setting)) {
    why = fmt::format(
        "launcher: {} sets update boundaries every gradient_accumulation_steps, and "
        "update_interval has to say the same",
        to_string(request_.job.target));
  }
  if (why.empty() && setting.zenflow() && request_.family == Family::kDeepSpeed &&
      setting.flag(Knob::kOverlapStep) && setting.whole(Knob::kWarmUp) == 0) {
    // Only a warning to who wrote it so; not to be proposed.
    why = "lint ZF043: overlap_step without warm-up may copy half-written weights";
  }
  if (why.empty()) {
    why = tuned_config(document_, request_.job, setting, accumulation(setting)).refusal;
  }
  if (why.empty() && request_.family == Family::kLive) {
    try {
      schedule(setting).check(job(setting));
    } catch (const Error& error) {
      why = fmt::format("schedule: {}", error.what());
    }
  }
  return refusals_.emplace(key, std::move(why)).first->second;
}

Setting Candidates::canonical(const Setting& setting) const {
  Setting same = setting;
  // The user's own value where the space has it, so that nothing is changed for nothing.
  const auto forget = [&](Knob knob) {
    const std::vector<double>& values = request_.space.values(knob);
    const bool keeps = std::binary_search(values.begin(), values.end(), own_.get(knob));
    same.set(knob, keeps ? own_.get(knob) : values.front());
  };
  const HostProfile& host = request_.job.scenario.hardware.host;
  if (!setting.zenflow()) {
    for (const KnobInfo& one : knobs()) {
      if (one.of_zenflow) forget(one.knob);
    }
  }
  const bool overlaps = setting.zenflow() && setting.flag(Knob::kOverlapStep);
  if (!overlaps) forget(Knob::kReservedCores);
  if (setting.placement() == Placement::kGpu) {
    forget(Knob::kPinMemory);
    forget(Knob::kBindCores);
    if (setting.stage() == 0) forget(Knob::kOverlapComm);
  }
  if (request_.family == Family::kDeepSpeed) {
    // Without a worker, binding only changes CPU rates, by unbound_efficiency.
    if (!overlaps && host.unbound_efficiency == 1) forget(Knob::kBindCores);
    // In the long run warm-up only decides whether a boundary waits for the update before the last.
    const std::vector<double>& rounds = request_.space.values(Knob::kWarmUp);
    if (!overlaps) {
      forget(Knob::kWarmUp);
    } else if (setting.get(Knob::kWarmUp) > 0) {
      same.set(Knob::kWarmUp, *std::upper_bound(rounds.begin(), rounds.end(), 0.0));
    }
  } else {
    for (const Knob knob :
         {Knob::kBindCores, Knob::kOverlapComm, Knob::kSelectedOffload, Knob::kWarmUp}) {
      forget(knob);
    }
  }
  return same;
}

const Schedule& Candidates::schedule(const Setting& setting) const {
  return find_schedule(schedule_name(request_.family, setting.placement()));
}

void Candidates::apply(Job& job, const Setting& setting) const {
  DeepSpeedConfig& config = job.deepspeed;
  TrainingSettings& training = job.scenario.training;
  training.micro_batch_size_per_gpu = setting.whole(Knob::kMicroBatch);
  training.activation_checkpointing = setting.flag(Knob::kCheckpointing);
  job.scenario.gpus = setting.whole(Knob::kGpus);
  job.scenario.bind_cores_to_rank = setting.flag(Knob::kBindCores);
  config.train_micro_batch_size_per_gpu = training.micro_batch_size_per_gpu;
  config.gradient_accumulation_steps = std::max<std::int64_t>(1, accumulation(setting));
  config.zero_stage = setting.stage();
  config.reduce_bucket_size = setting.whole(Knob::kBucket);
  config.overlap_comm = setting.flag(Knob::kOverlapComm);
  config.pin_memory = setting.flag(Knob::kPinMemory);
  const Placement placement = setting.placement();
  config.offload_optimizer = placement == Placement::kGpu    ? OffloadDevice::kNone
                             : placement == Placement::kNvme ? OffloadDevice::kNvme
                                                             : OffloadDevice::kCpu;
  if (placement == Placement::kGpu || setting.stage() < 3)
    config.offload_param = OffloadDevice::kNone;
  if (!setting.zenflow()) {
    config.zenflow.reset();
    job.scenario.run = long_run(0, config.gradient_accumulation_steps, 0);
    return;
  }
  if (!config.zenflow) config.zenflow.emplace();
  ZenFlowSettings& zenflow = *config.zenflow;
  zenflow.topk_ratio = setting.topk_ratio();
  zenflow.update_interval = setting.interval();
  const std::int64_t select = setting.whole(Knob::kSelectInterval);
  zenflow.select_interval = select;
  zenflow.select_strategy = "step";
  zenflow.overlap_step = setting.flag(Knob::kOverlapStep);
  zenflow.offload = setting.flag(Knob::kSelectedOffload);
  zenflow.pt_reserved_cores_perc = setting.get(Knob::kReservedCores);
  const bool deep = setting.whole(Knob::kWarmUp) == 0;
  zenflow.full_warm_up_rounds =
      deep || request_.family != Family::kDeepSpeed ? 0 : setting.interval();
  job.scenario.run = long_run(zenflow.full_warm_up_rounds, setting.interval(), select);
}

Job Candidates::job(const Setting& setting) const {
  Job job = base_;
  apply(job, setting);
  return job;
}

/// The published gpu-only schedule counts what ZeRO needs. DeepSpeed also has buckets, the bucket
/// flattened, and fp32 gradients of the rank's share while it updates.
double Candidates::extra_gpu_bytes(const Job& job, const Setting& setting) const {
  if (setting.placement() != Placement::kGpu || request_.family != Family::kDeepSpeed) return 0;
  const auto bytes = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const auto bucket = static_cast<double>(job.deepspeed.reduce_bucket_size);
  const double buckets = setting.stage() == 0 ? 0 : (setting.flag(Knob::kOverlapComm) ? 3 : 2);
  const double owned =
      setting.stage() == 0 ? static_cast<double>(job.scenario.model.parameters()) : job.partition();
  return bytes * bucket * buckets + 4 * owned;
}

std::string Candidates::exceeded(const Setting& setting, double gpu, std::int64_t staleness,
                                 const std::array<double, kMemoryLimits>& needs) const {
  const HardwareProfile& hardware = request_.job.scenario.hardware;
  const Limits& limits = request_.limits;
  const auto need = [&](MemoryLimit limit) { return needs[static_cast<std::size_t>(limit)]; };
  if (gpu > hardware.gpu.memory.value()) return "memory: GPU";
  if (need(MemoryLimit::kHost) > hardware.host.memory.value()) return "memory: RAM of the node";
  if (need(MemoryLimit::kShared) > hardware.host.shared_memory.value()) return "memory: /dev/shm";
  if (hardware.host.locked_memory_limit &&
      need(MemoryLimit::kLocked) > hardware.host.locked_memory_limit->value()) {
    return "memory: locked by a process";
  }
  if (hardware.nvme && need(MemoryLimit::kNvme) > hardware.nvme->capacity.value()) {
    return "memory: NVMe";
  }
  if (limits.gpu_memory && gpu > *limits.gpu_memory) return "limit: --max-gpu-memory";
  if (limits.host_memory && need(MemoryLimit::kHost) > *limits.host_memory) {
    return "limit: --max-host-memory";
  }
  if (limits.shm && need(MemoryLimit::kShared) > *limits.shm) return "limit: --max-shm";
  if (staleness > limits.staleness) return "limit: --max-staleness";
  if (limits.deferred_share && setting.zenflow() && request_.importance &&
      1 - request_.importance->selected(setting.topk_ratio()) > *limits.deferred_share) {
    return "limit: --max-deferred-share";
  }
  return "";
}

std::uint64_t Candidates::memory_key(const Setting& setting, std::int64_t steps) const {
  const std::uint64_t key =
      key_of(request_.space, setting,
             {Knob::kPlacement, Knob::kStage, Knob::kMicroBatch, Knob::kBucket, Knob::kOverlapComm,
              Knob::kPinMemory, Knob::kCheckpointing, Knob::kGpus, Knob::kTopkRatio,
              Knob::kOverlapStep, Knob::kSelectedOffload});
  const bool sums = (setting.zenflow() ? setting.interval() : steps) > 1;
  const bool selects = setting.whole(Knob::kSelectInterval) > 0;
  return 4 * key + (sums ? 2U : 0U) + (selects ? 1U : 0U);
}

std::uint64_t Candidates::step_key(const Setting& setting) const {
  return key_of(request_.space, setting,
                {Knob::kPlacement, Knob::kStage, Knob::kMicroBatch, Knob::kBucket,
                 Knob::kOverlapComm, Knob::kPinMemory, Knob::kCheckpointing, Knob::kGpus});
}

CandidateBounds Candidates::bounds(const Setting& setting, Job& scratch,
                                   BoundsComputer& computer) const {
  apply(scratch, setting);
  const std::int64_t steps = accumulation(setting);
  const StepBounds step =
      computer.bounds(scratch, schedule(setting), memory_key(setting, steps), step_key(setting));
  CandidateBounds bounds;
  bounds.step_time = step.step_time * static_cast<double>(steps);
  bounds.gpu_bytes = step.gpu_bytes + extra_gpu_bytes(scratch, setting);
  bounds.traffic = step.traffic * static_cast<double>(steps);
  bounds.staleness = step.staleness.max / steps;
  bounds.infeasible = exceeded(setting, bounds.gpu_bytes, bounds.staleness, step.host_needs);
  return bounds;
}

Evaluation Candidates::judged(const Setting& setting, const Job& job,
                              const SimulationResult& result, std::int64_t accumulation) const {
  const auto steps = static_cast<double>(accumulation);
  Evaluation one;
  one.micro_step = result.step_time;
  one.step_time = result.step_time * steps;
  one.compute = result.compute;
  one.stall = result.stall_by_cause;
  one.d2h_bytes = result.d2h_bytes * steps;
  one.h2d_bytes = result.h2d_bytes * steps;
  one.model_sizes = result.model_sizes;
  one.tokens_per_second = result.tokens_per_second;
  one.mfu = result.mfu;
  one.staleness = result.staleness.max / accumulation;
  one.gpu_bytes = result.memory.gpu.total + extra_gpu_bytes(job, setting);
  for (std::size_t i = 0; i < one.needs.size(); ++i) one.needs[i] = result.memory.limits[i].need;
  one.infeasible = exceeded(setting, one.gpu_bytes, one.staleness, one.needs);
  return one;
}

Evaluation Candidates::evaluate(const Setting& setting, const HardwareProfile* hardware) const {
  Job job = this->job(setting);
  if (hardware != nullptr) job.scenario.hardware = *hardware;
  return judged(setting, job, simulate_schedule(job, schedule(setting)), accumulation(setting));
}

Evaluation Candidates::evaluate_own(const HardwareProfile* hardware) const {
  const DeepSpeedConfig& config = request_.job.deepspeed;
  const std::int64_t accumulation = this->accumulation(own_);
  if (accumulation == 0) {
    throw Error(ErrorKind::kInput, "its micro-batch and GPUs do not divide the global batch");
  }
  const bool special = request_.family == Family::kDeepSpeed && !config.zenflow &&
                       config.zero_stage == 3 && config.offload_optimizer == OffloadDevice::kCpu &&
                       (config.offload_ratio < 1 || config.super_offload);
  const bool automatic = config.zenflow && !config.zenflow->update_interval;
  Job job = request_.job;
  if (hardware != nullptr) job.scenario.hardware = *hardware;
  const Schedule& schedule =
      special
          ? find_schedule(config.super_offload ? "deepspeed-super-offload" : "deepspeed-twin-flow")
          : this->schedule(own_);
  if (!special && !automatic) {
    const std::int64_t steps = config.gradient_accumulation_steps;
    const bool own_window = config.zenflow && (request_.family != Family::kDeepSpeed ||
                                               job.target == LaunchTarget::kDeepSpeed);
    const std::int64_t window = own_window ? *config.zenflow->update_interval : steps;
    const std::int64_t select = config.zenflow ? own_.whole(Knob::kSelectInterval) : 0;
    const std::int64_t warm_up = config.zenflow ? config.zenflow->full_warm_up_rounds : 0;
    const bool deep = config.zenflow && config.zenflow->overlap_step && warm_up == 0 &&
                      request_.family == Family::kDeepSpeed;
    job.scenario.run = long_run(warm_up, window, select, deep ? kDeepSettling : kSettling);
  }
  return judged(own_, job, simulate_schedule(job, schedule), accumulation);
}

double Candidates::cost(const Setting& setting, double step_time) const {
  if (request_.objective != Objective::kCostPerToken) return step_time;
  constexpr double kPicosecondsPerHour = 3600e12;
  const auto gpus = static_cast<double>(setting.whole(Knob::kGpus) * request_.job.scenario.nodes);
  const double tokens = static_cast<double>(request_.global_batch) *
                        static_cast<double>(request_.job.scenario.training.sequence_length);
  return request_.price_per_gpu_hour * gpus * step_time / kPicosecondsPerHour / tokens;
}

}  // namespace zenflow::sim
