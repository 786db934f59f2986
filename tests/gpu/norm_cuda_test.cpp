#include "kernels/norm/norm_cuda.h"

#include <tuple>
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

/// rows, columns, elements before the first row
using Size = std::tuple<std::size_t, std::size_t, std::size_t>;

/// Elements of an array whose tokens are `stride` apart.
std::size_t extent(const NormShape& shape, std::size_t stride) {
  return shape.rows == 0 ? 0 : shape.at(shape.rows - 1, stride) + shape.columns;
}

template <class Element>
struct Host {
  explicit Host(const NormShape& shape)
      : x(ordinary<Element>(extent(shape, shape.x_stride), 1)),
        delta(ordinary<Element>(x.size(), 2)),
        weight(ordinary<Element>(shape.columns, 3)),
        bias(ordinary<Element>(shape.columns, 4)),
        dy(ordinary<Element>(extent(shape, shape.y_stride), 5)),
        before(ordinary<Element>(dy.size(), 6)),
        sum(x.size()),
        y(dy),
        mean(shape.rows),
        inverse(shape.rows) {}
  std::vector<Element> x, delta, weight, bias, dy, before, sum, y;
  std::vector<float> mean, inverse;
};

class NormCuda : public NeedsDevice<::testing::TestWithParam<Size>> {
 protected:
  [[nodiscard]] static NormShape plain(bool is_layer_norm) {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), is_layer_norm, 1e-5F};
  }
  /// Gemma's arithmetic.
  [[nodiscard]] static NormShape with_offset() {
    NormShape shape = plain(false);
    shape.rounds_normalized = false;
    shape.offset = 1.0F;
    return shape;
  }
  /// Three heads of a token, among others.
  [[nodiscard]] static NormShape of_heads(std::size_t gap) {
    NormShape shape = plain(false);
    shape.rows_per_token = 3;
    shape.x_stride = 3 * shape.columns + gap;
    shape.y_stride = 4 * shape.columns + 2 * gap;
    return shape;
  }
  struct Parts {
    bool delta = false;
    bool residual = false;
    bool in_place = false;  ///< dx takes the place of dy
  };
  template <class Element>
  void forward_and_backward(const NormShape& shape, Parts parts);
  template <class Element>
  void weight_gradients(const NormShape& shape, bool adds);
};

template <class Element>
void NormCuda::forward_and_backward(const NormShape& shape, Parts parts) {
  const std::size_t skip = std::get<2>(GetParam());
  const bool adds = parts.delta;
  Host<Element> h(shape);
  const Element* const bias = shape.is_layer_norm ? h.bias.data() : nullptr;
  norm_forward_scalar<Element>(
      shape,
      {h.x.data(), parts.delta ? h.delta.data() : nullptr, h.sum.data(), h.weight.data(), bias,
       h.y.data(), h.mean.data(), h.inverse.data(), parts.residual ? h.before.data() : nullptr});
  const std::vector<Element>& in = parts.delta ? h.sum : h.x;
  std::vector<Element> dx = parts.in_place ? h.dy : h.before;
  norm_backward_scalar<Element>(shape, {in.data(), h.weight.data(), h.mean.data(), h.inverse.data(),
                                        parts.in_place ? dx.data() : h.dy.data(), dx.data(), adds});
  in_every_order([&] {
    const OnDevice<Element> x(h.x, skip), delta(h.delta, skip), weight(h.weight), b(h.bias),
        sum(h.x.size(), skip), y(h.dy, skip), dy(h.dy, skip), d(h.before, skip),
        residual(h.before, skip);
    const OnDevice<float> mean(shape.rows), inverse(shape.rows);
    norm_forward_cuda<Element>(
        shape,
        {x.get(), parts.delta ? delta.get() : nullptr, parts.delta ? sum.get() : nullptr,
         weight.get(), shape.is_layer_norm ? b.get() : nullptr, y.get(), mean.get(), inverse.get(),
         parts.residual ? residual.get() : nullptr},
        nullptr);
    const Element* const input = parts.delta ? sum.get() : x.get();
    const OnDevice<Element>& out = parts.in_place ? dy : d;
    norm_backward_cuda<Element>(
        shape, {input, weight.get(), mean.get(), inverse.get(), dy.get(), out.get(), adds},
        nullptr);
    synchronize();
    if (parts.delta) {
      EXPECT_EQ(comparable(sum.read()), comparable(h.sum));
    }
    if (shape.columns == 0) return;
    expect_close(mean.read(), h.mean, {1e-5, 1e-5}, "mean");
    expect_close(inverse.read(), h.inverse, {1e-5, 1e-5}, "inverse");
    // A row of one column has a variance of 0: the rounding of its mean decides.
    if (shape.is_layer_norm && shape.columns == 1) return;
    expect_close(y.read(), h.y, stored_bounds<Element>(), "y");
    // dx cancels g against its means: what is left errs by that of the parts.
    expect_close(out.read(), dx,
                 {4 * stored_bounds<Element>().norm, 4 * stored_bounds<Element>().element}, "dx");
  });
}

