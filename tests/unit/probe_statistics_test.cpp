#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/probe/peer_experiments.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/runner.h"
#include "runtime/probe/statistics.h"
#include "runtime/probe/topology_text.h"
#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

TEST(Spread, HoldsTheMiddleEightyPercent) {
  // Eleven values: the 10th and 90th percentile are the second and the last but one.
  const Spread spread = spread_of({9, 0, 1, 2, 3, 4, 100, 5, 6, 7, 8});
  EXPECT_EQ(spread.median, 5);
  EXPECT_EQ(spread.low, 1);
  EXPECT_EQ(spread.high, 9);
  EXPECT_EQ(spread.repetitions, 11U);
}

TEST(Spread, HoldsAllOfAFew) {
  const Spread spread = spread_of({4, 2, 100, 3, 5, 6, 7, 8, 9});
  EXPECT_EQ(spread.median, 6);
  EXPECT_EQ(spread.low, 2);
  EXPECT_EQ(spread.high, 100);
  EXPECT_EQ(spread_of({4, 2}).median, 3);
  EXPECT_EQ(spread_of({7}).low, 7);
}

TEST(ProductFit, FindsRateAndLossOfProductsThatFollowTheFormula) {
  // 1e12 FLOP/s and a loss of 5e8 FLOP a product.
  std::vector<ProductTime> points;
  for (const double flops : {1e6, 1e8, 1e9, 1e11}) {
    points.push_back({flops, (flops + 5e8) / 1e12});
  }
  const ProductFit fit = fit_products(points);
  EXPECT_NEAR(fit.rate, 1e12, 1e3);
  EXPECT_NEAR(fit.half_size, 5e8, 1);
}

TEST(ProductFit, SeesNoLossWhereThereIsNone) {
  // Large products slower than small ones: they leave the caches.
  const std::vector<ProductTime> points = {{1e6, 1e6 / 2e11}, {1e9, 1e9 / 1e11}};
  const ProductFit fit = fit_products(points);
  EXPECT_EQ(fit.half_size, 0);
  // Through the origin, t = F / r with least sum of (1 - F / (r t))^2: the sum of the squared rates
  // over their sum, 5e22 / 3e11.
  EXPECT_DOUBLE_EQ(fit.rate, 5e11 / 3);
}

TEST(ThreadFit, FindsTheThreadsOfHalfTheLimit) {
  std::vector<ThreadRate> points;
  for (const double c : {1.0, 2.0, 4.0, 8.0, 16.0}) points.push_back({c, 300 * c / (c + 5)});
  EXPECT_NEAR(fit_half_threads(points), 5, 1e-9);
  // Two points decide it exactly: 27.2 and 51.2 give 27.2 (1 + h) / 1 = 51.2 (2 + h) / 2.
  const std::vector<ThreadRate> two = {{1, 27.2}, {2, 51.2}};
  EXPECT_NEAR(fit_half_threads(two), (51.2 - 27.2) / (27.2 - 25.6), 1e-9);
}

TEST(ThreadFit, EndsWhereRatesAreFlatOrProportional) {
  const std::vector<ThreadRate> flat = {{1, 10}, {2, 9}};
  EXPECT_EQ(fit_half_threads(flat), kLeastHalf);
  const std::vector<ThreadRate> proportional = {{1, 10}, {2, 20.5}};
  EXPECT_EQ(fit_half_threads(proportional), 2 * kMostHalf);
  const std::vector<ThreadRate> one = {{1, 10}};
  EXPECT_EQ(fit_half_threads(one), kMostHalf);
}

TEST(Figures, MissingOneIsNamed) {
  EXPECT_THAT(error_of([] { return figure({}, "copy.both"); }).second,
              HasSubstr("not measured: copy.both"));
}

/// Two experiments that count, on a clock that they advance.
class Counting final : public ExperimentGroup {
 public:
  explicit Counting(double& now) : now_(now) {}
  [[nodiscard]] std::string name() const override { return "counting"; }
  void prepare() override { order += "p"; }
  void release() override { order += "r"; }
  [[nodiscard]] std::vector<Experiment> experiments() override {
    return {{"short", "s", "", [this] { return take("s", 1, short_value); }},
            {"long", "s", "", [this] { return take("l", 10, 7); }}};
  }

  std::string order;
  double short_value = 5;

 private:
  double take(const char* name, double seconds, double value) {
    order += name;
    now_ += seconds;
    return value;
  }
  double& now_;
};

struct Rehearsal {
  double now = 0;
  ExperimentGroups groups;
  Counting* counting = nullptr;
  RunEvents events;
  Rehearsal() {
    auto group = std::make_unique<Counting>(now);
    counting = group.get();
    groups.push_back(std::move(group));
    events.now = [this] { return now; };
  }
};

TEST(Runner, RepeatsInRoundsAfterOneThatIsNotCounted) {
  Rehearsal r;
  // 12 seconds for two experiments in two rounds: three each. The long one exceeds them at once.
  const std::vector<Figure> figures = run_experiments(
      r.groups, {.rounds = 2, .least_repetitions = 2, .most_repetitions = 50, .seconds = 12},
      r.events);
  EXPECT_EQ(r.counting->order, "psssslllrpsssslllr");
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_EQ(figures[0].id, "short");
  EXPECT_EQ(figures[0].value.repetitions, 6U);
  EXPECT_EQ(figures[1].value.median, 7);
}

TEST(Runner, TakesNoMoreThanTheMostRepetitions) {
  Rehearsal r;
  const auto figures = run_experiments(
      r.groups, {.rounds = 1, .least_repetitions = 1, .most_repetitions = 4, .seconds = 1e6},
      r.events);
  EXPECT_EQ(figures[0].value.repetitions, 4U);
}

