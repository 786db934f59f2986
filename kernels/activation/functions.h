/// The functions of activation.h with their slopes, for host and device code alike.
#pragma once

#include <cmath>

#include "kernels/activation/activation.h"

#if defined(__CUDACC__)
#define ZENFLOW_HOST_DEVICE __host__ __device__
#else
#define ZENFLOW_HOST_DEVICE
#endif

namespace zenflow::kernels {

struct ValueAndSlope {
  float value;
  float slope;
};

ZENFLOW_HOST_DEVICE inline float sigmoid(float x) {
  return 1.0F / (1.0F + ::expf(-x));
}

struct Silu {
  ZENFLOW_HOST_DEVICE static ValueAndSlope both(float x) {
    const float s = sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

struct GeluTanh {
  ZENFLOW_HOST_DEVICE static ValueAndSlope both(float x) {
    constexpr float kScale = 1.5957691216057308F;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715F;
    const float s = sigmoid(kScale * (x + kCubic * x * x * x));
    const float slope_of_argument = kScale * (1.0F + 3.0F * kCubic * x * x);
    return {x * s, s + x * s * (1.0F - s) * slope_of_argument};
  }
};

struct Gelu {
  ZENFLOW_HOST_DEVICE static ValueAndSlope both(float x) {
    constexpr float kInverseRoot = 0.7071067811865476F;    // 1 / sqrt(2)
    constexpr float kDensityAtZero = 0.3989422804014327F;  // 1 / sqrt(2 pi)
    const float phi = 0.5F * ::erfcf(-x * kInverseRoot);
    return {x * phi, phi + x * kDensityAtZero * ::expf(-0.5F * x * x)};
  }
};

struct Relu {
  ZENFLOW_HOST_DEVICE static ValueAndSlope both(float x) {
    return {x > 0.0F ? x : 0.0F, x > 0.0F ? 1.0F : 0.0F};
  }
};

/// Calls work with the type that `f` names, so that loops have no branch in them.
template <class Work>
void with_function(ActivationFunction f, const Work& work) {
  switch (f) {
    case ActivationFunction::kSilu:
      return work(Silu{});
    case ActivationFunction::kGelu:
      return work(Gelu{});
    case ActivationFunction::kGeluTanh:
      return work(GeluTanh{});
    case ActivationFunction::kRelu:
      return work(Relu{});
  }
}

}  // namespace zenflow::kernels
