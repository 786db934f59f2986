// Constants fitted to recordings whose every duration is written by hand from a formula.
#include <cmath>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/calibrate/trace/clock_tick.h"
#include "sim/calibrate/trace/trace_fit.h"
#include "sim/calibrate/trace/trace_fit_json.h"
#include "sim/calibrate/trace/trace_fit_text.h"
#include "sim/config/document.h"
#include "sim/cost/gpu_cost.h"
#include "sim/cost/transfer_cost.h"
#include "sim/schedule/step_plan.h"
#include "sim/trace/launches.h"
#include "tests/support/error_of.h"
#include "tests/support/nsight_file.h"
#include "tests/support/small_jobs.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using ::testing::HasSubstr;
using zenflow::testing::event;
using zenflow::testing::import_text;
using zenflow::testing::launch;
using zenflow::testing::trace_of;

HardwareProfile other_node() {
  HardwareProfile truth = testing::round_node(4);
  truth.gpu.gemm_efficiency = 0.62;
  truth.gpu.elementwise_efficiency = 0.41;
  truth.gpu.kernel_launch = 4.0_us;
  truth.host.adam_bandwidth = 120.0_GBps;
  truth.host_link.pinned = {23.0_GBps, 12.0_GBps, 27.0_GBps};
  truth.host_link.pageable_d2h = 3.1_GBps;
  truth.host_link.latency = 6.0_us;
  truth.gpu_link->bandwidth = 130.0_GBps;
  truth.gpu_link->latency = 2.6_us;
  return truth;
}

const FittedNumber& number(const TraceFit& fit, const std::string& path) {
  for (const FittedNumber& one : fit.numbers) {
    if (one.path == path) return one;
  }
  throw std::runtime_error("no number " + path);
}

void expect_fitted(const TraceFit& fit, const std::string& path, double expected) {
  const FittedNumber& one = number(fit, path);
  EXPECT_TRUE(one.fitted) << path << ": " << one.reason;
  EXPECT_NEAR(one.value / expected, 1, 0.01) << path;
}

/// Events of a recording, one after another in time.
class Recording {
 public:
  std::string events;
  double now = 0;  // microseconds
  int next = 1;

  void add(const std::string& one) { events += (events.empty() ? "" : ",\n") + one; }
  static std::string number(double value) { return fmt::format("{:.6f}", value); }

  /// `us` long, queued: launched before the work before it ends; a microsecond after that.
  void kernel(const std::string& name, double us, const std::string& operation,
              const std::string& dims, const std::string& type) {
    const double call = 3 * next;
    add(event("cpu_op", operation, "100", "100", number(call), "2.5",
              fmt::format(R"("Input Dims": {}, "Input type": {})", dims, type)));
    add(launch("cudaLaunchKernel", number(call + 1), "1", next));
    now = std::max(now + 1, call + 3);
    add(zenflow::testing::kernel(name, number(now), number(us), next));
    now += us;
    ++next;
  }
  void copy(const std::string& kind, double seconds, double bytes, int stream, double at,
            int device = 0) {
    add(zenflow::testing::copy(kind, number(at), number(1e6 * seconds), std::lround(bytes), next++,
                               stream, device));
  }
  [[nodiscard]] ImportedTrace import() const { return import_text(trace_of(events)); }
};

TraceFit fit_of(const ImportedTrace& trace, const Job* job = nullptr) {
  return fit_traces({testing::round_node(4), {{"run", &trace, job}}});
}

