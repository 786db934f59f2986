// Every operation of the model, forward against a plain double reference and backward against that
// reference's central differences. The bound covers fp32's rounding (2^-24 = 6e-8, times a few
// operations and sums of up to 150 terms) and the difference's own error of about 1e-8.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/model/gemm.h"
#include "runtime/model/host_operations.h"
#include "tests/support/gradient_check.h"

namespace zenflow::runtime {
namespace {

using testing::dot;
using testing::in_double;
using testing::numeric_gradient;
using testing::relative_error;
using testing::some_values;

using Activation = kernels::ActivationFunction;

constexpr double kBound = 3e-6;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

class ModelOperations : public ::testing::Test {
 protected:
  ThreadPool pool_{2};
  const std::unique_ptr<Operations<float>> operations_ = host_operations<float>(pool_);
  Operations<float>& run_ = *operations_;
};

/// A layer whose weight and bias are the first tensors of its table.
LinearPlaces layer(LinearShape shape, bool has_bias = true) {
  LinearPlaces places{shape, 0, {}};
  if (has_bias) places.bias = 1;
  return places;
}

// ---- products ----

TEST_F(ModelOperations, ProductOfEveryTranspositionIsRight) {
  constexpr GemmShape kShape = {5, 3, 4};
  const std::vector<float> a = some_values(20, 1);
  const std::vector<float> b = some_values(12, 2);
  for (const Transposed ta : {Transposed::kNo, Transposed::kYes}) {
    for (const Transposed tb : {Transposed::kNo, Transposed::kYes}) {
      const bool a_is_flipped = ta == Transposed::kYes;
      const bool b_is_flipped = tb == Transposed::kYes;
      std::vector<float> c(15, 1.0F);
      gemm(pool_, kShape, {a.data(), a_is_flipped ? 5 : 4, ta},
           {b.data(), b_is_flipped ? 4 : 3, tb}, {c.data(), 3}, true);
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t j = 0; j < 3; ++j) {
          double sum = 1.0;
          for (std::int64_t k = 0; k < 4; ++k) {
            sum += static_cast<double>(a[at(a_is_flipped ? k * 5 + i : i * 4 + k)]) *
                   static_cast<double>(b[at(b_is_flipped ? j * 4 + k : k * 3 + j)]);
          }
          EXPECT_NEAR(static_cast<double>(c[at(i * 3 + j)]), sum, 1e-6);
        }
      }
    }
  }
}

/// More than one tile each way, and ends that are not a multiple of a tile.
TEST_F(ModelOperations, TiledProductHasTheSameBitsOnAnyNumberOfThreads) {
  constexpr GemmShape kShape = {300, 1100, 70};
  const std::vector<float> a = some_values(300 * 70, 1);
  const std::vector<float> b = some_values(1100 * 70, 2);
  std::vector<std::vector<float>> results;
  for (const std::size_t threads : {1U, 2U, 5U}) {
    ThreadPool pool(threads);
    std::vector<float>& c = results.emplace_back(300 * 1100, -1.0F);
    gemm(pool, kShape, {a.data(), 300, Transposed::kYes}, {b.data(), 70, Transposed::kYes},
         {c.data(), 1100}, false);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  for (const std::int64_t row : {0, 127, 128, 299}) {
    for (const std::int64_t column : {0, 1023, 1024, 1099}) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < 70; ++k) {
        sum +=
            static_cast<double>(a[at(k * 300 + row)]) * static_cast<double>(b[at(column * 70 + k)]);
      }
      EXPECT_NEAR(static_cast<double>(results[0][at(row * 1100 + column)]), sum, 1e-5);
    }
  }
}

