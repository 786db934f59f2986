// Constants fitted to traces of simulated runs, against the profile that was simulated. The trace
// goes through its text, as a file would.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/calibrate/profile_constants.h"
#include "sim/calibrate/trace/trace_fit.h"
#include "sim/schedule/live_work.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/simulate/simulation.h"
#include "sim/trace/chrome_trace.h"
#include "tests/support/scattered_run.h"
#include "tests/support/small_jobs.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using testing::JobOptions;
using testing::make_small_job;

/// The schedules, each with settings under which it does something of its own.
struct Run {
  std::string schedule;
  std::int64_t gpus = 1;
  int stage = 2;
  double reserved = 0.5;  ///< cores that the optimizer does not have
};

HardwareProfile base_node(std::int64_t gpus) {
  HardwareProfile node = testing::contended_node(gpus);
  node.host.worker_adam_bandwidth = 190.0_GBps;
  node.host.adam_launch = 40.0_us;
  return node;
}

/// Every constant another by up to 30 %, in a fixed pattern that follows no other.
HardwareProfile perturbed(const HardwareProfile& base) {
  HardwareProfile truth = base;
  int i = 0;
  for (const ProfileConstant& one : profile_constants(base)) {
    const double by = 0.26 * std::sin(1.0 + 2.3 * i++);
    one.set(truth, one.get(base) * std::exp(by));
  }
  // If a switch carries less in both directions together than in one, the latter is never seen.
  for (HostSwitch& one : truth.host_link.switches) {
    constexpr double kMore = 1.15;
    one.path.bidirectional = kMore * std::max(one.path.h2d, one.path.d2h);
  }
  return truth;
}

Job job_for(const HardwareProfile& node, const Run& run) {
  JobOptions options;
  options.gpus = run.gpus;
  options.stage = run.stage;
  options.reduce_bucket_size = 5'000'000;
  // Long enough in live-zenflow that sums of gradients have ended when the update begins: what they
  // take of each other's memory counts as launches.
  options.training.sequence_length = live_kind(run.schedule) ? 512 : 256;
  options.select_interval = "8";
  options.reserved = run.reserved;
  return testing::suited_to(find_schedule(run.schedule),
                            make_small_job(node, testing::small_gpt2(), options));
}

struct Traced {
  Job job;
  ImportedTrace trace;
};

/// The run with each task's duration scattered by `noise`, relative, and every `outlier`-th three
/// to six times as long.
FullRun scattered(const FullRun& run, double noise, int outlier) {
  std::mt19937 random(11);
  std::normal_distribution<double> factor(1, noise);
  return testing::scattered(run, [&](TaskId id) {
    const bool interrupted = id % static_cast<TaskId>(outlier) == 3;
    return interrupted ? 3 + id % 4 : factor(random);
  });
}

Traced traced(const HardwareProfile& truth, const HardwareProfile& base, const Run& run,
              double noise = 0, int outlier = 0) {
  const Job job = job_for(truth, run);
  FullRun full = simulate_fully(job, find_schedule(run.schedule));
  if (noise > 0) full = scattered(full, noise, outlier);
  const Timeline timeline = simulated_timeline(job, run.schedule, full);
  return {job_for(base, run), zenflow::testing::import_text(chrome_trace(timeline))};
}

TraceFit fit_of(const HardwareProfile& base, const std::vector<Traced>& runs) {
  TraceFitInput input{base, {}};
  for (const Traced& run : runs) input.traces.push_back({"run", &run.trace, &run.job});
  return fit_traces(input);
}

const FittedNumber& number(const TraceFit& fit, const std::string& path) {
  for (const FittedNumber& one : fit.numbers) {
    if (one.path == path) return one;
  }
  throw std::runtime_error("no number " + path);
}

