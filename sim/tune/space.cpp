#include "sim/tune/space.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "sim/offload/knobs.h"
#include "sim/report/sweep.h"

namespace zenflow::sim {
namespace {

Placement placement_of(const Job& job) {
  if (job.deepspeed.zenflow) return Placement::kZenFlow;
  switch (job.deepspeed.offload_optimizer) {
    case OffloadDevice::kNone:
      return Placement::kGpu;
    case OffloadDevice::kCpu:
      return Placement::kCpu;
    case OffloadDevice::kNvme:
      return Placement::kNvme;
  }
  return Placement::kGpu;
}

/// The job's own block, or where it has none as published.
ZenFlowSettings zenflow_of(const Job& job) {
  ZenFlowSettings published;
  published.update_interval = 4;
  published.overlap_step = true;
  return job.deepspeed.zenflow.value_or(published);
}

TrainingSetup setup_of(const Scenario& scenario, const ZenFlowSettings& zenflow) {
  TrainingSetup setup{scenario.offload, scenario.training};
  copy_knobs(zenflow, setup);
  if (zenflow.select_strategy != "step") setup.select_interval = 0;
  return setup;
}

/// Shares of the cores that leave whole threads on both sides, as zenflow-train has them.
std::vector<double> whole_thread_shares(const Job& job) {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  std::vector<double> shares = {0.25, 0.5, 0.75};
  std::erase_if(shares, [&](double share) { return share * cores != std::floor(share * cores); });
  return shares;
}

std::vector<double> divisors(std::int64_t number) {
  std::vector<double> all;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    all.push_back(static_cast<double>(d));
    all.push_back(static_cast<double>(number / d));
  }
  return all;
}

/// The divisors of one GPU's share of the global batch, for each number of GPUs.
std::vector<double> divisors_of_shares(const Space& space, const Job& job,
                                       std::int64_t global_batch) {
  std::vector<double> all;
  for (const double gpus : space.values(Knob::kGpus)) {
    const std::int64_t ranks = static_cast<std::int64_t>(gpus) * job.scenario.nodes;
    if (global_batch % ranks != 0) continue;
    const std::vector<double> some = divisors(global_batch / ranks);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// Knobs whose default values are such divisors: the micro-batch and, where the launcher sets the
/// boundaries and so the interval, the accumulation that is left.
std::vector<Knob> of_global_batch(const Job& job, Family family) {
  if (family == Family::kLive) return {};
  if (family == Family::kDeepSpeed && job.target != LaunchTarget::kDeepSpeed) {
    return {Knob::kMicroBatch, Knob::kUpdateInterval};
  }
  return {Knob::kMicroBatch};
}

}  // namespace

std::string_view to_string(Family family) {
  switch (family) {
    case Family::kDeepSpeed:
      return "deepspeed-zenflow";
    case Family::kPublished:
      return "zenflow";
    case Family::kLive:
      return "live-zenflow";
  }
  return "";
}

Family find_family(std::string_view schedule) {
  for (const Family one : {Family::kDeepSpeed, Family::kPublished, Family::kLive}) {
    if (to_string(one) == schedule) return one;
  }
  const std::vector<std::string> known = {"deepspeed-zenflow", "zenflow", "live-zenflow"};
  throw Error(ErrorKind::kInput,
              fmt::format("--schedule: expected deepspeed-zenflow, zenflow or live-zenflow, found "
                          "\"{}\"{}",
                          schedule, suggestion(schedule, known)));
}

bool has_knob(Family family, Knob knob) {
  if (knob == Knob::kOffloadParam) return family == Family::kDeepSpeed;
  return !is_of_block(info(knob)) || family == Family::kLive;
}

void Space::set(Knob knob, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  values_[static_cast<std::size_t>(knob)] = std::move(values);
}

void Space::narrow(Knob knob, std::vector<double> values) {
  set(knob, std::move(values));
  narrowed_.set(static_cast<std::size_t>(knob));
}

void Space::add(Knob knob, double value) {
  std::vector<double> values = this->values(knob);
  values.push_back(value);
  set(knob, std::move(values));
}

std::uint64_t Space::size() const {
  std::uint64_t count = 1;
  for (const std::vector<double>& values : values_) count *= values.size();
  return count;
}

double Space::points() const {
  double count = 1;
  for (const std::vector<double>& values : values_) count *= static_cast<double>(values.size());
  return count;
}

Setting Space::at(std::uint64_t index) const {
  Setting setting;
  for (std::size_t i = kKnobs; i-- > 0;) {
    const std::uint64_t radix = values_[i].size();
    setting.set(static_cast<Knob>(i), values_[i][index % radix]);
    index /= radix;
  }
  return setting;
}

std::uint64_t Space::index_of(const Setting& setting) const {
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < kKnobs; ++i) {
    const std::vector<double>& values = values_[i];
    const auto at =
        std::lower_bound(values.begin(), values.end(), setting.get(static_cast<Knob>(i)));
    index = index * values.size() + static_cast<std::uint64_t>(at - values.begin());
  }
  return index;
}

bool Space::contains(const Setting& setting) const {
  for (std::size_t i = 0; i < kKnobs; ++i) {
    if (!std::binary_search(values_[i].begin(), values_[i].end(),
                            setting.get(static_cast<Knob>(i)))) {
      return false;
    }
  }
  return true;
}

std::uint64_t Space::key(const Setting& setting, std::initializer_list<Knob> which) const {
  std::uint64_t key = 0;
  for (const Knob knob : which) {
    const std::vector<double>& values = this->values(knob);
    const auto at = std::lower_bound(values.begin(), values.end(), setting.get(knob));
    key = key * (values.size() + 1) + static_cast<std::uint64_t>(at - values.begin());
  }
  return key;
}

bool is_of_block(const KnobInfo& knob) {
  return knob.setup != nullptr && !key_in("zenflow_train", *knob.setup).empty();
}

Setting setting_of(const Job& job) {
  Setting setting;
  const auto flag = [&](Knob knob, bool value) { setting.set(knob, value ? 1 : 0); };
  const auto whole = [&](Knob knob, std::int64_t value) {
    setting.set(knob, static_cast<double>(value));
  };
  const DeepSpeedConfig& config = job.deepspeed;
  whole(Knob::kPlacement, static_cast<int>(placement_of(job)));
  whole(Knob::kStage, config.zero_stage);
  whole(Knob::kBucket, config.reduce_bucket_size);
  flag(Knob::kOverlapComm, config.overlaps_communication());
  flag(Knob::kPinMemory, config.pin_memory);
  whole(Knob::kOffloadParam, static_cast<int>(config.offload_param));
  whole(Knob::kGpus, job.scenario.gpus);
  flag(Knob::kBindCores, job.scenario.bind_cores_to_rank);
  const ZenFlowSettings zenflow = zenflow_of(job);
  flag(Knob::kSelectedOffload, zenflow.offload);
  setting.set(Knob::kReservedCores, zenflow.pt_reserved_cores_perc);
  const TrainingSetup setup = setup_of(job.scenario, zenflow);
  for (const KnobInfo& one : knobs()) {
    if (one.setup != nullptr) setting.set(one.knob, knob_value(*one.setup, setup));
  }
  return setting;
}

bool zenflow_drops_accumulation(Family family, LaunchTarget target) {
  return family == Family::kPublished ||
         (family == Family::kDeepSpeed && target == LaunchTarget::kDeepSpeed);
}

std::int64_t global_batch_of(const Job& job, Family family) {
  const std::int64_t step = job.scenario.training.micro_batch_size_per_gpu * job.scenario.ranks();
  const bool dropped =
      job.deepspeed.zenflow.has_value() && zenflow_drops_accumulation(family, job.target);
  return dropped ? step : step * job.deepspeed.gradient_accumulation_steps;
}

Space default_space(const Job& job, Family family, std::int64_t global_batch) {
  const Setting own = setting_of(job);
  Space space;
  for (const KnobInfo& one : knobs()) space.set(one.knob, {own.get(one.knob)});
  const bool live = family == Family::kLive;
  const auto among = [&](Knob knob, std::vector<double> values) {
    values.push_back(own.get(knob));
    space.set(knob, std::move(values));
  };
  among(Knob::kPlacement,
        {static_cast<double>(Placement::kGpu), static_cast<double>(Placement::kCpu),
         static_cast<double>(Placement::kZenFlow)});
  among(Knob::kTopkRatio, {0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3});
  among(Knob::kUpdateInterval, {1, 2, 3, 4, 6, 8, 12, 16});
  among(Knob::kOverlapStep, {0, 1});
  // Every update_interval above divides these; 0 (select once) is left to who asks for it.
  if (own.get(Knob::kSelectInterval) == 0) space.set(Knob::kSelectInterval, {48});
  if (!live) {
    among(Knob::kReservedCores, {0.25, 0.5, 0.75});
  } else if (job.scenario.offload.optimizer_threads == 0 || job.scenario.offload.sum_threads == 0) {
    among(Knob::kReservedCores, whole_thread_shares(job));
  }
  if (live) {
    among(Knob::kAccumulateOn, {0, 1});
    return space;
  }
  if (own.get(Knob::kSelectInterval) == 0) {
    space.set(Knob::kSelectInterval, {48, 192});
  } else {
    among(Knob::kSelectInterval, {48, 192});
  }
  // As published it costs nothing; DeepSpeed's file has one, which its linter may mind.
  among(Knob::kWarmUp, {0, 48});
  if (family == Family::kDeepSpeed) {
    among(Knob::kSelectedOffload, {0, 1});
    among(Knob::kOverlapComm, {0, 1});
    among(Knob::kOffloadParam,
          {static_cast<double>(OffloadDevice::kNone), static_cast<double>(OffloadDevice::kCpu)});
    // accelerate starts the processes itself, without numactl.
    if (job.target != LaunchTarget::kAccelerate) among(Knob::kBindCores, {0, 1});
  }
  among(Knob::kStage, {0, 1, 2, 3});
  among(Knob::kBucket, {5e7, 2e8, 5e8});
  for (const Knob knob : of_global_batch(job, family)) {
    among(knob, divisors_of_shares(space, job, global_batch));
  }
  return space;
}

void follow_gpus(Space& space, const Job& job, Family family, std::int64_t global_batch) {
  if (!space.is_narrowed(Knob::kGpus)) return;
  for (const Knob knob : of_global_batch(job, family)) {
    if (space.is_narrowed(knob)) continue;
    std::vector<double> values = divisors_of_shares(space, job, global_batch);
    values.push_back(setting_of(job).get(knob));
    space.set(knob, std::move(values));
  }
}

void narrow(Space& space, const std::string& text) {
  const Variation variation = parse_variation(text);
  const Knob knob = find_knob(variation.path);
  std::vector<double> values;
  for (const std::string& one : variation.values) values.push_back(parse_value(knob, one));
  space.narrow(knob, std::move(values));
}

void narrow_by_file(Space& space, const std::filesystem::path& path) {
  const Node root = load_document(path);
  if (!root.is_map()) fail_at(root.at, "", "expected a map of knobs and their values");
  for (const Node::Entry& entry : root.entries) {
    const auto located = [&entry](const Node& at, const auto& body) {
      try {
        return body();
      } catch (const Error& error) {
        fail_at(at.at.line > 0 ? at.at : entry.key_at, "", error.what());
      }
    };
    Node key_node;
    key_node.at = entry.key_at;
    const Knob knob = located(key_node, [&] { return find_knob(expand_short_name(entry.key)); });
    std::vector<double> values;
    const std::vector<Node> single = {entry.value};
    const bool is_list = entry.value.kind == Node::Kind::kSequence;
    for (const Node& one : is_list ? entry.value.items : single) {
      if (!one.is_scalar()) fail_at(one.at, entry.key, "expected a value or a list of values");
      values.push_back(located(one, [&] { return parse_value(knob, one.scalar); }));
    }
    if (values.empty()) fail_at(entry.value.at, entry.key, "expected at least one value");
    space.narrow(knob, std::move(values));
  }
}

}  // namespace zenflow::sim
