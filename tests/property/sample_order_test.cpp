// The order of samples: exactly the one that is specified, and what holds of it for every seed,
// number of ranks and moment of resuming.
#include "runtime/data/sample_order.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

// Computed from the definition in the header by a Python program with its own mt19937_64, which
// gives the 10000th value that the C++ standard demands.
TEST(EpochOrder, IsTheSpecifiedPermutation) {
  EXPECT_THAT(epoch_order(10, 0, 0), ElementsAre(6, 1, 2, 4, 7, 5, 3, 0, 9, 8));
  EXPECT_THAT(epoch_order(10, 0, 1), ElementsAre(7, 4, 3, 6, 9, 5, 2, 8, 0, 1));
  EXPECT_THAT(epoch_order(10, 42, 0), ElementsAre(2, 0, 4, 7, 8, 3, 5, 1, 9, 6));
  EXPECT_THAT(epoch_order(16, std::numeric_limits<std::uint64_t>::max(), 3),
              ElementsAre(13, 1, 4, 10, 3, 14, 6, 15, 2, 8, 5, 7, 0, 9, 11, 12));
  EXPECT_THAT(epoch_order(1, 7, 7), ElementsAre(0));
}

// 2^64 = 3 m + 1 = 10 m' + 6: the largest value and the largest 6 are drawn again.
TEST(EpochOrder, DrawsAgainWhatWouldNotBeUniform) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(uniform_remainder(kMax, 3), std::nullopt);
  EXPECT_EQ(uniform_remainder(kMax - 1, 3), 2U);
  EXPECT_EQ(uniform_remainder(kMax - 5, 10), std::nullopt);
  EXPECT_EQ(uniform_remainder(kMax - 6, 10), 9U);
  EXPECT_EQ(uniform_remainder(kMax, std::uint64_t{1} << 32U), 0xFFFFFFFFU);
  EXPECT_EQ(uniform_remainder(kMax, 1), 0U);
  EXPECT_EQ(uniform_remainder(12, 10), 2U);
}

// Over 6000 epochs each of the 6 orders of 3 samples comes 1000 times, give or take. 5 degrees of
// freedom: chi-squared exceeds 30 with probability 1.5e-5; the seed is fixed.
TEST(EpochOrder, IsUniform) {
  std::map<std::vector<std::uint32_t>, double> counts;
  for (std::uint64_t epoch = 0; epoch < 6000; ++epoch) ++counts[epoch_order(3, 1, epoch)];
  ASSERT_EQ(counts.size(), 6U);
  double chi_squared = 0.0;
  for (const auto& [order, count] : counts) chi_squared += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi_squared, 30.0);
}

TEST(WalkingCipher, IsAPermutation) {
  for (std::uint64_t count = 1; count < 300; ++count) {
    const WalkingCipher cipher(count, 17 * count);
    std::vector<bool> taken(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_LT(cipher[i], count);
      EXPECT_FALSE(taken[static_cast<std::size_t>(cipher[i])]) << count << ", " << i;
      taken[static_cast<std::size_t>(cipher[i])] = true;
    }
  }
}

// A hundredth of the samples falls into each hundredth of a stretch, whose own order and whose next
// epoch's say nothing of it: 99 degrees of freedom, above 180 with a probability of 1e-6.
TEST(WalkingCipher, MixesAsShufflesDo) {
  constexpr std::uint64_t kCount = (std::uint64_t{1} << 32U) + 12345;
  constexpr std::uint64_t kTaken = 100'000;
  constexpr std::size_t kParts = 100;
  const EpochOrder first(kCount, 1, 0);
  const EpochOrder second(kCount, 1, 1);
  const auto part = [](std::uint64_t sample) {
    return static_cast<std::size_t>(sample / (kCount / kParts + 1));
  };
  std::vector<double> once(kParts);
  std::vector<double> steps(kParts);   // from a sample to the next
  std::vector<double> epochs(kParts);  // from an epoch to the next
  for (std::uint64_t i = 0; i < kTaken; ++i) {
    ++once[part(first[i])];
    ++steps[part((first[i + 1] + kCount - first[i]) % kCount)];
    ++epochs[part((second[i] + kCount - first[i]) % kCount)];
  }
  for (const std::vector<double>& counts : {once, steps, epochs}) {
    constexpr double kExpected = static_cast<double>(kTaken) / kParts;
    double chi_squared = 0;
    for (const double count : counts) {
      chi_squared += (count - kExpected) * (count - kExpected) / kExpected;
    }
    EXPECT_LT(chi_squared, 180.0);
  }
}

