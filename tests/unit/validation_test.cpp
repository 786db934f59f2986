#include "sim/calibrate/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

using ::testing::HasSubstr;

ComparedPoint compared(double measured, double predicted, double stall, double predicted_stall) {
  ComparedPoint point;
  point.measured.step = measured;
  point.measured.stall = stall;
  point.predicted.step = predicted;
  point.predicted.stall = predicted_stall;
  return point;
}

TEST(Validation, CountsOnlyWhatWasPredicted) {
  std::vector<ComparedPoint> points = {compared(100, 104, 10, 9), compared(200, 180, 10, 18)};
  points.push_back(compared(100, 300, 0, 90));
  points.back().calibrated = true;
  const ValidationSummary all = summarize(points, {});
  EXPECT_EQ(all.predicted, 2);
  EXPECT_NEAR(all.mean_step_error, 0.07, 1e-12);
  EXPECT_NEAR(all.worst_step_error, 0.10, 1e-12);
  EXPECT_NEAR(all.worst_stall_error, 0.04, 1e-12);
  EXPECT_TRUE(all.within);
}

TEST(Validation, EveryLimitCounts) {
  EXPECT_FALSE(summarize({compared(100, 109, 0, 0)}, {}).within);  // mean
  EXPECT_TRUE(summarize({compared(100, 107, 0, 0)}, {}).within);
  EXPECT_FALSE(summarize({compared(100, 84, 0, 0), compared(100, 100, 0, 0)}, {}).within);  // worst
  EXPECT_FALSE(summarize({compared(100, 100, 0, 6)}, {}).within);                           // stall
  ComparedPoint bytes = compared(100, 100, 0, 0);
  bytes.predicted.d2h_bytes = 1;
  EXPECT_FALSE(summarize({bytes}, {}).within);
  EXPECT_FALSE(summarize({}, {}).within);  // nothing predicted is no success
}

TEST(Validation, SaysWhenTheMachineIsTooNoisy) {
  std::vector<ComparedPoint> points = {compared(100, 100, 0, 0)};
  points[0].spread = 0.026;
  EXPECT_FALSE(summarize(points, {}).too_noisy);
  points[0].spread = 0.027;
  EXPECT_TRUE(summarize(points, {}).too_noisy);
}

TEST(LivePoints, AreReadAsTheyAreShown) {
  EXPECT_EQ(parse_live_point("zero-offload").kind, LiveKind::kZeroOffload);
  const LivePoint point = parse_live_point("zenflow:0.05:8");
  EXPECT_EQ(point.topk_ratio, 0.05);
  EXPECT_EQ(point.update_interval, 8);
  EXPECT_EQ(to_string(point), "zenflow k=0.05 S=8");
  for (const char* wrong : {"", "zenflow", "zenflow:0.1", "zenflow:0.1:0", "zenflow:1:4",
                            "zenflow:0:4", "zenflow:0.1:4:2", "zenflow:0.1:x", "deepspeed"}) {
    try {
      (void)parse_live_point(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("zenflow:K:S")) << wrong;
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
