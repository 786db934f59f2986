// Rotary positions, activations, biases and embeddings.
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/activation/activation_cuda.h"
#include "kernels/bias/bias_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/rotary/rotary_cuda.h"
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

class ModelElementwiseCuda : public NeedsDevice<::testing::Test> {};

template <class Element>
void check_rotary(const RotaryShape& shape, std::size_t skip) {
  const std::vector<Element> x = ordinary<Element>(shape.rows * shape.stride, 1);
  const std::vector<float> cosine = ordinary<float>(shape.length * shape.turned / 2, 2);
  const std::vector<float> sine = ordinary<float>(cosine.size(), 3);
  for (const auto direction : {RotaryDirection::kForward, RotaryDirection::kBackward}) {
    std::vector<Element> expected = x;
    rotary_scalar(shape, {cosine.data(), sine.data()}, direction, expected.data());
    in_every_order([&] {
      const OnDevice<Element> device(x, skip);
      const OnDevice<float> c(cosine), s(sine);
      rotary_cuda(shape, {c.get(), s.get()}, direction, device.get(), nullptr);
      synchronize();
      EXPECT_EQ(comparable(device.read()), comparable(expected));
    });
  }
}

TEST_F(ModelElementwiseCuda, RotaryMatchesTheReferenceBitForBit) {
  for (const RotaryShape& shape :
       {RotaryShape{0, 4, 2, 8, 16}, RotaryShape{1, 1, 1, 2, 2}, RotaryShape{6, 3, 3, 4, 17},
        RotaryShape{10, 5, 2, 64, 192}, RotaryShape{7, 7, 3, 128, 640}, RotaryShape{5, 5, 2, 6, 24},
        RotaryShape{6, 3, 2, 10, 40, 4}, RotaryShape{6, 3, 2, 64, 192, 32}}) {
    check_rotary<float>(shape, 0);
    check_rotary<Bf16>(shape, 0);
    check_rotary<Bf16>(shape, 3);
  }
}

TEST(Rotary, BackwardUndoesForward) {
  const RotaryShape shape{3, 3, 1, 4, 4};
  std::vector<float> cosine, sine;
  for (const float angle : {0.0F, 0.1F, 1.0F, 0.2F, 2.0F, 0.3F}) {
    cosine.push_back(std::cos(angle));
    sine.push_back(std::sin(angle));
  }
  const std::vector<float> x = ordinary<float>(12, 1);
  std::vector<float> turned = x;
  rotary_scalar(shape, {cosine.data(), sine.data()}, RotaryDirection::kForward, turned.data());
  EXPECT_NE(turned, x);
  rotary_scalar(shape, {cosine.data(), sine.data()}, RotaryDirection::kBackward, turned.data());
  expect_close(turned, x, {1e-6, 1e-6}, "x");
}

constexpr ActivationFunction kSmooth[] = {ActivationFunction::kSilu, ActivationFunction::kGelu,
                                          ActivationFunction::kGeluTanh};
constexpr ActivationFunction kFunctions[] = {ActivationFunction::kSilu, ActivationFunction::kGelu,
                                             ActivationFunction::kGeluTanh,
                                             ActivationFunction::kRelu};

/// -100 to 100, where exponentials under- and overflow, and ordinary numbers.
template <class Element>
std::vector<Element> wide_inputs(std::size_t n) {
  std::vector<Element> x = ordinary<Element>(n, 1);
  for (std::size_t i = 0; i < n; i += 5) {
    x[i] = testing::from_pattern<Element>(
        std::bit_cast<std::uint32_t>(static_cast<float>(i % 201) - 100.0F));
  }
  return x;
}

template <class Element>
void check_activation(ActivationFunction f, std::size_t n, std::size_t skip) {
  const std::vector<Element> x = wide_inputs<Element>(n);
  const std::vector<Element> up = ordinary<Element>(n, 2);
  const std::vector<Element> dy = ordinary<Element>(n, 3);
  std::vector<Element> y(n), dx(n), gated(n), d_gate(n), d_up(n);
  activation_scalar(f, n, x.data(), y.data());
  activation_gradient_scalar<Element>(f, n, {x.data(), dy.data(), dx.data()});
  gated_scalar(f, n, x.data(), up.data(), gated.data());
  gated_gradient_scalar<Element>(f, n,
                                 {x.data(), up.data(), dy.data(), d_gate.data(), d_up.data()});
  in_every_order([&] {
    const OnDevice<Element> in(x, skip), factor(up, skip), by_y(dy, skip), out(n, skip),
        plain(dy, skip), product(n, skip), by_gate(n, skip);
    activation_cuda(f, n, in.get(), out.get(), nullptr);
    activation_gradient_cuda<Element>(f, n, {in.get(), by_y.get(), plain.get()}, nullptr);
    gated_cuda(f, n, in.get(), factor.get(), product.get(), nullptr);
    gated_gradient_cuda<Element>(
        f, n, {in.get(), factor.get(), by_y.get(), by_gate.get(), by_y.get()}, nullptr);
    synchronize();
    const auto bounds = stored_bounds<Element>();
    expect_close(out.read(), y, bounds, "f(x)");
    expect_close(plain.read(), dx, bounds, "dx");
    expect_close(product.read(), gated, bounds, "gated");
    expect_close(by_gate.read(), d_gate, bounds, "d_gate");
    expect_close(by_y.read(), d_up, bounds, "d_up");
  });
}

TEST_F(ModelElementwiseCuda, ActivationsMatchTheReference) {
  for (const ActivationFunction f : kFunctions) {
    for (const std::size_t n : testing::kSizes) {
      check_activation<float>(f, n, n % 4);
      check_activation<Bf16>(f, n, n % 3);
    }
  }
}

