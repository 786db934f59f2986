// That times of traces are taken digit by digit.
#include "sim/trace/import/decimal_time.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

void expect(const std::string& text, std::int64_t nanoseconds, std::int32_t picoseconds = 0) {
  const auto time = parse_microseconds(text);
  ASSERT_TRUE(time) << text;
  EXPECT_EQ(time->nanoseconds, nanoseconds) << text;
  EXPECT_EQ(time->picoseconds, picoseconds) << text;
}

TEST(DecimalTime, KeepsEveryDigit) {
  expect("0", 0);
  expect("12", 12'000);
  expect("12.345", 12'345);
  expect("12.3456", 12'345, 600);
  expect("12.345678", 12'345, 678);
  // A double has 1712195505543.25 here.
  expect("1712195495505543.218", 1'712'195'495'505'543'218);
  expect("1.5e3", 1'500'000);
  expect("1.712195495505543218E15", 1'712'195'495'505'543'218);
  expect("15e-4", 1, 500);
  expect("\"7.5\"", 7'500);
  expect("7.5 \n", 7'500);
  expect(".5", 500);
  expect("5.", 5'000);
}

TEST(DecimalTime, RoundsBeyondPicosecondsHalfUp) {
  expect("0.0000004", 0, 0);
  expect("0.0000005", 0, 1);
  expect("0.9999999", 1'000, 0);
}

TEST(DecimalTime, NegativeTimesHavePositiveRests) {
  expect("-1.5", -1'500);
  expect("-0.000001", -1, 999);
  expect("-0.0000009", -1, 999);
  expect("-1.0000009999999", -1'001, 999);
}

TEST(DecimalTime, RefusesWhatIsNoNumberOrTooLong) {
  for (const char* text : {"", "abc", "NaN", "Infinity", "null", "1.2.3", "--1", "1e", "e5", "0x10",
                           "9300000000000000", "1e300", "\"", "1 2"}) {
    EXPECT_FALSE(parse_microseconds(text)) << text;
  }
}

TEST(DecimalTime, CountsFromAnOriginUpTo26Days) {
  EXPECT_EQ(since({5, 7}, 3)->count, 2'007);
  EXPECT_EQ(since({3, 7}, 5)->count, -1'993);
  EXPECT_EQ(since({2'300'000'000'000'000, 0}, 0)->count, 2'300'000'000'000'000'000);
  EXPECT_FALSE(since({2'310'000'000'000'000, 0}, 0));
  EXPECT_FALSE(since({-2'310'000'000'000'000, 0}, 0));
  EXPECT_FALSE(since({std::numeric_limits<std::int64_t>::max(), 0}, -1));
}

TEST(DecimalTime, OriginsAreZeroUnlessMostTimesAreFarFromIt) {
  constexpr std::int64_t kNow = 1'700'000'000'000'000'000;
  EXPECT_EQ(origin_of({}), 0);
  EXPECT_EQ(origin_of({5, kNow, 7}), 0);
  EXPECT_EQ(origin_of({kNow + 2, 7, kNow + 1}), kNow + 1);
  EXPECT_EQ(origin_of({std::numeric_limits<std::int64_t>::min()}),
            std::numeric_limits<std::int64_t>::min());
}

}  // namespace
}  // namespace zenflow::sim