TEST(Runner, RefusesWhatCannotBe) {
  for (const double value : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    Rehearsal r;
    r.counting->short_value = value;
    EXPECT_THAT(error_of([&] { return run_experiments(r.groups, {}, r.events); }).second,
                HasSubstr("short: measured"));
  }
}

TEST(Runner, StopsBetweenRepetitions) {
  Rehearsal r;
  r.events.stop = [&] { return r.now >= 3; };
  EXPECT_EQ(error_of([&] { return run_experiments(r.groups, {}, r.events); }).second, "stopped");
  EXPECT_EQ(r.counting->order, "psss");
}

TEST(ProbePlan, ThreadsDoubleUpToAllCores) {
  EXPECT_THAT(thread_counts(1, false), ElementsAre(1));
  EXPECT_THAT(thread_counts(6, false), ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(thread_counts(8, false), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(thread_counts(8, true), ElementsAre(1, 8));
}

TEST(ProbePlan, ProductsStayBelowTheLargest) {
  for (const double largest : {2e9, 8e9, 4e12}) {
    for (const bool quick : {false, true}) {
      const auto products = probe_products(largest, quick);
      EXPECT_GE(products.size(), 5U);
      for (const NamedProduct& product : products) {
        const auto [m, n, k] = product.shape;
        EXPECT_LE(2.0 * static_cast<double>(m * n * k), largest) << product.name;
        EXPECT_GE(m, 16) << product.name;
      }
    }
  }
}

TEST(TopologyText, NamesLinksAndWhoSharesThem) {
  const GpuSlot first{.bus_id = "0000:3d:00.0",
                      .speed_max = 16,
                      .width = 16,
                      .numa_node = 1,
                      .root_port = "0000:3a:00.0"};
  GpuSlot second = first;
  second.bus_id = "0000:3e:00.0";
  second.width = 8;
  const GpuSlot unsaid{.bus_id = "0000:00:05.0"};
  EXPECT_THAT(
      gpu_topology({first, second, unsaid}),
      ElementsAre("GPU 0000:3d:00.0: PCIe 4.0 x16, NUMA node 1, below root port 0000:3a:00.0",
                  "GPU 0000:3e:00.0: PCIe 4.0 x8, NUMA node 1, below root port 0000:3a:00.0",
                  "GPU 0000:00:05.0: PCIe",
                  "GPUs 0000:3d:00.0, 0000:3e:00.0 share the link of root port "
                  "0000:3a:00.0"));
}

/// Three GPUs: copies to a higher number take 1 ms a step, to a lower one 2 ms, both at once 4 ms.
class ThreeGpus final : public PeerDevices {
 public:
  [[nodiscard]] int count() const override { return 3; }
  [[nodiscard]] bool is_direct(int from, int to) const override { return from + to != 2; }
  void prepare(std::size_t bytes) override { prepared = bytes; }
  void release() override { prepared = 0; }
  [[nodiscard]] double copy(int from, int to) override {
    EXPECT_GT(prepared, 0U);
    return from < to ? 1e-3 * (to - from) : 2e-3;
  }
  [[nodiscard]] double copy_both_ways(int one, int other) override {
    EXPECT_LT(one, other);
    return 4e-3;
  }
  std::size_t prepared = 0;
};

TEST(Peers, AreMeasuredInPairsAndBothWays) {
  ThreeGpus gpus;
  ExperimentGroups groups;
  groups.push_back(peer_experiments(gpus, std::size_t{1} << 20));
  const auto figures = run_experiments(groups, {.rounds = 1}, {.now = [] { return 0.0; }});
  EXPECT_EQ(gpus.prepared, 0U);
  ASSERT_EQ(figures.size(), 9U);
  constexpr double kMegabytes = 1.048576;  // in a millisecond: GB/s
  EXPECT_DOUBLE_EQ(figure(figures, "peer.0-1").value.median, kMegabytes);
  EXPECT_DOUBLE_EQ(figure(figures, "peer.0-2").value.median, kMegabytes / 2);
  EXPECT_DOUBLE_EQ(figure(figures, "peer.2-1").value.median, kMegabytes / 2);
  EXPECT_DOUBLE_EQ(figure(figures, "peer.1-2.both").value.median, 2 * kMegabytes / 4);
  EXPECT_EQ(figure(figures, "peer.1-0").what, "copy of 1MiB between GPUs, direct");
  EXPECT_THAT(figure(figures, "peer.2-0").what, HasSubstr("by way of host memory"));
}

TEST(ProbePlan, SmallMachinesGetSmallArrays) {
  const ProbeSettings large = probe_settings(false, std::size_t{512} << 30, std::size_t{32} << 20);
  EXPECT_EQ(large.largest_copy, std::size_t{1} << 30);
  const ProbeSettings small = probe_settings(false, std::size_t{1} << 30, std::size_t{32} << 20);
  EXPECT_EQ(small.array_bytes, std::size_t{128} << 20);
  EXPECT_EQ(small.largest_copy, std::size_t{64} << 20);
  EXPECT_EQ(size_name(small.largest_copy), "64MiB");
}

TEST(ProbePlan, ArraysDoNotStayInTheCache) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  EXPECT_EQ(probe_settings(true, std::size_t{128} << 30, 16 * kMiB).array_bytes, 160 * kMiB);
  EXPECT_EQ(probe_settings(true, std::size_t{128} << 30, 300 * kMiB).array_bytes, 600 * kMiB);
  EXPECT_EQ(gpu_probe_settings(true, std::size_t{128} << 30, 300 * kMiB, std::size_t{80} << 30)
                .array_bytes,
            600 * kMiB);
  EXPECT_EQ(probe_settings(true, std::size_t{1} << 30, 300 * kMiB).array_bytes, 128 * kMiB);
}

}  // namespace
}  // namespace zenflow::runtime
