#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/report/fit.h"

namespace zenflow::sim {
namespace {

struct Candidate {
  std::string set;
  std::function<void(Job&)> apply;
  bool last_resort = false;  ///< changes what is trained, or asks for other hardware
};

constexpr std::int64_t kSmallBucket = 50'000'000;     ///< elements
constexpr std::int64_t kSmallSubGroup = 100'000'000;  ///< elements

/// Where stage 3 keeps weights that are not in use.
void add_parameters(const Job& job, std::vector<Candidate>& list) {
  const DeepSpeedConfig& config = job.deepspeed;
  if (config.zero_stage != 3) return;
  const std::string block = "deepspeed.zero_optimization.offload_param";
  const auto move_to = [&](OffloadDevice device) {
    if (config.offload_param == device) return;
    list.push_back({fmt::format("{}.device={}", block, to_string(device)),
                    [device](Job& changed) { changed.deepspeed.offload_param = device; }});
  };
  move_to(OffloadDevice::kCpu);
  if (config.offload_param != OffloadDevice::kNone) move_to(OffloadDevice::kNone);
  if (job.scenario.hardware.nvme) move_to(OffloadDevice::kNvme);
  if (config.offload_param == OffloadDevice::kCpu && config.param_pin_memory) {
    list.push_back({block + ".pin_memory=false",
                    [](Job& changed) { changed.deepspeed.param_pin_memory = false; }});
  }
  if (config.gathers_on_save) {
    list.push_back({"deepspeed.zero_optimization.stage3_gather_16bit_weights_on_model_save=false",
                    [](Job& changed) { changed.deepspeed.gathers_on_save = false; }});
  }
}

/// Variables of the training's environment that keep page-locked blocks at their size.
void add_pinning(const Job& job, std::vector<Candidate>& list) {
  if (job.has(Change::kNativePinning) && !job.scenario.native_pinning) {
    list.push_back({"launch.ds_pin_memory_backend=native",
                    [](Job& changed) { changed.scenario.native_pinning = true; }});
  }
  constexpr double kSmallBlock = 64.0 * 1024 * 1024;
  if (!job.scenario.pinned_round_threshold) {
    list.push_back({"launch.pinned_max_round_threshold_mb=64", [](Job& changed) {
                      changed.scenario.pinned_round_threshold = Bytes(kSmallBlock);
                    }});
  }
}

void add_deepspeed(const Job& job, std::vector<Candidate>& list) {
  const DeepSpeedConfig& config = job.deepspeed;
  const bool moves_state = config.zenflow && config.zenflow->offload;
  if (config.zero_stage < 3 && job.scenario.ranks() > 1) {
    list.push_back({"deepspeed.zero_optimization.stage=3",
                    [](Job& changed) { changed.deepspeed.zero_stage = 3; }});
  }
  if (config.reduce_bucket_size > kSmallBucket) {
    list.push_back({fmt::format("deepspeed.zero_optimization.reduce_bucket_size={}", kSmallBucket),
                    [](Job& changed) { changed.deepspeed.reduce_bucket_size = kSmallBucket; }});
  }
  // DeepSpeed refuses zenflow.offload without overlap_comm.
  if (config.overlaps_communication() && !moves_state) {
    list.push_back({"deepspeed.zero_optimization.overlap_comm=false",
                    [](Job& changed) { changed.deepspeed.overlap_comm = false; }});
  }
  if (config.zero_stage == 3 && config.sub_group_size > kSmallSubGroup) {
    list.push_back({fmt::format("deepspeed.zero_optimization.sub_group_size={}", kSmallSubGroup),
                    [](Job& changed) { changed.deepspeed.sub_group_size = kSmallSubGroup; }});
  }
  if (config.pin_memory) {
    list.push_back({"deepspeed.zero_optimization.offload_optimizer.pin_memory=false",
                    [](Job& changed) { changed.deepspeed.pin_memory = false; }});
  }
  add_parameters(job, list);
  add_pinning(job, list);
  if (config.offload_optimizer != OffloadDevice::kNvme && job.scenario.hardware.nvme) {
    list.push_back({"deepspeed.zero_optimization.offload_optimizer.device=nvme", [](Job& changed) {
                      changed.deepspeed.offload_optimizer = OffloadDevice::kNvme;
                    }});
  }
}

void add_zenflow(const Job& job, std::vector<Candidate>& list) {
  if (!job.deepspeed.zenflow) return;
  if (job.deepspeed.zenflow->overlap_step) {
    list.push_back({"overlap_step=false",
                    [](Job& changed) { changed.deepspeed.zenflow->overlap_step = false; }});
  }
  if (!job.deepspeed.zenflow->offload && job.deepspeed.overlaps_communication()) {
    list.push_back({"deepspeed.zero_optimization.zenflow.offload=true",
                    [](Job& changed) { changed.deepspeed.zenflow->offload = true; }});
  }
  if (job.scenario.offload.accumulate_on_device) {
    list.push_back({fmt::format("accumulate_on={}", accumulate_place(false)),
                    [](Job& changed) { changed.scenario.offload.accumulate_on_device = false; }});
  }
  const double half = job.deepspeed.zenflow->topk_ratio / 2;
  list.push_back({fmt::format("topk_ratio={}", half),
                  [half](Job& changed) { changed.deepspeed.zenflow->topk_ratio = half; }});
}

void add_training(const Job& job, std::vector<Candidate>& list) {
  const TrainingSettings& training = job.scenario.training;
  if (!training.activation_checkpointing) {
    list.push_back({"training.activation_checkpointing=true", [](Job& changed) {
                      changed.scenario.training.activation_checkpointing = true;
                    }});
  }
  if (training.micro_batch_size_per_gpu > 1) {
    const std::int64_t half = training.micro_batch_size_per_gpu / 2;
    list.push_back(
        {fmt::format("training.micro_batch_size_per_gpu={}", half),
         [half](Job& changed) { changed.scenario.training.micro_batch_size_per_gpu = half; }});
  }
  if (training.sequence_length > 1) {
    const std::int64_t half = training.sequence_length / 2;
    list.push_back({fmt::format("training.sequence_length={}", half),
                    [half](Job& changed) { changed.scenario.training.sequence_length = half; },
                    true});
  }
  if (job.scenario.gpus < job.scenario.hardware.gpu.count) {
    const std::int64_t all = job.scenario.hardware.gpu.count;
    list.push_back(
        {fmt::format("gpus={}", all), [all](Job& changed) { changed.scenario.gpus = all; }, true});
  }
  if (job.scenario.hardware.network) {
    const std::int64_t twice = 2 * job.scenario.nodes;
    list.push_back({fmt::format("nodes={}", twice),
                    [twice](Job& changed) { changed.scenario.nodes = twice; }, true});
  }
}

std::vector<Candidate> candidates_of(const Job& job, const Schedule& schedule) {
  std::vector<Candidate> list;
  if (schedule.zenflow(job)) add_zenflow(job, list);
  add_deepspeed(job, list);
  add_training(job, list);
  return list;
}

/// How far the limits are exceeded, as shares of them, in all.
double excess(const MemoryReport& memory) {
  double sum = 0;
  for (const LimitCheck& one : memory.limits) {
    if (!one.holds()) sum += (one.need - *one.capacity) / std::max(*one.capacity, 1.0);
  }
  return sum;
}

/// Nothing if the schedule refuses the changed job: ZenFlow has no stage 3 in some releases.
std::optional<MemoryReport> memory_with(const Job& job, const Schedule& schedule) {
  try {
    schedule.check(job);
  } catch (const Error& refusal) {
    if (refusal.kind() != ErrorKind::kInput) throw;
    return std::nullopt;
  }
  return simulate_schedule(job, schedule).memory;
}

/// Adds the change that reduces the excess most, again and again. True once the job fits.
bool add_best(Job& job, const Schedule& schedule, std::vector<Candidate>& left,
              FitCombination& together) {
  double reached = excess(simulate_schedule(job, schedule).memory);
  while (reached > 0) {
    auto best = left.end();
    for (auto one = left.begin(); one != left.end(); ++one) {
      Job tried = job;
      one->apply(tried);
      const auto after = memory_with(tried, schedule);
      if (!after || excess(*after) >= reached) continue;
      reached = excess(*after);
      best = one;
    }
    if (best == left.end()) return false;
    best->apply(job);
    together.set.push_back(best->set);
    left.erase(best);
  }
  return true;
}

FitCombination combine(const Job& job, const Schedule& schedule,
                       const std::vector<Candidate>& candidates) {
  std::vector<Candidate> settings;
  std::vector<Candidate> last_resorts;
  for (const Candidate& one : candidates) {
    (one.last_resort ? last_resorts : settings).push_back(one);
  }
  FitCombination together;
  Job changed = job;
  together.fits = add_best(changed, schedule, settings, together) ||
                  add_best(changed, schedule, last_resorts, together);
  return together;
}

}  // namespace

void find_changes(const Job& job, const Schedule& schedule, Fit& fit) {
  constexpr double kWorthSaying = 0.005;  // of the need
  const std::vector<Candidate> candidates = candidates_of(job, schedule);
  for (const Candidate& one : candidates) {
    Job tried = job;
    one.apply(tried);
    const auto after = memory_with(tried, schedule);
    if (!after) continue;
    for (std::size_t i = 0; i < after->limits.size(); ++i) {
      const LimitCheck& before = fit.memory.limits[i];
      const double saves = before.need - after->limits[i].need;
      if (before.holds() || saves < kWorthSaying * before.need) continue;
      fit.changes.push_back(
          {one.set, static_cast<MemoryLimit>(i), saves, after->limits[i].holds(), after->fits});
    }
  }
  std::stable_sort(fit.changes.begin(), fit.changes.end(),
                   [](const FitChange& a, const FitChange& b) {
                     if (a.limit != b.limit) return a.limit < b.limit;
                     if (a.fits != b.fits) return a.fits;
                     return a.saves > b.saves;
                   });
  const bool one_suffices = std::any_of(fit.changes.begin(), fit.changes.end(),
                                        [](const FitChange& one) { return one.fits; });
  if (one_suffices) return;
  FitCombination together = combine(job, schedule, candidates);
  if (together.set.size() > 1) fit.together = std::move(together);
}

}  // namespace zenflow::sim
