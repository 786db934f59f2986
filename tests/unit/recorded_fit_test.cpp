// Constants fitted to recordings whose every duration is written by hand from a formula.
#include <cmath>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/calibrate/trace_fit.h"
#include "sim/calibrate/trace_fit_text.h"
#include "sim/cost/gpu_cost.h"
#include "sim/cost/transfer_cost.h"
#include "sim/schedule/step_plan.h"
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
  void copy(const std::string& kind, double seconds, double bytes, int stream, double at) {
    add(zenflow::testing::copy(kind, number(at), number(1e6 * seconds), std::lround(bytes), next++,
                               stream));
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
  EXPECT_TRUE(fit.baselines.at(0).step_seconds.has_value());
  EXPECT_THAT(zenflow::testing::error_of([&] { static_cast<void>(fit_of(trace)); }).second,
              HasSubstr("only with a model"));
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
