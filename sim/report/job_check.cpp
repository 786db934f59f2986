#include "sim/report/job_check.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/overrides.h"
#include "sim/memory/activation_memory.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kShown = 3;
/// Gains below it are within what a prediction is worth.
constexpr double kLeastGain = 1.03;

/// A job under further overrides.
struct ChangedJob {
  Job job;
  const Schedule* schedule;
};

struct Judgement {
  Verdict verdict;
  std::string decided_by;
};

/// What the GPU holds at least, and why it may be less than is simulated.
struct LeastNeed {
  double bytes;
  std::string without{};
};

/// Where weights, gradients and moments are all of the 16-bit type plain data parallelism is
/// simulated with all of them in fp32: 16 bytes a parameter in place of 8. Logits are simulated
/// where the loss keeps none, too.
LeastNeed least_need(const Job& job, const LimitCheck& gpu, const JobScenario& scenario) {
  LeastNeed least{gpu.need};
  if (scenario.narrow_weights && job.deepspeed.zero_stage == 0) {
    least.bytes -= 8 * static_cast<double>(job.scenario.model.trained());
    least.without = "fp32 weights, gradients and moments";
  }
  if (scenario.no_logits) {
    const ActivationMemory memory = activation_memory(job.scenario.model, job.scenario.training);
    least.bytes -= (memory.logits_forward + memory.logits_backward).value();
    least.without += least.without.empty() ? "logits" : " and without logits";
  }
  return least;
}

/// By the limit that is nearest to its end, or beyond it.
Judgement judge(const Job& job, const Fit& fit, const JobScenario& scenario) {
  const JobFacts& facts = scenario.facts;
  Judgement judgement{Verdict::kFits, ""};
  double nearest = -1;
  for (int i = 0; i < kMemoryLimits; ++i) {
    const auto limit = static_cast<MemoryLimit>(i);
    const LimitCheck& check = fit.memory.limit(limit);
    if (!check.capacity || check.need == 0 || std::isinf(*check.capacity)) continue;
    const double share = check.need / *check.capacity;
    if (share <= nearest) continue;
    nearest = share;
    judgement.decided_by = fmt::format("{}: {} of {}", describe(limit), format_gib(check.need),
                                       format_gib(*check.capacity));
    const JobFact* const ram = facts.find("hardware.host.memory");
    if (limit == MemoryLimit::kHost && ram != nullptr && ram->is_estimate) {
      judgement.decided_by += " (estimated; --ram says)";
    }
  }
  const JobFact* const ram = facts.find("hardware.host.memory");
  const LimitCheck& host = fit.memory.limit(MemoryLimit::kHost);
  const bool guessed =
      ram != nullptr && ram->is_estimate && host.capacity && host.need > *host.capacity / 2;
  if (!fit.memory.fits) {
    // With a host that nobody has described, its memory is no reason.
    const bool only_host = guessed && fit.memory.limit(MemoryLimit::kGpu).holds();
    judgement.verdict = only_host ? Verdict::kUncertain : Verdict::kDoesNotFit;
    const LimitCheck& gpu = fit.memory.limit(MemoryLimit::kGpu);
    const LeastNeed least = least_need(job, gpu, scenario);
    if (!least.without.empty() && host.holds() && gpu.capacity && least.bytes < *gpu.capacity) {
      judgement.verdict = Verdict::kUncertain;
      judgement.decided_by +=
          fmt::format("; without {} at least {}", least.without, format_gib(least.bytes));
    }
    return judgement;
  }
  if (is_gpu_at_risk(job, fit)) {
    judgement.decided_by += fmt::format("; with what PyTorch's allocator holds besides {}",
                                        format_gib(with_allocator(job, fit)));
  }
  if (is_loading_at_risk(job, fit)) judgement.decided_by += "; RAM while weights are loaded";
  if (is_gpu_at_risk(job, fit) || is_loading_at_risk(job, fit) || guessed ||
      nearest > 1 - kMemoryMargin) {
    judgement.verdict = Verdict::kUncertain;
  }
  return judgement;
}

