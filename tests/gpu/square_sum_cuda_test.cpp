#include "kernels/square_sum/square_sum_cuda.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::in_every_order;
using testing::kSizes;
using testing::NeedsDevice;
using testing::OnDevice;
using testing::ordinary;
using testing::synchronize;

class SquareSumCuda : public NeedsDevice<::testing::Test> {};

/// NaN compares equal to NaN.
std::uint64_t comparable(double value) {
  return std::isnan(value) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(value);
}

/// Of arrays that are summed up together, each of which begins `skip` elements behind an aligned
/// address.
template <class Element>
void expect_reference_bits(const std::vector<std::vector<Element>>& arrays, std::size_t skip) {
  in_every_order([&] {
    std::vector<OnDevice<Element>> on_device;
    std::vector<SquareSumOf<Element>> wanted;
    const OnDevice<double> sums(std::vector<double>(arrays.size(), -1.0));
    std::size_t elements = 0;
    on_device.reserve(arrays.size());
    for (const std::vector<Element>& values : arrays) {
      on_device.emplace_back(values, skip);
      wanted.push_back({on_device.back().get(), values.size(), sums.get() + wanted.size()});
      elements += values.size();
    }
    const OnDevice<std::byte> workspace(square_sums_workspace(elements, arrays.size()));
    square_sums_cuda<Element>(wanted, workspace.get(), nullptr);
    synchronize();
    const std::vector<double> found = sums.read();
    for (std::size_t a = 0; a < arrays.size(); ++a) {
      const double reference = square_sum(arrays[a].data(), arrays[a].size(), Isa::kScalar);
      EXPECT_EQ(comparable(found[a]), comparable(reference))
          << "array " << a << " of " << arrays[a].size() << ", " << skip;
    }
  });
}

template <class Element>
void expect_reference_bits(const std::vector<Element>& values, std::size_t skip) {
  expect_reference_bits(std::vector<std::vector<Element>>{values}, skip);
}

template <class Element>
void expect_reference_bits_of_all_sizes() {
  std::vector<std::size_t> sizes(std::begin(kSizes), std::end(kSizes));
  for (const std::size_t n : {kSquareBlock - 1, kSquareBlock, kSquareBlock + 1,
                              9 * kSquareBlock - 5, 70 * kSquareBlock + 31}) {
    sizes.push_back(n);
  }
  for (const std::size_t n : sizes) {
    for (const std::size_t skip : {0U, 1U, 4U}) {
      expect_reference_bits(ordinary<Element>(n, 1), skip);
      // More of them would always be a NaN.
      if (n < 16) expect_reference_bits(any_bits<Element>(n, 2), skip);
    }
  }
}

TEST_F(SquareSumCuda, Fp32MatchesTheReference) {
  expect_reference_bits_of_all_sizes<float>();
}

TEST_F(SquareSumCuda, Bf16MatchesTheReference) {
  expect_reference_bits_of_all_sizes<Bf16>();
}

/// Step 2 of the arithmetic has as many sums as it has threads here; more blocks take turns. A
/// thread reads 32 of them at once.
TEST_F(SquareSumCuda, MatchesTheReferenceWithManyBlocks) {
  for (const std::size_t blocks : {1023U, 1024U, 1030U, 32U * 1024U + 6U}) {
    expect_reference_bits(ordinary<Bf16>(blocks * kSquareBlock + 77, 3), 0);
  }
}

/// More than one launch takes, of all kinds: none at all, less than a block, blocks and a part of
/// one, more blocks than lanes; two of them not finite.
template <class Element>
void expect_reference_bits_of_many_arrays() {
  std::vector<std::vector<Element>> arrays;
  for (std::uint32_t a = 0; a < 150; ++a) {
    arrays.push_back(ordinary<Element>(a * 37 % 100 * (a % 3 == 0 ? 91U : 1U), a));
  }
  arrays[20] = ordinary<Element>(1027 * kSquareBlock + 5, 4);
  arrays[90] = any_bits<Element>(15, 5);
  arrays[149] = ordinary<Element>(3 * kSquareBlock, 6);
  for (const std::size_t skip : {0U, 3U}) expect_reference_bits(arrays, skip);
}

TEST_F(SquareSumCuda, Fp32ArraysMatchTheReferenceTogether) {
  expect_reference_bits_of_many_arrays<float>();
}

TEST_F(SquareSumCuda, Bf16ArraysMatchTheReferenceTogether) {
  expect_reference_bits_of_many_arrays<Bf16>();
}

/// `count` numbers other than 0, `apart` from each other: `large` whose squares do not change when
/// 1 is added, then ones. Sums that begin with the ones are others.
std::vector<float> large_ones_first(std::size_t count, std::size_t apart, std::size_t large) {
  std::vector<float> values(count * apart);
  for (std::size_t i = 0; i < count; ++i) values[i * apart] = i < large ? 0x1p27F : 1.0F;
  return values;
}

TEST_F(SquareSumCuda, AddsInTheStatedOrder) {
  expect_reference_bits(large_ones_first(kSquareBlock, 1, 32), 0);           // step 1
  expect_reference_bits(large_ones_first(6 * 1024, kSquareBlock, 1024), 0);  // step 2
  expect_reference_bits(large_ones_first(1024, kSquareBlock, 32), 0);        // step 3
}

}  // namespace
}  // namespace zenflow::kernels
