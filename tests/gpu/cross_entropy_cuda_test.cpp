#include "kernels/cross_entropy/cross_entropy_cuda.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/closeness.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"

namespace zenflow::kernels {
namespace {

using testing::comparable;
using testing::expect_close;
using testing::in_every_order;
using testing::NeedsDevice;
using testing::OnDevice;
using testing::ordinary;
using testing::stored_bounds;
using testing::synchronize;

class CrossEntropyCuda : public NeedsDevice<::testing::Test> {};

std::vector<std::int32_t> some_targets(std::size_t rows, std::size_t classes) {
  std::vector<std::int32_t> targets(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    targets[r] = r % 4 == 3 ? kIgnoredClass : static_cast<std::int32_t>(r * 7919 % classes);
  }
  return targets;
}

std::vector<float> losses_of(const std::vector<RowLoss>& rows) {
  std::vector<float> losses;
  for (const RowLoss& row : rows) losses.push_back(row.loss);
  return losses;
}

template <class Element>
void check(std::size_t rows, std::size_t classes, std::size_t gap, bool writes_gradient,
           float cap = 0.0F) {
  const std::size_t stride = classes + gap;
  std::vector<Element> logits = ordinary<Element>(rows * stride, 1);
  const std::vector<std::int32_t> targets = some_targets(rows, classes);
  // Where the target has the largest logit, and where an equal one comes before it.
  for (std::size_t r = 0; r < rows; r += 3) {
    if (targets[r] < 0) continue;
    const auto target = static_cast<std::size_t>(targets[r]);
    const auto large = testing::from_pattern<Element>(std::bit_cast<std::uint32_t>(8.0F));
    logits[r * stride + target] = large;
    if (r % 2 == 1 && target > 0) logits[r * stride + target - 1] = large;
  }
  std::vector<Element> expected = logits;
  std::vector<RowLoss> losses(rows);
  cross_entropy_scalar<Element>({expected.data(), rows, classes, stride, targets.data(),
                                 losses.data(), 0.125F, writes_gradient, cap});
  in_every_order([&] {
    const OnDevice<Element> x(logits);
    const OnDevice<std::int32_t> t(targets);
    const OnDevice<RowLoss> l(rows);
    cross_entropy_cuda<Element>(
        {x.get(), rows, classes, stride, t.get(), l.get(), 0.125F, writes_gradient, cap}, nullptr);
    synchronize();
    const std::vector<RowLoss> found = l.read();
    expect_close(losses_of(found), losses_of(losses), {1e-6, 1e-6}, "losses");
    for (std::size_t r = 0; r < rows; ++r) EXPECT_EQ(found[r].correct, losses[r].correct) << r;
    if (!writes_gradient) {
      EXPECT_EQ(comparable(x.read()), comparable(logits));
      return;
    }
    expect_close(x.read(), expected, stored_bounds<Element>(), "gradient");
    for (std::size_t r = 0; r < rows; ++r) {  // beyond the classes nothing is touched
      for (std::size_t c = classes; c < stride; ++c) {
        ASSERT_EQ(testing::comparable(x.read()[r * stride + c]),
                  testing::comparable(logits[r * stride + c]));
      }
    }
  });
}

TEST_F(CrossEntropyCuda, MatchesTheReference) {
  for (const bool writes_gradient : {false, true}) {
    check<float>(0, 5, 0, writes_gradient);
    check<float>(1, 1, 0, writes_gradient);
    check<float>(9, 24, 0, writes_gradient);
    check<float>(5, 1031, 1, writes_gradient);
    check<Bf16>(9, 24, 0, writes_gradient);
    check<Bf16>(7, 257, 7, writes_gradient);
    check<Bf16>(4, 1030, 1, writes_gradient);
    check<Bf16>(3, 5003, 5, writes_gradient);
    check<float>(5, 1031, 1, writes_gradient, 6.0F);
    check<Bf16>(7, 257, 7, writes_gradient, 2.5F);
  }
}

TEST_F(CrossEntropyCuda, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits{1e4F, -1e4F, 0.0F, -3e38F};
  const OnDevice<float> x(logits);
  const OnDevice<std::int32_t> t(std::vector<std::int32_t>{1});
  const OnDevice<RowLoss> l(1);
  cross_entropy_cuda<float>({x.get(), 1, 4, 4, t.get(), l.get(), 1.0F, true}, nullptr);
  synchronize();
  EXPECT_EQ(l.read()[0].loss, 2e4F);
  EXPECT_EQ(x.read(), (std::vector<float>{1.0F, -1.0F, 0.0F, 0.0F}));
}

TEST_F(CrossEntropyCuda, SquaredErrorsMatchTheReference) {
  const std::vector<Bf16> outputs = ordinary<Bf16>(300, 1);
  const std::vector<float> values = ordinary<float>(100, 2);
  std::vector<Bf16> expected = outputs;
  std::vector<RowLoss> losses(100);
  squared_error_scalar<Bf16>({expected.data(), 100, 3, values.data(), losses.data(), 0.25F, true});
  in_every_order([&] {
    const OnDevice<Bf16> x(outputs);
    const OnDevice<float> v(values);
    const OnDevice<RowLoss> l(100);
    squared_error_cuda<Bf16>({x.get(), 100, 3, v.get(), l.get(), 0.25F, true}, nullptr);
    synchronize();
    EXPECT_EQ(comparable(x.read()), comparable(expected));
    EXPECT_EQ(losses_of(l.read()), losses_of(losses));
  });
}

TEST_F(CrossEntropyCuda, SumsMatchTheReferenceBitForBit) {
  for (const std::size_t rows : {0U, 1U, 31U, 256U, 257U, 1000U}) {
    const std::vector<float> values = ordinary<float>(rows, 3);
    std::vector<RowLoss> losses(rows);
    for (std::size_t r = 0; r < rows; ++r) losses[r] = {values[r], r % 3 == 0 ? 1U : 0U};
    const LossSum expected = sum_losses_scalar(losses.data(), rows);
    in_every_order([&] {
      const OnDevice<RowLoss> l(losses);
      const OnDevice<LossSum> sum(1);
      sum_losses_cuda(l.get(), rows, sum.get(), nullptr);
      synchronize();
      EXPECT_EQ(sum.read()[0].loss, expected.loss);
      EXPECT_EQ(sum.read()[0].correct, (rows + 2) / 3);
    });
  }
}

}  // namespace
}  // namespace zenflow::kernels
