#include "kernels/adamw/adamw_cuda.h"

#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::comparable;
using testing::in_every_order;
using testing::kMatrixSizes;
using testing::magnitude;
using testing::NeedsDevice;
using testing::OnDevice;
using testing::ordinary;
using testing::synchronize;

constexpr AdamWSettings kUsual{
    .learning_rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F, .weight_decay = 0.1F};

struct Shape {
  std::size_t rows;
  std::size_t columns;
  std::size_t full;           ///< columns of the matrix that takes the results
  std::size_t skip;           ///< elements before the state
  std::size_t gradient_skip;  ///< and before the gradient
};

enum class Scatter : std::uint8_t { kNowhere, kInOrder, kByColumn };

template <class Grad, class Out>
struct Inputs {
  std::vector<float> p, m, v;
  std::vector<Grad> g;
  std::vector<float> step_size, inverse;
  std::vector<std::uint32_t> column;
  std::vector<Out> weights;
};

template <class Grad, class Out, class Fill>
Inputs<Grad, Out> inputs_of(const Shape& shape, const Fill& fill) {
  const std::size_t n = shape.rows * shape.columns;
  Inputs<Grad, Out> in{.p = fill.template operator()<float>(n, 1U),
                       .m = fill.template operator()<float>(n, 2U),
                       .v = fill.template operator()<float>(n, 3U),
                       .g = fill.template operator()<Grad>(n, 4U),
                       .step_size = {},
                       .inverse = {},
                       .column = {},
                       .weights = fill.template operator()<Out>(shape.rows * shape.full, 5U)};
  for (std::uint32_t j = 0; j < shape.columns; ++j) {
    const BiasCorrection correction = bias_correction(kUsual, 1 + j % 13);
    in.step_size.push_back(correction.step_size);
    in.inverse.push_back(correction.inverse_sqrt_correction2);
    // All different, not in order.
    in.column.push_back(static_cast<std::uint32_t>(shape.full - 1 - j));
  }
  return in;
}

template <class Grad, class Out>
void expect_reference_bits(const Inputs<Grad, Out>& in, const Shape& shape, Scatter scatter) {
  Inputs<Grad, Out> expected = in;
  adamw_columns(
      kUsual, {in.step_size.data(), in.inverse.data()}, 0.3F, shape.rows, shape.columns,
      AdamWState<float, float>{expected.p.data(), expected.m.data(), expected.v.data()},
      in.g.data(),
      ColumnScatter<Out>{scatter == Scatter::kNowhere ? nullptr : expected.weights.data(),
                         shape.full, scatter == Scatter::kByColumn ? in.column.data() : nullptr},
      Isa::kScalar);
  in_every_order([&] {
    const OnDevice<float> p(in.p, shape.skip);
    const OnDevice<float> m(in.m, shape.skip);
    const OnDevice<float> v(in.v, shape.skip);
    const OnDevice<Grad> g(in.g, shape.gradient_skip);
    const OnDevice<float> step_size(in.step_size);
    const OnDevice<float> inverse(in.inverse);
    const OnDevice<std::uint32_t> column(in.column);
    const OnDevice<Out> weights(in.weights);
    adamw_columns_cuda(
        kUsual, {step_size.get(), inverse.get()}, 0.3F, shape.rows, shape.columns,
        AdamWState<float, float>{p.get(), m.get(), v.get()}, static_cast<const Grad*>(g.get()),
        ColumnScatter<Out>{scatter == Scatter::kNowhere ? nullptr : weights.get(), shape.full,
                           scatter == Scatter::kByColumn ? column.get() : nullptr},
        nullptr);
    synchronize();
    EXPECT_EQ(comparable(p.read()), comparable(expected.p));
    EXPECT_EQ(comparable(m.read()), comparable(expected.m));
    EXPECT_EQ(comparable(v.read()), comparable(expected.v));
    EXPECT_EQ(comparable(weights.read()), comparable(expected.weights));
  });
}

class AdamWCuda : public NeedsDevice<::testing::TestWithParam<Shape>> {
 protected:
  template <class Grad, class Out>
  static void expect_reference_bits_of_all_inputs() {
    const auto usual = []<class Element>(std::size_t n, std::uint32_t seed) {
      auto values = ordinary<Element>(n, seed);
      if (seed == 3) {
        for (Element& value : values) value = magnitude(value);  // second moments
      }
      return values;
    };
    const auto extreme = []<class Element>(std::size_t n, std::uint32_t seed) {
      return any_bits<Element>(n, seed);
    };
    for (const Scatter scatter : {Scatter::kNowhere, Scatter::kInOrder, Scatter::kByColumn}) {
      expect_reference_bits(inputs_of<Grad, Out>(GetParam(), usual), GetParam(), scatter);
      expect_reference_bits(inputs_of<Grad, Out>(GetParam(), extreme), GetParam(), scatter);
    }
  }
};

TEST_P(AdamWCuda, Fp32GradientsAndWeightsMatchTheReference) {
  expect_reference_bits_of_all_inputs<float, float>();
}
TEST_P(AdamWCuda, Fp32GradientsAndBf16WeightsMatchTheReference) {
  expect_reference_bits_of_all_inputs<float, Bf16>();
}
TEST_P(AdamWCuda, Bf16GradientsAndFp32WeightsMatchTheReference) {
  expect_reference_bits_of_all_inputs<Bf16, float>();
}
TEST_P(AdamWCuda, Bf16GradientsAndWeightsMatchTheReference) {
  expect_reference_bits_of_all_inputs<Bf16, Bf16>();
}

INSTANTIATE_TEST_SUITE_P(Shapes, AdamWCuda,
                         ::testing::Values(Shape{0, 3, 5, 0, 0}, Shape{3, 0, 5, 0, 0},
                                           Shape{1, 1, 1, 0, 0}, Shape{1, 1, 3, 3, 3},
                                           Shape{2, 15, 31, 0, 0}, Shape{16, 16, 40, 0, 0},
                                           Shape{5, 17, 19, 1, 1}, Shape{7, 31, 31, 2, 6},
                                           Shape{9, 33, 47, 0, 1}, Shape{3, 1000, 1001, 3, 3},
                                           Shape{1000, 3, 17, 0, 0}));

/// Every number of rows with every number of columns. A million elements would be the same again,
/// for minutes.
std::vector<Shape> all_sizes() {
  std::vector<Shape> shapes;
  for (const std::size_t rows : kMatrixSizes) {
    for (const std::size_t columns : kMatrixSizes) {
      if (rows * columns >= 1'000'000) continue;
      shapes.push_back({rows, columns, columns + 13, columns % 4, columns % 4});
    }
  }
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(AllSizes, AdamWCuda, ::testing::ValuesIn(all_sizes()));

}  // namespace
}  // namespace zenflow::kernels
