#include "sim/accuracy/published_runs.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/schedule/deepspeed_memory.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

constexpr double kSecond = 1e12;  // in picoseconds
constexpr double kTera = 1e12;
constexpr double kGib = 1073741824.0;
constexpr double kPercent = 100;

SimulationResult simulate(const Job& job, const std::string& schedule) {
  return simulate_schedule(job, find_schedule(schedule), SimulationDetail::kNoCriticalPath);
}

/// FLOP of a sequence by llm-foundry's definition, for MFU: recomputation does not count.
double foundry_flop(const ModelSpec& model, double tokens) {
  const double products = 2 * static_cast<double>(model.parameters()) * tokens;
  const double attention =
      4 * static_cast<double>(model.layers()) * static_cast<double>(model.hidden) * tokens * tokens;
  return 3 * (products + attention);
}

bool fits_gpu(const PublishedRun& run, std::int64_t micro_batch) {
  std::vector<Override> set = run.set;
  const std::string text = std::to_string(micro_batch);
  set.push_back({"training.micro_batch_size_per_gpu", text});
  set.push_back({"deepspeed.train_micro_batch_size_per_gpu", text});
  const Job job = make_job(read_scenario(run.scenario, set));
  return simulate(job, run.schedule).memory.limit(MemoryLimit::kGpu).holds();
}

/// 0 if not even one sequence fits.
std::int64_t largest_micro_batch(const PublishedRun& run) {
  constexpr std::int64_t kMostSequences = 4096;
  std::int64_t fits = 0;
  std::int64_t too_large = 1;
  while (too_large <= kMostSequences && fits_gpu(run, too_large)) {
    fits = too_large;
    too_large *= 2;
  }
  while (too_large - fits > 1) {
    const std::int64_t middle = (fits + too_large) / 2;
    (fits_gpu(run, middle) ? fits : too_large) = middle;
  }
  return fits;
}

double predicted_value(const PublishedRun& run, const Job& job, const SimulationResult& result) {
  const Scenario& scenario = job.scenario;
  const TrainingSettings& training = scenario.training;
  const double micro_step = result.step_time / kSecond;
  const auto parameters = static_cast<double>(scenario.model.parameters());
  const double gpu_rate =
      run.flop * parameters * static_cast<double>(training.tokens()) / micro_step / kTera;
  switch (run.quantity) {
    case PublishedQuantity::kOptimizerStep:
      return result.optimizer_step_time / kSecond;
    case PublishedQuantity::kGpuRate:
      return gpu_rate;
    case PublishedQuantity::kNodeRate:
      return gpu_rate * static_cast<double>(scenario.gpus);
    case PublishedQuantity::kMfu: {
      const auto length = static_cast<double>(training.sequence_length);
      const double sequences = static_cast<double>(training.tokens()) / length;
      return kPercent * sequences * foundry_flop(scenario.model, length) / micro_step /
             scenario.hardware.gpu.peak.at(training.dtype).value();
    }
    case PublishedQuantity::kGpuMemory:
      return (result.memory.gpu.total - scenario.hardware.gpu.context_memory.value()) / kGib;
    case PublishedQuantity::kHostMemory:
      // Published is what came on top of what was used before the engine was made.
      return (result.memory.limit(MemoryLimit::kHost).need -
              (find_schedule(run.schedule).runs_deepspeed()
                   ? static_cast<double>(scenario.gpus) * kProcessBytes
                   : 0)) /
             kGib;
    case PublishedQuantity::kLargestMicroBatch:
      return static_cast<double>(largest_micro_batch(run));
  }
  return 0;
}

void count(PublishedErrors& errors, const PublishedResult& one) {
  const double error = *one.error();
  ++errors.rows;
  errors.mean += std::abs(error);
  errors.signed_mean += error;
  if (errors.worst_row.empty() || std::abs(error) > std::abs(errors.worst)) {
    errors.worst = error;
    errors.worst_row = one.row.id;
  }
}

void divide(PublishedErrors& errors) {
  if (errors.rows == 0) return;
  errors.mean /= errors.rows;
  errors.signed_mean /= errors.rows;
}

}  // namespace

std::optional<double> PublishedResult::error() const {
  if (!prediction || !prediction->value) return std::nullopt;
  return *prediction->value / row.value - 1;
}

PublishedPrediction predict(const PublishedRun& run) {
  PublishedPrediction prediction;
  try {
    const Job job = make_job(read_scenario(run.scenario, run.set));
    prediction.result = simulate(job, run.schedule);
    prediction.value = predicted_value(run, job, *prediction.result);
    for (int i = 0; i < kMemoryLimits; ++i) {
      const auto limit = static_cast<MemoryLimit>(i);
      if (!prediction.result->memory.limit(limit).holds()) prediction.exceeded.push_back(limit);
    }
  } catch (const Error& error) {
    // A schedule refuses what it does not describe: one row's matter, not the other rows'.
    if (error.kind() != ErrorKind::kInput) throw;
    prediction.refused = error.what();
  }
  return prediction;
}

std::vector<PublishedResult> predict_published(std::vector<PublishedRow> rows) {
  std::vector<PublishedResult> results;
  results.reserve(rows.size());
  for (PublishedRow& row : rows) {
    PublishedResult one{std::move(row), std::nullopt};
    if (one.row.run) one.prediction = predict(*one.row.run);
    results.push_back(std::move(one));
  }
  return results;
}

const std::string& group_name(const PublishedRow& row, PublishedGroup group) {
  switch (group) {
    case PublishedGroup::kSchedule:
      return row.schedule;
    case PublishedGroup::kNode:
      return row.node;
    case PublishedGroup::kQuantity:
      return row.quantity;
    case PublishedGroup::kSource:
      break;
  }
  return row.source;
}

int judged_rows(const std::vector<PublishedResult>& results) {
  return static_cast<int>(std::count_if(results.begin(), results.end(),
                                        [](const PublishedResult& one) { return one.row.judged; }));
}

PublishedErrors published_errors(const std::vector<PublishedResult>& results) {
  PublishedErrors all;
  for (const PublishedResult& one : results) {
    if (one.counts()) count(all, one);
  }
  divide(all);
  return all;
}

std::vector<PublishedErrors> published_errors(const std::vector<PublishedResult>& results,
                                              PublishedGroup group) {
  std::vector<PublishedErrors> groups;
  for (const PublishedResult& one : results) {
    if (!one.counts()) continue;
    const std::string& name = group_name(one.row, group);
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const PublishedErrors& each) { return each.name == name; });
    if (found == groups.end()) {
      groups.push_back({.name = name});
      found = groups.end() - 1;
    }
    count(*found, one);
  }
  for (PublishedErrors& each : groups) divide(each);
  return groups;
}

}  // namespace zenflow::sim