/// What a limit misses, as a share of it; not positive: it holds. Of the GPU's memory a part has to
/// stay free.
double excess(MemoryLimit limit, const LimitCheck& check) {
  const double usable = limit == MemoryLimit::kGpu ? 1 - kMemoryMargin : 1;
  return check.capacity ? check.need / std::max(*check.capacity, 1.0) - usable : -1;
}

/// A change's simulation, and how far it is from fitting.
struct Trial {
  JobChange change;
  bool fits_gpu = true;
  double excess = 0;       ///< sum over the limits that do not hold, as shares of them
  std::string exceeded{};  ///< those limits
};

/// RAM can be added to, a GPU's memory cannot.
bool is_nearer(const Trial& one, const Trial& other) {
  return one.fits_gpu != other.fits_gpu ? one.fits_gpu : one.excess < other.excess;
}

class Checker {
 public:
  Checker(const JobScenario& scenario, const ScenarioTree& tree,
          const std::vector<Override>& overrides)
      : scenario_(scenario), tree_(tree), overrides_(overrides) {}

  [[nodiscard]] JobCheck check();

 private:
  struct Idea {
    std::vector<std::string> set;
    std::string what;
    std::string but = {};
  };

  [[nodiscard]] ChangedJob changed(const std::vector<Override>& more) const;
  [[nodiscard]] double step_time_on(const std::vector<JobFact>& host) const;
  [[nodiscard]] std::vector<Finding> findings_of(const Job& job, bool is_as_written) const;
  [[nodiscard]] std::vector<Idea> ideas(const Job& job) const;
  [[nodiscard]] static std::optional<Idea> last_resort(const Job& job);
  [[nodiscard]] static bool set_the_same(const Idea& first, const Idea& second);
  [[nodiscard]] static Idea together(const Idea& first, const Idea& second);
  [[nodiscard]] static std::size_t errors(const std::vector<Finding>& findings);
  [[nodiscard]] std::optional<Trial> tried(const Idea& idea, std::size_t most_errors) const;
  [[nodiscard]] Verdict verdict_of(const JobChange& change) const;
  void find_changes(const Job& job, JobCheck& result) const;

  const JobScenario& scenario_;
  const ScenarioTree& tree_;
  const std::vector<Override>& overrides_;
};

ChangedJob Checker::changed(const std::vector<Override>& more) const {
  std::vector<Override> all = overrides_;
  all.insert(all.end(), more.begin(), more.end());
  Scenario scenario = read_scenario(tree_, all);
  const std::string name = schedule_for(scenario.deepspeed);
  const Schedule& schedule = find_schedule(name);
  ChangedJob made{make_job(std::move(scenario)), &schedule};
  schedule.check(made.job);
  return made;
}

double Checker::step_time_on(const std::vector<JobFact>& host) const {
  std::vector<Override> parts;
  for (const JobFact& fact : host) {
    if (!sets(overrides_, fact.path)) parts.push_back({fact.path, fact.value});
  }
  const ChangedJob other = changed(parts);
  return simulate_step_time(other.job, *other.schedule);
}

std::vector<Finding> Checker::findings_of(const Job& job, bool is_as_written) const {
  const Scenario& scenario = job.scenario;
  LintOptions options{.version = job.version, .target = job.target};
  options.world_size = scenario.ranks();
  options.gpus_per_node = scenario.gpus;
  options.cores_per_node = scenario.hardware.host.cores;
  options.omp_num_threads = scenario.omp_num_threads;
  options.bind_cores_to_rank = scenario.bind_cores_to_rank;
  if (const Tensor* stacked = scenario.model.stacked_tensor()) options.stacked_tensor = *stacked;
  Node root = scenario.deepspeed;
  if (find_path(root, "train_batch_size") == nullptr &&
      find_path(root, "train_micro_batch_size_per_gpu") == nullptr) {
    const auto micro = std::to_string(scenario.training.micro_batch_size_per_gpu);
    apply_edit(root, set_key("train_micro_batch_size_per_gpu", micro));
  }
  // As the file is written where nothing of it is changed: findings say where.
  if (is_as_written && tree_.deepspeed_file) {
    return lint(load_ds_document(*tree_.deepspeed_file), options);
  }
  std::vector<Finding> findings = lint(parse_ds_document(render_json(root), "deepspeed"), options);
  // A text of our own, which nobody has: whose it is, its fact says.
  const JobFact* const fact = scenario_.facts.find("deepspeed");
  for (Finding& finding : findings) {
    if (fact != nullptr) finding.at = fact->source;
  }
  return findings;
}