/// y = x * W + b, with W stored either way.
std::vector<double> linear_reference(LinearShape shape, std::int64_t rows,
                                     const std::vector<double>& x, const std::vector<double>& w,
                                     const std::vector<double>& bias) {
  std::vector<double> y;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < shape.out; ++o) {
      double sum = bias[at(o)];
      for (std::int64_t i = 0; i < shape.in; ++i) {
        sum +=
            x[at(r * shape.in + i)] * w[at(shape.is_conv1d ? i * shape.out + o : o * shape.in + i)];
      }
      y.push_back(sum);
    }
  }
  return y;
}

TEST_F(ModelOperations, LinearAndConv1d) {
  for (const bool is_conv1d : {false, true}) {
    const LinearShape shape = {6, 4, is_conv1d};
    constexpr std::int64_t kRows = 5;
    const std::vector<float> x = some_values(30, 1);
    const std::vector<float> w = some_values(24, 2);
    const std::vector<float> bias = some_values(4, 3);
    const std::vector<float> dy = some_values(20, 4);
    const void* const weights[] = {w.data(), bias.data()};

    std::vector<float> y(20);
    run_.linear(layer(shape), weights, kRows, x.data(), {y.data(), 4});
    EXPECT_LT(relative_error(
                  y, linear_reference(shape, kRows, in_double(x), in_double(w), in_double(bias))),
              kBound);

    std::vector<float> dx(30, 9.0F);
    std::vector<float> dw(24, 9.0F);
    std::vector<float> db(4, 9.0F);
    void* const gradients[] = {dw.data(), db.data()};
    run_.linear_input_gradient(layer(shape), weights, kRows, {dy.data(), 4}, dx.data(), false);
    run_.linear_weight_gradients(layer(shape), gradients, kRows, x.data(), {dy.data(), 4}, false,
                                 {});
    const auto loss_of_x = [&](const std::vector<double>& v) {
      return dot(linear_reference(shape, kRows, v, in_double(w), in_double(bias)), dy);
    };
    const auto loss_of_w = [&](const std::vector<double>& v) {
      return dot(linear_reference(shape, kRows, in_double(x), v, in_double(bias)), dy);
    };
    const auto loss_of_bias = [&](const std::vector<double>& v) {
      return dot(linear_reference(shape, kRows, in_double(x), in_double(w), v), dy);
    };
    EXPECT_LT(relative_error(dx, numeric_gradient(loss_of_x, x)), kBound);
    EXPECT_LT(relative_error(dw, numeric_gradient(loss_of_w, w)), kBound);
    EXPECT_LT(relative_error(db, numeric_gradient(loss_of_bias, bias)), kBound);

    std::vector<float> twice = dx;
    run_.linear_input_gradient(layer(shape), weights, kRows, {dy.data(), 4}, twice.data(), true);
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(twice[i], 2.0F * dx[i], 1e-5F);
  }
}

// ---- norms ----

std::vector<double> norm_reference(const kernels::NormShape& shape, const std::vector<double>& x,
                                   const std::vector<double>& weight,
                                   const std::vector<double>& bias) {
  std::vector<double> y;
  for (std::size_t r = 0; r < shape.rows; ++r) {
    const double* row = x.data() + r * shape.columns;
    double mean = 0.0;
    for (std::size_t c = 0; c < shape.columns; ++c) mean += row[c];
    mean = shape.is_layer_norm ? mean / static_cast<double>(shape.columns) : 0.0;
    double variance = 0.0;
    for (std::size_t c = 0; c < shape.columns; ++c) variance += std::pow(row[c] - mean, 2);
    variance /= static_cast<double>(shape.columns);
    for (std::size_t c = 0; c < shape.columns; ++c) {
      y.push_back((row[c] - mean) / std::sqrt(variance + static_cast<double>(shape.epsilon)) *
                      weight[c] +
                  bias[c]);
    }
  }
  return y;
}

