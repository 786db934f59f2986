#include "sim/tune/candidates.h"

#include <algorithm>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

/// The strict JSON that DeepSpeed would read of a document that may be YAML.
Node as_json(const Node& document) {
  if (!document.is_map()) return document;
  return parse_ds_document(render_json(document), "deepspeed").root;
}

}  // namespace

Candidates::Candidates(TuneRequest request)
    : request_(std::move(request)),
      own_(setting_of(request_.job)),
      document_(as_json(request_.job.scenario.deepspeed)),
      base_(without_documents(request_.job)),
      refusals_(request_, document_) {}

Setting Candidates::without_effectless(const Setting& setting) const {
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
  if (setting.stage() != 3 || setting.placement() == Placement::kGpu) forget(Knob::kOffloadParam);
  const bool overlaps = setting.zenflow() && setting.flag(Knob::kOverlapStep);
  // zenflow-train's threads for sums have theirs whether updates overlap or not.
  // They may also have been said.
  const Scenario& scenario = request_.job.scenario;
  const bool said = scenario.offload.optimizer_threads > 0 && scenario.offload.sum_threads > 0;
  if (request_.family == Family::kLive ? said : !overlaps) forget(Knob::kReservedCores);
  if (setting.placement() == Placement::kGpu) {
    forget(Knob::kPinMemory);
    forget(Knob::kBindCores);
    if (setting.stage() == 0) forget(Knob::kOverlapComm);
  }
  // A window of one step that nothing overlaps has no sums.
  const bool sums = overlaps || setting.interval() > 1;
  if (!sums || !has_knob(request_.family, Knob::kAccumulateOn)) forget(Knob::kAccumulateOn);
  if (request_.family == Family::kDeepSpeed) {
    // Cores are divided between training and worker by releases that can, and unless one has all.
    const bool divides = request_.job.has(Change::kWorkerCores);
    const double reserved = setting.get(Knob::kReservedCores);
    if (!divides) forget(Knob::kReservedCores);
    // If cores are not divided, binding only changes CPU rates, by unbound_efficiency.
    const bool apart = overlaps && divides && reserved > 0 && reserved < 1;
    if (!apart && host.unbound_efficiency == 1) forget(Knob::kBindCores);
  } else {
    for (const Knob knob : {Knob::kBindCores, Knob::kOverlapComm, Knob::kSelectedOffload}) {
      forget(knob);
    }
    if (request_.family == Family::kLive) forget(Knob::kWarmUp);
  }
  return same;
}

/// In the long run DeepSpeed's warm-up only decides where boundaries lie between selections and,
/// with overlap, whether they wait for the update before the last; what is published takes none of
/// it. Those that come to the same are represented by the user's own, or by the least above 0 that
/// the linter has nothing against.
Setting Candidates::with_settled_warm_up(const Setting& setting) {
  const bool is_published = request_.family == Family::kPublished;
  const std::int64_t here = setting.whole(Knob::kWarmUp);
  const std::int64_t phase = warm_up_phase(request_, setting, here);
  const auto is_same = [&](double rounds) {
    const auto whole = static_cast<std::int64_t>(rounds);
    const bool waits_alike = !setting.flag(Knob::kOverlapStep) || (whole == 0) == (here == 0);
    return is_published || (waits_alike && warm_up_phase(request_, setting, whole) == phase);
  };
  std::vector<double> rounds = request_.space.values(Knob::kWarmUp);
  const auto prefer = [&rounds](const auto& which) {
    std::stable_partition(rounds.begin(), rounds.end(), which);
  };
  const auto is_some = [](double one) { return one > 0; };
  prefer(is_some);
  prefer([&](double one) { return one == own_.get(Knob::kWarmUp); });
  if (setting.flag(Knob::kOverlapStep)) prefer(is_some);  // without, DeepSpeed's linter warns
  Setting same = setting;
  for (const double one : rounds) {
    if (!is_same(one)) continue;
    same.set(Knob::kWarmUp, one);
    if (refusal(same).empty()) return same;
  }
  return setting;
}

