// No candidate is simulated below its bounds, and settings that are taken to be equal are, whatever
// the machine.
#include <cmath>
#include <map>
#include <utility>

#include <gtest/gtest.h>

#include "sim/schedule/deepspeed_step.h"
#include "sim/simulate/simulation.h"
#include "sim/tune/zenflow_windows.h"
#include "tests/support/long_tests.h"
#include "tests/support/tune_requests.h"

namespace zenflow::sim {
namespace {

using testing::Numbers;
using testing::shipped_request;

/// A machine with every rate its own: faster or slower links, CPU and GPU, bound or not, and every
/// third a device whose memory is as slow as a host's; the
/// training thread takes up to `longest_gap` seconds to give the device work again.
void vary(HardwareProfile& node, double longest_gap, Numbers& numbers) {
  const auto factor = [&] { return std::exp(numbers.between(-1.5, 1.5)); };
  node.gpu.memory_bandwidth = factor() * node.gpu.memory_bandwidth;
  if (numbers.below(3) == 0) node.gpu.memory_bandwidth = 0.01 * node.gpu.memory_bandwidth;
  node.gpu.gemm_efficiency = numbers.between(0.1, 0.9);
  HostProfile& host = node.host;
  const double cpu = numbers.between(0.05, 0.9);
  host.adam_bandwidth = cpu * host.dram_bandwidth;
  host.elementwise_bandwidth = numbers.between(0.1, 1) * host.dram_bandwidth;
  if (numbers.below(2) == 0)
    host.worker_adam_bandwidth = numbers.between(cpu, 1) * host.dram_bandwidth;
  host.unbound_efficiency = numbers.below(2) == 0 ? 1 : numbers.between(0.3, 1);
  host.sockets = numbers.below(2) == 0 ? host.sockets : 1;
  host.core_bandwidth = std::min(1.0, factor()) * host.dram_bandwidth;
  host.adam_launch = Seconds(numbers.below(2) == 0 ? 0 : numbers.between(0, longest_gap));
  host.step_gap = Seconds(numbers.below(2) == 0 ? 0 : numbers.between(0, longest_gap));
  HostLinkProfile& link = node.host_link;
  const double speed = factor();
  link.pinned = {speed * link.pinned.h2d, speed * link.pinned.d2h,
                 numbers.between(1, 2) * speed * link.pinned.h2d};
  link.pageable_h2d = factor() * link.pageable_h2d;
  link.pageable_d2h = factor() * link.pageable_d2h;
  for (HostSwitch& one : link.switches) {
    const double shared = factor();
    one.path = {shared * one.path.h2d, shared * one.path.d2h, shared * one.path.bidirectional};
  }
  if (node.gpu_link) node.gpu_link->bandwidth = factor() * node.gpu_link->bandwidth;
  // So that nothing is excluded by memory here.
  node.gpu.memory = Bytes(1e15);
  node.host.memory = node.host.shared_memory = Bytes(1e15);
}

struct Case {
  std::string scenario;
  Family family;
  std::vector<Override> overrides{};
  double longest_gap = 1e-3;  ///< host.step_gap, seconds
  std::vector<std::string> narrowed{};
};

std::vector<Case> cases() {
  return {
      {"llama2_7b_4xa100", Family::kDeepSpeed},
      {"qwen2_5_1_5b_2xa100_40g", Family::kDeepSpeed},
      {"opt_1_3b_1xrtx3090", Family::kDeepSpeed},
      {"qwen2_5_7b_4xl40s", Family::kDeepSpeed},
      {"qwen2_5_3b_4xa100", Family::kDeepSpeed, {{"launch.deepspeed_version", "0.18.2"}}},
      {"llama2_7b_4xa100",
       Family::kDeepSpeed,
       {{"launch.target", "hf"}, {"deepspeed.gradient_accumulation_steps", "8"}}},
      {"llama2_7b_4xa100", Family::kPublished},
      {"qwen2_5_7b_4xl40s", Family::kPublished},
      {"opt_1_3b_1xrtx3090", Family::kPublished},
      {"llama2_70b_8xh100", Family::kPublished, {{"deepspeed.zero_optimization.stage", "3"}}},
      {"llama_10m_this_host", Family::kLive},
      {"live/gpt2", Family::kLive},
      // A small embedding is back on the device before the gap is over.
      {"live/tiny", Family::kLive, {}, 8e-3},
      {"live/tiny", Family::kLive, {{"deepspeed.gradient_accumulation_steps", "3"}}, 8e-3},
      {"live/gpt2", Family::kLive, {{"deepspeed.gradient_accumulation_steps", "2"}}},
      // Parameters on NVMe in stage 3, next to settings that have them on the GPU.
      {"llama2_70b_8xh100",
       Family::kPublished,
       {{"deepspeed.zero_optimization.offload_param.device", "nvme"},
        {"deepspeed.zero_optimization.offload_param.nvme_path", "/local_nvme"}},
       1e-3,
       {"placement=gpu,nvme", "stage=2,3"}},
      {"opt_1_3b_1xrtx3090", Family::kDeepSpeed, {}, 1e-3, {"placement=cpu,zenflow", "stage=3"}},
      // Releases without ZenFlow, which move other bytes.
      {"qwen2_5_3b_4xa100", Family::kDeepSpeed, {{"launch.deepspeed_version", "0.14.0"}}},
      {"llama2_7b_4xa100", Family::kDeepSpeed, {{"launch.deepspeed_version", "0.16.5"}}},
  };
}

/// Bounds on host memory are exact, except for ZeRO-Infinity as published, which takes RAM for what
/// is on its way.
void expect_needs_bounded(const CandidateBounds& bounds, const Evaluation& one,
                          const Setting& setting, Family family) {
  const bool passes = family == Family::kPublished && setting.placement() == Placement::kNvme;
  for (const MemoryLimit limit :
       {MemoryLimit::kHost, MemoryLimit::kShared, MemoryLimit::kLocked, MemoryLimit::kNvme}) {
    const auto i = static_cast<std::size_t>(limit);
    EXPECT_LE(bounds.needs[i], one.needs[i]) << describe(limit) << ", " << describe(setting);
    if (passes) continue;
    EXPECT_GE(bounds.needs[i], (1 - 1e-6) * one.needs[i])
        << describe(limit) << ", " << describe(setting);
  }
}

class TuneBounds : public ::testing::TestWithParam<std::size_t> {};

TEST_P(TuneBounds, AreBelowEverySimulation) {
  const Case which = cases()[GetParam()];
  Numbers numbers(7 + GetParam());
  std::size_t tried = 0;
  std::size_t close = 0;
  std::size_t on_device = 0;
  std::size_t close_on_device = 0;
  const int machines = zenflow::testing::long_tests() ? 30 : zenflow::testing::tried(12);
  for (int machine = 0; machine < machines; ++machine) {
    TuneRequest request = shipped_request(which.scenario, which.family, which.overrides);
    if (machine > 0) vary(request.job.scenario.hardware, which.longest_gap, numbers);
    for (const std::string& text : which.narrowed) narrow(request.space, text);
    request.space.set(Knob::kReservedCores, {0, 0.25, 0.5, 1});
    if (which.family == Family::kLive) request.space.set(Knob::kSelectInterval, {0, 7, 48});
    Candidates candidates(std::move(request));
    const Space& space = candidates.request().space;
    BoundsComputer computer;
    Job scratch = candidates.job(space.at(0));
    for (int i = 0, found = 0; i < 4000 && found < 20; ++i) {
      const Setting setting = space.at(numbers.below(space.size()));
      if (!candidates.refusal(setting).empty()) continue;
      ++found;
      ++tried;
      const CandidateBounds bounds =
          candidates.bounds(candidates.canonical(setting), scratch, computer);
      const Evaluation one = candidates.evaluate(setting);
      EXPECT_LE(bounds.step_time, one.step_time) << describe(setting) << " on machine " << machine;
      EXPECT_LE(bounds.gpu_bytes, one.gpu_bytes) << describe(setting);
      EXPECT_LE(bounds.traffic, one.traffic()) << describe(setting);
      EXPECT_EQ(bounds.staleness, one.staleness) << describe(setting);
      expect_needs_bounded(bounds, one, setting, which.family);
      const bool is_close = bounds.step_time > 0.9 * one.step_time;
      close += is_close ? 1U : 0U;
      const bool sums_on_device = setting.zenflow() && setting.flag(Knob::kAccumulateOn) &&
                                  (setting.interval() > 1 || setting.flag(Knob::kOverlapStep));
      on_device += sums_on_device ? 1U : 0U;
      close_on_device += sums_on_device && is_close ? 1U : 0U;
    }
  }
  EXPECT_GT(tried, 9U * static_cast<std::size_t>(machines));
  // A bound of zero would pass, too.
  EXPECT_GT(close, tried / 3);
  if (which.family == Family::kLive) {
    EXPECT_GT(on_device, tried / 20);
    EXPECT_GT(close_on_device, on_device / 3);
  }
}

// Bounds are computed from one job that is changed from setting to setting.
TEST(TuneSettingJob, IsTheSameWhateverTheJobWasBefore) {
  TuneRequest request = shipped_request("llama2_70b_8xh100", Family::kPublished);
  request.job.deepspeed.zenflow.emplace();
  request.job.deepspeed.zenflow->auto_ratio = 0.5;
  ASSERT_NE(request.job.deepspeed.offload_param, OffloadDevice::kNone);
  Candidates candidates(request);
  Setting setting = setting_of(request.job);
  Job changed = candidates.job(setting);
  for (const Placement placement : {Placement::kZenFlow, Placement::kGpu, Placement::kNvme,
                                    Placement::kCpu, Placement::kZenFlow}) {
    for (const int stage : {3, 2, 3}) {
      setting.set(Knob::kPlacement, static_cast<double>(placement));
      setting.set(Knob::kStage, stage);
      apply_setting(request, setting, changed);
      const DeepSpeedConfig& now = changed.deepspeed;
      const DeepSpeedConfig afresh = candidates.job(setting).deepspeed;
      EXPECT_EQ(now.offload_optimizer, afresh.offload_optimizer) << describe(setting);
      EXPECT_EQ(now.offload_param, afresh.offload_param) << describe(setting);
      ASSERT_EQ(now.zenflow.has_value(), afresh.zenflow.has_value());
      const auto ratio = [](const DeepSpeedConfig& one) {
        return one.zenflow ? one.zenflow->auto_ratio : 0;
      };
      EXPECT_EQ(ratio(now), ratio(afresh)) << describe(setting);
    }
  }
}

// What sensitivity takes for granted, so that it need not simulate it.
TEST(NumbersOfTheProfile, ThatNoScheduleOfAFamilyReadsChangeNoStep) {
  const auto expect_unread = [](const char* scenario, Family family, auto change,
                                const char* narrowed = "overlap_step=false,true") {
    TuneRequest request = shipped_request(scenario, family);
    narrow(request.space, narrowed);
    Candidates candidates(std::move(request));
    Numbers numbers(3);
    HardwareProfile changed = candidates.request().job.scenario.hardware;
    change(changed);
    for (int found = 0; found < 30;) {
      const Setting setting =
          candidates.request().space.at(numbers.below(candidates.request().space.size()));
      if (!candidates.refusal(setting).empty()) continue;
      ++found;
      EXPECT_EQ(candidates.step_time_on(changed, setting), candidates.evaluate(setting).step_time)
          << describe(setting);
    }
  };
  const auto of_training = [](HardwareProfile& node) {
    node.host.step_gap = Seconds(0.1);
    node.gpu.column_efficiency = 0.01;
  };
  const auto of_deepspeed = [](HardwareProfile& node) {
    node.host.worker_adam_bandwidth = 0.1 * node.host.adam_bandwidth;
    node.host.unbound_efficiency = 0.1;
  };
  const auto of_pageable = [](HardwareProfile& node) {
    node.host_link.pageable_h2d = 0.1 * node.host_link.pageable_h2d;
    node.host_link.pageable_d2h = 0.1 * node.host_link.pageable_d2h;
  };
  const auto of_nvme = [](HardwareProfile& node) {
    ASSERT_TRUE(node.nvme);
    node.nvme->read = node.nvme->write = 0.1 * node.nvme->read;
    node.nvme->latency = Seconds(0.1);
  };
  const auto of_network = [](HardwareProfile& node) {
    ASSERT_TRUE(node.network);
    node.network->bandwidth = 0.1 * node.network->bandwidth;
    node.network->latency = Seconds(0.1);
  };
  expect_unread("llama2_7b_2xh100", Family::kDeepSpeed, of_training);
  expect_unread("gpt2_xl_1xh200", Family::kPublished, of_training);
  expect_unread("gpt2_xl_1xh200", Family::kPublished, of_deepspeed);
  expect_unread("gpt2_xl_1xh200", Family::kPublished, of_pageable);
  expect_unread("live/gpt2", Family::kLive, of_deepspeed);
  for (const Family family : {Family::kDeepSpeed, Family::kPublished}) {
    expect_unread("llama2_70b_8xh100", family, of_nvme, "placement=gpu,cpu,zenflow");
    expect_unread("qwen2_5_1_5b_2xa100_40g", family, of_network);
  }
}

// Copies of sums that nothing hides: the bound follows the link.
TEST(TuneBoundsOfSumsOnTheDevice, AreCloseWhereTheLinkDecides) {
  for (const bool overlap : {false, true}) {
    for (const std::int64_t interval : {1, 2, 8}) {
      if (!overlap && interval == 1) continue;  // no sums
      TuneRequest request = shipped_request("live/tiny", Family::kLive);
      HardwareProfile& node = request.job.scenario.hardware;
      node.gpu.memory = node.host.memory = Bytes(1e15);
      node.host_link.pinned.d2h = 0.02 * node.host_link.pinned.d2h;
      Candidates candidates(std::move(request));
      Setting setting = setting_of(candidates.request().job);
      setting.set(Knob::kUpdateInterval, static_cast<double>(interval));
      setting.set(Knob::kOverlapStep, overlap ? 1 : 0);
      setting.set(Knob::kAccumulateOn, 1);
      BoundsComputer computer;
      Job scratch = candidates.job(setting);
      const CandidateBounds bounds = candidates.bounds(setting, scratch, computer);
      const Evaluation one = candidates.evaluate(setting);
      EXPECT_LE(bounds.step_time, one.step_time) << describe(setting);
      EXPECT_GT(bounds.step_time, 0.95 * one.step_time) << describe(setting);
    }
  }
}

TEST_P(TuneBounds, SettingsOfOneCanonicalFormAreSimulatedAlike) {
  const Case which = cases()[GetParam()];
  Numbers numbers(99 + GetParam());
  TuneRequest request = shipped_request(which.scenario, which.family, which.overrides);
  Candidates candidates(std::move(request));
  const Space& space = candidates.request().space;
  int differing = 0;
  for (int i = 0; i < 20000 && differing < 15; ++i) {
    const Setting setting = space.at(numbers.below(space.size()));
    if (!candidates.refusal(setting).empty()) continue;
    const Setting same = candidates.canonical(setting);
    if (same == setting) continue;
    ++differing;
    EXPECT_EQ(candidates.canonical(same), same);
    EXPECT_TRUE(space.contains(same));
    EXPECT_EQ(candidates.refusal(same), "") << describe(same);
    const Evaluation a = candidates.evaluate(setting);
    const Evaluation b = candidates.evaluate(same);
    EXPECT_EQ(a.step_time, b.step_time) << describe(setting);
    EXPECT_EQ(a.traffic(), b.traffic()) << describe(setting);
    EXPECT_EQ(a.gpu_bytes, b.gpu_bytes) << describe(setting);
    EXPECT_EQ(a.needs, b.needs) << describe(setting);
    EXPECT_EQ(a.staleness, b.staleness) << describe(setting);
  }
  EXPECT_GT(differing, 5);
}

INSTANTIATE_TEST_SUITE_P(Cases, TuneBounds, ::testing::Range(std::size_t{0}, cases().size()));

// What makes the search short: where nothing works beside a step, nothing is left out.
TEST(TuneBoundsOfZenFlow, MeetTheSimulationWhereTheUpdateBlocks) {
  constexpr double kClose = 1e-6;
  for (const char* scenario :
       {"opt_1_3b_1xrtx3090", "mistral_7b_1xrtx4090", "qwen2_5_7b_4xl40s", "llama2_70b_8xh100"}) {
    TuneRequest request = shipped_request(scenario);
    // Where GPUs reach each other over PCIe, gathers share it with gradients, too.
    if (auto& link = request.job.scenario.hardware.gpu_link) link->kind = "NVLink";
    // Parameters that come up share the link with gradients that go down.
    for (const char* text :
         {"placement=zenflow", "overlap_step=false", "offload=false", "offload_param=none"}) {
      narrow(request.space, text);
    }
    Candidates candidates(std::move(request));
    const Space& space = candidates.request().space;
    BoundsComputer computer;
    Job scratch = candidates.job(space.at(0));
    Numbers numbers(1);
    for (int i = 0, found = 0; i < 4000 && found < 10; ++i) {
      const Setting setting = space.at(numbers.below(space.size()));
      if (!candidates.refusal(setting).empty()) continue;
      ++found;
      const CandidateBounds bounds = candidates.bounds(setting, scratch, computer);
      const Evaluation one = candidates.evaluate(setting);
      EXPECT_NEAR(bounds.step_time / one.step_time, 1, kClose) << scenario << describe(setting);
      EXPECT_NEAR(bounds.traffic / one.traffic(), 1, kClose) << scenario << describe(setting);
    }
  }
}

// A selection cuts the window before it short, wherever it falls.
TEST(ZenFlowWindows, AreThoseThatTheScheduleHasInTheLongRun) {
  Job job = shipped_request("llama2_7b_4xa100").job;
  for (const std::int64_t window : {1, 3, 4, 7, 12}) {
    for (const std::int64_t every : {0, 3, 4, 48, 50}) {
      for (const std::int64_t warm_up : {0, 2, 12}) {
        ZenFlowSettings& zenflow = *job.deepspeed.zenflow;
        zenflow.update_interval = window;
        zenflow.select_interval = every;
        zenflow.full_warm_up_rounds = warm_up;
        const std::int64_t period = std::max<std::int64_t>(1, every) * window;
        // One period that begins with a selection, past warm-up and what follows it.
        const std::int64_t begin = (warm_up / period + 2) * period;
        std::map<std::pair<std::int64_t, bool>, double> counted;
        for (const WindowShape& one : deepspeed_zenflow_windows(job, begin + 2 * period)) {
          if (one.first_step < begin || one.first_step >= begin + period) continue;
          EXPECT_TRUE(one.select_at.empty() || one.select_at == std::vector<std::int32_t>{0});
          counted[{one.steps, !one.select_at.empty()}] += 1.0 / static_cast<double>(period);
        }
        std::map<std::pair<std::int64_t, bool>, double> said;
        for (const WindowKind& one : long_run_windows(job)) {
          said[{one.steps, one.selects}] += one.share;
        }
        std::erase_if(said, [](const auto& one) { return one.second == 0; });
        ASSERT_EQ(said.size(), counted.size()) << window << " " << every << " " << warm_up;
        for (const auto& [kind, share] : counted) EXPECT_NEAR(said[kind], share, 1e-12);
      }
    }
  }
}

/// The setting's step time with its warm-up as it is, averaged over whole periods of windows and
/// selections well past it.
double as_configured(const Candidates& candidates, const Setting& setting) {
  Job job = candidates.job(setting);
  const std::int64_t rounds = setting.whole(Knob::kWarmUp);
  job.deepspeed.zenflow->full_warm_up_rounds = rounds;
  job.scenario.run = {.warmup_steps = rounds + 48, .steps = 96};
  return simulate_schedule(job, candidates.schedule(setting)).step_time;
}

// Candidates are simulated with a warm-up of one to two windows. Where columns are selected again
// and again, update boundaries lie between selections as the configured one says.
TEST(TuneWarmUp, LeavesItsPhaseInTheLongRun) {
  TuneRequest request = shipped_request("qwen2_5_1_5b_4xa100");
  Candidates candidates(std::move(request));
  int cut = 0;
  for (const std::int64_t window : {3, 4, 6, 8, 12, 16}) {
    for (const bool overlaps : {false, true}) {
      double aligned = 0;
      for (const std::int64_t rounds : {48, 4, 5, 21}) {
        Setting setting = setting_of(candidates.request().job);
        setting.set(Knob::kStage, window % 8 == 0 ? 3 : 2);
        setting.set(Knob::kUpdateInterval, static_cast<double>(window));
        setting.set(Knob::kOverlapStep, overlaps ? 1 : 0);
        setting.set(Knob::kSelectInterval, 48);
        setting.set(Knob::kWarmUp, static_cast<double>(rounds));
        const double whole = as_configured(candidates, setting);
        EXPECT_NEAR(candidates.evaluate(setting).step_time / whole, 1, 1e-9)
            << window << " " << overlaps << " " << rounds;
        if (rounds == 48) aligned = whole;
        cut += whole > 1.01 * aligned ? 1 : 0;
      }
    }
  }
  EXPECT_GT(cut, 6) << "else there was nothing to leave";
}

/// The user's own setting with another warm-up.
Setting with_warm_up(const Candidates& candidates, double rounds, std::int64_t select) {
  Setting setting = setting_of(candidates.request().job);
  setting.set(Knob::kPlacement, static_cast<double>(Placement::kZenFlow));
  setting.set(Knob::kUpdateInterval, 8);
  setting.set(Knob::kOverlapStep, 0);
  setting.set(Knob::kSelectInterval, static_cast<double>(select));
  setting.set(Knob::kWarmUp, rounds);
  return setting;
}

TEST(TuneWarmUp, IsTheSameWithTheSamePhase) {
  TuneRequest request = shipped_request("qwen2_5_1_5b_4xa100");
  for (const Family family : {Family::kDeepSpeed, Family::kPublished}) {
    request.family = family;
    request.space = default_space(request.job, family, request.global_batch);
    request.space.set(Knob::kWarmUp, {4, 8, 12, 48});
    request.space.set(Knob::kSelectInterval, {0, 48});
    Candidates candidates(request);
    const auto canonical = [&](double rounds, std::int64_t select) {
      const Setting one = candidates.canonical(with_warm_up(candidates, rounds, select));
      return one.whole(Knob::kWarmUp);
    };
    for (const std::int64_t select : {0, 48}) {
      EXPECT_EQ(canonical(8, select), canonical(48, select));
      EXPECT_EQ(canonical(4, select), canonical(12, select));
      const bool same = select == 0 || family == Family::kPublished;
      EXPECT_EQ(canonical(4, select) == canonical(8, select), same) << to_string(family);
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
