/// Learning rates, column shares and step times, by hand.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/train/importance_log.h"
#include "runtime/train/learning_rate.h"
#include "runtime/train/run_identity.h"
#include "runtime/train/step_statistics.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using namespace std::chrono_literals;

TEST(LearningRate, RisesThenStaysOrFalls) {
  LearningRate rate{.peak = 8, .warmup_steps = 4, .total_steps = 12};
  EXPECT_DOUBLE_EQ(rate.at(0), 2);
  EXPECT_DOUBLE_EQ(rate.at(2), 6);
  EXPECT_DOUBLE_EQ(rate.at(3), 8);
  EXPECT_DOUBLE_EQ(rate.at(11), 8);
  rate.decay = Decay::kLinear;
  EXPECT_DOUBLE_EQ(rate.at(3), 8);
  EXPECT_DOUBLE_EQ(rate.at(4), 8);
  EXPECT_DOUBLE_EQ(rate.at(6), 6);
  EXPECT_DOUBLE_EQ(rate.at(11), 1);
  EXPECT_DOUBLE_EQ(rate.at(12), 0);
  EXPECT_DOUBLE_EQ(rate.at(99), 0);
  rate.decay = Decay::kCosine;
  EXPECT_DOUBLE_EQ(rate.at(4), 8);
  EXPECT_DOUBLE_EQ(rate.at(8), 4);
  EXPECT_DOUBLE_EQ(rate.at(6), 4 + 2 * std::sqrt(2));  // cos 45 degrees
  EXPECT_NEAR(rate.at(12), 0, 1e-15);
}

TEST(LearningRate, WarmUpMayTakeTheWholeRunOrNothing) {
  EXPECT_DOUBLE_EQ((LearningRate{2, Decay::kLinear, 0, 4}.at(0)), 2);
  EXPECT_DOUBLE_EQ((LearningRate{2, Decay::kLinear, 0, 4}.at(1)), 1.5);
  EXPECT_DOUBLE_EQ((LearningRate{2, Decay::kLinear, 4, 4}.at(3)), 2);
  EXPECT_DOUBLE_EQ((LearningRate{2, Decay::kLinear, 9, 4}.at(3)), 2.0 * 4 / 9);
}