/// As published an offloaded optimizer's stage only says whether parameters are partitioned: of
/// stages 1 and 2 the user's own, or 2.
Setting Candidates::with_published_stage(const Setting& setting) {
  const auto is_same = [](int stage) { return stage == 1 || stage == 2; };
  if (!is_same(setting.stage())) return setting;
  const std::vector<double>& stages = request_.space.values(Knob::kStage);
  for (const int stage : {own_.stage(), 2, 1}) {
    if (!is_same(stage) || !std::binary_search(stages.begin(), stages.end(), stage)) continue;
    Setting twin = setting;
    twin.set(Knob::kStage, stage);
    if (refusal(twin).empty()) return twin;
  }
  return setting;
}

/// DeepSpeed runs stage 1 with an offloaded optimizer as stage 2, gradients are reduced in buckets
/// and leave as they come; what its linter minds may differ.
Setting Candidates::canonical(const Setting& setting) {
  Setting same = without_effectless(setting);
  const bool offloads = same.placement() == Placement::kCpu || same.zenflow();
  if (!offloads || request_.family == Family::kLive) return same;
  if (same.zenflow()) same = with_settled_warm_up(same);
  if (request_.family == Family::kPublished) return with_published_stage(same);
  if (same.stage() != 1 && same.stage() != 2) return same;
  const int stage = own_.stage() == 1 ? 1 : 2;
  const std::vector<double>& stages = request_.space.values(Knob::kStage);
  if (stage == same.stage() || !std::binary_search(stages.begin(), stages.end(), stage)) {
    return same;
  }
  Setting twin = same;
  twin.set(Knob::kStage, stage);
  if (same.zenflow()) twin = with_settled_warm_up(twin);
  return refusal(twin).empty() ? twin : same;
}

Job Candidates::job(const Setting& setting) const {
  Job job = base_;
  apply_setting(request_, setting, job);
  return job;
}

TunedConfig Candidates::config(const Setting& setting) const {
  const auto make = request_.family == Family::kLive ? changed_config : tuned_config;
  return make(document_, request_.job, setting, accumulation(setting));
}

std::string Candidates::infeasible(const Setting& setting, const Evaluation& evaluation) const {
  return exceeded_limit(request_, setting,
                        {evaluation.gpu_bytes, evaluation.staleness, evaluation.needs});
}

std::uint64_t Candidates::memory_key(const Setting& setting, std::int64_t steps) const {
  const std::uint64_t key = request_.space.key(
      setting,
      {Knob::kPlacement, Knob::kStage, Knob::kMicroBatch, Knob::kBucket, Knob::kOverlapComm,
       Knob::kPinMemory, Knob::kCheckpointing, Knob::kGpus, Knob::kTopkRatio, Knob::kOverlapStep,
       Knob::kSelectedOffload, Knob::kAccumulateOn, Knob::kOffloadParam});
  const bool sums = (setting.zenflow() ? setting.interval() : steps) > 1;
  const bool selects = setting.whole(Knob::kSelectInterval) > 0;
  return 4 * key + (sums ? 2U : 0U) + (selects ? 1U : 0U);
}

std::uint64_t Candidates::step_key(const Setting& setting) const {
  return request_.space.key(setting, {Knob::kPlacement, Knob::kStage, Knob::kMicroBatch,
                                      Knob::kBucket, Knob::kOverlapComm, Knob::kPinMemory,
                                      Knob::kCheckpointing, Knob::kGpus, Knob::kOffloadParam});
}

std::int64_t Candidates::schedule_steps(const Setting& setting, const Job& job) const {
  return accumulation(setting) / schedule(setting).micro_batches_per_step(job);
}

