// DeepSpeed without offloading, by hand: on round_node a pass over memory runs at 800 GB/s and a
// kernel takes 5 us; GPUs are joined at 100 GB/s, 2 us a hop. small_gpt2 has one bucket.
#include <gtest/gtest.h>

#include "sim/schedule/stage3_gathers.h"
#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::JobOptions;
using testing::round_node;
using testing::small_gpt2;

constexpr double kPicoseconds = 1e12;
constexpr double kClose = 10;  // picoseconds: durations are rounded one by one

Job job_of(std::int64_t gpus, int stage, std::int64_t accumulation = 1) {
  JobOptions options{.gpus = gpus, .stage = stage, .accumulation = accumulation};
  options.with_zenflow = false;
  options.optimizer_device = "none";
  options.run = {.warmup_steps = 4, .steps = 16};
  return make_small_job(round_node(gpus), small_gpt2(), options);
}

SimulationResult result_of(const Job& job) {
  return simulate_schedule(job, find_schedule("deepspeed-zero"));
}

double parameters(const Job& job) {
  return static_cast<double>(job.scenario.model.parameters());
}

/// Forward and backward of a step.
double passes(const Job& job) {
  double time = 0;
  for (const PlannedLayer& layer : plan_step(job).layers) {
    time += static_cast<double>(layer.forward.count + layer.backward.count);
  }
  return time;
}

/// Norm 2 + 16 bytes a parameter, fp32 copy 6, unscaling 8, Adam 28, copy back 6.
double update(double owned) {
  return (owned * 66 / 800e9 + 5e-6) * kPicoseconds;
}

double all_gather(double bytes) {
  return (2e-6 + bytes / 2 / 100e9) * kPicoseconds;
}

TEST(DeepSpeedZero, OnOneGpuPassesAndThenUpdatesAllParameters) {
  const Job job = job_of(1, 2);
  const SimulationResult result = result_of(job);
  EXPECT_NEAR(result.step_time, passes(job) + update(parameters(job)), kClose);
  EXPECT_NEAR(result.stall, 0, kClose);
}

TEST(DeepSpeedZero, Stage2ReducesGathersAndUpdatesHalfOnTwoGpus) {
  const Job job = job_of(2, 2);
  const SimulationResult result = result_of(job);
  const double bytes = 2 * parameters(job);
  // An all-reduce of a ring is a reduce-scatter and an all-gather.
  EXPECT_NEAR(result.stall, 2 * all_gather(bytes) + all_gather(bytes), kClose);
  EXPECT_NEAR(result.step_time, passes(job) + update(parameters(job) / 2) + result.stall, kClose);
}

TEST(DeepSpeedZero, Stage0UpdatesAllParametersOnEveryGpuAndGathersNone) {
  const Job job = job_of(2, 0);
  const SimulationResult result = result_of(job);
  EXPECT_NEAR(result.stall, 2 * all_gather(2 * parameters(job)), kClose);
  EXPECT_NEAR(result.step_time, passes(job) + update(parameters(job)) + result.stall, kClose);
}

TEST(DeepSpeedZero, Stage1ReducesInTheLastMicroStepOnly) {
  const Job job = job_of(2, 1, 4);
  const SimulationResult result = result_of(job);
  const double bytes = 2 * parameters(job);
  EXPECT_NEAR(4 * result.stall, 2 * all_gather(bytes) + all_gather(bytes), kClose);
  // Stage 2 gives away what the others own in every micro step.
  EXPECT_NEAR(4 * result_of(job_of(2, 2, 4)).stall, 4 * 2 * all_gather(bytes) + all_gather(bytes),
              kClose);
}

void expect_in_full_precision(int stage, double step_bytes, double state_bytes) {
  Job job = job_of(1, stage);
  job.scenario.training.dtype = DType::kFp32;
  const SimulationResult result = result_of(job);
  const double step = (parameters(job) * step_bytes / 800e9 + 5e-6) * kPicoseconds;
  EXPECT_NEAR(result.step_time, passes(job) + step, kClose) << stage;
  const auto states = static_cast<std::size_t>(MemoryCategory::kOptimizerState);
  EXPECT_NEAR(result.memory.gpu.by_category[states], state_bytes * parameters(job), 1) << stage;
}

// Norm 4 + 16, unscaling 8, Adam 28; the moments.
TEST(DeepSpeedZero, FullPrecisionHasNoCopiesInStages0And3) {
  for (const int stage : {0, 3}) expect_in_full_precision(stage, 56, 8);
}

