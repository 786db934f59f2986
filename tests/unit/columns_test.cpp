#include "kernels/columns/columns.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::comparable;

TEST(Columns, GathersInTheOrderThatIsAskedFor) {
  const std::vector<float> matrix{0,  1,  2,  3,  -1,  //
                                  10, 11, 12, 13, -1};
  const std::vector<std::uint32_t> columns{3, 0, 3};
  std::vector<float> out(6, -9);
  gather_columns(MatrixView<float>{matrix.data(), 2, 4, 5}, columns.data(), 3, out.data());
  EXPECT_EQ(out, (std::vector<float>{3, 0, 3, 13, 10, 13}));
}

TEST(Columns, ScattersIntoNamedColumnsAlone) {
  const std::vector<float> values{1, 2,  //
                                  3, 4};
  const std::vector<std::uint32_t> columns{2, 0};
  std::vector<float> out(8, -9);
  scatter_columns(values.data(), 2, 2, columns.data(), out.data(), 4);
  EXPECT_EQ(out, (std::vector<float>{2, -9, 1, -9, 4, -9, 3, -9}));
}

TEST(Columns, NoRowsAndNoColumnsTouchNothing) {
  float untouched = 7;
  gather_columns(MatrixView<float>{nullptr, 0, 4, 4}, nullptr, 0, &untouched);
  scatter_columns(&untouched, 3, 0, nullptr, &untouched, 4);
  EXPECT_EQ(untouched, 7);
}

template <class Element>
void expect_round_trip(std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::size_t rows = random() % 20;
  const std::size_t columns = 1 + random() % 70;
  const std::size_t stride = columns + random() % 3;
  std::vector<std::uint32_t> chosen(columns);
  std::iota(chosen.begin(), chosen.end(), 0U);
  std::shuffle(chosen.begin(), chosen.end(), random);
  chosen.resize(random() % (columns + 1));

  const auto matrix = any_bits<Element>(rows * stride, seed + 100);
  std::vector<Element> compact(rows * chosen.size());
  gather_columns(MatrixView<Element>{matrix.data(), rows, columns, stride}, chosen.data(),
                 chosen.size(), compact.data());
  auto out = matrix;
  for (std::size_t r = 0; r < rows; ++r) {
    for (const std::uint32_t c : chosen) out[r * stride + c] = {};
  }
  scatter_columns(compact.data(), rows, chosen.size(), chosen.data(), out.data(), stride);
  EXPECT_EQ(comparable(out), comparable(matrix)) << seed;
}

TEST(Columns, WhatWasGatheredScattersBack) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    expect_round_trip<float>(seed);
    expect_round_trip<Bf16>(seed);
  }
}

}  // namespace
}  // namespace zenflow::kernels