std::size_t Checker::errors(const std::vector<Finding>& findings) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& one) { return one.severity == Severity::kError; }));
}

/// What people try, one by one.
std::vector<Checker::Idea> Checker::ideas(const Job& job) const {
  const Scenario& scenario = job.scenario;
  const TrainingSettings& training = scenario.training;
  const DeepSpeedConfig& config = job.deepspeed;
  const std::string zero = "deepspeed.zero_optimization.";
  std::vector<Idea> list;
  const std::int64_t micro = training.micro_batch_size_per_gpu;
  const std::int64_t accumulated = config.gradient_accumulation_steps;
  const auto accumulate = [&config](std::int64_t steps) {
    return fmt::format("{}.gradient_accumulation_steps={}",
                       config.gradient_accumulation_steps_written ? "deepspeed" : "training",
                       steps);
  };
  const auto batch = [](std::int64_t sequences) {
    return fmt::format("training.micro_batch_size_per_gpu={}", sequences);
  };
  for (const std::int64_t times : {2, 4}) {
    if (accumulated % times == 0) {
      list.push_back({{batch(micro * times), accumulate(accumulated / times)},
                      fmt::format("micro-batch {} and {} accumulation steps", micro * times,
                                  accumulated / times)});
    } else {
      list.push_back({{batch(micro * times)},
                      fmt::format("micro-batch {}", micro * times),
                      fmt::format("the global batch is {} times as large", times)});
    }
  }
  if (micro > 1) {
    list.push_back(
        {{batch(micro / 2), accumulate(accumulated * 2)},
         fmt::format("micro-batch {} and {} accumulation steps", micro / 2, accumulated * 2)});
  }
  if (micro > 2) {
    list.push_back({{batch(1), accumulate(accumulated * micro)},
                    fmt::format("micro-batch 1 and {} accumulation steps", accumulated * micro)});
  }
  list.push_back({{accumulate(accumulated * 4)},
                  fmt::format("{} accumulation steps", accumulated * 4),
                  "the global batch is 4 times as large"});
  list.push_back(
      {{fmt::format("training.activation_checkpointing={}", !training.activation_checkpointing)},
       training.activation_checkpointing ? "no activation checkpointing"
                                         : "activation checkpointing"});
  const bool offloads = config.offload_optimizer != OffloadDevice::kNone;
  if (offloads) {
    list.push_back({{zero + "offload_optimizer={device: none}"}, "no optimizer offload"});
    if (config.zero_stage == 2 && scenario.ranks() > 1) {
      list.push_back({{zero + "stage=3", zero + "offload_optimizer={device: none}"},
                      "stage 3 without optimizer offload"});
    }
    if (!config.zenflow && config.offload_optimizer == OffloadDevice::kCpu) {
      Idea idea{{zero + "zenflow={topk_ratio: 0.1, select_strategy: step, select_interval: 4,"
                        " update_interval: 4, overlap_step: true}"},
                "ZenFlow, k = 0.1 and an update every 4 steps",
                "deferred columns are updated 4 to 7 steps late"};
      if (find_path(scenario.deepspeed, "optimizer") == nullptr) {
        idea.set.push_back("deepspeed.optimizer={type: AdamW, params: {lr: auto}}");
        idea.but += "; the optimizer stands in DeepSpeed's file";
      }
      list.push_back(std::move(idea));
    }
  } else {
    list.push_back({{zero + "offload_optimizer={device: cpu, pin_memory: true}"},
                    "the optimizer in CPU memory"});
  }
  for (const int stage : {2, 3}) {
    if (stage == config.zero_stage || config.zenflow) continue;
    list.push_back({{fmt::format("{}stage={}", zero, stage)}, fmt::format("ZeRO stage {}", stage)});
  }
  if (config.zero_stage == 3 && config.offload_param != OffloadDevice::kNone) {
    list.push_back({{zero + "offload_param={device: none}"}, "parameters on the GPU"});
  }
  if (config.zero_stage < 3) {
    list.push_back({{zero + "stage=3", zero + "offload_optimizer={device: cpu, pin_memory: true}",
                     zero + "offload_param={device: cpu, pin_memory: true}"},
                    "stage 3 with optimizer and parameters in CPU memory"});
  }
  if (!config.overlap_comm.value_or(false)) {
    list.push_back({{zero + "overlap_comm=true"}, "overlap_comm"});
  }
  if (offloads && !config.pin_memory) {
    list.push_back({{zero + "offload_optimizer.pin_memory=true"}, "pin_memory"});
  }
  if (!scenario.bind_cores_to_rank && job.target == LaunchTarget::kDeepSpeed) {
    list.push_back({{"launch.bind_cores_to_rank=true"}, "deepspeed --bind_cores_to_rank"});
  }
  const std::int64_t cores =
      scenario.hardware.host.cores / std::max<std::int64_t>(1, scenario.gpus);
  if (!scenario.omp_num_threads && job.target != LaunchTarget::kDeepSpeed && cores > 1) {
    list.push_back({{fmt::format("launch.omp_num_threads={}", cores)},
                    fmt::format("OMP_NUM_THREADS={}", cores)});
  }
  return list;
}

