// Which GPU and which cores each of several ranks takes.
#include "runtime/train/rank_place.h"

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/machine/core_share.h"
#include "sim/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/thread_ranks.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using zenflow::testing::error_of;
using Cpus = std::vector<int>;

/// A machine of two sockets of four cores.
class RankPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("HWLOC_SYNTHETIC", "pack:2 numa:1 core:4 pu:1", 1); }
  void TearDown() override { unsetenv("HWLOC_SYNTHETIC"); }

  static constexpr int kCpus = 8;
  static Cpus all() {
    Cpus cpus;
    for (int cpu = 0; cpu < kCpus; ++cpu) cpus.push_back(cpu);
    return cpus;
  }
  static std::vector<RankPlace> places(const std::vector<RankSurroundings>& ranks) {
    std::vector<RankPlace> places(ranks.size());
    zenflow::testing::ThreadRanks(static_cast<int>(ranks.size())).run([&](Communicator& own) {
      const auto r = static_cast<std::size_t>(own.rank());
      places[r] = place_rank(own, ranks[r]);
    });
    return places;
  }
};

TEST_F(RankPlaceTest, CoresAreSharedOutSocketBySocket) {
  const std::vector<std::string> nowhere(2);
  EXPECT_THAT(share_cpus(all(), nowhere), ElementsAre(Cpus{0, 1, 2, 3}, Cpus{4, 5, 6, 7}));
  EXPECT_THAT(share_cpus(all(), std::vector<std::string>(4)),
              ElementsAre(Cpus{0, 1}, Cpus{2, 3}, Cpus{4, 5}, Cpus{6, 7}));
  // Of what this process may use alone.
  EXPECT_THAT(share_cpus({1, 2, 6, 7}, nowhere), ElementsAre(Cpus{1, 2}, Cpus{6, 7}));
}

TEST_F(RankPlaceTest, MoreProcessesThanCoresShareThem) {
  const auto shares = share_cpus({0, 1}, std::vector<std::string>(4));
  ASSERT_EQ(shares.size(), 4U);
  std::multiset<int> used;
  for (const Cpus& share : shares) {
    ASSERT_EQ(share.size(), 1U);
    used.insert(share.front());
  }
  EXPECT_EQ(used.count(0), 2U);
  EXPECT_EQ(used.count(1), 2U);
}

TEST_F(RankPlaceTest, RanksOfAMachineShareItsCores) {
  const RankSurroundings here{.machine = "here", .allowed_cpus = all()};
  RankSurroundings there = here;
  there.machine = "there";
  const auto places_of = places({here, there, here, there, there});
  EXPECT_EQ(places_of[0].local_rank, 0);
  EXPECT_EQ(places_of[0].local_ranks, 2);
  EXPECT_EQ(places_of[2].local_rank, 1);
  EXPECT_EQ(places_of[4].local_rank, 2);
  EXPECT_EQ(places_of[4].local_ranks, 3);
  EXPECT_EQ(places_of[0].cpus, (Cpus{0, 1, 2, 3}));
  EXPECT_EQ(places_of[2].cpus, (Cpus{4, 5, 6, 7}));
  std::set<int> cores;  // nobody's twice
  for (const std::size_t r : {1U, 3U, 4U}) {
    EXPECT_FALSE(places_of[r].bound_by_launcher);
    EXPECT_EQ(places_of[r].gpu, -1);
    for (const int cpu : places_of[r].cpus) EXPECT_TRUE(cores.insert(cpu).second);
  }
  EXPECT_EQ(cores.size(), 8U);
}

TEST_F(RankPlaceTest, ALaunchersChoiceStays) {
  RankSurroundings one{.machine = "here", .allowed_cpus = {0, 1}};
  RankSurroundings other{.machine = "here", .allowed_cpus = {4, 5}};
  const auto places_of = places({one, other, other});
  EXPECT_EQ(places_of[0].cpus, (Cpus{0, 1}));
  EXPECT_TRUE(places_of[0].bound_by_launcher);
  // Two that were bound to the same cores share these.
  EXPECT_EQ(places_of[1].cpus, (Cpus{4}));
  EXPECT_EQ(places_of[2].cpus, (Cpus{5}));
}

TEST_F(RankPlaceTest, ARankHasTheGpuOfItsNumber) {
  RankSurroundings here{.machine = "here", .allowed_cpus = all(), .gpus = 2};
  here.bus_id = [](int gpu) { return gpu == 0 ? "0000:01:00.0" : "0000:02:00.0"; };
  RankSurroundings there = here;
  there.machine = "there";
  const auto places_of = places({here, here, there, there});
  EXPECT_EQ(places_of[0].gpu, 0);
  EXPECT_EQ(places_of[1].gpu, 1);
  EXPECT_EQ(places_of[2].gpu, 0);
  EXPECT_EQ(places_of[3].gpu, 1);
  // The launcher shows each its own.
  here.gpus = 1;
  EXPECT_EQ(places({here, here})[1].gpu, 0);
}

TEST_F(RankPlaceTest, MoreRanksThanGpusAreRefused) {
  const RankSurroundings here{
      .machine = "here", .allowed_cpus = all(), .gpus = 2, .bus_id = [](int) {
        return "0000:01:00.0";
      }};
  std::string said;
  zenflow::testing::ThreadRanks(3).run([&](Communicator& own) {
    if (own.rank() < 2) return static_cast<void>(place_rank(own, here));
    const auto error = error_of([&] { static_cast<void>(place_rank(own, here)); });
    EXPECT_EQ(error.first, ErrorKind::kInput);
    said = error.second;
  });
  EXPECT_THAT(said, HasSubstr("3 ranks on a machine with 2 visible GPUs"));
}

TEST_F(RankPlaceTest, WhatRanksSayIsKnownToAll) {
  std::vector<std::vector<std::string>> heard(3);
  zenflow::testing::ThreadRanks(3).run([&](Communicator& own) {
    heard[static_cast<std::size_t>(own.rank())] = texts_of_ranks(
        own, own.rank() == 1 ? "" : std::string(300, "a-c"[own.rank()]) + "\xC3\xA4");
  });
  for (const auto& all_texts : heard) {
    EXPECT_THAT(all_texts, ElementsAre(std::string(200, 'a'), "", std::string(200, 'c')));
  }
}

TEST(CoreShareTest, ListsAreShort) {
  EXPECT_EQ(list_of_cpus({}), "");
  EXPECT_EQ(list_of_cpus({5}), "5");
  EXPECT_EQ(list_of_cpus({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(list_of_cpus({0, 2, 3}), "0,2-3");
}

TEST(CoreShareTest, BindsThreadsThatAreStartedLater) {
  const Cpus before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  bind_to_cpus({before.back()});
  Cpus of_thread;
  std::jthread([&] { of_thread = allowed_cpus(); }).join();
  EXPECT_EQ(of_thread, Cpus{before.back()});
  bind_to_cpus(before);
  EXPECT_EQ(allowed_cpus(), before);
}

}  // namespace
}  // namespace zenflow::runtime