TEST(Activation, SlopesAreThoseOfTheFunctions) {
  // Central differences of the function itself; kStep^2 / 6 times its third derivative, and the
  // rounding of fp32 over kStep, are what they err by.
  constexpr float kStep = 1.0F / 64.0F;
  for (const ActivationFunction f : kSmooth) {
    for (float x = -4.0F; x <= 4.0F; x += 0.25F) {
      const float points[] = {x - kStep, x + kStep};
      float values[2];
      activation_scalar(f, 2, points, values);
      const float one = 1.0F;
      float slope = 0.0F;
      activation_gradient_scalar<float>(f, 1, {&x, &one, &slope});
      EXPECT_NEAR(slope, (values[1] - values[0]) / (2 * kStep), 2e-4) << x;
    }
  }
}

template <class Element>
void check_bias(std::size_t rows, std::size_t columns, std::size_t gap, bool adds) {
  const std::size_t stride = columns + gap;
  const std::vector<Element> y = ordinary<Element>(rows * stride, 1);
  const std::vector<Element> bias = ordinary<Element>(columns, 2);
  std::vector<Element> sum = y;
  add_bias_scalar(rows, columns, stride, bias.data(), sum.data());
  std::vector<Element> gradient = bias;
  bias_gradient_scalar<Element>({y.data(), rows, columns, stride}, adds, gradient.data());
  in_every_order([&] {
    const OnDevice<Element> device(y), b(bias), d(bias);
    const OnDevice<std::byte> workspace(bias_gradient_workspace(rows, columns));
    bias_gradient_cuda<Element>({device.get(), rows, columns, stride}, adds, d.get(),
                                workspace.get(), nullptr);
    add_bias_cuda(rows, columns, stride, b.get(), device.get(), nullptr);
    synchronize();
    EXPECT_EQ(comparable(device.read()), comparable(sum));
    expect_close(d.read(), gradient,
                 {4 * stored_bounds<Element>().norm, 4 * stored_bounds<Element>().element},
                 "d_bias");
  });
}

TEST_F(ModelElementwiseCuda, BiasesMatchTheReference) {
  for (const std::size_t rows : {0U, 1U, 63U, 64U, 65U, 700U}) {
    for (const std::size_t columns : {0U, 1U, 8U, 31U, 40U}) {
      check_bias<float>(rows, columns, 0, false);
      check_bias<Bf16>(rows, columns, 8, true);
      check_bias<Bf16>(rows, columns, 3, false);
    }
  }
}

template <class Element>
void check_embedding(std::size_t sequences, std::size_t length, std::size_t columns,
                     std::size_t words, bool has_positions, bool adds, float scale = 1.0F) {
  const std::size_t tokens = sequences * length;
  std::mt19937 random(5);
  std::vector<std::int32_t> ids(tokens);
  // Half of them one word, as frequent words are.
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 2 * (random() % words));
  const std::vector<Element> table = ordinary<Element>(words * columns, 1);
  const std::vector<Element> places = ordinary<Element>((length + 2) * columns, 2);
  const std::vector<Element> dy = ordinary<Element>(tokens * columns, 3);
  const TokenRows rows{ids.data(), tokens, length, scale};
  std::vector<Element> y(tokens * columns), d_words(table), d_places(places);
  embedding_scalar(rows, columns, table.data(), has_positions ? places.data() : nullptr, y.data());
  const WordOrder order = order_by_word(ids);
  word_gradient_scalar<Element>(
      {order.word.data(), order.first.data(), order.token.data(), order.word.size(), scale},
      columns, dy.data(), words, adds, d_words.data());
  position_gradient_scalar(tokens, length, columns, dy.data(), 1, length + 2, adds,
                           d_places.data());
  in_every_order([&] {
    const OnDevice<std::int32_t> device_ids(ids), word(order.word);
    const OnDevice<std::uint32_t> first(order.first), token(order.token);
    const OnDevice<Element> t(table), p(places), d(dy), out(tokens * columns), dw(table),
        dp(places);
    embedding_cuda({device_ids.get(), tokens, length, scale}, columns, t.get(),
                   has_positions ? p.get() : nullptr, out.get(), nullptr);
    word_gradient_cuda<Element>({word.get(), first.get(), token.get(), order.word.size(), scale},
                                columns, d.get(), words, adds, dw.get(), nullptr);
    position_gradient_cuda(tokens, length, columns, d.get(), 1, length + 2, adds, dp.get(),
                           nullptr);
    synchronize();
    EXPECT_EQ(comparable(out.read()), comparable(y));
    EXPECT_EQ(comparable(dw.read()), comparable(d_words));
    EXPECT_EQ(comparable(dp.read()), comparable(d_places));
  });
}

TEST_F(ModelElementwiseCuda, EmbeddingsMatchTheReferenceBitForBit) {
  check_embedding<float>(0, 4, 8, 5, true, false);
  check_embedding<float>(1, 1, 1, 1, false, false);
  check_embedding<float>(3, 7, 12, 24, true, true);
  check_embedding<Bf16>(3, 7, 12, 24, true, false);
  check_embedding<Bf16>(2, 33, 40, 100, false, true);
  check_embedding<Bf16>(5, 20, 264, 9, true, false);
  check_embedding<float>(3, 7, 12, 24, true, true, 3.4641F);
  check_embedding<Bf16>(3, 7, 16, 24, false, false, 7.5F);
}

}  // namespace
}  // namespace zenflow::kernels