/// Checkpoints of before 0.75 was there have a number, which is no other rule than its name.
TEST(RunIdentity, KnowsDeferredScalingByNumberAndName) {
  EXPECT_TRUE(differences("deferred scaling: 1\n", "deferred scaling: sqrt\n").empty());
  const std::vector<Difference> found =
      differences("deferred scaling: 0\n", "deferred scaling: 0.75\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().there, "none");
  EXPECT_EQ(found.front().here, "0.75");
}

/// Without weight decay, nobody's norms have any.
TEST(RunIdentity, ComparesTheDecayOfVectorsWhereSomethingDecays) {
  const std::string both = "weight decay: 0.01\n";
  const std::string matrices = both + "weight decay of norms and biases: 0\n";
  EXPECT_EQ(differences(matrices, "weight decay: 0\n").size(), 1U);
  EXPECT_EQ(differences("weight decay: 0\n", matrices).size(), 1U);
  EXPECT_EQ(differences(matrices, both).size(), 1U);
  EXPECT_EQ(differences(matrices, "weight decay: 0.1\n").size(), 2U);
}

TEST(ColumnShares, WorkedByHand) {
  // 20 columns: 1% is one at least, 5% one, 10% two. Squares 16 + 9 + 18 of 1 = 43.
  std::vector<float> norms(20, 1.0F);
  norms[7] = 4;
  norms[13] = 3;
  const ColumnShares shares = column_shares(norms);
  EXPECT_DOUBLE_EQ(shares.top_1_percent, 16.0 / 43);
  EXPECT_DOUBLE_EQ(shares.top_5_percent, 16.0 / 43);
  EXPECT_DOUBLE_EQ(shares.top_10_percent, 25.0 / 43);
}

TEST(ColumnShares, OfNothingAreZero) {
  for (const auto& norms : {std::vector<float>{}, std::vector<float>(3, 0.0F)}) {
    const ColumnShares shares = column_shares(norms);
    EXPECT_EQ(shares.top_1_percent, 0);
    EXPECT_EQ(shares.top_10_percent, 0);
  }
  EXPECT_DOUBLE_EQ(column_shares(std::vector<float>{5}).top_1_percent, 1);
}

TEST(ImportanceLog, WritesOneRowAMatrixAndStep) {
  const zenflow::testing::TemporaryFolder folder;
  const auto path = folder.path() / "importance.csv";
  ImportanceLog log(path, 0.5, false);
  log.add(0, 0, "w", std::vector<float>{2, 1, 1, 0}, 0.75);  // top: 0 and 1
  log.add(1, 0, "w", std::vector<float>{1, 0, 2, 0}, 0.5);   // top: 0 and 2
  log.add(1, 3, "v", std::vector<float>{0, 0}, 0);
  log.close();
  EXPECT_EQ(zenflow::testing::file_content(path),
            "step,parameter,columns,top_1_percent,top_5_percent,top_10_percent,same_as_before,"
            "selected\n"
            "0,w,4,0.6667,0.6667,0.6667,,0.7500\n"
            "1,w,4,0.8000,0.8000,0.8000,0.5000,0.5000\n"
            "1,v,2,0.0000,0.0000,0.0000,,0.0000\n");
}

struct Steps : ::testing::Test {
  Recorder recorder{false};
  TrackRecorder& compute = recorder.add_track("compute", sim::TrackKind::kGpuKernels);
  TrackRecorder& thread = recorder.add_track("training thread", sim::TrackKind::kHost);
  StepStatistics statistics{compute, thread};

  /// A step in which the tracks are told these times; its length is real.
  void step(std::chrono::nanoseconds busy, std::chrono::nanoseconds cpu,
            std::chrono::nanoseconds d2h, std::chrono::nanoseconds h2d,
            const std::optional<WindowEnd>& window) {
    const Clock::time_point at{};
    statistics.begin();
    compute.span(Operation::kForward, 0, at, at + busy);
    thread.wait(WaitCause::kCpuUpdate, 0, at, at + cpu);
    compute.wait(WaitCause::kD2H, 0, at, at + d2h);
    compute.wait(WaitCause::kH2D, 0, at, at + h2d);
    statistics.end(window);
  }
};

TEST_F(Steps, PartsAddUpWhateverTheTracksSay) {
  for (const auto unit : {0ns, 1ns, 100ns, 1000000000ns}) {
    step(unit, unit, unit, unit, {});
    const StepTimes& t = statistics.last();
    EXPECT_NEAR(t.compute + t.cpu_update + t.d2h + t.h2d + t.launch, t.total, 1e-12);
    for (const double part : {t.compute, t.cpu_update, t.d2h, t.h2d, t.launch}) EXPECT_GE(part, 0);
  }
  // An hour of computing: a step cannot compute longer than it is.
  step(1h, 1h, 0ns, 0ns, {});
  EXPECT_EQ(statistics.last().compute, statistics.last().total);
  EXPECT_EQ(statistics.last().cpu_update, 0);
}

TEST_F(Steps, TimesGoToTheirCauses) {
  step(3ns, 5ns, 7ns, 11ns, {});  // a step is longer than 26 ns: it reads the clock twice
  const StepTimes& t = statistics.last();
  ASSERT_GT(t.total, 26e-9);
  EXPECT_NEAR(t.compute, 3e-9, 1e-15);
  EXPECT_NEAR(t.cpu_update, 5e-9, 1e-15);
  EXPECT_NEAR(t.d2h, 7e-9, 1e-15);
  EXPECT_NEAR(t.h2d, 11e-9, 1e-15);
}

/// A window's end with so many bytes of gradients down and parameters up so far.
WindowEnd window_end(std::int64_t steps, std::uint64_t down, std::uint64_t up) {
  WindowEnd end{.steps = steps, .traffic = {}};
  end.traffic.d2h[static_cast<std::size_t>(Traffic::kGradients)] = down;
  end.traffic.h2d[static_cast<std::size_t>(Traffic::kParameters)] = up;
  return end;
}

TEST_F(Steps, WarmUpTwoWindowsAndAnUnfinishedOneAreLeftOut) {
  EXPECT_EQ(statistics.means().steps, 0);
  step(1ns, 0ns, 0ns, 0ns, {});            // warm-up
  EXPECT_EQ(statistics.means().steps, 1);  // there are no others
  EXPECT_FALSE(statistics.means().traffic);
  step(1ns, 0ns, 0ns, 0ns, window_end(1, 100, 20));
  EXPECT_EQ(statistics.means().last_window.size(), 1U);
  step(1ns, 0ns, 0ns, 0ns, window_end(1, 200, 70));
  EXPECT_EQ(statistics.means().steps, 3);
  EXPECT_FALSE(statistics.means().traffic);
  step(4ns, 0ns, 0ns, 0ns, {});
  step(6ns, 0ns, 0ns, 0ns, window_end(2, 500, 120));
  step(99ns, 0ns, 0ns, 0ns, {});
  const StepMeans means = statistics.means();
  EXPECT_EQ(means.steps, 2);
  EXPECT_NEAR(means.mean.compute, 5e-9, 1e-15);
  EXPECT_EQ(means.last_window.size(), 2U);
  ASSERT_TRUE(means.traffic);
  EXPECT_EQ(means.traffic->d2h[static_cast<std::size_t>(Traffic::kGradients)], 300U);
  EXPECT_EQ(means.traffic->h2d[static_cast<std::size_t>(Traffic::kParameters)], 50U);
}

TEST_F(Steps, AWindowThatAnotherProcessBeganHasItsOwnStepsHere) {
  step(1ns, 0ns, 0ns, 0ns, window_end(4, 0, 0));
  EXPECT_EQ(statistics.means().last_window.size(), 1U);
}

}  // namespace
}  // namespace zenflow::runtime
