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

template <class Element>
struct Host {
  explicit Host(const NormShape& shape)
      : x(ordinary<Element>(shape.rows * shape.columns, 1)),
        delta(ordinary<Element>(x.size(), 2)),
        weight(ordinary<Element>(shape.columns, 3)),
        bias(ordinary<Element>(shape.columns, 4)),
        dy(ordinary<Element>(x.size(), 5)),
        before(ordinary<Element>(x.size(), 6)),
        sum(x.size()),
        y(x.size()),
        mean(shape.rows),
        inverse(shape.rows) {}
  std::vector<Element> x, delta, weight, bias, dy, before, sum, y;
  std::vector<float> mean, inverse;
};

class NormCuda : public NeedsDevice<::testing::TestWithParam<Size>> {
 protected:
  template <class Element>
  void forward_and_backward(bool is_layer_norm, bool has_delta);
  template <class Element>
  void weight_gradients(bool is_layer_norm, bool adds);
};

template <class Element>
void NormCuda::forward_and_backward(bool is_layer_norm, bool has_delta) {
  const auto [rows, columns, skip] = GetParam();
  const NormShape shape{rows, columns, is_layer_norm, 1e-5F};
  Host<Element> h(shape);
  const Element* const bias = is_layer_norm ? h.bias.data() : nullptr;
  norm_forward_scalar<Element>(
      shape, {h.x.data(), has_delta ? h.delta.data() : nullptr, h.sum.data(), h.weight.data(), bias,
              h.y.data(), h.mean.data(), h.inverse.data()});
  const std::vector<Element>& in = has_delta ? h.sum : h.x;
  std::vector<Element> dx = h.before;
  norm_backward_scalar<Element>(shape, {in.data(), h.weight.data(), h.mean.data(), h.inverse.data(),
                                        h.dy.data(), dx.data(), has_delta});
  in_every_order([&, rows = rows, columns = columns, skip = skip] {
    const OnDevice<Element> x(h.x, skip), delta(h.delta, skip), weight(h.weight), b(h.bias),
        sum(h.x.size(), skip), y(h.x.size(), skip), dy(h.dy, skip), d(h.before, skip);
    const OnDevice<float> mean(rows), inverse(rows);
    norm_forward_cuda<Element>(
        shape,
        {x.get(), has_delta ? delta.get() : nullptr, has_delta ? sum.get() : nullptr, weight.get(),
         is_layer_norm ? b.get() : nullptr, y.get(), mean.get(), inverse.get()},
        nullptr);
    const Element* const input = has_delta ? sum.get() : x.get();
    norm_backward_cuda<Element>(
        shape, {input, weight.get(), mean.get(), inverse.get(), dy.get(), d.get(), has_delta},
        nullptr);
    synchronize();
    if (has_delta) {
      EXPECT_EQ(comparable(sum.read()), comparable(h.sum));
    }
    if (columns == 0) return;
    expect_close(mean.read(), h.mean, {1e-5, 1e-5}, "mean");
    expect_close(inverse.read(), h.inverse, {1e-5, 1e-5}, "inverse");
    // A row of one column has a variance of 0: the rounding of its mean decides.
    if (is_layer_norm && columns == 1) return;
    expect_close(y.read(), h.y, stored_bounds<Element>(), "y");
    // dx cancels g against its means: what is left errs by that of the parts.
    expect_close(d.read(), dx,
                 {4 * stored_bounds<Element>().norm, 4 * stored_bounds<Element>().element}, "dx");
  });
}

template <class Element>
void NormCuda::weight_gradients(bool is_layer_norm, bool adds) {
  const auto [rows, columns, skip] = GetParam();
  const NormShape shape{rows, columns, is_layer_norm, 1e-5F};
  Host<Element> h(shape);
  h.mean = ordinary<float>(rows, 7);
  h.inverse = ordinary<float>(rows, 8);
  std::vector<Element> d_weight(h.weight), d_bias(h.bias);
  norm_weight_gradients_scalar<Element>(
      shape, {h.x.data(), h.mean.data(), h.inverse.data(), h.dy.data(), d_weight.data(),
              is_layer_norm ? d_bias.data() : nullptr, adds});
  in_every_order([&, skip = skip] {
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
  forward_and_backward<float>(false, false);
  forward_and_backward<Bf16>(false, true);
}
TEST_P(NormCuda, LayerNormMatchesTheReference) {
  forward_and_backward<float>(true, true);
  forward_and_backward<Bf16>(true, false);
}
TEST_P(NormCuda, WeightGradientsMatchTheReference) {
  weight_gradients<float>(true, false);
  weight_gradients<float>(false, true);
  weight_gradients<Bf16>(true, true);
  weight_gradients<Bf16>(false, false);
}

INSTANTIATE_TEST_SUITE_P(Sizes, NormCuda,
                         ::testing::Values(Size{0, 16, 0}, Size{1, 1, 0}, Size{3, 0, 0},
                                           Size{5, 7, 0}, Size{1, 8, 0}, Size{4, 16, 0},
                                           Size{4, 16, 3}, Size{5, 31, 1}, Size{63, 40, 0},
                                           Size{65, 264, 0}, Size{130, 33, 0}, Size{3, 4104, 0},
                                           Size{600, 8, 0}));

}  // namespace
}  // namespace zenflow::kernels
