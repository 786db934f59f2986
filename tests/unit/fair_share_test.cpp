#include "sim/engine/fair_share.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

Flow flow(double solo_rate, std::vector<LinkUse> uses) {
  return {BytesPerSecond(solo_rate), std::move(uses)};
}

Machine machine(std::vector<double> capacities, std::vector<Flow> flows) {
  Machine result{{"lane"}, {}, std::move(flows)};
  for (const double capacity : capacities) result.links.push_back({"l", BytesPerSecond(capacity)});
  return result;
}

std::vector<double> rates(const Machine& machine, const std::vector<FlowId>& active) {
  return fair_rates(machine, active);
}

TEST(FairShare, AloneAFlowHasItsSoloRate) {
  EXPECT_THAT(rates(machine({100}, {flow(30, {{0, 1.0}})}), {0}), ElementsAre(30.0));
}

TEST(FairShare, ALinkNarrowerThanTheSoloRateHoldsTheFlow) {
  EXPECT_THAT(rates(machine({20}, {flow(30, {{0, 1.0}})}), {0}), ElementsAre(20.0));
}

TEST(FairShare, NobodyIsActive) {
  EXPECT_THAT(rates(machine({100}, {flow(30, {{0, 1.0}})}), {}), ElementsAre());
}

TEST(FairShare, AFlowWithoutLinksIsNeverSlowed) {
  EXPECT_THAT(rates(machine({10}, {flow(30, {}), flow(30, {{0, 1.0}})}), {0, 1, 1}),
              ElementsAre(30.0, 5.0, 5.0));
}

TEST(FairShare, CompetitorsOfOneFlowShareEqually) {
  EXPECT_THAT(rates(machine({100}, {flow(60, {{0, 1.0}})}), {0, 0, 0, 0}),
              ElementsAre(25.0, 25.0, 25.0, 25.0));
}

// capacity 60: the copy wants 25, less than half; the update gets what is left of 60.
TEST(FairShare, WhatASlowFlowLeavesGoesToTheOthers) {
  EXPECT_THAT(rates(machine({60}, {flow(50, {{0, 1.0}}), flow(25, {{0, 1.0}})}), {0, 1}),
              ElementsAre(35.0, 25.0));
}

// Two links in a row, the textbook case: flow 0 crosses both, 1 the first, 2 the second.
// Link 0 (10) is tighter: 5 and 5. Link 1 (30) has 25 left for flow 2.
TEST(FairShare, AFlowOverTwoLinksIsHeldByTheTighter) {
  const Machine net = machine(
      {10, 30}, {flow(100, {{0, 1.0}, {1, 1.0}}), flow(100, {{0, 1.0}}), flow(100, {{1, 1.0}})});
  EXPECT_THAT(rates(net, {0, 1, 2}), ElementsAre(5.0, 5.0, 25.0));
}

// Flow 0 stands for 3 ranks: 3x + x = 40, x = 10.
TEST(FairShare, ACoefficientCountsTheRanksOfAFlow) {
  const Machine net = machine({40}, {flow(100, {{0, 3.0}}), flow(100, {{0, 1.0}})});
  EXPECT_THAT(rates(net, {0, 1}), ElementsAre(10.0, 10.0));
}

TEST(FairShare, ALinkNamedTwiceCountsTwice) {
  EXPECT_THAT(rates(machine({40}, {flow(100, {{0, 1.5}, {0, 0.5}})}), {0}), ElementsAre(20.0));
}

// 3 * 8.1 is 24.299999999999997 in doubles, and 0.1 + 0.2 more than 0.3.
TEST(FairShare, RoundingDoesNotSlowFlowsThatJustFit) {
  EXPECT_THAT(rates(machine({24.3e9}, {flow(8.1e9, {{0, 1.0}})}), {0, 0, 0}),
              ElementsAre(8.1e9, 8.1e9, 8.1e9));
  EXPECT_THAT(rates(machine({0.3}, {flow(0.1, {{0, 1.0}}), flow(0.2, {{0, 1.0}})}), {0, 1}),
              ElementsAre(0.1, 0.2));
}

// Flow 0 alone fills the link, within rounding; what is left for flow 1, a difference of large
// numbers, is 0 here. The level must not fall: flow 1 weighs next to nothing.
TEST(FairShare, RoundingDoesNotStarveAFlowOfLittleWeight) {
  const Machine net = machine({1e9}, {flow(1e9, {{0, 1.0}}), flow(2e9, {{0, 8e-13}})});
  EXPECT_THAT(rates(net, {0, 1}), ElementsAre(1e9, DoubleNear(1e9, 1.0)));
}

TEST(FairShare, TheOrderOfCompetitorsDoesNotMatter) {
  const Machine net =
      machine({31.7, 17.3},
              {flow(11.1, {{0, 1.1}}), flow(13.3, {{0, 0.7}, {1, 1.0}}), flow(29.9, {{1, 1.3}})});
  const auto forward = rates(net, {0, 1, 1, 2, 2, 0});
  const auto backward = rates(net, {0, 2, 2, 1, 1, 0});
  EXPECT_EQ(forward[0], backward[0]);
  EXPECT_EQ(forward[1], backward[3]);
  EXPECT_EQ(forward[3], backward[1]);
}

// Two cores: two tasks that want one each, beside n others that do: 2 / (2 + n) each, once that is
// less than one.
TEST(FairShare, TheBackgroundCompetesAllTheTime) {
  Machine cores = machine({2}, {flow(1, {{0, 1.0}}), flow(0.5, {{0, 1.0}})});
  EXPECT_THAT(rates(cores, {0, 0}), ElementsAre(1.0, 1.0));
  for (const std::size_t n : {1U, 2U, 5U}) {
    cores.background.assign(n, 0);
    const double share = 2 / (2 + static_cast<double>(n));
    EXPECT_THAT(rates(cores, {0, 0}),
                ElementsAre(DoubleNear(share, 1e-15), DoubleNear(share, 1e-15)));
  }
  // Half a core is less than an equal share of two: the tasks have what it leaves.
  cores.background = {1};
  EXPECT_THAT(rates(cores, {0, 0}), ElementsAre(0.75, 0.75));
  EXPECT_THAT(rates(cores, {0}), ElementsAre(1.0));
}

TEST(FairShare, AnUnknownFlowInTheBackgroundIsAnError) {
  Machine cores = machine({1}, {flow(1, {})});
  cores.background = {1};
  EXPECT_THROW(static_cast<void>(rates(cores, {0})), Error);
}

TEST(FairShare, AnUnknownFlowIsAnError) {
  EXPECT_THROW(static_cast<void>(rates(machine({1}, {flow(1, {})}), {1})), Error);
}

}  // namespace
}  // namespace zenflow::sim
