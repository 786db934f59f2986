#include "runtime/model/activation.h"

#include <cmath>
#include <numbers>

namespace zenflow::runtime {
namespace {

struct ValueAndSlope {
  float value;
  float slope;
};

float sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

struct Silu {
  static float value(float x) { return x * sigmoid(x); }
  static ValueAndSlope both(float x) {
    const float s = sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

/// 0.5 * x * (1 + tanh(u)) = x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3).
/// Source: Hendrycks & Gimpel 2016, section 2.
struct GeluTanh {
  static constexpr float kScale = 1.5957691216057308F;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715F;

  static float value(float x) { return x * sigmoid(kScale * (x + kCubic * x * x * x)); }
  static ValueAndSlope both(float x) {
    const float s = sigmoid(kScale * (x + kCubic * x * x * x));
    const float slope_of_argument = kScale * (1.0F + 3.0F * kCubic * x * x);
    return {x * s, s + x * s * (1.0F - s) * slope_of_argument};
  }
};

/// x * Phi(x), Phi the normal distribution function.
struct Gelu {
  static float distribution(float x) {
    return 0.5F * std::erfc(-x * (std::numbers::sqrt2_v<float> / 2.0F));
  }
  static float value(float x) { return x * distribution(x); }
  static ValueAndSlope both(float x) {
    constexpr float kDensityAtZero = 0.3989422804014327F;  // 1 / sqrt(2 pi)
    const float phi = distribution(x);
    return {x * phi, phi + x * kDensityAtZero * std::exp(-0.5F * x * x)};
  }
};

/// Calls work with the type that `f` names, so that loops have no branch in them.
template <class Work>
void dispatch(Activation f, const Work& work) {
  switch (f) {
    case Activation::kSilu:
      return work(Silu{});
    case Activation::kGelu:
      return work(Gelu{});
    case Activation::kGeluTanh:
      return work(GeluTanh{});
  }
}

constexpr std::int64_t kPerBlock = 8192;

}  // namespace

void activation_forward(const Execution& run, Activation f, std::int64_t count, const float* x,
                        float* y) {
  const Rounding rounded = run.rounding();
  dispatch(f, [&](auto function) {
    for_ranges(run.pool, count, kPerBlock, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) y[i] = rounded(function.value(x[i]));
    });
  });
}

void activation_backward(const Execution& run, Activation f, std::int64_t count, const float* x,
                         const float* dy, float* dx) {
  const Rounding rounded = run.rounding();
  dispatch(f, [&](auto function) {
    for_ranges(run.pool, count, kPerBlock, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i)
        dx[i] = rounded(dy[i] * function.both(x[i]).slope);
    });
  });
}

void gated_forward(const Execution& run, Activation f, std::int64_t count, const float* gate,
                   const float* up, float* y) {
  const Rounding rounded = run.rounding();
  dispatch(f, [&](auto function) {
    for_ranges(run.pool, count, kPerBlock, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        y[i] = rounded(rounded(function.value(gate[i])) * up[i]);
      }
    });
  });
}

void gated_backward(const Execution& run, Activation f, std::int64_t count, const float* gate,
                    const float* up, const float* dy, float* d_gate, float* d_up) {
  const Rounding rounded = run.rounding();
  dispatch(f, [&](auto function) {
    for_ranges(run.pool, count, kPerBlock, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const auto [value, slope] = function.both(gate[i]);
        const float by_output = dy[i];
        d_gate[i] = rounded(rounded(by_output * up[i]) * slope);
        d_up[i] = rounded(by_output * rounded(value));
      }
    });
  });
}

}  // namespace zenflow::runtime