// Counted in the real one, 0.19.8: 16 bytes a parameter after a step, 20 after backward. The step
// copies gradients (8) and weights (8), too.
TEST(DeepSpeedZero, FullPrecisionIsClonedInStages1And2) {
  for (const int stage : {1, 2}) expect_in_full_precision(stage, 72, 12);
}

TEST(DeepSpeedZero, MovesNothingOverTheHostLink) {
  const SimulationResult result = result_of(job_of(2, 3));
  EXPECT_EQ(result.d2h_bytes + result.h2d_bytes, 0);
  EXPECT_EQ(
      result.memory.host.by_category[static_cast<std::size_t>(MemoryCategory::kOptimizerState)], 0);
}

// offload_param is obeyed without offload_optimizer: weights are fetched from the host in forward
// and in backward, and written there after the update.
TEST(DeepSpeedZero, Stage3KeepsItsWeightsOnTheHostIfToldSo) {
  JobOptions options{.gpus = 2, .stage = 3};
  options.with_zenflow = false;
  options.optimizer_device = "none";
  options.parameter_device = "cpu";
  const Job job = make_small_job(round_node(2), small_gpt2(), options);
  const Job resident = job_of(2, 3);
  const SimulationResult offloaded = result_of(job);
  const SimulationResult kept = result_of(resident);
  const double weights = parameters(job);  // 2 bytes each, half of them on each GPU
  EXPECT_NEAR(offloaded.d2h_bytes, weights, 1);
  EXPECT_NEAR(offloaded.h2d_bytes,
              2 * stage3_gathers(job).in_a_step() / static_cast<double>(job.scenario.ranks()), 1);
  EXPECT_GT(offloaded.h2d_bytes, 0);
  EXPECT_NEAR(kept.memory.gpu.total - offloaded.memory.gpu.total, weights, 1);
  EXPECT_NEAR(offloaded.memory.host.by_category[static_cast<std::size_t>(MemoryCategory::kWeights)],
              2 * weights, 1);
  EXPECT_GT(offloaded.step_time, kept.step_time);
  EXPECT_TRUE(find_schedule("deepspeed-zero").ignored(job).empty());
}

TEST(DeepSpeedZero, HoldsStateGradientsAndInTheStepTheirFp32Copy) {
  const Job job = job_of(2, 0);
  const MemoryReport memory = result_of(job).memory;
  // Weights 2, state 12, gradients 2, their copy 4 and that flattened 4; and the CUDA context.
  EXPECT_NEAR(memory.gpu.total, 24 * parameters(job) + 1024.0 * 1024 * 1024, 1);
  const auto of = [&](int stage) {
    return result_of(job_of(2, stage))
        .memory.gpu.by_category[static_cast<std::size_t>(MemoryCategory::kOptimizerState)];
  };
  EXPECT_NEAR(of(0), 12 * parameters(job), 1);
  EXPECT_NEAR(of(1), 6 * parameters(job), 1);
  EXPECT_NEAR(of(3), 6 * parameters(job), 1);
}

TEST(DeepSpeedZero, SaysThatAnOffloadedOptimizerIsNot) {
  JobOptions options{.gpus = 2};
  options.with_zenflow = false;
  const Job job = make_small_job(round_node(2), small_gpt2(), options);
  const std::vector<std::string> notes = find_schedule("deepspeed-zero").ignored(job);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("offload_optimizer"), std::string::npos);
}

TEST(DeepSpeedZero, RunsWithoutWhatIsOffloaded) {
  Job job = job_of(2, 3);
  const SimulationResult plain = result_of(job);
  job.deepspeed.offload_optimizer = OffloadDevice::kCpu;
  const SimulationResult asked = result_of(job);
  EXPECT_EQ(asked.step_time, plain.step_time);
  EXPECT_DOUBLE_EQ(asked.memory.gpu.total, plain.memory.gpu.total);
  EXPECT_EQ(find_schedule("deepspeed-zero").ignored(job).size(), 1U);
}

/// With so few tokens that the GPU's memory is fullest in the step. Bytes of a category then.
double bytes_in_step(Job job, MemoryCategory category) {
  job.scenario.training.micro_batch_size_per_gpu = 1;
  job.scenario.training.sequence_length = 1;
  return result_of(job).memory.gpu.by_category[static_cast<std::size_t>(category)];
}