TEST_F(ModelOperations, RmsNormAndLayerNorm) {
  for (const bool is_layer_norm : {false, true}) {
    const kernels::NormShape shape = {4, 7, is_layer_norm, 1e-2F};  // an epsilon that shows
    const std::vector<float> x = some_values(28, 1);
    const std::vector<float> weight = some_values(7, 2);
    const std::vector<float> bias = is_layer_norm ? some_values(7, 3) : std::vector<float>(7);
    const std::vector<float> dy = some_values(28, 4);
    std::vector<float> mean(4);
    std::vector<float> inverse(4);

    std::vector<float> y(28);
    run_.norm(shape,
              {x.data(), nullptr, nullptr, weight.data(), is_layer_norm ? bias.data() : nullptr,
               y.data(), mean.data(), inverse.data()});
    EXPECT_LT(
        relative_error(y, norm_reference(shape, in_double(x), in_double(weight), in_double(bias))),
        kBound);

    std::vector<float> dx(28, 0.5F);  // it is added to
    std::vector<float> d_weight(7, 9.0F);
    std::vector<float> d_bias(7, 9.0F);
    run_.norm_gradient(
        shape, {x.data(), weight.data(), mean.data(), inverse.data(), dy.data(), dx.data(), true});
    run_.norm_weight_gradients(shape,
                               {x.data(), mean.data(), inverse.data(), dy.data(), d_weight.data(),
                                is_layer_norm ? d_bias.data() : nullptr, false});
    for (float& value : dx) value -= 0.5F;
    const auto loss_of_x = [&](const std::vector<double>& v) {
      return dot(norm_reference(shape, v, in_double(weight), in_double(bias)), dy);
    };
    const auto loss_of_weight = [&](const std::vector<double>& v) {
      return dot(norm_reference(shape, in_double(x), v, in_double(bias)), dy);
    };
    const auto loss_of_bias = [&](const std::vector<double>& v) {
      return dot(norm_reference(shape, in_double(x), in_double(weight), v), dy);
    };
    EXPECT_LT(relative_error(dx, numeric_gradient(loss_of_x, x)), kBound);
    EXPECT_LT(relative_error(d_weight, numeric_gradient(loss_of_weight, weight)), kBound);
    if (is_layer_norm) {
      EXPECT_LT(relative_error(d_bias, numeric_gradient(loss_of_bias, bias)), kBound);
    }
  }
}

// ---- activations ----

double activation_reference(Activation f, double x) {
  constexpr double kPi = 3.14159265358979323846;
  switch (f) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / kPi) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return 0.0;
}

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kRelu};

std::vector<float> wide_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> values = some_values(count, seed);
  for (float& value : values) value *= 6.0F;  // into the tails
  return values;
}

TEST_F(ModelOperations, Activations) {
  const std::vector<float> x = wide_values(64, 1);
  const std::vector<float> dy = some_values(64, 2);
  for (const Activation f : kActivations) {
    const auto reference = [&](const std::vector<double>& v) {
      std::vector<double> y;
      for (const double value : v) y.push_back(activation_reference(f, value));
      return y;
    };
    std::vector<float> y(64);
    run_.activation(f, 64, x.data(), y.data());
    EXPECT_LT(relative_error(y, reference(in_double(x))), kBound);
    std::vector<float> dx = dy;  // in place
    run_.activation_gradient(f, 64, {x.data(), dx.data(), dx.data()});
    const auto loss = [&](const std::vector<double>& v) { return dot(reference(v), dy); };
    EXPECT_LT(relative_error(dx, numeric_gradient(loss, x)), kBound);
  }
}

TEST_F(ModelOperations, ActivationsOfLargeArgumentsAreFinite) {
  const std::vector<float> x = {-1e4F, -100.0F, 100.0F, 1e4F};
  const std::vector<float> ones(4, 1.0F);
  for (const Activation f : kActivations) {
    std::vector<float> y(4);
    std::vector<float> dx(4);
    run_.activation(f, 4, x.data(), y.data());
    run_.activation_gradient(f, 4, {x.data(), ones.data(), dx.data()});
    EXPECT_EQ(y, (std::vector<float>{0.0F, 0.0F, 100.0F, 1e4F}));
    EXPECT_EQ(dx, (std::vector<float>{0.0F, 0.0F, 1.0F, 1.0F}));
  }
}