TEST(RecordedFit, ReadsProductsAndPassesByShape) {
  const HardwareProfile truth = other_node();
  Recording run;
  run.now = 4000;  // the host is far ahead
  constexpr double kGap = 1e-6;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t m = 512 << (i % 4);
    const std::int64_t n = 1024 << (i % 3);
    const double product = gemm_time(truth.gpu, DType::kBf16, m, n, 4096).value() - kGap;
    run.kernel("ampere_bf16_s16816gemm_bf16", 1e6 * product, "aten::mm",
               fmt::format("[[{}, 4096], [4096, {}]]", m, n),
               R"(["c10::BFloat16", "c10::BFloat16"])");
    const double elements = i % 2 == 0 ? 1000 : 3e7 + 1e6 * i;
    const double bytes = 12 * elements;
    const double pass = bytes / (0.41 * truth.gpu.memory_bandwidth.value()) + 4e-6 - kGap;
    run.kernel("vectorized_elementwise_kernel", 1e6 * pass, "aten::add",
               fmt::format("[[{0:.0f}], [{0:.0f}], []]", elements),
               R"(["float", "float", "Scalar"])");
  }
  const TraceFit fit = fit_of(run.import());
  expect_fitted(fit, "gpu.gemm_efficiency", 0.62);
  expect_fitted(fit, "gpu.elementwise_efficiency", 0.41);
  expect_fitted(fit, "gpu.kernel_launch", 4);
  EXPECT_NEAR(fit.baselines.at(0).launch.gap.median, kGap, 1e-12);
  EXPECT_FALSE(number(fit, "host.adam_bandwidth").fitted);
  EXPECT_FALSE(number(fit, "host.adam_bandwidth").reason.empty());
  const std::string text = trace_fit_text(fit, false);
  EXPECT_THAT(text, HasSubstr("products by shape"));
  EXPECT_THAT(text, HasSubstr("gap between queued kernels: 1.00 us"));
}

TEST(RecordedFit, ReadsCopiesAloneAndBesideEachOther) {
  const HostLinkProfile link = other_node().host_link;
  Recording run;
  double at = 10;
  for (int i = 0; i < 40; ++i) {
    const double bytes = std::ldexp(4096.0, i % 14);
    run.copy("HtoD (Pinned -> Device)",
             copy_time(link, Direction::kH2D, true, Bytes(bytes)).value(), bytes, 8, at);
    run.copy("DtoH (Device -> Pinned)",
             copy_time(link, Direction::kD2H, true, Bytes(bytes)).value(), bytes, 9, at + 1e5);
    run.copy("DtoH (Device -> Pageable)",
             copy_time(link, Direction::kD2H, false, Bytes(bytes)).value(), bytes, 9, at + 2e5);
    // Both directions together for the same time: 27 GB/s, of which down 12 at most, up the rest.
    const double both = 6e-6 + 1.2e8 / 12e9;
    run.copy("DtoH (Device -> Pinned)", both, 1.2e8, 9, at + 3e5);
    run.copy("HtoD (Pinned -> Device)", both, 1.5e8, 8, at + 3e5);
    at += 4e5;
  }
  const TraceFit fit = fit_of(run.import());
  expect_fitted(fit, "host_link.h2d", 23);
  expect_fitted(fit, "host_link.d2h", 12);
  expect_fitted(fit, "host_link.pageable_d2h", 3.1);
  expect_fitted(fit, "host_link.latency", 6);
  expect_fitted(fit, "host_link.bidirectional", 27);
  EXPECT_FALSE(number(fit, "host_link.pageable_h2d").fitted);
}

/// Uploads of so many bytes by each of `gpus` at once, one microsecond apart.
void upload_together(Recording& run, const std::vector<int>& gpus, double bytes, double seconds,
                     double at) {
  for (const int gpu : gpus) run.copy("HtoD (Pinned -> Device)", seconds, bytes, 8, at, gpu);
}

HardwareProfile switched_node() {
  HardwareProfile base = testing::round_node(4);
  base.host_link.switches = {{{0, 1}, {25.0_GBps, 25.0_GBps, 37.0_GBps}},
                             {{2, 3}, {25.0_GBps, 25.0_GBps, 37.0_GBps}}};
  return base;
}

