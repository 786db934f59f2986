#include "kernels/top_k/top_k_cuda.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/top_k/top_k.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::in_every_order;
using testing::kSizes;
using testing::NeedsDevice;
using testing::OnDevice;
using testing::synchronize;

class TopKCuda : public NeedsDevice<::testing::Test> {
 protected:
  static void expect_reference(const std::vector<float>& norms, std::size_t k) {
    const std::vector<std::uint32_t> expected = top_k(norms.data(), norms.size(), k);
    in_every_order([&] {
      const OnDevice<float> on_device(norms);
      const OnDevice<std::uint32_t> columns(k);
      const OnDevice<std::byte> workspace(top_k_workspace(norms.size(), k));
      top_k_cuda(on_device.get(), norms.size(), k, columns.get(), workspace.get(), nullptr);
      synchronize();
      EXPECT_EQ(columns.read(), expected) << k << " of " << norms.size();
    });
  }
};

TEST_F(TopKCuda, ChoosesWhatTheReferenceDoes) {
  for (const std::size_t n : kSizes) {
    std::vector<float> norms = any_bits<float>(n, 1);
    for (float& norm : norms) norm = std::fabs(norm);
    for (const std::size_t k : {std::size_t{0}, n / 10, n / 2, n}) expect_reference(norms, k);
    expect_reference(any_bits<float>(n, 2), n / 3);
  }
}

TEST_F(TopKCuda, PrefersTheLowerIndexAmongEqualNorms) {
  expect_reference(std::vector<float>(1000, 2.5F), 7);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_reference({0.0F, -0.0F, 1.0F, nan, -nan, 0.0F, nan}, 2);
  expect_reference({0.0F, -0.0F, 0.0F, -0.0F}, 2);
}

}  // namespace
}  // namespace zenflow::kernels