TEST_F(ModelOperations, GatedActivation) {
  const std::vector<float> gate = wide_values(40, 1);
  const std::vector<float> up = some_values(40, 2);
  const std::vector<float> dy = some_values(40, 3);
  const auto reference = [](const std::vector<double>& g, const std::vector<double>& u) {
    std::vector<double> y;
    for (std::size_t i = 0; i < g.size(); ++i) {
      y.push_back(activation_reference(Activation::kSilu, g[i]) * u[i]);
    }
    return y;
  };
  std::vector<float> y(40);
  run_.gated(Activation::kSilu, 40, gate.data(), up.data(), y.data());
  EXPECT_LT(relative_error(y, reference(in_double(gate), in_double(up))), kBound);
  std::vector<float> d_gate(40);
  std::vector<float> d_up = dy;  // in place
  run_.gated_gradient(Activation::kSilu, 40,
                      {gate.data(), up.data(), d_up.data(), d_gate.data(), d_up.data()});
  const auto loss_of_gate = [&](const std::vector<double>& v) {
    return dot(reference(v, in_double(up)), dy);
  };
  const auto loss_of_up = [&](const std::vector<double>& v) {
    return dot(reference(in_double(gate), v), dy);
  };
  EXPECT_LT(relative_error(d_gate, numeric_gradient(loss_of_gate, gate)), kBound);
  EXPECT_LT(relative_error(d_up, numeric_gradient(loss_of_up, up)), kBound);
}

// ---- embeddings ----

/// Sequences of `length` of these words, in arrays that live as long.
struct Words {
  Words(const std::vector<std::int32_t>& ids, std::int64_t length)
      : memory(BatchArrays::bytes(static_cast<std::int64_t>(ids.size()) / length, length)) {
    Arena arena(memory.data());
    const Batch batch = {static_cast<std::int64_t>(ids.size()) / length, length, ids, {}, {}, {}};
    view = store_batch(batch, BatchArrays(batch.sequences, length, arena));
  }
  std::vector<std::byte> memory;
  std::optional<BatchView> view;
};

TEST_F(ModelOperations, EmbeddingsAreLookedUpAndTheirGradientsSummedByWord) {
  const std::vector<std::int32_t> ids = {3, 0, 3, 1, 3, 0};  // two sequences of three; 2 is absent
  const Words tokens(ids, 3);
  const std::vector<float> words = some_values(4 * 5, 1);
  const std::vector<float> places = some_values(4 * 5, 2);
  std::vector<float> y(6 * 5);
  constexpr float kScale = 2.0F;
  run_.embedding(*tokens.view, 5, kScale, words.data(), places.data(), y.data());
  for (std::int64_t t = 0; t < 6; ++t) {
    for (std::int64_t c = 0; c < 5; ++c) {
      EXPECT_EQ(y[at(t * 5 + c)],
                kScale * words[at(ids[at(t)] * 5 + c)] + places[at(t % 3 * 5 + c)]);
    }
  }
  const std::vector<float> dy = some_values(30, 3);
  std::vector<float> d_words(20, 1.0F);
  std::vector<float> d_places(20, 1.0F);
  run_.word_gradient(*tokens.view, 5, kScale, dy.data(), 4, true, d_words.data());
  run_.position_gradient(*tokens.view, 5, dy.data(), 0, 4, false, d_places.data());
  std::vector<double> expected_words(20, 1.0);
  std::vector<double> expected_places(20);
  for (std::int64_t t = 0; t < 6; ++t) {
    for (std::int64_t c = 0; c < 5; ++c) {
      expected_words[at(ids[at(t)] * 5 + c)] += static_cast<double>(kScale * dy[at(t * 5 + c)]);
      expected_places[at(t % 3 * 5 + c)] += static_cast<double>(dy[at(t * 5 + c)]);
    }
  }
  EXPECT_LT(relative_error(d_words, expected_words), kBound);
  EXPECT_LT(relative_error(d_places, expected_places), kBound);
  EXPECT_EQ(d_places[15], 0.0F);       // no sequence reaches the fourth place
  std::vector<float> later(25, 1.0F);  // the first token has the second of five places
  run_.position_gradient(*tokens.view, 5, dy.data(), 1, 5, false, later.data());
  for (std::size_t e = 0; e < 25; ++e) {
    EXPECT_EQ(later[e], e < 5 ? 0.0F : d_places[e - 5]) << e;
  }
  run_.word_gradient(*tokens.view, 5, kScale, dy.data(), 4, false, d_words.data());
  for (double& value : expected_words) value -= 1.0;
  EXPECT_LT(relative_error(d_words, expected_words), kBound);
  EXPECT_EQ(d_words[10], 0.0F);
}

