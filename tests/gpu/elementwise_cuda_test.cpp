/// Accumulation and casts on the GPU against their references.
#include <bit>
#include <cstdint>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/cast/cast_cuda.h"
#include "kernels/empty/empty_cuda.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::comparable;
using testing::in_every_order;
using testing::kSizes;
using testing::NeedsDevice;
using testing::OnDevice;
using testing::ordinary;
using testing::synchronize;

/// How many elements lie between an aligned address and the first array, and the second: packs that
/// lie alike from the start, after a head, and not at all.
struct Skips {
  std::size_t first;
  std::size_t second;
};

class ElementwiseCuda : public NeedsDevice<::testing::TestWithParam<Skips>> {
 protected:
  static std::vector<std::size_t> sizes() {
    std::vector<std::size_t> all(std::begin(kSizes), std::end(kSizes));
    for (const std::size_t n : {2U, 3U, 4U, 5U, 1023U, 1024U, 1025U, 5000U}) all.push_back(n);
    return all;
  }

  template <class Grad>
  static void expect_accumulated(const std::vector<float>& start, const std::vector<Grad>& g) {
    std::vector<float> first = start;
    accumulate_first(first.data(), g.data(), 0.3F, g.size(), Isa::kScalar);
    std::vector<float> further = start;
    accumulate(further.data(), g.data(), 0.3F, g.size(), Isa::kScalar);
    in_every_order([&] {
      const OnDevice<Grad> gradient(g, GetParam().second);
      const OnDevice<float> first_sum(g.size(), GetParam().first);
      const OnDevice<float> sum(start, GetParam().first);
      const Grad* from = gradient.get();
      accumulate_first_cuda(first_sum.get(), from, 0.3F, g.size(), nullptr);
      accumulate_cuda(sum.get(), from, 0.3F, g.size(), nullptr);
      synchronize();
      EXPECT_EQ(comparable(first_sum.read()), comparable(first)) << g.size();
      EXPECT_EQ(comparable(sum.read()), comparable(further)) << g.size();
    });
  }
};

TEST_P(ElementwiseCuda, AccumulatesFp32AsTheReference) {
  for (const std::size_t n : sizes()) {
    expect_accumulated(ordinary<float>(n, 1), ordinary<float>(n, 2));
    expect_accumulated(any_bits<float>(n, 3), any_bits<float>(n, 4));
  }
}

TEST_P(ElementwiseCuda, AccumulatesBf16AsTheReference) {
  for (const std::size_t n : sizes()) {
    expect_accumulated(ordinary<float>(n, 5), ordinary<Bf16>(n, 6));
    expect_accumulated(any_bits<float>(n, 7), any_bits<Bf16>(n, 8));
  }
}

TEST_P(ElementwiseCuda, RoundsToBf16AsTheReference) {
  for (const std::size_t n : sizes()) {
    const std::vector<float> values = any_bits<float>(n, 9);
    std::vector<Bf16> expected(n);
    to_bf16(values.data(), n, expected.data(), Isa::kScalar);
    in_every_order([&] {
      const OnDevice<float> from(values, GetParam().first);
      const OnDevice<Bf16> to(n, GetParam().second);
      to_bf16_cuda(from.get(), n, to.get(), nullptr);
      synchronize();
      EXPECT_EQ(comparable(to.read()), comparable(expected)) << n;
    });
  }
}

TEST_P(ElementwiseCuda, WidensAsTheReference) {
  for (const std::size_t n : sizes()) {
    const std::vector<Bf16> values = any_bits<Bf16>(n, 10);
    std::vector<float> expected(n);
    to_float(values.data(), n, expected.data(), Isa::kScalar);
    in_every_order([&] {
      const OnDevice<Bf16> from(values, GetParam().first);
      const OnDevice<float> to(n, GetParam().second);
      to_float_cuda(from.get(), n, to.get(), nullptr);
      synchronize();
      const std::vector<float> widened = to.read();
      ASSERT_EQ(widened.size(), n);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[i]),
                  std::bit_cast<std::uint32_t>(expected[i]))
            << i << " of " << n;
      }
    });
  }
}

class EmptyCuda : public NeedsDevice<::testing::Test> {};

TEST_F(EmptyCuda, IsLaunched) {
  EXPECT_NO_THROW(empty_cuda(nullptr));
  EXPECT_NO_THROW(synchronize());
}

INSTANTIATE_TEST_SUITE_P(Skips, ElementwiseCuda,
                         ::testing::Values(Skips{0, 0}, Skips{1, 1}, Skips{3, 7}, Skips{0, 1},
                                           Skips{2, 0}),
                         [](const auto& skips) {
                           return std::to_string(skips.param.first) + "_" +
                                  std::to_string(skips.param.second);
                         });

}  // namespace
}  // namespace zenflow::kernels