/// On a machine whose GPUs get 23 GB/s in isolation, two under a switch 31 together.
void record_uploads(Recording& run, const std::vector<int>& together, double share) {
  for (int i = 0; i < 12; ++i) {
    const double bytes = 1e7 * (1 + i);
    const double at = 1e6 * i;
    for (const int gpu : together) {
      run.copy("HtoD (Pinned -> Device)", 6e-6 + bytes / 23e9, bytes, 8, at + 1e5 * gpu, gpu);
    }
    upload_together(run, together, bytes, 6e-6 + bytes / share, at + 6e5);
  }
}

TEST(RecordedFit, TellsWhatASwitchCarriesFromWhatAGpuGetsAlone) {
  Recording run;
  record_uploads(run, {0, 1}, 31e9 / 2);
  const ImportedTrace trace = run.import();
  const TraceFit fit = fit_traces({switched_node(), {{"run", &trace}}});
  expect_fitted(fit, "host_link.h2d", 23);
  expect_fitted(fit, "host_link.switches.h2d", 31);
  EXPECT_FALSE(number(fit, "host_link.switches.d2h").fitted);
  for (const HostSwitch& one : fit.profile.host_link.switches) {
    EXPECT_NEAR(one.path.h2d.value() / 31e9, 1, 0.01);
  }
}

// Under different switches nothing is shared.
TEST(RecordedFit, TakesCopiesUnderDifferentSwitchesForAlone) {
  Recording run;
  record_uploads(run, {1, 2}, 23e9);
  const ImportedTrace trace = run.import();
  const TraceFit fit = fit_traces({switched_node(), {{"run", &trace}}});
  expect_fitted(fit, "host_link.h2d", 23);
  EXPECT_FALSE(number(fit, "host_link.switches.h2d").fitted);
}

TEST(RecordedFit, DoesNotTakeCopiesForAloneWhoseSharedLinkIsNotKnown) {
  Recording run;
  record_uploads(run, {0, 1}, 31e9 / 2);
  const ImportedTrace trace = run.import();
  const TraceFit fit = fit_of(trace);  // of a base without switches
  expect_fitted(fit, "host_link.h2d", 23);
  EXPECT_EQ(number(fit, "host_link.h2d").samples, 24U);
  EXPECT_THAT(fit.remarks, ::testing::Contains(HasSubstr("24 copies left aside: beside those of "
                                                         "other GPUs")));
}

/// On a machine whose GPUs never copy in isolation: two get 15.5 GB/s each.
void record_pairs(Recording& run) {
  for (int i = 0; i < 12; ++i) {
    const double bytes = 1e7 * (1 + i);
    upload_together(run, {0, 1}, bytes, 6e-6 + bytes / 15.5e9, 1e6 * i);
  }
}

// What is asked of the profile is then what was recorded.
TEST(RecordedFit, TakesWhatGpusGetTogetherIfTheyNeverCopyAlone) {
  Recording run;
  record_pairs(run);
  const ImportedTrace trace = run.import();
  const TraceFit fit = fit_of(trace);
  expect_fitted(fit, "host_link.h2d", 15.5);
  EXPECT_THAT(fit.remarks, ::testing::Contains(HasSubstr("count as on links of their own")));
}

// Copies so short that they tell a latency alone are not in their way.
TEST(RecordedFit, ShortCopiesAloneTellNoRate) {
  Recording run;
  record_pairs(run);
  for (int i = 0; i < 12; ++i) {
    run.copy("HtoD (Pinned -> Device)", 6e-6 + 4096 / 15.5e9, 4096, 8, 1e6 * i + 5e5, 0);
  }
  const ImportedTrace trace = run.import();
  const TraceFit fit = fit_of(trace);
  expect_fitted(fit, "host_link.h2d", 15.5);
  EXPECT_THAT(fit.remarks, ::testing::Contains(HasSubstr("24 copies of page-locked memory")));
}

