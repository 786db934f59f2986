/// A matrix applied to every row: torch.nn.Linear, and GPT-2's Conv1D, which is stored transposed.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model/gemm.h"
#include "runtime/model/numerics.h"

namespace zenflow::runtime {

struct LinearShape {
  std::int64_t in;
  std::int64_t out;
  bool is_conv1d = false;  ///< weight [in, out]; otherwise [out, in]
};

/// Scratch for one product at a time; grows to the largest weight in bf16. In fp32 it stays empty,
/// but for gradients that are added to others.
struct LinearScratch {
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<float> gradient;
};

struct LinearWeights {
  const void* weight;
  const void* bias = nullptr;  ///< [out], or none
};
struct LinearGradients {
  void* weight;
  void* bias = nullptr;
};

/// y[rows, out] = x[rows, in] * weight + bias.
void linear_forward(const Execution& run, LinearShape shape, LinearWeights weights,
                    std::int64_t rows, ConstMatrix x, Matrix y, LinearScratch& scratch);

/// dx[rows, in] = or += dy[rows, out] * weight^T.
void linear_backward_input(const Execution& run, LinearShape shape, const void* weight,
                           std::int64_t rows, ConstMatrix dy, Matrix dx, Store store,
                           LinearScratch& scratch);

/// The gradients of weight and bias, stored as `run` says. Sums over rows are fp32 in the weight
/// (oneDNN) and double in the bias.
void linear_backward_weights(const Execution& run, LinearShape shape, LinearGradients gradients,
                             std::int64_t rows, ConstMatrix x, ConstMatrix dy,
                             LinearScratch& scratch);

}  // namespace zenflow::runtime