template <class Element>
void NormCuda::weight_gradients(const NormShape& shape, bool adds) {
  const std::size_t skip = std::get<2>(GetParam());
  const bool is_layer_norm = shape.is_layer_norm;
  Host<Element> h(shape);
  h.mean = ordinary<float>(shape.rows, 7);
  h.inverse = ordinary<float>(shape.rows, 8);
  std::vector<Element> d_weight(h.weight), d_bias(h.bias);
  norm_weight_gradients_scalar<Element>(
      shape, {h.x.data(), h.mean.data(), h.inverse.data(), h.dy.data(), d_weight.data(),
              is_layer_norm ? d_bias.data() : nullptr, adds});
  in_every_order([&] {
    const OnDevice<Element> x(h.x, skip), dy(h.dy, skip), dw(h.weight), db(h.bias);
    const OnDevice<float> mean(h.mean), inverse(h.inverse);
    const OnDevice<std::byte> workspace(norm_weight_gradients_workspace(shape));
    norm_weight_gradients_cuda<Element>(shape,
                                        {x.get(), mean.get(), inverse.get(), dy.get(), dw.get(),
                                         is_layer_norm ? db.get() : nullptr, adds},
                                        workspace.get(), nullptr);
    synchronize();
    const testing::Bounds bounds{4 * stored_bounds<Element>().norm,
                                 4 * stored_bounds<Element>().element};
    expect_close(dw.read(), d_weight, bounds, "d_weight");
    expect_close(db.read(), d_bias, bounds, "d_bias");
  });
}

TEST_P(NormCuda, RmsNormMatchesTheReference) {
  forward_and_backward<float>(plain(false), {});
  forward_and_backward<Bf16>(plain(false), {.delta = true});
  forward_and_backward<float>(with_offset(), {.residual = true});
  forward_and_backward<Bf16>(with_offset(), {.residual = true});
}
TEST_P(NormCuda, LayerNormMatchesTheReference) {
  forward_and_backward<float>(plain(true), {.delta = true});
  forward_and_backward<Bf16>(plain(true), {});
}
TEST_P(NormCuda, NormsOfHeadsMatchTheReference) {
  forward_and_backward<float>(of_heads(4), {.in_place = true});
  forward_and_backward<Bf16>(of_heads(8), {.in_place = true});
  forward_and_backward<Bf16>(of_heads(3), {});
}
TEST_P(NormCuda, WeightGradientsMatchTheReference) {
  weight_gradients<float>(plain(true), false);
  weight_gradients<float>(plain(false), true);
  weight_gradients<Bf16>(plain(true), true);
  weight_gradients<Bf16>(plain(false), false);
  weight_gradients<Bf16>(with_offset(), false);
  weight_gradients<Bf16>(of_heads(8), true);
  weight_gradients<Bf16>(of_heads(3), true);
}

INSTANTIATE_TEST_SUITE_P(Sizes, NormCuda,
                         ::testing::Values(Size{0, 16, 0}, Size{1, 1, 0}, Size{3, 0, 0},
                                           Size{5, 7, 0}, Size{1, 8, 0}, Size{4, 16, 0},
                                           Size{4, 16, 3}, Size{5, 31, 1}, Size{63, 40, 0},
                                           Size{65, 264, 0}, Size{130, 33, 0}, Size{3, 4104, 0},
                                           Size{600, 8, 0}));

}  // namespace
}  // namespace zenflow::kernels
