#include "sim/tune/refusals.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/tune/setting_job.h"

namespace zenflow::sim {

std::string Refusals::of_placement(const Setting& setting) const {
  const Placement placement = setting.placement();
  if (request_.family == Family::kLive) {
    return placement == Placement::kNvme ? "placement: zenflow-train does not offload to NVMe" : "";
  }
  if (setting.stage() == 0 && placement != Placement::kGpu) {
    return "stage: an offloaded optimizer needs ZeRO stage 1, 2 or 3";
  }
  if (placement == Placement::kNvme && setting.stage() != 3) return "stage: NVMe needs stage 3";
  const bool swaps_param =
      setting.offloads_param() &&
      setting.whole(Knob::kOffloadParam) == static_cast<std::int64_t>(OffloadDevice::kNvme);
  if ((placement == Placement::kNvme || swaps_param) && !request_.job.scenario.hardware.nvme) {
    return "hardware: the profile has no nvme block";
  }
  return "";
}

std::string Refusals::of_rest(const Setting& setting) const {
  if (setting.zenflow() && request_.family == Family::kDeepSpeed &&
      !request_.job.has(Change::kZenFlow)) {
    return fmt::format("release: ZenFlow is in DeepSpeed from 0.17.5, the job's release is {}",
                       to_string(request_.job.version));
  }
  const std::int64_t steps = accumulation_of(request_, setting);
  if (steps == 0) return "batch: micro-batch and GPUs do not divide the global batch";
  if (steps > 1 && setting.zenflow() && drops_accumulation()) {
    return "batch: ZenFlow takes no gradient_accumulation_steps, so one micro-batch is a step";
  }
  std::string why = of_placement(setting);
  if (!why.empty()) return why;
  if (setting.whole(Knob::kGpus) > request_.job.scenario.hardware.gpu.count) {
    return "hardware: more GPUs than the profile has";
  }
  return "";
}

std::string Refusals::by_deepspeed(const Setting& setting) const {
  const std::int64_t steps = accumulation_of(request_, setting);
  if (setting.zenflow() && request_.family == Family::kDeepSpeed) {
    if (const Tensor* stacked = request_.job.scenario.model.stacked_tensor()) {
      return fmt::format("model: DeepSpeed's ZenFlow fails on parameters of {} dimensions ({})",
                         stacked->shape.size(), stacked->name);
    }
    if (!drops_accumulation() && setting.interval() != steps) {
      return fmt::format(
          "launcher: {} sets update boundaries every gradient_accumulation_steps, and "
          "update_interval has to say the same",
          to_string(request_.job.target));
    }
    if (setting.flag(Knob::kOverlapStep) && setting.whole(Knob::kWarmUp) == 0) {
      // Only a warning to who wrote it so; not to be proposed.
      return "lint ZF043: overlap_step without warm-up may copy half-written weights";
    }
  }
  return tuned_config(document_, request_.job, setting, steps).refusal;
}

std::string Refusals::by_schedule(const Setting& setting) const {
  Job job = without_documents(request_.job);
  apply_setting(request_, setting, job);
  try {
    schedule_of(request_.family, setting.placement()).check(job);
  } catch (const Error& error) {
    return fmt::format("schedule: {}", error.what());
  }
  return "";
}

const std::string& Refusals::of(const Setting& setting) {
  const std::uint64_t key = request_.space.key(
      setting, {Knob::kPlacement, Knob::kStage, Knob::kMicroBatch, Knob::kOverlapComm,
                Knob::kPinMemory, Knob::kGpus, Knob::kUpdateInterval, Knob::kSelectInterval,
                Knob::kWarmUp, Knob::kOverlapStep, Knob::kSelectedOffload, Knob::kOffloadParam});
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  return known_.emplace(key, of_any(setting)).first->second;
}

std::string Refusals::of_any(const Setting& setting) const {
  std::string why = of_rest(setting);
  if (!why.empty()) return why;
  return request_.family == Family::kLive ? by_schedule(setting) : by_deepspeed(setting);
}

}  // namespace zenflow::sim
