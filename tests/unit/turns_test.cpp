#include "tests/bench/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zenflow::bench {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(Turns, EveryContestantBeginsInItsTurn) {
  std::string order;
  const auto contestant = [&order](char name) {
    return [&order, name] {
      order += name;
      return 1.0;
    };
  };
  const auto seconds = take_turns({contestant('a'), contestant('b'), contestant('c')}, 4);
  EXPECT_EQ(order, "abcbcacababc");
  for (const auto& one : seconds) EXPECT_EQ(one.size(), 4U);
}

TEST(Turns, OverheadIsOfTheSameTurn) {
  // The machine is half as fast in the second turn: by turns that does not count.
  const Quartiles found = overhead({1.02, 2.04, 1.02}, {1.0, 2.0, 1.0});
  EXPECT_NEAR(found.low, 0.02, 1e-12);
  EXPECT_NEAR(found.median, 0.02, 1e-12);
  EXPECT_NEAR(found.high, 0.02, 1e-12);
}

TEST(Turns, QuartilesAreNearestRanks) {
  const Quartiles found = quartiles({5, 1, 4, 2, 3});
  EXPECT_THAT((std::vector{found.low, found.median, found.high}),
              ElementsAre(DoubleEq(2), DoubleEq(3), DoubleEq(4)));
}

TEST(Turns, RefusesWhatCannotBeCompared) {
  EXPECT_THROW((void)quartiles({}), Error);
  EXPECT_THROW((void)overhead({1, 2}, {1}), Error);
}

}  // namespace
}  // namespace zenflow::bench