// Times of long copies agree within a thousandth, of short ones within a fifth.
TEST(RecordedFit, ShortCopiesScatterMoreThanLongOnes) {
  Recording run;
  for (int i = 0; i < 60; ++i) {
    const double bytes = 1e7 * (1 + i % 7);
    run.copy("HtoD (Pinned -> Device)", 6e-6 + bytes / 20e9, bytes, 8, 1e6 * i);
    const double by = 1 + 0.2 * (i % 11 - 5) / 5.0;
    run.copy("HtoD (Pinned -> Device)", by * (6e-6 + 4096 / 20e9), 4096, 8, 1e6 * i + 5e5);
  }
  const ImportedTrace trace = run.import();
  const TraceFit fit = fit_of(trace);
  expect_fitted(fit, "host_link.h2d", 20);
  EXPECT_EQ(number(fit, "host_link.latency").set_aside, 0U);
  EXPECT_GE(number(fit, "host_link.latency").samples, 60U);
  EXPECT_NEAR(number(fit, "host_link.latency").value, 6, 0.3);
}

// A rank's trace each, on one clock, with origins a second apart.
TEST(RecordedFit, SeesCopiesOfOneMachineInSeveralTraces) {
  std::vector<ImportedTrace> traces;
  for (const int rank : {0, 1}) {
    Recording run;
    for (int i = 0; i < 12; ++i) {
      const double bytes = 1e7 * (1 + i);
      const double at = 1e6 * i - 1e6 * rank + 2e6;
      run.copy("HtoD (Pinned -> Device)", 6e-6 + bytes / 23e9, bytes, 8, at + 1e5 * rank, rank);
      run.copy("HtoD (Pinned -> Device)", 6e-6 + 2 * bytes / 31e9, bytes, 8, at + 6e5, rank);
    }
    traces.push_back(run.import());
    traces.back().timeline.origin_nanoseconds = 5'000'000'000 + 1'000'000'000LL * rank;
  }
  const TraceFit fit =
      fit_traces({switched_node(), {{"rank 0", &traces[0]}, {"rank 1", &traces[1]}}});
  expect_fitted(fit, "host_link.h2d", 23);
  expect_fitted(fit, "host_link.switches.h2d", 31);
}

TEST(RecordedFit, SaysThatATraceWasCutAndWhatWasNotRead) {
  Recording run;
  for (int i = 0; i < 20; ++i) {
    const double bytes = std::ldexp(4096.0, i % 12);
    run.copy("HtoD (Pinned -> Device)", 6e-6 + bytes / 23e9, bytes, 8, 1e4 * i);
  }
  run.add(event("cpu_op", "aten::mm", "100", "100", "0", "5"));
  const std::string whole = trace_of(run.events);
  const ImportedTrace cut = import_text(whole.substr(0, whole.size() - 60));
  const TraceFit fit = fit_of(cut);
  expect_fitted(fit, "host_link.h2d", 23);
  EXPECT_THAT(fit.remarks, ::testing::Contains(HasSubstr("is missing")));
  EXPECT_THAT(trace_fit_text(fit, false), HasSubstr("is missing"));
  const Node base = parse_yaml("name: base\nhost_link: {kind: PCIe}\n", "base.yaml");
  const std::string profile = fitted_profile_text(base, fit.numbers, "fitted", "run", fit.remarks);
  EXPECT_THAT(profile, ::testing::StartsWith("# run: "));
  EXPECT_THAT(profile, HasSubstr("is missing"));
  EXPECT_EQ(parse_yaml(profile, "fitted.yaml").find("name")->scalar, "fitted");

  const TraceFit of_whole = fit_of(import_text(whole));
  EXPECT_THAT(of_whole.remarks, ::testing::Contains(HasSubstr("not read: 1 cpu_op")));
  EXPECT_THAT(of_whole.remarks, ::testing::Not(::testing::Contains(HasSubstr("is missing"))));
}

