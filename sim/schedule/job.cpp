#include "sim/schedule/job.h"

#include <fmt/format.h>

#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

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

void check_batch_equation(MapReader& document, const Job& job) {
  if (!job.deepspeed.train_batch_size) return;
  // train_batch_size follows from the others; a what-if on one of those leaves it behind, unless
  // it was itself set.
  const bool set = job.scenario.is_overridden("deepspeed.train_batch_size");
  for (const char* factor :
       {kMicroBatch, "gpus", "nodes", "hardware", "deepspeed.train_micro_batch_size_per_gpu",
        "deepspeed.gradient_accumulation_steps"}) {
    if (!set && job.scenario.is_overridden(factor)) return;
  }
  const std::int64_t micro = job.scenario.training.micro_batch_size_per_gpu;
  const std::int64_t accumulation = job.deepspeed.gradient_accumulation_steps;
  const std::int64_t ranks = job.scenario.ranks();
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

/// What the file leaves open and releases decide differently.
void complete_defaults(Job& job) {
  DeepSpeedConfig& config = job.deepspeed;
  if (!config.pin_memory_written) config.pin_memory = job.has(Change::kPinnedByDefault);
  if (!config.gradient_clipping_written) {
    config.gradient_clipping = job.has(Change::kClippingByDefault) ? 1.0 : 0.0;
  }
}

}  // namespace

Job make_job(Scenario scenario) {
  DeepSpeedConfig config = read_deepspeed_config(scenario.deepspeed);
  Job job{std::move(scenario), std::move(config)};
  read_launch(job);
  complete_defaults(job);
  settle_micro_batch(job);
  MapReader document(job.scenario.deepspeed, "deepspeed");
  check_micro_batch(document, job);
  check_batch_equation(document, job);
  check_precision(document, job);
  return job;
}

}  // namespace zenflow::sim