// A word's sum of this batch is rounded before it is added to what is there, as if it were stored:
// added in one piece, 1 + 2^-24 + 2^-54 would be rounded up.
TEST_F(ModelOperations, WordGradientsAreAddedAsTheyWouldBeStored) {
  const Words tokens({0, 0}, 2);
  const std::vector<float> dy = {std::ldexp(1.0F, -24), std::ldexp(1.0F, -54)};
  std::vector<float> alone(1);
  std::vector<float> sum(1, 1.0F);
  run_.word_gradient(*tokens.view, 1, 1.0F, dy.data(), 1, false, alone.data());
  run_.word_gradient(*tokens.view, 1, 1.0F, dy.data(), 1, true, sum.data());
  EXPECT_EQ(sum[0], 1.0F + alone[0]);
  EXPECT_EQ(sum[0], 1.0F);
}

// ---- losses ----

TEST_F(ModelOperations, CrossEntropyWithIgnoredTargets) {
  const std::vector<float> logits = wide_values(4 * 6, 1);
  const std::vector<std::int32_t> targets = {5, kIgnoredTarget, 0, 2};
  const auto reference = [&](const std::vector<double>& v) {
    double loss = 0.0;
    for (std::size_t r = 0; r < 4; ++r) {
      if (targets[r] == kIgnoredTarget) continue;
      double sum = 0.0;
      for (std::size_t c = 0; c < 6; ++c) sum += std::exp(v[r * 6 + c]);
      loss += std::log(sum) - v[r * 6 + static_cast<std::size_t>(targets[r])];
    }
    return loss / 3.0;
  };
  std::vector<kernels::RowStatistics> rows(4);
  std::vector<float> gradient = logits;
  const LossRows<float> loss = {{gradient.data(), 6}, 4,        6, targets.data(), nullptr,
                                rows.data(),          1.0 / 3.0};
  run_.loss(loss, LossPass::kLoss);
  EXPECT_EQ(gradient, logits);
  EXPECT_NEAR((rows[0].loss + rows[2].loss + rows[3].loss) / 3.0, reference(in_double(logits)),
              1e-6);
  EXPECT_EQ(rows[1].loss, 0.0);
  EXPECT_FALSE(rows[1].correct);
  run_.loss(loss, LossPass::kGradientAgain);
  std::vector<float> at_once = logits;
  run_.loss({{at_once.data(), 6}, 4, 6, targets.data(), nullptr, rows.data(), 1.0 / 3.0},
            LossPass::kLossAndGradient);
  EXPECT_EQ(at_once, gradient);
  EXPECT_LT(relative_error(gradient, numeric_gradient(reference, logits)), kBound);
  for (std::size_t c = 6; c < 12; ++c) EXPECT_EQ(gradient[c], 0.0F);
}

