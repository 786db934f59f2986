/// Against what others published: rows the profiles were fitted to, rows they were not, and the
/// traffic formulas. Sources are named where the numbers stand; docs/accuracy.md discusses them.
#include <filesystem>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "sim/report/simulation.h"

namespace zenflow::sim {
namespace {

constexpr double kPicoseconds = 1e12;

Job job_of(const std::string& scenario, const std::vector<Override>& overrides = {}) {
  const std::filesystem::path root = ZENFLOW_SOURCE_DIR;
  LoadOptions options;
  options.profile_directories = {root / "profiles"};
  options.overrides = overrides;
  return make_job(load_scenario(root / "scenarios" / (scenario + ".yaml"), options));
}

SimulationResult run(const std::string& scenario, const std::string& schedule,
                     const std::vector<Override>& overrides = {}) {
  return simulate_schedule(job_of(scenario, overrides), find_schedule(schedule));
}

double seconds(double picoseconds) {
  return picoseconds / kPicoseconds;
}

/// Bars of the overview figure of the DeepSpeed blog deepspeed-zenflow, in seconds.
struct Bar {
  const char* scenario;
  const char* schedule;
  double step;
  double gpu;
  double stall;
};

class ZenFlowBlog : public ::testing::TestWithParam<Bar> {};

TEST_P(ZenFlowBlog, FittedRowsAreReproducedWithinFivePercent) {
  const Bar& bar = GetParam();
  const SimulationResult result = run(bar.scenario, bar.schedule);
  const double stall = result.stall_by_cause[static_cast<std::size_t>(StallCause::kCpuUpdate)];
  EXPECT_NEAR(seconds(result.step_time), bar.step, 0.05 * bar.step);
  EXPECT_NEAR(seconds(result.compute), bar.gpu, 0.05 * bar.gpu);
  EXPECT_NEAR(seconds(stall), bar.stall, 0.05 * bar.stall);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ZenFlowBlog,
    ::testing::Values(Bar{"qwen2_5_3b_4xa100", "zero-offload", 3.204, 0.365, 2.572},
                      Bar{"qwen2_5_3b_4xa100", "zenflow", 0.683, 0.365, 0.266},
                      Bar{"llama2_7b_4xa100", "zero-offload", 6.811, 0.662, 5.616},
                      Bar{"llama2_7b_4xa100", "zenflow", 1.390, 0.662, 0.646},
                      Bar{"llama2_7b_4xh100", "zero-offload", 3.572, 0.365, 2.951}));

TEST(Published, ZenFlowCutsTheStallOnTheA100NodeByMoreThan85Percent) {
  for (const char* scenario : {"qwen2_5_3b_4xa100", "llama2_7b_4xa100"}) {
    const double before = run(scenario, "zero-offload").stall;
    EXPECT_LT(run(scenario, "zenflow").stall, 0.15 * before) << scenario;
  }
}

TEST(Published, TrafficInModelSizes) {
  EXPECT_DOUBLE_EQ(run("llama2_7b_4xa100", "zero-offload").model_sizes, 2.0);
  EXPECT_DOUBLE_EQ(run("llama2_7b_4xa100", "zenflow").model_sizes, 1.125);
}

// DeepSpeed's zero_offload_dp1_10B_log.png: iterations 8 to 10 take 25.765, 26.756, 25.681 s.
TEST(Published, TenBillionParametersOnOneV100) {
  const double logged = (25.7654 + 26.7564 + 25.6807) / 3;
  EXPECT_NEAR(seconds(run("zero_offload_10b_1xv100", "zero-offload").step_time), logged,
              0.15 * logged);
}

// DeepSpeed blog zenflow-corebinding, Qwen2.5-3B on two A100-40G: means of three runs.
TEST(Published, CoreBindingStudyIsReproducedWithinTenPercent) {
  const char* const scenario = "qwen2_5_3b_2xa100_40g";
  const std::vector<Override> unbound = {{"launch.bind_cores_to_rank", "false"}};
  EXPECT_NEAR(seconds(run(scenario, "deepspeed-zero-offload").step_time), 2.497, 0.2497);
  EXPECT_NEAR(seconds(run(scenario, "deepspeed-zenflow").step_time), 1.116, 0.1116);
  EXPECT_NEAR(seconds(run(scenario, "deepspeed-zero-offload", unbound).step_time), 2.887, 0.2887);
}

// The same blog's smaller model, to which nothing was fitted.
TEST(Published, CoreBindingStudyPredictsItsOtherModelWithinTenPercent) {
  const char* const scenario = "qwen2_5_1_5b_2xa100_40g";
  EXPECT_NEAR(seconds(run(scenario, "gpu-only").step_time), 0.240, 0.024);
  EXPECT_NEAR(seconds(run(scenario, "deepspeed-zero-offload").step_time), 1.365, 0.1365);
  EXPECT_NEAR(seconds(run(scenario, "deepspeed-zenflow").step_time), 0.569, 0.0569);
}

// The study's other ZenFlow rows, to which nothing was fitted: the new worker with unbound ranks
// (commit 80033a8, as in 0.17.6), and the old worker, which has no cores of its own, with bound
// ones (1d7b90a, as in 0.17.5).
TEST(Published, CoreBindingStudyPredictsSharedCoresWithinTenPercent) {
  const char* const scenario = "qwen2_5_3b_2xa100_40g";
  const std::vector<Override> unbound = {{"launch.bind_cores_to_rank", "false"}};
  const std::vector<Override> old = {{"launch.deepspeed_version", "0.17.5"}};
  EXPECT_NEAR(seconds(run(scenario, "deepspeed-zenflow", unbound).step_time), 1.325, 0.1325);
  EXPECT_NEAR(seconds(run(scenario, "deepspeed-zenflow", old).step_time), 1.232, 0.1232);
}

// DeepSpeed issue #7478, the same machine, old worker, ranks not bound, no overlap_step: 1564 ms.
TEST(Published, BlockingZenFlowIsPredictedWithinTenPercent) {
  const std::vector<Override> blocking = {
      {"launch.deepspeed_version", "0.17.5"},
      {"launch.bind_cores_to_rank", "false"},
      {"deepspeed.zero_optimization.zenflow.overlap_step", "false"}};
  EXPECT_NEAR(seconds(run("qwen2_5_3b_2xa100_40g", "deepspeed-zenflow", blocking).step_time), 1.564,
              0.1564);
}

// DeepSpeedExamples, DeepSpeed-ZenFlow/finetuning/README: steps 9 to 13 of Llama-2-7B on two GPUs
// take 890.6, 740.1, 732.0, 2221.2 and 1061.8 ms. The GPU is not named; nothing was fitted to it.
TEST(Published, ExampleLogsStepsArePredictedWithinFifteenPercentEach) {
  const SimulationResult result = run("llama2_7b_2xh100", "deepspeed-zenflow");
  ASSERT_EQ(result.step_times.size(), 4U);
  const double after = seconds(result.step_times[0]);
  EXPECT_NEAR(after, 0.8906, 0.15 * 0.8906);
  EXPECT_NEAR(after, 1.0618, 0.15 * 1.0618);
  EXPECT_NEAR(seconds(result.step_times[1]), 0.7401, 0.15 * 0.7401);
  EXPECT_NEAR(seconds(result.step_times[2]), 0.7320, 0.15 * 0.7320);
  EXPECT_NEAR(seconds(result.step_times[3]), 2.2212, 0.15 * 2.2212);
  EXPECT_EQ(result.is_boundary, (std::vector<bool>{false, false, false, true}));
  const double logged = (0.8906 + 0.7401 + 0.7320 + 2.2212) / 4;
  EXPECT_NEAR(seconds(result.step_time), logged, 0.05 * logged);
}

/// DeepSpeed's traffic per micro step in bf16 partitions (2 p bytes), from its source:
/// stage 1 and 2 with S steps a window 2 + 2/S, 3 for S = 1; stage 3 2 + 3/S.
class DeepSpeedTraffic : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(DeepSpeedTraffic, FollowsTheFormulasForEveryWindow) {
  const auto [stage, gpus] = GetParam();
  for (int s = 1; s <= 16; ++s) {
    const std::vector<Override> settings = {
        {"gpus", std::to_string(gpus)},
        {"launch.deepspeed_version", to_string(newest_version())},
        {"deepspeed.zero_optimization.stage", std::to_string(stage)},
        {"deepspeed.zero_optimization.zenflow.update_interval", std::to_string(s)},
        {"deepspeed.zero_optimization.zenflow.select_interval", "0"}};
    std::vector<Override> accumulation = settings;
    accumulation.push_back({"deepspeed.gradient_accumulation_steps", std::to_string(s)});
    double expected = 2.0 + 2.0 / s;
    if (s == 1) expected = 3.0;
    if (stage == 3) expected = 2.0 + 3.0 / s;
    const char* const scenario = "qwen2_5_1_5b_2xa100_40g";
    EXPECT_NEAR(run(scenario, "deepspeed-zenflow", settings).model_sizes, expected, 1e-9)
        << "S = " << s;
    EXPECT_NEAR(run(scenario, "deepspeed-zero-offload", accumulation).model_sizes, expected, 1e-9)
        << "G = " << s;
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, DeepSpeedTraffic,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8)));

}  // namespace
}  // namespace zenflow::sim