/// Another training, whose gradients and moments are those of adapters alone.
std::optional<Checker::Idea> Checker::last_resort(const Job& job) {
  if (job.scenario.model.trained() < job.scenario.model.parameters()) return std::nullopt;
  return Idea{{"training.lora={r: 16, targets: all-linear}"},
              "LoRA of rank 16",
              "another training: adapters, not the weights"};
}

/// Nothing: it is none for this job, or DeepSpeed refuses it.
std::optional<Trial> Checker::tried(const Idea& idea, std::size_t most_errors) const {
  try {
    const ChangedJob other = changed(parse_overrides(idea.set));
    if (errors(findings_of(other.job, false)) > most_errors) return std::nullopt;
    const SimulationResult result =
        simulate_schedule(other.job, *other.schedule, SimulationDetail::kNoCriticalPath);
    Trial trial{.change = {.set = idea.set,
                           .what = idea.what,
                           .but = idea.but,
                           .step_time = result.step_time,
                           .tokens_per_second = result.tokens_per_second}};
    for (int i = 0; i < kMemoryLimits; ++i) {
      const auto limit = static_cast<MemoryLimit>(i);
      const LimitCheck& check = result.memory.limit(limit);
      const double missed = excess(limit, check);
      if (missed <= 0) continue;
      trial.excess += missed;
      trial.fits_gpu = trial.fits_gpu && limit != MemoryLimit::kGpu;
      trial.exceeded +=
          fmt::format("{}{}: {} of {}{}", trial.exceeded.empty() ? "" : ", ", describe(limit),
                      format_gib(check.need), format_gib(*check.capacity),
                      check.holds() ? ", with too little to spare" : "");
    }
    return trial;
  } catch (const Error& error) {
    // Not every idea is one for this job: what cannot be is no answer.
    if (error.kind() != ErrorKind::kInput) throw;
    return std::nullopt;
  }
}