/// Without the maximum subtracted, exp(1000) would be infinite and 0 / 0 the gradient.
TEST_F(ModelOperations, CrossEntropyOfLargeLogitsIsExact) {
  const std::vector<float> logits = {1000.0F, 0.0F, -1000.0F, 0.0F};
  const std::vector<std::int32_t> targets = {1, 1};
  std::vector<kernels::RowStatistics> rows(2);
  std::vector<float> gradient = logits;
  run_.loss({{gradient.data(), 2}, 2, 2, targets.data(), nullptr, rows.data(), 0.5},
            LossPass::kLossAndGradient);
  EXPECT_EQ(rows[0].loss, 1000.0);
  EXPECT_EQ(rows[1].loss, 0.0);
  EXPECT_FALSE(rows[0].correct);
  EXPECT_TRUE(rows[1].correct);
  EXPECT_EQ(gradient, (std::vector<float>{0.5F, -0.5F, 0.0F, 0.0F}));
}

TEST_F(ModelOperations, MeanSquaredError) {
  std::vector<float> outputs = {1.0F, 2.0F, -3.0F, 0.5F};
  const std::vector<float> values = {0.0F, 2.0F, -1.0F, 1.0F};
  std::vector<kernels::RowStatistics> rows(4);
  run_.loss({{outputs.data(), 1}, 4, 1, nullptr, values.data(), rows.data(), 1.0 / 4.0},
            LossPass::kLossAndGradient);
  kernels::LossSum sum{};
  run_.sum_losses(rows.data(), 4, &sum);
  EXPECT_EQ(sum.loss, 1.0 + 0.0 + 4.0 + 0.25);
  EXPECT_EQ(outputs, (std::vector<float>{0.5F, 0.0F, -1.0F, -0.25F}));
}

// ---- bfloat16 ----

/// Every stored result is the bfloat16 nearest to what fp32 gives from the same inputs.
TEST_F(ModelOperations, ResultsInBfloat16AreRoundedOnce) {
  using kernels::WideBf16;
  const auto operations = host_operations<WideBf16>(pool_);
  Operations<WideBf16>& narrow = *operations;
  std::vector<float> x = some_values(6 * 8, 1);
  std::vector<float> w = some_values(4 * 8, 2);
  std::vector<WideBf16> narrow_x;
  std::vector<kernels::Bf16> stored;
  for (float& value : x) {
    narrow_x.push_back(kernels::as_element<WideBf16>(value));
    value = narrow_x.back().value;
  }
  for (float& value : w) {
    stored.push_back(kernels::round_to_bf16(value));
    value = kernels::to_float(stored.back());
  }
  const void* const weights[] = {w.data()};
  const void* const narrow_weights[] = {stored.data()};
  const LinearPlaces places = layer({8, 4}, false);
  std::vector<float> wide(6 * 4);
  std::vector<WideBf16> y(6 * 4);
  run_.linear(places, weights, 6, x.data(), {wide.data(), 4});
  narrow.linear(places, narrow_weights, 6, narrow_x.data(), {y.data(), 4});
  std::size_t changed = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i].value, kernels::rounded_to<kernels::Bf16>(wide[i]));
    changed += y[i].value != wide[i] ? 1U : 0U;
    wide[i] = y[i].value;
  }
  EXPECT_GT(changed, y.size() / 2);  // otherwise nothing was tested

  std::vector<float> dw(4 * 8);
  std::vector<kernels::Bf16> narrow_dw(4 * 8);
  void* const gradients[] = {dw.data()};
  void* const narrow_gradients[] = {narrow_dw.data()};
  run_.linear_weight_gradients(places, gradients, 6, x.data(), {wide.data(), 4}, false, {});
  narrow.linear_weight_gradients(places, narrow_gradients, 6, narrow_x.data(), {y.data(), 4}, false,
                                 {});
  for (std::size_t i = 0; i < dw.size(); ++i) {
    EXPECT_EQ(narrow_dw[i].bits, kernels::round_to_bf16(dw[i]).bits);
  }
}

}  // namespace
}  // namespace zenflow::runtime