// Counted in the real one, 0.19.8: two bytes of weights, four of sums, four of master weights,
// eight of moments, two of gradients until the step and two of their cast while it is reduced.
TEST(DeepSpeedZero, Bf16OptimizerKeepsEveryRanksSumsInFp32) {
  Job job = job_of(2, 1, 2);
  job.deepspeed.fp32_gradient_sums = true;
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kGradients), (4 + 2) * parameters(job), 1);
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kStaging), 2 * parameters(job), 1);
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kOptimizerState), 6 * parameters(job), 1);
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kWeights), 2 * parameters(job), 1);
  EXPECT_TRUE(find_schedule("deepspeed-zero").ignored(job).empty());
}

// A micro step clears (2), casts (6) and adds (12) all gradients; the step casts (6), averages (4),
// copies back (6) and onto itself (8) what is reduced, takes the norm (4), clips (8), clears (4),
// and updates half of them: 28 + 6.
TEST(DeepSpeedZero, Bf16OptimizerPassesOverAllGradientsOnEveryRank) {
  Job job = job_of(2, 1, 2);
  job.deepspeed.fp32_gradient_sums = true;
  const SimulationResult result = result_of(job);
  const double p = parameters(job);
  const double pass = (20 * p / 800e9 + 5e-6) * kPicoseconds;
  const double step = ((24 + 4 + 8 + 4) * p + (28 + 6) * p / 2) / 800e9 + 5e-6;
  const double reduced = 2 * (2e-6 + 2 * p / 2 / 100e9) * kPicoseconds;
  const double window =
      2 * (passes(job) + pass) + reduced + step * kPicoseconds + all_gather(2 * p);
  EXPECT_NEAR(result.step_time, window / 2, kClose);
}

TEST(DeepSpeedZero, Bf16OptimizerDividedTheStateWithoutZero) {
  Job job = job_of(2, 0);
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kOptimizerState), 12 * parameters(job), 1);
  job.version = {0, 17, 5};
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kOptimizerState), 6 * parameters(job), 1);
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kGradients), (4 + 2) * parameters(job), 1);
}

TEST(DeepSpeedZero, Fp32SumsAreAPartitionsInStages2And3) {
  for (const int stage : {2, 3}) {
    Job job = job_of(2, stage, 2);
    const double before = bytes_in_step(job, MemoryCategory::kGradients);
    job.deepspeed.fp32_gradient_sums = true;
    const double more = bytes_in_step(job, MemoryCategory::kGradients) - before;
    EXPECT_NEAR(more, (4 - 2) * parameters(job) / 2, 1) << stage;
  }
}

// Counted in the real one, 0.19.8, stage 0 with torch_autocast: 12 bytes a parameter after a step,
// 16 after backward, 20 while gradients are reduced.
TEST(DeepSpeedZero, AutocastKeepsAllInFp32) {
  Job job = job_of(2, 0, 2);
  job.deepspeed.bf16 = false;
  job.deepspeed.autocast = true;
  job.scenario.training.activation_checkpointing = true;
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kWeights), 4 * parameters(job), 1);
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kOptimizerState), 8 * parameters(job), 1);
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kStaging), 4 * parameters(job), 1);
  // Weights are cast twice, 4 + 2; gradients are cast and added, 2 + 16; the step is 4 + 8 + 28.
  const double p = parameters(job);
  const double pass = (30 * p / 800e9 + 5e-6) * kPicoseconds;
  const double step = (40 * p / 800e9 + 5e-6) * kPicoseconds;
  const double reduced = 2 * (2e-6 + 4 * p / 2 / 100e9) * kPicoseconds;
  EXPECT_NEAR(result_of(job).step_time, passes(job) + pass + (reduced + step) / 2, kClose);
}

// fp16's take the gradients' place, of all ranks' parameters; a partition's are copied in the step.
TEST(DeepSpeedZero, Fp32SumsOfFp16AreAllInStage1) {
  Job job = job_of(2, 1, 2);
  job.scenario.training.dtype = DType::kFp16;
  job.deepspeed.reduce_bucket_size = 1;  // a large one, and backward needs more than the step
  job.deepspeed.fp32_gradient_sums = true;
  EXPECT_NEAR(bytes_in_step(job, MemoryCategory::kGradients), (4 + 4 / 2) * parameters(job), 1);
}

}  // namespace
}  // namespace zenflow::sim
