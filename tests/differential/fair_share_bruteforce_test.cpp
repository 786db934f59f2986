/// Are the solver's rates the max-min fair ones? Against bisection, and against the
/// definition: each flow is at its solo rate or has a bottleneck.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "sim/engine/fair_share.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_max_min.h"

namespace zenflow::sim::testing {
namespace {

/// A link that is full and on which nobody runs faster than competitor `i`. An allocation is
/// max-min fair if and only if everybody below their solo rate has one (Bertsekas and
/// Gallager, Data Networks, 2nd ed., section 6.5.2).
bool has_bottleneck(const Machine& machine, const std::vector<FlowId>& active,
                    const std::vector<double>& rates, std::size_t i) {
  const auto uses = [&](std::size_t who, LinkId link) {
    const auto& list = machine.flows[active[who]].uses;
    return std::any_of(list.begin(), list.end(),
                       [&](const LinkUse& use) { return use.link == link; });
  };
  for (const LinkUse& use : machine.flows[active[i]].uses) {
    if (load(machine, active, rates, use.link) <
        machine.links[use.link].capacity.value() * (1 - 1e-9)) {
      continue;
    }
    bool fastest = true;
    for (std::size_t j = 0; j < active.size(); ++j) {
      if (uses(j, use.link) && rates[j] > rates[i] * (1 + 1e-9)) fastest = false;
    }
    if (fastest) return true;
  }
  return false;
}

class FairShareBruteforce : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FairShareBruteforce, RatesAreMaxMinFair) {
  Random random(GetParam());
  const Machine machine = random_machine(random, true);
  std::vector<FlowId> active;
  for (auto n = random.between(1, 12); n > 0; --n) {
    active.push_back(static_cast<FlowId>(
        random.between(0, static_cast<std::int64_t>(machine.flows.size()) - 1)));
  }
  const std::vector<double> rates = fair_rates(machine, active);
  const std::vector<double> expected = reference_max_min(machine, active);
  ASSERT_EQ(rates.size(), active.size());
  EXPECT_TRUE(is_feasible(machine, active, rates, 1e-9));
  for (std::size_t i = 0; i < active.size(); ++i) {
    EXPECT_NEAR(rates[i] / expected[i], 1.0, 1e-9) << "competitor " << i;
    const double solo_rate = machine.flows[active[i]].solo_rate.value();
    EXPECT_TRUE(rates[i] == solo_rate || has_bottleneck(machine, active, rates, i))
        << "competitor " << i << " could run faster than " << rates[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FairShareBruteforce, ::testing::Range<std::uint64_t>(0, 200));

/// The seeds above are worth something only if links do hold flows back in them.
TEST(FairShareBruteforceSeeds, ReachBothSidesOfTheProblem) {
  int solo = 0;
  int held = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Machine machine = random_machine(random, true);
    std::vector<FlowId> active(6, 0);
    for (FlowId& flow : active) flow = static_cast<FlowId>(random.next() % machine.flows.size());
    const auto rates = fair_rates(machine, active);
    for (std::size_t i = 0; i < active.size(); ++i) {
      ++(rates[i] == machine.flows[active[i]].solo_rate.value() ? solo : held);
    }
  }
  EXPECT_GT(solo, 200);
  EXPECT_GT(held, 200);
}

}  // namespace
}  // namespace zenflow::sim::testing
