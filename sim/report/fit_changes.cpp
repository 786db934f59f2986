#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  if (overlaps_communication(job) && !moves_state) {
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

/// What the job needs with some of the changes, each choice of them simulated once: combining
/// changes begins with those that were tried alone.
class ChangedMemory {
 public:
  ChangedMemory(const Job& job, const Schedule& schedule) : job_(job), schedule_(schedule) {}

  /// With the changes in this order. Nothing if the schedule refuses the changed job: ZenFlow has
  /// no stage 3 in some releases.
  const std::optional<MemoryReport>& with(const std::vector<const Candidate*>& changes) {
    std::vector<std::string> key;
    for (const Candidate* one : changes) key.push_back(one->set);
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    return known_.emplace(std::move(key), simulated(changes)).first->second;
  }

 private:
  [[nodiscard]] std::optional<MemoryReport> simulated(
      const std::vector<const Candidate*>& changes) const {
    Job changed = job_;
    for (const Candidate* one : changes) one->apply(changed);
    try {
      schedule_.check(changed);
    } catch (const Error& refusal) {
      if (refusal.kind() != ErrorKind::kInput) throw;
      return std::nullopt;
    }
    return simulate_memory(changed, schedule_);
  }

  const Job& job_;
  const Schedule& schedule_;
  std::map<std::vector<std::string>, std::optional<MemoryReport>> known_;
};

/// Adds to `chosen` the change that reduces the excess most, again and again. True once the job
/// fits.
bool add_best(ChangedMemory& memory, std::vector<const Candidate*> left,
              std::vector<const Candidate*>& chosen) {
  double reached = excess(memory.with(chosen).value());
  while (reached > 0) {
    const double before = reached;
    const Candidate* best = nullptr;
    // What lowers nothing now is not tried again: each try simulates the job.
    std::erase_if(left, [&](const Candidate* one) {
      chosen.push_back(one);
      const auto& after = memory.with(chosen);
      chosen.pop_back();
      if (!after || excess(*after) >= before) return true;
      if (excess(*after) < reached) {
        reached = excess(*after);
        best = one;
      }
      return false;
    });
    if (best == nullptr) return false;
    chosen.push_back(best);
    std::erase(left, best);
  }
  return true;
}

FitCombination combine(ChangedMemory& memory, const std::vector<Candidate>& candidates) {
  std::vector<const Candidate*> settings;
  std::vector<const Candidate*> last_resorts;
  for (const Candidate& one : candidates) {
    (one.last_resort ? last_resorts : settings).push_back(&one);
  }
  std::vector<const Candidate*> chosen;
  FitCombination together;
  together.fits = add_best(memory, settings, chosen) || add_best(memory, last_resorts, chosen);
  for (const Candidate* one : chosen) together.set.push_back(one->set);
  return together;
}

}  // namespace

void find_changes(const Job& job, const Schedule& schedule, Fit& fit) {
  constexpr double kWorthSaying = 0.005;  // of the need
  const std::vector<Candidate> candidates = candidates_of(job, schedule);
  ChangedMemory memory(job, schedule);
  for (const Candidate& one : candidates) {
    const auto& after = memory.with({&one});
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
  FitCombination together = combine(memory, candidates);
  if (together.set.size() > 1) fit.together = std::move(together);
}

}  // namespace zenflow::sim
