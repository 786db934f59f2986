// That equal extras are one number, different ones are not, and most spans have none.
#include "sim/trace/span_extras.h"

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

TEST(SpanExtras, NumberWhatDiffersInAnyField) {
  SpanExtras extras;
  EXPECT_EQ(extras.intern({}), kNoExtra);
  EXPECT_EQ(extras.intern({.bytes = -0.0}), kNoExtra) << "equal to 0";
  EXPECT_EQ(extras.intern({.bytes = 1}), 1U);
  EXPECT_EQ(extras.intern({.stalled = {1}}), 2U);
  EXPECT_EQ(extras.intern({.cause = WaitCause::kD2H}), 3U);
  EXPECT_EQ(extras.intern({.step = 1}), 4U);
  EXPECT_EQ(extras.intern({.detail = 1}), 5U);
  EXPECT_EQ(extras.intern({.step = 1}), 4U);
  EXPECT_EQ(extras.size(), 6U);
  EXPECT_EQ(extras[5].detail, 1);
  EXPECT_EQ(extras[kNoExtra], SpanExtra{});
}

TEST(SpanExtras, KeepNumbersWhileTheyGrow) {
  SpanExtras extras;
  for (int round = 0; round < 2; ++round) {
    for (std::int32_t i = 0; i < 10'000; ++i) {
      ASSERT_EQ(extras.intern({.bytes = 4096.0 * i, .step = i}), static_cast<ExtraId>(i + 1));
    }
  }
}

TEST(SpanExtras, CopiesAreIndependent) {
  SpanExtras extras;
  extras.intern({.bytes = 1});
  SpanExtras copy = extras;
  EXPECT_EQ(copy.intern({.bytes = 2}), 2U);
  EXPECT_EQ(extras.intern({.bytes = 3}), 2U);
  EXPECT_EQ(copy.intern({.bytes = 1}), 1U);
}

}  // namespace
}  // namespace zenflow::sim
