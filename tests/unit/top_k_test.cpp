#include "kernels/top_k/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::kernels {
namespace {

using Columns = std::vector<std::uint32_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Columns largest(const std::vector<float>& norms, std::size_t k) {
  return top_k(norms.data(), norms.size(), k);
}

TEST(TopK, NamesTheLargestInAscendingOrderOfIndex) {
  EXPECT_EQ(largest({1, 5, 3, 4}, 2), (Columns{1, 3}));
  EXPECT_EQ(largest({9, 5, 3, 4}, 1), (Columns{0}));
}

TEST(TopK, NoneAllAndNoNorms) {
  EXPECT_EQ(largest({1, 2}, 0), Columns{});
  EXPECT_EQ(largest({1, 2, 0}, 3), (Columns{0, 1, 2}));
  EXPECT_EQ(top_k(nullptr, 0, 0), Columns{});
}

TEST(TopK, OfEqualNormsTheLowerIndexComesFirst) {
  EXPECT_EQ(largest({2, 1, 2, 2}, 2), (Columns{0, 2}));
  EXPECT_EQ(largest({-0.0F, 0.0F, -0.0F}, 2), (Columns{0, 1}));
  EXPECT_EQ(largest({-0.0F, 0.0F}, 1), (Columns{0}));
}

TEST(TopK, NaNRanksAboveInfinityWhateverItsBits) {
  const float negative_nan = std::bit_cast<float>(std::uint32_t{0xFFC00001});
  const float signalling_nan = std::bit_cast<float>(std::uint32_t{0x7F800001});
  EXPECT_EQ(largest({kInfinity, negative_nan, 1}, 1), (Columns{1}));
  EXPECT_EQ(largest({kInfinity, 3, signalling_nan, negative_nan}, 3), (Columns{0, 2, 3}));
  EXPECT_EQ(largest({negative_nan, std::bit_cast<float>(std::uint32_t{0x7FFFFFFF})}, 1),
            (Columns{0}));
}

TEST(TopK, OrdersDenormalsAndNumbersBelowZero) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(largest({0, tiny, -tiny}, 1), (Columns{1}));
  EXPECT_EQ(largest({-2, -kInfinity, -1}, 2), (Columns{0, 2}));
}

/// The rank is by comparison of numbers here, not of bits.
Columns by_sorting(const std::vector<float>& norms, std::size_t k) {
  Columns order(norms.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (std::isnan(norms[a]) || std::isnan(norms[b])) {
      return std::isnan(norms[a]) && !std::isnan(norms[b]);
    }
    return norms[a] > norms[b];
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

TEST(TopK, AgreesWithSorting) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<float> norms(random() % 300);
    for (float& norm : norms) {
      const auto bits = static_cast<std::uint32_t>(random());
      // Few different values, so that there are ties; now and then any bits.
      norm = bits % 8 == 0 ? std::bit_cast<float>(bits) : static_cast<float>(bits % 13);
    }
    const std::size_t k = norms.empty() ? 0 : random() % (norms.size() + 1);
    EXPECT_EQ(largest(norms, k), by_sorting(norms, k)) << seed;
  }
}

}  // namespace
}  // namespace zenflow::kernels
