#include "kernels/adamw/adamw.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

using testing::comparable;
using testing::ordinary;

// Halves and quarters, so that every number below is exact.
constexpr AdamWSettings kExact{
    .learning_rate = 0.5F, .beta1 = 0.5F, .beta2 = 0.75F, .epsilon = 0.0F, .weight_decay = 0.5F};
constexpr AdamWSettings kUsual{
    .learning_rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F, .weight_decay = 0.1F};

TEST(BiasCorrection, FollowsTheNumberOfUpdates) {
  const BiasCorrection first = bias_correction(kExact, 1);
  EXPECT_EQ(first.step_size, 1.0F);                 // 0.5 / (1 - 0.5)
  EXPECT_EQ(first.inverse_sqrt_correction2, 2.0F);  // 1 / sqrt(1 - 0.75)
  const BiasCorrection second = bias_correction(kExact, 2);
  EXPECT_EQ(second.step_size, static_cast<float>(2.0 / 3.0));
  EXPECT_EQ(second.inverse_sqrt_correction2, static_cast<float>(1.0 / std::sqrt(0.4375)));
}

TEST(BiasCorrection, FadesAway) {
  const BiasCorrection late = bias_correction(kUsual, 1'000'000'000);
  EXPECT_EQ(late.step_size, kUsual.learning_rate);
  EXPECT_EQ(late.inverse_sqrt_correction2, 1.0F);
}

TEST(BiasCorrection, IsRoundedOnce) {
  // 1 - 0.999^1 in fp32 arithmetic with a power in fp32 would be off by one part in a thousand
  // million here; in double the correction is that of the fp32 beta2.
  const double beta2 = kUsual.beta2;
  EXPECT_EQ(bias_correction(kUsual, 3).inverse_sqrt_correction2,
            static_cast<float>(1.0 / std::sqrt(1.0 - beta2 * beta2 * beta2)));
}

class AdamW : public ::testing::TestWithParam<Isa> {};

TEST_P(AdamW, UpdatesByHand) {
  // g = 4 * 0.5 = 2; m = 0.5 * 2 = 1; v = 0.25 * 2 * 2 = 1; d = 1 * 2; p = 0.75 * 1 - 1 / 2
  std::vector<float> p{1};
  std::vector<float> m{0};
  std::vector<float> v{0};
  const std::vector<float> gradient{4};
  std::vector<float> copy{9};
  adamw(kExact, bias_correction(kExact, 1), 0.5F, 1,
        AdamWState<float, float>{p.data(), m.data(), v.data()}, gradient.data(), copy.data(),
        GetParam());
  EXPECT_EQ(m[0], 1.0F);
  EXPECT_EQ(v[0], 1.0F);
  EXPECT_EQ(p[0], 0.25F);
  EXPECT_EQ(copy[0], 0.25F);

  // The next, with step_size 1 and no correction: g = 0, m = 0.5, v = 0.75.
  const std::vector<float> none{0};
  adamw(kExact, {.step_size = 1.0F, .inverse_sqrt_correction2 = 1.0F}, 1.0F, 1,
        AdamWState<float, float>{p.data(), m.data(), v.data()}, none.data(), GetParam());
  EXPECT_EQ(m[0], 0.5F);
  EXPECT_EQ(v[0], 0.75F);
  EXPECT_FLOAT_EQ(p[0], 0.1875F - 0.5F / std::sqrt(0.75F));
}

TEST_P(AdamW, UpdatesFromMomentsBeforeTheyAreRounded) {
  // m = 0.5 * (1 + 2^-8) is a tie in bfloat16 and stored as 0.5. p = 0 - m / 1 is not rounded:
  // with an fp32 moment and parameter that is seen, so compare with the fp32 result.
  const AdamWSettings settings{
      .learning_rate = 1.0F, .beta1 = 0.5F, .beta2 = 1.0F, .epsilon = 0.0F, .weight_decay = 0.0F};
  const BiasCorrection none{.step_size = 257.0F, .inverse_sqrt_correction2 = 1.0F};
  Bf16 p{0};
  Bf16 m{0x3F81};               // 1 + 2^-7
  Bf16 v{0x3F80};               // 1, which beta2 = 1 keeps
  const Bf16 gradient{0x3F80};  // 1: m = 0.5 * (2 + 2^-7) = 1 + 2^-8
  adamw(settings, none, 1.0F, 1, AdamWState<Bf16, Bf16>{&p, &m, &v}, &gradient, GetParam());
  EXPECT_EQ(to_float(m), 1.0F) << "a tie";
  // 257 * (1 + 2^-8) = 258.00390625 rounds to 258; 257 * 1 is a tie between 256 and 258, and
  // would round to 256.
  EXPECT_EQ(to_float(p), -258.0F);
}

TEST_P(AdamW, WithoutDecayAndGradientNothingMoves) {
  AdamWSettings settings = kUsual;
  settings.weight_decay = 0.0F;
  std::vector<float> p = ordinary<float>(100, 1);
  const std::vector<float> before = p;
  std::vector<float> m(100, 0.0F);
  std::vector<float> v(100, 0.0F);
  const std::vector<float> gradient(100, 0.0F);
  adamw(settings, bias_correction(settings, 1), 1.0F, 100,
        AdamWState<float, float>{p.data(), m.data(), v.data()}, gradient.data(), GetParam());
  EXPECT_EQ(p, before);
}

TEST_P(AdamW, DecayIsNotLostToRoundingOfOneMinusDecay) {
  // 1 - 1e-8 is 1 in fp32. On 1 + 2^-23 a decay of half a unit in the last place shows.
  AdamWSettings settings = kUsual;
  settings.learning_rate = 1.0F;
  settings.weight_decay = std::ldexp(1.0F, -24);
  float p = 1.0F + std::ldexp(1.0F, -23);
  float m = 0;
  float v = 0;
  const float gradient = 0;
  adamw(settings, {.step_size = 1.0F, .inverse_sqrt_correction2 = 1.0F}, 1.0F, 1,
        AdamWState<float, float>{&p, &m, &v}, &gradient, GetParam());
  EXPECT_EQ(p, 1.0F) << "half a unit and a bit less rounds down";
}

/// The formula of the paper in double, and how far fp32 may be from it. Each rounding is a
/// relative error of u = 2^-24. v has 5 of them, all terms positive; d then 5/2 + 3; m / d and
/// the product with the step size 3. m has an absolute error of u * (|m| + 2 (1 - beta1) |g|).
/// The decayed parameter and the result are rounded once each; decay itself once.
struct Bounded {
  double p;
  double bound;
};

Bounded in_double(const AdamWSettings& s, std::uint64_t updates, double p, double m, double v,
                  double g) {
  const double b1 = s.beta1;
  const double b2 = s.beta2;
  const auto t = static_cast<double>(updates);
  const double m_new = b1 * m + (1 - b1) * g;
  const double v_new = b2 * v + (1 - b2) * g * g;
  const double d = std::sqrt(v_new / (1 - std::pow(b2, t))) + static_cast<double>(s.epsilon);
  const double step = static_cast<double>(s.learning_rate) / (1 - std::pow(b1, t)) / d;
  const double decay = static_cast<double>(s.learning_rate) * static_cast<double>(s.weight_decay);
  const double w = p - decay * p;
  const double result = w - step * m_new;
  const double of_m = std::fabs(m_new) + 2 * (1 - b1) * std::fabs(g);
  const double u = std::ldexp(1.0, -24);
  return {result, 1.01 * u *
                      (std::fabs(w) + std::fabs(result) + decay * std::fabs(p) +
                       9 * std::fabs(step * m_new) + step * of_m)};
}

TEST_P(AdamW, IsTheFormulaUpToRounding) {
  constexpr std::size_t kCount = 1000;
  for (const std::uint64_t updates : {1U, 2U, 17U, 5000U}) {
    auto p = ordinary<float>(kCount, 1);
    auto m = ordinary<float>(kCount, 2);
    auto v = ordinary<float>(kCount, 3);
    for (float& value : v) value = std::fabs(value);
    const auto gradient = ordinary<float>(kCount, 4);
    const auto p0 = p;
    const auto m0 = m;
    const auto v0 = v;
    adamw(kUsual, bias_correction(kUsual, updates), 0.25F, kCount,
          AdamWState<float, float>{p.data(), m.data(), v.data()}, gradient.data(), GetParam());
    for (std::size_t i = 0; i < kCount; ++i) {
      const Bounded expected =
          in_double(kUsual, updates, p0[i], m0[i], v0[i], 0.25 * static_cast<double>(gradient[i]));
      ASSERT_NEAR(p[i], expected.p, expected.bound) << i << ", update " << updates;
    }
  }
}

TEST_P(AdamW, CopiesTheNewParameters) {
  constexpr std::size_t kCount = 77;
  auto p = ordinary<float>(kCount, 1);
  auto m = ordinary<float>(kCount, 2);
  std::vector<float> v(kCount, 1.0F);
  const auto gradient = ordinary<Bf16>(kCount, 3);
  std::vector<Bf16> copy(kCount + 1, Bf16{0x1234});
  adamw(kUsual, bias_correction(kUsual, 3), 1.0F, kCount,
        AdamWState<float, float>{p.data(), m.data(), v.data()}, gradient.data(), copy.data(),
        GetParam());
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(copy[i].bits, round_to_bf16(p[i]).bits);
  EXPECT_EQ(copy[kCount].bits, 0x1234) << "wrote past the end";
}

TEST_P(AdamW, NullCopyIsNoCopy) {
  auto p = ordinary<float>(40, 1);
  auto m = ordinary<float>(40, 2);
  std::vector<float> v(40, 1.0F);
  auto p2 = p;
  auto m2 = m;
  auto v2 = v;
  const auto gradient = ordinary<float>(40, 3);
  const BiasCorrection correction = bias_correction(kUsual, 3);
  adamw(kUsual, correction, 1.0F, 40, AdamWState<float, float>{p.data(), m.data(), v.data()},
        gradient.data(), static_cast<Bf16*>(nullptr), GetParam());
  adamw(kUsual, correction, 1.0F, 40, AdamWState<float, float>{p2.data(), m2.data(), v2.data()},
        gradient.data(), GetParam());
  EXPECT_EQ(p, p2);
}

INSTANTIATE_TEST_SUITE_P(Isas, AdamW, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return to_string(isa.param); });

}  // namespace
}  // namespace zenflow::kernels
