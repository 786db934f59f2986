#include "sim/schedule/job.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/config/reader.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/unmodelled_keys.h"

namespace zenflow::sim {
namespace {

constexpr const char* kSteps = "gradient_accumulation_steps";
constexpr const char* kMicroBatch = "training.micro_batch_size_per_gpu";

/// The scenario and the DeepSpeed file both state the micro batch. Whichever was overridden
/// alone holds.
void settle_micro_batch(Job& job) {
  auto& configured = job.deepspeed.train_micro_batch_size_per_gpu;
  const bool scenario_set = job.scenario.is_overridden(kMicroBatch);
  const bool file_set = job.scenario.is_overridden("deepspeed.train_micro_batch_size_per_gpu");
  if (!configured || scenario_set == file_set) return;
  std::int64_t& used = job.scenario.training.micro_batch_size_per_gpu;
  (scenario_set ? *configured : used) = scenario_set ? used : *configured;
}

void check_micro_batch(MapReader& document, const Job& job) {
  const auto& configured = job.deepspeed.train_micro_batch_size_per_gpu;
  const std::int64_t used = job.scenario.training.micro_batch_size_per_gpu;
  if (configured && *configured != used) {
    document.fail("train_micro_batch_size_per_gpu",
                  fmt::format("{} contradicts the scenario's training.micro_batch_size_per_gpu {}",
                              *configured, used));
  }
}

/// What releases decide differently.
void complete_defaults(const Job& job, DeepSpeedConfig& config) {
  if (!config.pin_memory_written) config.pin_memory = job.has(Change::kPinnedByDefault);
  if (!config.param_pin_memory_written) {
    config.param_pin_memory = job.has(Change::kPinnedByDefault);
  }
  if (!config.gradient_clipping_written) {
    config.gradient_clipping = job.has(Change::kClippingByDefault) ? 1.0 : 0.0;
  }
}

/// DeepSpeed alone drops "auto", so that its default holds.
/// Source: accelerate/utils/dataclasses.py DeepSpeedPlugin, accelerate/accelerator.py
/// _prepare_deepspeed; transformers/integrations/deepspeed.py trainer_config_finalize.
void fill_in_auto(const Node& document, const Job& job, DeepSpeedConfig& config) {
  constexpr int kStage = 2;  // of accelerate, unless its own configuration has another
  if (job.target == LaunchTarget::kDeepSpeed) return;
  const auto is_auto = [&document](const char* path) {
    const Node* node = find_path(document, path);
    return node != nullptr && node->is_scalar() && node->scalar == "auto";
  };
  if (is_auto("zero_optimization.stage")) config.zero_stage = kStage;
  const std::int64_t hidden = job.scenario.model.hidden;
  if (is_auto("zero_optimization.reduce_bucket_size")) {
    config.reduce_bucket_size = hidden * hidden;
  }
  if (is_auto("zero_optimization.stage3_prefetch_bucket_size")) {
    config.prefetch_bucket_size = hidden * hidden * 9 / 10;
  }
  if (is_auto("zero_optimization.stage3_param_persistence_threshold")) {
    config.persistence_threshold = 10 * hidden;
  }
}

/// The micro batch by which train_batch_size is divided, if the other two sizes say how many steps
/// there are. Where a launcher fills in "auto", the scenario has what it is told. accelerate, which
/// Trainer uses, too, writes 1 into a file that does not have the key.
std::optional<std::int64_t> dividing_micro_batch(const Job& job, const DeepSpeedConfig& config) {
  if (config.gradient_accumulation_steps_written || !config.train_batch_size) return std::nullopt;
  if (job.scenario.gradient_accumulation_steps) return std::nullopt;
  const bool is_auto = config.gradient_accumulation_steps_auto;
  if (job.target != LaunchTarget::kDeepSpeed && !is_auto) return std::nullopt;
  if (config.train_micro_batch_size_per_gpu) return config.train_micro_batch_size_per_gpu;
  if (is_auto) return job.scenario.training.micro_batch_size_per_gpu;
  return std::nullopt;
}

/// The scenario may state the steps, too, for a file that leaves them to the launcher. Whichever
/// was overridden alone holds.
void settle_accumulation(MapReader& document, Job& job) {
  const auto& stated = job.scenario.gradient_accumulation_steps;
  std::int64_t& steps = job.deepspeed.gradient_accumulation_steps;
  if (!stated) return;
  const bool scenario_set = job.scenario.is_overridden("training.gradient_accumulation_steps");
  const bool file_set = job.scenario.is_overridden("deepspeed.gradient_accumulation_steps");
  if (!job.deepspeed.gradient_accumulation_steps_written || (scenario_set && !file_set)) {
    steps = *stated;
    job.deepspeed.gradient_accumulation_steps_written = true;
  } else if (steps != *stated && scenario_set == file_set) {
    document.fail(kSteps, fmt::format("{} contradicts the scenario's "
                                      "training.gradient_accumulation_steps {}",
                                      steps, *stated));
  }
}

/// What is said of the job besides its figures.
std::vector<std::string> assumptions(const Job& job) {
  std::vector<std::string> list;
  const DeepSpeedConfig& config = job.deepspeed;
  if (!job.scenario.model.estimate.empty()) list.push_back(job.scenario.model.estimate);
  if (config.gradient_accumulation_steps_auto && !config.gradient_accumulation_steps_written &&
      !dividing_micro_batch(job, config)) {
    list.emplace_back(
        "gradient_accumulation_steps is \"auto\": taken as 1, the launchers' default; "
        "training.gradient_accumulation_steps says what the launcher is told");
  }
  if (config.optimizer.kind == Optimizer::kMuon && !job.has(Change::kMuon)) {
    list.emplace_back("optimizer Muon: DeepSpeed has it from 0.17.6 on");
  }
  if (config.optimizer.kind == Optimizer::kMuon) {
    list.emplace_back("optimizer Muon: without the time and memory of its orthogonalisation");
  }
  if (config.optimizer.kind != Optimizer::kAdam &&
      config.offload_optimizer == OffloadDevice::kNone) {
    list.emplace_back("optimizer.type: an update on the GPU is taken as Adam's");
  }
  return list;
}

void check_batch_equation(MapReader& document, const Job& job) {
  if (!job.deepspeed.train_batch_size) return;
  // train_batch_size follows from the others; a what-if on one of those leaves it behind, unless
  // it was itself set, or the steps follow from it.
  const bool set = job.scenario.is_overridden("deepspeed.train_batch_size") ||
                   dividing_micro_batch(job, job.deepspeed).has_value();
  for (const char* factor :
       {kMicroBatch, "gpus", "nodes", "hardware", "deepspeed.train_micro_batch_size_per_gpu",
        "deepspeed.gradient_accumulation_steps", "training.gradient_accumulation_steps"}) {
    if (!set && job.scenario.is_overridden(factor)) return;
  }
  const std::int64_t micro = job.scenario.training.micro_batch_size_per_gpu;
  const std::int64_t accumulation = job.deepspeed.gradient_accumulation_steps;
  const std::int64_t ranks = job.scenario.ranks();
  if (accumulation > kMostAccumulation) {
    document.fail("train_batch_size",
                  fmt::format("{} takes {} steps of micro batch {} x {} GPUs, expected at most {}",
                              *job.deepspeed.train_batch_size, accumulation, micro, ranks,
                              kMostAccumulation));
  }
  if (*job.deepspeed.train_batch_size == micro * accumulation * ranks) return;
  document.fail("train_batch_size",
                fmt::format("{} is not micro batch {} x gradient_accumulation_steps {} x {} GPUs",
                            *job.deepspeed.train_batch_size, micro, accumulation, ranks));
}

void check_precision(MapReader& document, const Job& job) {
  const DType dtype = job.scenario.training.dtype;
  if (job.scenario.is_overridden("training.dtype")) return;
  if (job.deepspeed.bf16 && dtype != DType::kBf16) {
    document.fail("bf16", "enabled, but training.dtype is " + to_string(dtype));
  }
  if (job.deepspeed.fp16 && dtype != DType::kFp16) {
    document.fail("fp16", "enabled, but training.dtype is " + to_string(dtype));
  }
}

void read_launch(Job& job) {
  if (const auto& written = job.scenario.deepspeed_version) {
    const auto version = find_version(written->text);
    if (!version) fail_at(written->at, "launch.deepspeed_version", expected_version(written->text));
    job.version = *version;
  }
  if (const auto& written = job.scenario.target) {
    const auto target = find_target(written->text);
    if (!target) fail_at(written->at, "launch.target", expected_target(written->text));
    job.target = *target;
  }
}

}  // namespace

void complete_config(const Node& document, const Job& job, std::int64_t ranks,
                     DeepSpeedConfig& config) {
  complete_defaults(job, config);
  fill_in_auto(document, job, config);
  const auto micro_batch = dividing_micro_batch(job, config);
  if (!micro_batch) return;
  // As DeepSpeed divides; that it divides without a remainder is checked apart.
  const std::int64_t steps = *config.train_batch_size / *micro_batch / ranks;
  config.gradient_accumulation_steps = std::max<std::int64_t>(1, steps);
}

Job make_job(Scenario scenario) {
  DeepSpeedConfig config = read_deepspeed_config(scenario.deepspeed);
  Job job;
  job.scenario = std::move(scenario);
  job.deepspeed = std::move(config);
  read_launch(job);
  settle_micro_batch(job);
  MapReader document(job.scenario.deepspeed, "deepspeed");
  settle_accumulation(document, job);
  complete_config(job.scenario.deepspeed, job, job.scenario.ranks(), job.deepspeed);
  check_micro_batch(document, job);
  check_batch_equation(document, job);
  check_precision(document, job);
  job.assumptions = assumptions(job);
  return job;
}

std::vector<std::string> job_notes(const Job& job, bool of_deepspeed) {
  const std::string& estimate = job.scenario.model.estimate;  // names its own file
  const Location& at = job.scenario.deepspeed.at;
  const std::string file = at.file ? *at.file + ": " : "";
  std::vector<std::string> notes;
  if (!estimate.empty()) notes.push_back(estimate);
  if (!of_deepspeed) return notes;
  for (const std::string& one : job.assumptions) {
    if (one != estimate) notes.push_back(file + one);
  }
  if (!job.deepspeed.not_modelled.empty()) {
    notes.push_back(file + unmodelled_note(job.deepspeed.not_modelled));
  }
  return notes;
}

RankThreads rank_threads(const Job& job) {
  const Scenario& scenario = job.scenario;
  const std::int64_t cores = scenario.hardware.host.cores;
  RankThreads threads;
  if (scenario.omp_num_threads) {
    threads.of_rank = *scenario.omp_num_threads;
    threads.why = fmt::format("OMP_NUM_THREADS={}", threads.of_rank);
  } else if (scenario.bind_cores_to_rank) {
    threads.of_rank = std::max<std::int64_t>(1, cores / scenario.gpus);
    threads.why = "--bind_cores_to_rank";
  } else if (job.target != LaunchTarget::kDeepSpeed && scenario.gpus > 1) {
    threads.why =
        fmt::format("torchrun's default of one, taken for target {}", to_string(job.target));
  } else {
    threads.of_rank = cores;
    threads.why = "OpenMP's default, a thread on every core";
  }
  threads.cores = static_cast<double>(std::min(cores, threads.of_rank * scenario.gpus));
  return threads;
}

std::optional<std::int64_t> advised_threads(const Job& job) {
  const std::int64_t cores = job.scenario.hardware.host.cores;
  const std::int64_t each = std::max<std::int64_t>(1, cores / job.scenario.gpus);
  return rank_threads(job).of_rank < each ? std::optional(each) : std::nullopt;
}

OptimizerBytes optimizer_bytes(const Job& job) {
  double in_matrices = 0;
  const ModelSpec& model = job.scenario.model;
  const std::vector<std::int64_t> counts = model.kind_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    in_matrices +=
        static_cast<double>(counts[i]) * static_cast<double>(model.kinds[i].trained_in_matrices());
  }
  return optimizer_bytes(job.deepspeed.optimizer,
                         in_matrices / static_cast<double>(model.trained()));
}