TEST(RecordedFit, FindsTheClocksTickInTheTimes) {
  const auto tick_of = [](const std::string& first, const std::string& second) {
    const ImportedTrace trace =
        import_text(trace_of(zenflow::testing::kernel("a", "1600000000000001", first, 1),
                             zenflow::testing::kernel("b", "1600000000000019", second, 2)));
    return clock_tick(trace.timeline, is_gpu_work);
  };
  EXPECT_DOUBLE_EQ(tick_of("7", "3"), 1e-6);
  EXPECT_DOUBLE_EQ(tick_of("7", "3.041"), 1e-9);
  EXPECT_DOUBLE_EQ(decimal_tick({12.34, 5, 7.1}), 0.01);
  EXPECT_DOUBLE_EQ(decimal_tick({12, 5}), 1);
}

// 2.3 us of kernel and gap each, in whole microseconds.
TEST(RecordedFit, TakesTheMiddleOfTicksForAGap) {
  std::string events;
  double at = 4000.25;
  for (int i = 1; i <= 200; ++i) {
    const double end = at + 5.7;
    events += (i > 1 ? ",\n" : "") + launch("cudaLaunchKernel", std::to_string(3 * i), "1", i) +
              ",\n" +
              zenflow::testing::kernel("k", fmt::format("{:.0f}", std::floor(at)),
                                       fmt::format("{:.0f}", std::floor(end) - std::floor(at)), i);
    at = end + 2.31;
  }
  const ImportedTrace trace = import_text(trace_of(events));
  const LaunchTimes times = launch_times(trace.timeline, launch_of_spans(trace.timeline));
  EXPECT_NEAR(times.gap.median, 2.31e-6, 0.25e-6);
}

TEST(RecordedFit, ListsWhatStaysByItsReason) {
  Recording run;
  for (int i = 0; i < 20; ++i) {
    const double bytes = std::ldexp(4096.0, i % 12);
    run.copy("HtoD (Pinned -> Device)", 6e-6 + bytes / 23e9, bytes, 8, 1e4 * i);
  }
  const TraceFit fit = fit_of(run.import());
  const std::string text = fitted_table(fit.numbers, false);
  EXPECT_THAT(text, HasSubstr("nothing in the traces depends on it:\n    gpu.gemm_efficiency, "));
  for (const FittedNumber& one : fit.numbers) EXPECT_THAT(text, HasSubstr(one.path));
  const auto document = nlohmann::json::parse(fit_json(fit.numbers, fit.baselines, "1.2"));
  for (const auto& one : document["numbers"]) {
    if (one["path"] != "host_link.h2d") continue;
    EXPECT_EQ(one["state"], "fitted");
    EXPECT_EQ(one["samples"].get<std::size_t>() + one["set_aside"].get<std::size_t>(), 20U);
  }
}