CandidateBounds Candidates::bounds(const Setting& setting, Job& scratch,
                                   BoundsComputer& computer) const {
  apply_setting(request_, setting, scratch);
  const StepBounds step = computer.bounds(
      scratch, schedule(setting), memory_key(setting, accumulation(setting)), step_key(setting));
  const std::int64_t steps = schedule_steps(setting, scratch);
  CandidateBounds bounds;
  bounds.step_time = step.step_time * static_cast<double>(steps);
  bounds.gpu_bytes = step.gpu_bytes;
  bounds.traffic = step.traffic * static_cast<double>(steps);
  bounds.staleness = step.staleness.max / steps;
  bounds.needs = step.host_needs;
  bounds.infeasible =
      exceeded_limit(request_, setting, {bounds.gpu_bytes, bounds.staleness, bounds.needs});
  return bounds;
}

Evaluation Candidates::judged(const Setting& setting, const Job& job,
                              const SimulationResult& result) const {
  const std::int64_t in_global_batch = schedule_steps(setting, job);
  const auto steps = static_cast<double>(in_global_batch);
  const auto micro_batches = static_cast<double>(accumulation(setting)) / steps;
  Evaluation one;
  one.micro_step = result.step_time / micro_batches;
  one.step_time = result.step_time * steps;
  one.compute = result.compute / micro_batches;
  one.stall = result.stall_by_cause;
  for (double& stall : one.stall) stall /= micro_batches;
  one.d2h_bytes = result.d2h_bytes * steps;
  one.h2d_bytes = result.h2d_bytes * steps;
  one.model_sizes = result.model_sizes / micro_batches;
  one.tokens_per_second = result.tokens_per_second;
  one.mfu = result.mfu;
  one.staleness = result.staleness.max / in_global_batch;
  one.gpu_bytes = result.memory.gpu.total;
  for (std::size_t i = 0; i < one.needs.size(); ++i) one.needs[i] = result.memory.limits[i].need;
  one.infeasible = infeasible(setting, one);
  return one;
}

Evaluation Candidates::evaluate(const Setting& setting) const {
  const Job job = this->job(setting);
  return judged(setting, job,
                simulate_schedule(job, schedule(setting), SimulationDetail::kNoCriticalPath));
}

double Candidates::step_time_on(const HardwareProfile& hardware, const Setting& setting) const {
  Job job = this->job(setting);
  job.scenario.hardware = hardware;
  return simulate_step_time(job, schedule(setting)) *
         static_cast<double>(schedule_steps(setting, job));
}

Candidates::OwnJob Candidates::own_job() const {
  const DeepSpeedConfig& config = request_.job.deepspeed;
  if (accumulation(own_) == 0) {
    throw Error(ErrorKind::kInput, "its micro-batch and GPUs do not divide the global batch");
  }
  if (request_.family == Family::kLive && own_.placement() == Placement::kNvme) {
    throw Error(ErrorKind::kInput, "zenflow-train does not offload to NVMe");
  }
  const bool special = request_.family == Family::kDeepSpeed && !config.zenflow &&
                       config.zero_stage == 3 && config.offload_optimizer == OffloadDevice::kCpu &&
                       (config.offload_ratio < 1 || config.super_offload);
  const bool automatic = config.zenflow && !config.zenflow->update_interval;
  OwnJob own{request_.job, special ? find_schedule(config.super_offload ? "deepspeed-super-offload"
                                                                        : "deepspeed-twin-flow")
                                   : schedule(own_)};
  // The micro-batches of a step are those of the global batch asked for, as in other settings.
  if (request_.family == Family::kLive) {
    own.job.deepspeed.gradient_accumulation_steps = accumulation(own_);
  }
  if (!special && !automatic) own.job.scenario.run = own_run(request_);
  return own;
}

Evaluation Candidates::evaluate_own() const {
  const auto& [job, schedule] = own_job();
  return judged(own_, job, simulate_schedule(job, schedule, SimulationDetail::kNoCriticalPath));
}

double Candidates::own_step_time_on(const HardwareProfile& hardware) const {
  auto [job, schedule] = own_job();
  job.scenario.hardware = hardware;
  return simulate_step_time(job, schedule) * static_cast<double>(schedule_steps(own_, job));
}

}  // namespace zenflow::sim
