// Rotary positions and attention: forward against a plain double reference, backward against that
// reference's central differences. The bound is that of model_operations_test.
#include "runtime/model/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/rotary/rotary.h"
#include "runtime/model/rotary.h"
#include "tests/support/gradient_check.h"

namespace zenflow::runtime {
namespace {

using testing::dot;
using testing::in_double;
using testing::numeric_gradient;
using testing::relative_error;
using testing::some_values;

constexpr double kBound = 3e-6;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

class Attention : public ::testing::Test {
 protected:
  ThreadPool pool_{2};
  Execution run_{pool_, ElementType::kFloat32};
};

TEST_F(Attention, RotaryTurnsColumnsOfBothHalves) {
  const RotarySettings settings = {100.0};
  const RotaryTable table(settings, 4, 3, ElementType::kFloat32);
  // Two sequences of three tokens; two heads are turned, a column after them is left alone.
  const std::vector<float> before = some_values(6 * 9, 1);
  std::vector<float> x = before;
  constexpr kernels::RotaryShape kShape = {6, 3, 2, 4, 9};
  const kernels::RotaryAngles angles = {table.cosines().data(), table.sines().data()};
  kernels::rotary_scalar(kShape, angles, kernels::RotaryDirection::kForward, x.data());
  for (std::int64_t row = 0; row < 6; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t c = 0; c < 2; ++c) {
        const double angle =
            static_cast<double>(row % 3) * std::pow(100.0, -0.5 * static_cast<double>(c));
        const std::int64_t low = row * 9 + head * 4 + c;
        const double a = static_cast<double>(before[at(low)]);
        const double b = static_cast<double>(before[at(low + 2)]);
        EXPECT_NEAR(x[at(low)], a * std::cos(angle) - b * std::sin(angle), 1e-6);
        EXPECT_NEAR(x[at(low + 2)], b * std::cos(angle) + a * std::sin(angle), 1e-6);
      }
    }
    EXPECT_EQ(x[at(row * 9 + 8)], before[at(row * 9 + 8)]);
  }
  kernels::rotary_scalar(kShape, angles, kernels::RotaryDirection::kBackward, x.data());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], before[i], 1e-6);
}

TEST(Rotary, ScalingActsOnTheFrequenciesItNames) {
  RotarySettings settings = {100.0};
  const std::vector<float> plain = rotary_frequencies(settings, 8, 64);
  EXPECT_FLOAT_EQ(plain[0], 1.0F);
  EXPECT_FLOAT_EQ(plain[2], 0.1F);
  settings.scaling = RotarySettings::Scaling::kLinear;
  settings.factor = 4.0;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(rotary_frequencies(settings, 8, 64)[i], plain[i] / 4.0F);
  }
  // Turns in 64 positions: 10.2, 3.22, 1.02, 0.32; kept above 4, divided below 1.
  settings = {100.0, RotarySettings::Scaling::kLlama3, 4.0, 1.0, 4.0, 64.0};
  const std::vector<float> llama3 = rotary_frequencies(settings, 8, 64);
  EXPECT_EQ(llama3[0], plain[0]);
  const double share = (64.0 * std::pow(100.0, -0.25) / (2.0 * 3.14159265358979) - 1.0) / 3.0;
  EXPECT_NEAR(llama3[1], plain[1] * (share + (1.0 - share) / 4.0), 1e-7);
  EXPECT_FLOAT_EQ(llama3[3], plain[3] / 4.0F);
  // Short factors up to the original positions, long ones above.
  settings = {100.0, RotarySettings::Scaling::kLongRope};
  settings.original_max_positions = 64.0;
  settings.short_factors = {1.0, 2.0, 3.0, 4.0};
  settings.long_factors = {5.0, 6.0, 7.0, 8.0};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto pair = static_cast<float>(i);
    EXPECT_FLOAT_EQ(rotary_frequencies(settings, 8, 64)[i], plain[i] / (1.0F + pair));
    EXPECT_FLOAT_EQ(rotary_frequencies(settings, 8, 65)[i], plain[i] / (5.0F + pair));
  }
}