/// Checks each fitted constant, and returns which were fitted.
std::vector<std::string> check(const TraceFit& fit, const HardwareProfile& truth,
                               const HardwareProfile& base, double tolerance, double errors) {
  std::vector<std::string> fitted;
  for (const ProfileConstant& one : profile_constants(base)) {
    const FittedNumber& found = number(fit, one.path);
    const double expected = one.get(truth) / one.scale;
    EXPECT_TRUE(std::isfinite(found.value)) << one.path;
    if (!found.fitted) {
      EXPECT_FALSE(found.reason.empty() && !found.adjusted) << one.path;
      if (!found.adjusted) {
        EXPECT_DOUBLE_EQ(found.value, one.get(base) / one.scale) << one.path;
      }
      continue;
    }
    fitted.push_back(one.path);
    const double allowed = tolerance * expected + errors * found.standard_error;
    EXPECT_NEAR(found.value, expected, allowed)
        << one.path << " standard error " << found.standard_error;
    EXPECT_GE(found.samples, 3U) << one.path;
  }
  return fitted;
}

bool has(const std::vector<std::string>& list, const std::string& path) {
  return std::find(list.begin(), list.end(), path) != list.end();
}

class SimulatedFit : public ::testing::TestWithParam<Run> {};

TEST_P(SimulatedFit, RecoversEveryDeterminedConstant) {
  const HardwareProfile base = base_node(GetParam().gpus);
  const HardwareProfile truth = perturbed(base);
  std::vector<Traced> runs;
  runs.push_back(traced(truth, base, GetParam()));
  const auto fitted = check(fit_of(base, runs), truth, base, 0.01, 0);
  EXPECT_GE(fitted.size(), 1U);
}

