#include "sim/tune/setting_job.h"

#include <algorithm>
#include <numeric>

namespace zenflow::sim {
namespace {

/// Steps that are averaged, at least: as RunSettings' default.
constexpr std::int64_t kAveraged = 64;
/// Windows before the average begins.
constexpr std::int64_t kSettling = 4;
/// The same where a boundary waits for the update before the last, whose backlog fills slowly.
constexpr std::int64_t kDeepSettling = 256;

/// A run whose average is that of ever longer ones: whole intervals of what repeats.
RunSettings long_run(std::int64_t warm_up, std::int64_t window, std::int64_t select,
                     std::int64_t settling = kSettling) {
  const std::int64_t period = select > 0 ? std::lcm(window, select) : window;
  const std::int64_t times = (kAveraged + period - 1) / period;
  return {.warmup_steps = warm_up + settling * window, .steps = period * times};
}

/// Steps of a schedule without ZenFlow from one update to the next: zenflow-train's step ends with
/// one, whatever its micro-batches.
std::int64_t steps_to_update(Family family, const DeepSpeedConfig& config) {
  return family == Family::kLive ? 1 : config.gradient_accumulation_steps;
}

std::string_view schedule_name(Family family, Placement placement) {
  switch (family) {
    case Family::kDeepSpeed:
      if (placement == Placement::kCpu) return "deepspeed-zero-offload";
      if (placement == Placement::kZenFlow) return "deepspeed-zenflow";
      if (placement == Placement::kNvme) return "deepspeed-zero-infinity";
      return "deepspeed-zero";
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

OffloadDevice offload_of(Placement placement) {
  switch (placement) {
    case Placement::kGpu:
      return OffloadDevice::kNone;
    case Placement::kNvme:
      return OffloadDevice::kNvme;
    case Placement::kCpu:
    case Placement::kZenFlow:
      break;
  }
  return OffloadDevice::kCpu;
}

/// Precondition: the job's setup has the setting's knobs.
void apply_zenflow(const TuneRequest& request, const Setting& setting, Job& job) {
  DeepSpeedConfig& config = job.deepspeed;
  if (!config.zenflow) config.zenflow = request.job.deepspeed.zenflow.value_or(ZenFlowSettings());
  ZenFlowSettings& zenflow = *config.zenflow;
  copy_knobs(job.scenario.offload, zenflow);
  zenflow.select_strategy = "step";
  zenflow.offload = setting.flag(Knob::kSelectedOffload);
  zenflow.pt_reserved_cores_perc = setting.get(Knob::kReservedCores);
  const std::int64_t warm_up = setting.whole(Knob::kWarmUp);
  zenflow.full_warm_up_rounds = 0;
  if (warm_up > 0 && request.family == Family::kDeepSpeed) {
    zenflow.full_warm_up_rounds = setting.interval() + warm_up_phase(request, setting, warm_up);
  }
  job.scenario.run = long_run(zenflow.full_warm_up_rounds, setting.interval(),
                              setting.whole(Knob::kSelectInterval));
}

}  // namespace

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

const Schedule& schedule_of(Family family, Placement placement) {
  return find_schedule(schedule_name(family, placement));
}

std::int64_t warm_up_phase(const TuneRequest& request, const Setting& setting,
                           std::int64_t full_warm_up_rounds) {
  const bool cuts = request.family == Family::kDeepSpeed &&
                    request.job.target == LaunchTarget::kDeepSpeed &&
                    setting.whole(Knob::kSelectInterval) > 0;
  return cuts ? full_warm_up_rounds % setting.interval() : 0;
}

void apply_setting(const TuneRequest& request, const Setting& setting, Job& job) {
  DeepSpeedConfig& config = job.deepspeed;
  const TrainingSetup setup = with_setting({job.scenario.offload, job.scenario.training}, setting);
  job.scenario.offload = setup;
  job.scenario.training = setup;
  job.scenario.gpus = setting.whole(Knob::kGpus);
  job.scenario.bind_cores_to_rank = setting.flag(Knob::kBindCores);
  config.train_micro_batch_size_per_gpu = setup.micro_batch_size_per_gpu;
  config.gradient_accumulation_steps = std::max<std::int64_t>(1, accumulation_of(request, setting));
  config.zero_stage = setting.stage();
  config.reduce_bucket_size = setting.whole(Knob::kBucket);
  config.overlap_comm = setting.flag(Knob::kOverlapComm);
  config.pin_memory = setting.flag(Knob::kPinMemory);
  // The command says how many threads, so that no launcher's default leaves cores idle.
  if (const auto threads = advised_threads(job); threads && request.family == Family::kDeepSpeed) {
    job.scenario.omp_num_threads = *threads;
  }
  const Placement placement = setting.placement();
  config.offload_optimizer = offload_of(placement);
  config.offload_param = setting.offloads_param()
                             ? static_cast<OffloadDevice>(setting.whole(Knob::kOffloadParam))
                             : OffloadDevice::kNone;
  // A block that is written anew pins both or neither.
  if (request.job.deepspeed.offload_param == OffloadDevice::kNone) {
    config.param_pin_memory = config.pin_memory;
  }
  if (setting.zenflow()) {
    apply_zenflow(request, setting, job);
    return;
  }
  config.zenflow.reset();
  job.scenario.run = long_run(0, steps_to_update(request.family, config), 0);
}

RunSettings own_run(const TuneRequest& request) {
  const DeepSpeedConfig& config = request.job.deepspeed;
  if (!config.zenflow) return long_run(0, steps_to_update(request.family, config), 0);
  const bool own_window =
      request.family != Family::kDeepSpeed || request.job.target == LaunchTarget::kDeepSpeed;
  const std::int64_t window =
      own_window ? *config.zenflow->update_interval : config.gradient_accumulation_steps;
  const std::int64_t warm_up = config.zenflow->full_warm_up_rounds;
  const bool deep =
      config.zenflow->overlap_step && warm_up == 0 && request.family == Family::kDeepSpeed;
  return long_run(warm_up, window, setting_of(request.job).whole(Knob::kSelectInterval),
                  deep ? kDeepSettling : kSettling);
}

}  // namespace zenflow::sim