/// Each change by itself; where they are to make a job fit, also with a second one.
void Checker::find_changes(const Job& job, JobCheck& result) const {
  const std::size_t most_errors = errors(result.findings);
  const bool has_to_fit = result.verdict == Verdict::kDoesNotFit;
  const double now = has_to_fit ? 0 : result.explanation.result.tokens_per_second;
  const std::vector<Idea> all = ideas(job);
  std::vector<JobChange> found;
  std::optional<Trial> nearest;
  const auto try_one = [&](const Idea& idea) {
    std::optional<Trial> trial = tried(idea, most_errors);
    if (!trial) return;
    if (trial->excess > 0) {
      if (!nearest || is_nearer(*trial, *nearest)) nearest = std::move(trial);
      return;
    }
    if (now > 0) trial->change.gain = trial->change.tokens_per_second / now;
    found.push_back(std::move(trial->change));
  };
  for (const Idea& idea : all) try_one(idea);
  for (std::size_t i = 0; has_to_fit && i < all.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      if (!set_the_same(all[i], all[j])) try_one(together(all[i], all[j]));
    }
  }
  if (has_to_fit && found.empty()) {
    if (nearest) {
      result.nearest =
          NearMiss{nearest->change.set, nearest->change.what, std::move(nearest->exceeded)};
    }
    if (const std::optional<Idea> last = last_resort(job)) {
      try_one(*last);
      for (const Idea& idea : all) try_one(together(*last, idea));
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const JobChange& a, const JobChange& b) {
    return a.tokens_per_second > b.tokens_per_second;
  });
  // What is sure comes first; of equal verdicts the faster one.
  std::vector<JobChange> unsure;
  for (JobChange& change : found) {
    if (result.changes.size() == kShown) break;
    const bool gains = has_to_fit || change.gain >= kLeastGain;
    if (!gains && result.verdict == Verdict::kFits) break;  // all others gain less
    const Verdict then = verdict_of(change);
    if (then == Verdict::kFits && gains) {
      result.changes.push_back(std::move(change));
    } else if (then == Verdict::kFits && result.verdict == Verdict::kUncertain) {
      // All others are slower still, and no surer than what is listed.
      if (!result.changes.empty()) break;
      change.but += fmt::format("{}it fits with room to spare", change.but.empty() ? "" : "; ");
      result.changes.push_back(std::move(change));
      break;
    } else if (then == Verdict::kUncertain && gains && result.verdict != Verdict::kFits) {
      unsure.push_back(std::move(change));
    }
  }
  for (JobChange& change : unsure) {
    if (result.changes.size() == kShown) break;
    change.but += fmt::format("{}whether it fits is uncertain", change.but.empty() ? "" : "; ");
    result.changes.push_back(std::move(change));
  }
}

Verdict Checker::verdict_of(const JobChange& change) const {
  const ChangedJob other = changed(parse_overrides(change.set));
  return judge(other.job, sim::fit(other.job, *other.schedule), scenario_).verdict;
}

/// Whether one would undo the other.
bool Checker::set_the_same(const Idea& first, const Idea& second) {
  const auto key = [](const std::string& set) { return set.substr(0, set.find('=')); };
  return std::ranges::any_of(first.set, [&](const std::string& one) {
    return std::ranges::any_of(second.set,
                               [&](const std::string& other) { return key(one) == key(other); });
  });
}

/// Both.
Checker::Idea Checker::together(const Idea& first, const Idea& second) {
  Idea both = first;
  both.set.insert(both.set.end(), second.set.begin(), second.set.end());
  both.what += " and " + second.what;
  if (!both.but.empty() && !second.but.empty()) both.but += "; ";
  both.but += second.but;
  return both;
}

JobCheck Checker::check() {
  const ChangedJob own = changed({});
  JobCheck result;
  result.fit = fit(own.job, *own.schedule);
  result.explanation = explain(own.job, *own.schedule);
  const Judgement judgement = judge(own.job, result.fit, scenario_);
  result.verdict = judgement.verdict;
  result.decided_by = judgement.decided_by;
  const double step = result.explanation.result.step_time;
  result.fastest = scenario_.faster_host.empty() ? step : step_time_on(scenario_.faster_host);
  result.slowest = scenario_.slower_host.empty() ? step : step_time_on(scenario_.slower_host);
  result.findings = findings_of(own.job, true);
  find_changes(own.job, result);
  return result;
}

}  // namespace

std::string to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFits:
      return "fits";
    case Verdict::kUncertain:
      return "UNCERTAIN";
    case Verdict::kDoesNotFit:
      return "DOES NOT FIT";
  }
  return "";
}

JobCheck check_job(const JobScenario& scenario, const ScenarioTree& tree,
                   const std::vector<Override>& overrides) {
  return Checker(scenario, tree, overrides).check();
}

}  // namespace zenflow::sim