std::vector<double> attention_reference(const AttentionShape& s, const std::vector<double>& qkv) {
  std::vector<double> out(at(s.sequences * s.length * s.out_row()));
  const auto in = [&](std::int64_t token, std::int64_t head, std::int64_t c) {
    return qkv[at(token * s.row() + head * s.head_dim + c)];
  };
  for (std::int64_t sequence = 0; sequence < s.sequences; ++sequence) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const std::int64_t key = s.heads + head / (s.heads / s.kv_heads);
      for (std::int64_t i = 0; i < s.length; ++i) {
        const std::int64_t token = sequence * s.length + i;
        std::vector<double> p;
        double sum = 0.0;
        const std::int64_t first = s.window > 0 ? std::max<std::int64_t>(0, i - s.window + 1) : 0;
        for (std::int64_t j = first; j <= i; ++j) {
          double score = 0.0;
          for (std::int64_t c = 0; c < s.head_dim; ++c) {
            score += in(token, head, c) * in(sequence * s.length + j, key, c);
          }
          score *= static_cast<double>(s.scale);
          const auto cap = static_cast<double>(s.cap);
          if (cap > 0.0) score = cap * std::tanh(score / cap);
          p.push_back(std::exp(score));
          sum += p.back();
        }
        for (std::int64_t j = first; j <= i; ++j) {
          for (std::int64_t c = 0; c < s.head_dim; ++c) {
            out[at(token * s.out_row() + head * s.head_dim + c)] +=
                p[at(j - first)] / sum * in(sequence * s.length + j, key + s.kv_heads, c);
          }
        }
      }
    }
  }
  return out;
}

void check_attention(const Execution& run, const AttentionShape& shape, std::size_t stride) {
  const std::int64_t tokens = shape.sequences * shape.length;
  const std::vector<float> qkv = some_values(at(tokens * shape.row()), 1);
  const std::vector<float> d_out = some_values(at(tokens * shape.out_row()), 2);
  std::vector<float> out(at(tokens * shape.out_row()));
  std::vector<float> maximum(at(tokens * shape.heads));
  std::vector<float> sum(at(tokens * shape.heads));
  const SoftmaxStatistics statistics = {maximum.data(), sum.data()};
  AttentionScratch scratch;
  attention_forward(run, shape, qkv.data(), out.data(), statistics, scratch);
  EXPECT_LT(relative_error(out, attention_reference(shape, in_double(qkv))), kBound);

  std::vector<float> d_qkv(qkv.size(), 9.0F);
  attention_backward(run, shape, qkv.data(), out.data(), maximum.data(), sum.data(), d_out.data(),
                     d_qkv.data(), scratch);
  const auto loss = [&](const std::vector<double>& v) {
    return dot(attention_reference(shape, v), d_out);
  };
  EXPECT_LT(relative_error(d_qkv, numeric_gradient(loss, qkv, stride), stride), kBound);
}

TEST_F(Attention, WithGroupedQueries) {
  check_attention(run_, {2, 5, 4, 2, 2, 2.0F}, 1);
}

TEST_F(Attention, OfOneTokenIsItsValue) {
  check_attention(run_, {3, 1, 2, 2, 3, 1.0F}, 1);
}

TEST_F(Attention, LooksBackOnAWindow) {
  check_attention(run_, {2, 7, 4, 2, 2, 2.0F, 3}, 1);
  check_attention(run_, {1, 4, 1, 1, 2, 2.0F, 1}, 1);
  check_attention(run_, {1, 300, 1, 1, 2, 2.0F, 20}, 41);  // which begins within another tile
  check_attention(run_, {1, 5, 1, 1, 2, 2.0F, 5}, 1);
}

TEST_F(Attention, CapsItsScores) {
  check_attention(run_, {2, 5, 4, 2, 2, 2.0F, 0, 0.7F}, 1);
  check_attention(run_, {1, 6, 2, 1, 2, 2.0F, 2, 1.5F}, 1);
}

/// Queries are handled 128 at a time.
TEST_F(Attention, BeyondOneTile) {
  check_attention(run_, {1, 150, 2, 1, 2, 3.0F}, 37);
}

}  // namespace
}  // namespace zenflow::runtime