TEST_P(SimulatedFit, OfTheBaseProfileItselfIsTheBaseProfile) {
  const HardwareProfile base = base_node(GetParam().gpus);
  std::vector<Traced> runs;
  runs.push_back(traced(base, base, GetParam()));
  check(fit_of(base, runs), base, base, 1e-4, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, SimulatedFit,
    ::testing::Values(Run{"gpu-only", 4}, Run{"gpu-only", 1}, Run{"zero-offload", 1},
                      Run{"zero-offload-dpu", 1}, Run{"zero-offload", 4}, Run{"zenflow", 1},
                      Run{"zenflow", 4}, Run{"zero-infinity", 2, 3},
                      Run{"deepspeed-zero-offload", 1}, Run{"deepspeed-zero-offload", 2, 3},
                      Run{"deepspeed-zenflow", 1}, Run{"deepspeed-zenflow", 2},
                      Run{"deepspeed-super-offload", 2, 3}, Run{"live-zenflow", 1}),
    [](const auto& one) {
      std::string name = one.param.schedule + "_" + std::to_string(one.param.gpus);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(SimulatedFits, OfSeveralSchedulesTellsWhatNoneTellsAlone) {
  const HardwareProfile base = base_node(4);
  const HardwareProfile truth = perturbed(base);
  std::vector<Traced> runs;
  for (const char* schedule : {"gpu-only", "zero-offload", "zenflow", "deepspeed-zero-offload"}) {
    runs.push_back(traced(truth, base, {schedule, 4}));
  }
  const auto fitted = check(fit_of(base, runs), truth, base, 0.01, 0);
  for (const char* path : {"gpu.attention_efficiency", "gpu.streaming_efficiency",
                           "host.adam_bandwidth", "gpu_link.bandwidth", "gpu_link.latency"}) {
    EXPECT_TRUE(has(fitted, path)) << path;
  }
}

// Two of three GPUs under one switch: the third's copies tell what one gets alone, theirs what the
// switch carries.
TEST(SimulatedFits, OfGpusUnderASwitchTellWhatItCarries) {
  HardwareProfile base = base_node(3);
  base.host_link.switches[0].gpus = {0, 1};
  HardwareProfile truth = perturbed(base);
  truth.host_link.switches[0].path = {23.0_GBps, 13.0_GBps, 33.0_GBps};
  std::vector<Traced> runs;
  for (const char* schedule : {"zero-offload", "zenflow"}) {
    runs.push_back(traced(truth, base, {schedule, 3}));
  }
  const auto fitted = check(fit_of(base, runs), truth, base, 0.01, 0);
  for (const char* path :
       {"host_link.h2d", "host_link.d2h", "host_link.switches.h2d", "host_link.switches.d2h"}) {
    EXPECT_TRUE(has(fitted, path)) << path;
  }
}

/// Updates of layers of several sizes on two numbers of cores, alone, beside copies and beside
/// sums.
std::vector<Traced> runs_of_updates(const HardwareProfile& truth, const HardwareProfile& base) {
  std::vector<Traced> runs;
  runs.push_back(traced(truth, base, {"live-zero-offload", 1}));
  for (const double reserved : {0.5, 0.25}) {
    runs.push_back(traced(truth, base, {"live-zenflow", 1, 2, reserved}));
  }
  return runs;
}

constexpr std::array<const char*, 4> kOfUpdates = {"host.adam_bandwidth", "host.adam_half_cores",
                                                   "host.adam_launch", "host.dram_bandwidth"};

TEST(SimulatedFits, TellCpuAdamBySizeAndThreadsAloneAndBesideCopies) {
  HardwareProfile base = base_node(1);
  const HardwareProfile truth = perturbed(base);
  for (const bool is_stated : {true, false}) {
    if (!is_stated) base.host.adam_launch = Seconds(0);
    const TraceFit fit = fit_of(base, runs_of_updates(truth, base));
    const auto fitted = check(fit, truth, base, 0.01, 0);
    for (const char* path : kOfUpdates) {
      EXPECT_TRUE(has(fitted, path)) << path << ": " << number(fit, path).reason;
    }
  }
}

// DRAM of the base carries so much that it bounds nothing.
TEST(SimulatedFits, FindThatDramBounds) {
  HardwareProfile base = base_node(1);
  const HardwareProfile truth = perturbed(base);
  base.host.dram_bandwidth = 3000.0_GBps;
  const TraceFit fit = fit_of(base, runs_of_updates(truth, base));
  const auto fitted = check(fit, truth, base, 0.01, 0);
  for (const char* path : kOfUpdates) {
    EXPECT_TRUE(has(fitted, path)) << path << ": " << number(fit, path).reason;
  }
}

// What the traces do not tell is no reason to take DRAM for faster than they show it.
TEST(SimulatedFits, KeepTheDramThatTheyFindBesideRatesThatTheyDoNotTell) {
  const HardwareProfile base = base_node(1);
  HardwareProfile truth = base;
  truth.host.core_bandwidth = 5.0_GBps;
  truth.host.dram_bandwidth = 170.0_GBps;
  const TraceFit fit = fit_of(base, runs_of_updates(truth, base));
  EXPECT_TRUE(number(fit, "host.dram_bandwidth").fitted);
  EXPECT_NEAR(fit.profile.host.dram_bandwidth.value() / 170e9, 1, 0.01);
  EXPECT_TRUE(number(fit, "host.elementwise_bandwidth").adjusted);
  EXPECT_EQ(fit.profile.host.elementwise_bandwidth, fit.profile.host.dram_bandwidth);
  EXPECT_EQ(fit.profile.host.worker_adam_bandwidth, fit.profile.host.dram_bandwidth);
}

TEST(SimulatedFits, AreWithinTheirStandardErrorsUnderNoise) {
  const HardwareProfile base = base_node(1);
  const HardwareProfile truth = perturbed(base);
  std::vector<Traced> runs;
  for (const char* schedule : {"gpu-only", "zero-offload", "deepspeed-zero-offload"}) {
    runs.push_back(traced(truth, base, {schedule, 1}, 0.03, 29));
  }
  const auto fitted = check(fit_of(base, runs), truth, base, 0, 4);
  EXPECT_TRUE(has(fitted, "host_link.d2h"));
  EXPECT_TRUE(has(fitted, "host.adam_bandwidth"));
}

TEST(SimulatedFits, RefuseARunOfAnotherSetting) {
  const HardwareProfile base = base_node(1);
  Traced run = traced(base, base, {"zenflow", 1});
  JobOptions other;
  other.topk_ratio = 0.2;
  other.training.sequence_length = 256;
  other.reduce_bucket_size = 5'000'000;
  run.job = make_small_job(base, testing::small_gpt2(), other);
  std::vector<Traced> runs;
  runs.push_back(std::move(run));
  EXPECT_THROW(static_cast<void>(fit_of(base, runs)), Error);
}

}  // namespace
}  // namespace zenflow::sim