// From each step's start to the next one's; the third is longer by an evaluation.
TEST(RecordedFit, SaysOfWhichStepsItHasTheMean) {
  Recording run;
  for (int i = 0; i < 20; ++i) {
    const double bytes = std::ldexp(4096.0, i % 12);
    run.copy("HtoD (Pinned -> Device)", 6e-6 + bytes / 23e9, bytes, 8, 1e4 * i);
  }
  double begin = 0;
  for (int i = 0; i < 5; ++i) {
    const double length = i == 2 ? 90'000 : 30'000;
    run.add(event("user_annotation", fmt::format("ProfilerStep#{}", i), "100", "100",
                  Recording::number(begin), Recording::number(length - 1000)));
    if (i == 2) {
      run.add(event("user_annotation", "evaluation_loop", "100", "100",
                    Recording::number(begin + 30'000), "50000"));
    }
    begin += length;
  }
  const TraceFit fit = fit_of(run.import());
  EXPECT_NEAR(fit.baselines.at(0).step_seconds.value(), 0.030, 1e-9);
  EXPECT_THAT(trace_fit_text(fit, false),
              HasSubstr("a step of 30.000 ms: mean of 3 steps, each to the next one's start, "
                        "without step 2 (evaluation, 89.000 ms)\n"));
  const auto document = nlohmann::json::parse(fit_json(fit.numbers, fit.baselines, "1.2"));
  EXPECT_THAT(document["traces"][0]["step_is_mean_of"].get<std::string>(), HasSubstr("3 steps"));
}

TEST(RecordedFit, ReadsCollectivesByMessageAndGroup) {
  const HardwareProfile truth = other_node();
  const Communicator group{4, truth.gpu_link->bandwidth, truth.gpu_link->latency};
  Recording run;
  for (int i = 0; i < 48; ++i) {
    const double bytes = std::ldexp(65536.0, i % 12);
    const bool gathers = i % 2 == 0;
    const double part = gathers ? bytes / 4 : bytes;
    double us = 1e6 * (gathers ? all_gather_time(group, Bytes(bytes))
                               : reduce_scatter_time(group, Bytes(bytes)))
                          .value();
    if (i >= 36) us *= 40;  // another rank was late
    run.add(event("kernel",
                  gathers ? "ncclDevKernel_AllGather_RING_LL" : "ncclDevKernel_ReduceScatter", "0",
                  "20", Recording::number(1e5 * i), Recording::number(us),
                  fmt::format(R"("device": 0, "stream": 20, "In msg nelems": {:.0f}, "dtype": )"
                              R"("BFloat16", "Group size": 4)",
                              part / 2)));
  }
  const TraceFit fit = fit_of(run.import());
  expect_fitted(fit, "gpu_link.bandwidth", 130);
  expect_fitted(fit, "gpu_link.latency", 2.6);
}

TEST(RecordedFit, ReadsADeepSpeedLogWithAModel) {
  testing::JobOptions options;
  options.training.sequence_length = 512;
  const HardwareProfile base = testing::round_node(4);
  HardwareProfile truth = base;
  truth.gpu.gemm_efficiency = 0.62;
  truth.host.adam_bandwidth = 120.0_GBps;
  const Job run = testing::make_small_job(truth, testing::small_gpt2(), options);
  double forward = 0;
  for (const PlannedLayer& layer : plan_step(run).layers) forward += to_milliseconds(layer.forward);
  const double update = 1e3 * 28 * run.partition() / 120e9;
  std::string log;
  for (int i = 0; i < 12; ++i) {
    const double slow = i == 0 ? 3 : 1;
    log += fmt::format(
        "[2024-11-21 02:14:39,317] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
        "fwd_microstep: {:.4f} | bwd_microstep: {:.4f} | optimizer_step: {:.4f}\n",
        slow * forward, 5 * forward, slow * update);
  }
  const auto source = memory_bytes({log.data(), log.size()});
  const ImportedTrace trace = import_timer_log(*source, "run.log", {});
  const Job job = testing::make_small_job(base, testing::small_gpt2(), options);
  const TraceFit fit = fit_of(trace, &job);
  expect_fitted(fit, "gpu.gemm_efficiency", 0.62);
  expect_fitted(fit, "host.adam_bandwidth", 120);
  // Four digits are printed.
  EXPECT_NEAR(fit.baselines.at(0).step_seconds.value(), 1e-3 * (6 * forward + update), 1e-6);
  EXPECT_THAT(trace_fit_text(fit, false), HasSubstr(": mean of 11 micro steps, without the first"));
  EXPECT_THAT(zenflow::testing::error_of([&] { static_cast<void>(fit_of(trace)); }).second,
              HasSubstr("only with a model"));
}

// A loop that calls the engine's step once a batch, as accelerate's does, has a batch's forwards in
// one record of "micro steps"; one that calls it for each has them one by one.
TEST(RecordedFit, KnowsHowManyForwardsARecordHolds) {
  testing::JobOptions options;
  options.training.sequence_length = 512;
  options.accumulation = 4;
  options.with_zenflow = false;
  const HardwareProfile base = testing::round_node(4);
  HardwareProfile truth = base;
  truth.gpu.gemm_efficiency = 0.62;
  const Job run = testing::make_small_job(truth, testing::small_gpt2(), options);
  double forward = 0;
  for (const PlannedLayer& layer : plan_step(run).layers) forward += to_milliseconds(layer.forward);
  const auto micro = [&](int forwards) {
    return fmt::format(
        "time (ms) | fwd_microstep: {:.4f} | bwd_microstep: 9.00 | step_microstep: 1.00\n",
        forwards * forward);
  };
  const std::string sum =
      fmt::format("time (ms) | fwd: {:.4f} | bwd: 36.00 | step: 4.00\n", 4 * forward);
  for (const std::string& step :
       {micro(4) + sum, micro(1) + micro(1) + micro(1) + micro(1) + sum}) {
    std::string log;
    for (int i = 0; i < 12; ++i) log += step;
    const auto source = memory_bytes({log.data(), log.size()});
    const ImportedTrace trace = import_timer_log(*source, "run.log", {});
    const Job job = testing::make_small_job(base, testing::small_gpt2(), options);
    const TraceFit fit = fit_of(trace, &job);
    expect_fitted(fit, "gpu.gemm_efficiency", 0.62);
  }
}

// Reported: the optimizer of a log took forty times as long as predicted, its rate was left out,
// and another reason was given.
TEST(RecordedFit, ReadsAnOptimizerOfOneThread) {
  testing::JobOptions options;
  options.training.sequence_length = 512;
  const HardwareProfile base = testing::round_node(4);
  const Job job = testing::make_small_job(base, testing::small_gpt2(), options);
  double forward = 0;
  for (const PlannedLayer& layer : plan_step(job).layers) forward += to_milliseconds(layer.forward);
  for (const double rate : {120.0, 3.2}) {
    const double update = 1e3 * 28 * job.partition() / (1e9 * rate);
    std::string log;
    for (int i = 0; i < 12; ++i) {
      log += fmt::format(
          "[2024-11-21 02:14:39,317] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
          "fwd_microstep: {:.4f} | bwd_microstep: {:.4f} | optimizer_step: {:.4f}\n",
          forward, 5 * forward, update);
    }
    const auto source = memory_bytes({log.data(), log.size()});
    const TraceFit fit = fit_of(import_timer_log(*source, "run.log", {}), &job);
    expect_fitted(fit, "host.adam_bandwidth", rate);
    const auto says = ::testing::Contains(HasSubstr("OMP_NUM_THREADS is 1"));
    if (rate > 10) {
      EXPECT_THAT(fit.remarks, ::testing::Not(says));
    } else {
      EXPECT_THAT(fit.remarks, says);
    }
  }
}

/// Steps of 100 ms with a range for each call of the optimizer, of so many seconds.
ImportedTrace optimizer_calls(const std::vector<double>& seconds) {
  Recording run;
  for (int step = 0; step < 10; ++step) {
    const double begin = 1e5 * step;
    run.add(event("user_annotation", fmt::format("ProfilerStep#{}", step), "100", "100",
                  Recording::number(begin), "100000"));
    double at = begin + 1e4;
    for (const double one : seconds) {
      run.add(event("user_annotation", "Optimizer.step#DeepSpeedCPUAdam.step", "100", "100",
                    Recording::number(at), Recording::number(1e6 * one)));
      at += 1e6 * one + 50;
    }
  }
  return run.import();
}

// Stage 3 calls the optimizer once for each sub-group: of whole tensors until there are 12 million,
// here the embedding's 26.624; positions and four blocks; four blocks; and the last norm.
TEST(RecordedFit, TellsWhatACallOfCpuAdamTakesFromSubGroups) {
  Job job = testing::make_small_job(testing::round_node(4), testing::small_gpt2(),
                                    {.stage = 3, .with_zenflow = false});
  job.deepspeed.sub_group_size = 12'000'000;
  std::vector<double> seconds;
  for (const double parameters : {26'624'000.0, 12'871'168.0, 12'609'536.0, 1'536.0}) {
    seconds.push_back(600e-6 + 28 * parameters / 120e9);
  }
  const TraceFit fit = fit_of(optimizer_calls(seconds), &job);
  expect_fitted(fit, "host.adam_bandwidth", 120);
  expect_fitted(fit, "host.adam_launch", 600);
  EXPECT_THAT(trace_fit_text(fit, false), HasSubstr("0.001536 to 26.62 M parameters"));
}

// One range a step: of how many calls it consists, and what of it each takes, is not told.
TEST(RecordedFit, TakesTheOptimizersRangesTogetherIfTheyAreNotItsCalls) {
  Job job = testing::make_small_job(testing::round_node(4), testing::small_gpt2(),
                                    {.stage = 3, .with_zenflow = false});
  job.deepspeed.sub_group_size = 20'000'000;
  const TraceFit fit = fit_of(optimizer_calls({28 * job.partition() / 120e9}), &job);
  expect_fitted(fit, "host.adam_bandwidth", 120);
  EXPECT_FALSE(number(fit, "host.adam_launch").fitted);
  EXPECT_EQ(number(fit, "host.adam_launch").value, 0);
}

TEST(RecordedFit, ReadsCopiesOfNsight) {
  const zenflow::testing::TemporaryFolder folder;
  const auto path = folder.path() / "report.sqlite";
  {
    zenflow::testing::NsightFile file(path);
    file.run(zenflow::testing::NsightFile::kCopies);
    file.run(
        "CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)");
    file.run("INSERT INTO ENUM_CUDA_MEM_KIND VALUES (1, 'PINNED', 'Pinned'), (2, 'DEV', 'Device')");
    for (int i = 0; i < 30; ++i) {
      const double bytes = std::ldexp(8192.0, i % 12);
      const std::int64_t start = 10'000'000LL * i;
      const std::int64_t length = std::llround(1e9 * (6e-6 + bytes / 23e9));
      file.run(
          fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({}, {}, 0, 1, 7, {}, 1, "
                      "{:.0f}, 1, 1, 2)",
                      start, start + length, i, bytes));
    }
  }
  const TraceFit fit = fit_of(import_trace(path));
  expect_fitted(fit, "host_link.h2d", 23);
  expect_fitted(fit, "host_link.latency", 6);
}

TEST(RecordedFit, SaysWhatATraceLacks) {
  const auto error_for = [](const std::string& events) {
    return zenflow::testing::error_of(
               [&] { static_cast<void>(fit_of(import_text(trace_of(events)))); })
        .second;
  };
  EXPECT_THAT(error_for(event("cpu_op", "aten::mm", "100", "100", "0", "5")),
              HasSubstr("nothing ran on a GPU"));
  EXPECT_THAT(error_for(zenflow::testing::copy("HtoD (Pinned -> Device)", "0", "5000", 1 << 20, 1)),
              HasSubstr("only 1 span depends on it"));
  EXPECT_THAT(error_for(zenflow::testing::copy("HtoD (Pinned -> Device)", "0", "0", 1 << 20, 1)),
              HasSubstr("nothing in it tells a constant"));
  EXPECT_THAT(error_for(zenflow::testing::copy("HtoD (Host -> Device)", "0", "5", 1 << 20, 1)),
              HasSubstr("page-locked"));
  EXPECT_THAT(error_for(zenflow::testing::kernel("mystery", "0", "5", 1)),
              HasSubstr("without a model"));
  const auto none = zenflow::testing::error_of([] {
    static_cast<void>(fit_traces({testing::round_node(), {}}));
  });
  EXPECT_EQ(none.first, ErrorKind::kInput);
  EXPECT_THAT(none.second, HasSubstr("expected a trace"));
}

}  // namespace
}  // namespace zenflow::sim