TEST(EpochOrder, OfVeryManySamplesIsComputed) {
  EXPECT_EQ(EpochOrder(20, 5, 3)[7], epoch_order(20, 5, 3)[7]);
  // Whose list would be 4 TiB.
  constexpr std::uint64_t kCount = std::uint64_t{1} << 40U;
  SampleStream stream(kCount, 3, 1, 2);
  stream.seek({2, kCount - 3});
  EXPECT_THAT(stream.next(2),
              ElementsAre(EpochOrder(kCount, 3, 2)[kCount - 1], EpochOrder(kCount, 3, 3)[0]));
}

class SampleOrder : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SampleOrder, TakesEverySampleOncePerEpoch) {
  const std::uint64_t seed = GetParam();
  const std::uint64_t count = 1 + seed * 7 % 50;
  for (const std::uint64_t ranks : {1U, 2U, 3U, 64U}) {
    // Micro-batch by micro-batch, the ranks' shares are the whole stream.
    const std::uint64_t batch = 1 + seed % 3;
    std::vector<SampleStream> streams;
    for (std::uint64_t rank = 0; rank < ranks; ++rank)
      streams.emplace_back(count, seed, rank, ranks);
    std::vector<std::uint64_t> taken;
    while (taken.size() < 4 * count) {
      for (SampleStream& stream : streams) {
        for (const std::uint64_t sample : stream.next(batch)) taken.push_back(sample);
      }
    }
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      const auto begin = taken.begin() + static_cast<std::ptrdiff_t>(epoch * count);
      const std::vector<std::uint64_t> one(begin, begin + static_cast<std::ptrdiff_t>(count));
      const std::vector<std::uint32_t> expected = epoch_order(count, seed, epoch);
      EXPECT_TRUE(std::ranges::equal(one, expected)) << ranks << " ranks, epoch " << epoch;
    }
  }
}

TEST_P(SampleOrder, GoesOnWhereItWasForAnyBatchAndRank) {
  const std::uint64_t seed = GetParam();
  const std::uint64_t count = 1 + seed * 13 % 40;
  const std::uint64_t ranks = 1 + seed % 4;
  const std::uint64_t rank = seed % ranks;
  const std::uint64_t batch = 1 + seed % 5;
  SampleStream whole(count, seed, rank, ranks);
  for (int step = 0; step < 60; ++step) {
    SampleStream resumed(count, seed, rank, ranks);
    resumed.seek(whole.position());
    EXPECT_EQ(resumed.position(), whole.position());
    EXPECT_EQ(resumed.next(batch), whole.next(batch));
    EXPECT_EQ(resumed.position(), whole.position());
    // All ranks have taken batch * ranks samples per step.
    const std::uint64_t all = static_cast<std::uint64_t>(step + 1) * batch * ranks;
    EXPECT_EQ(whole.position(), (DataPosition{all / count, all % count}));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SampleOrder, ::testing::Range<std::uint64_t>(0, 30));

// Two ranks with a batch of 3, then three ranks with a batch of 1: the stream goes on.
TEST(SampleStream, DoesNotDependOnHowItIsShared) {
  SampleStream before(20, 5, 0, 2);
  static_cast<void>(before.next(3));
  EXPECT_EQ(before.position(), (DataPosition{0, 6}));
  SampleStream after(20, 5, 1, 3);
  after.seek(before.position());
  EXPECT_EQ(after.next(1).front(), epoch_order(20, 5, 0)[6 + 1]);
}

TEST(SampleStream, RefusesWhatCannotBe) {
  const auto message = [](const auto& action) {
    const auto [kind, what] = error_of(action);
    EXPECT_EQ(kind, ErrorKind::kInput);
    return what;
  };
  EXPECT_THAT(message([] { SampleStream(0, 0, 0, 1); }), HasSubstr("no training samples"));
  EXPECT_THAT(message([] { SampleStream(5, 0, 2, 2); }), HasSubstr("no rank 2 of 2"));
  EXPECT_THAT(message([] {
                SampleStream(5, 0, 0, 1).seek({0, 5});
              }),
              HasSubstr("position 5 is not within the 5 training samples"));
}

}  // namespace
}  // namespace zenflow::runtime