bool overlaps_communication(const Job& job) {
  const bool ignored = (job.deepspeed.zero_stage == 1 && !job.has(Change::kStage1Overlaps)) ||
                       runs_bf16_optimizer(job);
  return job.deepspeed.overlaps_communication() && !ignored;
}

bool runs_bf16_optimizer(const Job& job) {
  const DeepSpeedConfig& config = job.deepspeed;
  if (job.scenario.training.dtype != DType::kBf16 || casts_weights(job)) return false;
  if (config.zero_stage == 0) return !job.has(Change::kBf16WithoutZero);
  return config.zero_stage == 1 && config.fp32_gradient_sums &&
         config.offload_optimizer == OffloadDevice::kNone;
}

bool casts_weights(const Job& job) {
  return job.deepspeed.autocast && job.deepspeed.zero_stage == 0 &&
         job.scenario.training.dtype != DType::kFp32;
}

double updated_on_gpu(const Job& job) {
  const bool all = job.deepspeed.zero_stage == 0 && !runs_bf16_optimizer(job);
  return all ? static_cast<double>(job.scenario.model.trained()) : job.partition();
}

bool sends_fp32_weights(const Job& job) {
  return job.deepspeed.zero_stage < 3 && job.has(Change::kFp32Upload) &&
         !job.has(Change::kBufferedUpload);
}

bool sums_on_gpu(const Job& job) {
  return job.deepspeed.fp32_gradient_sums && job.has(Change::kFp32SumsOnGpu) &&
         job.deepspeed.offload_optimizer != OffloadDevice::kNone && job.deepspeed.zero_stage < 3 &&
         job.deepspeed.optimizer.kind != Optimizer::kMuon;
}

}  // namespace zenflow::sim
