#include "runtime/model/linear.h"

#include <algorithm>
#include <array>

namespace zenflow::runtime {
namespace {

ConstMatrix transpose(ConstMatrix matrix) {
  matrix.transposed = matrix.transposed == Transposed::kYes ? Transposed::kNo : Transposed::kYes;
  return matrix;
}

/// The stored weight as [in, out].
ConstMatrix in_by_out(LinearShape shape, const float* weight) {
  if (shape.is_conv1d) return {weight, shape.out, Transposed::kNo};
  return {weight, shape.in, Transposed::kYes};
}

void fill_rows(const Execution& run, const float* bias, std::int64_t rows, std::int64_t columns,
               Matrix y) {
  for_ranges(run.pool, rows, rows_per_block(columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      std::copy_n(bias, columns, y.values + r * y.stride);
    }
  });
}

constexpr std::int64_t kColumnsPerBlock = 64;

/// sum[c] = sum of column c. Rows ascend, whatever the number of threads.
void column_sums(const Execution& run, ConstMatrix x, std::int64_t rows, std::int64_t columns,
                 float* sum) {
  for_ranges(run.pool, columns, kColumnsPerBlock, [&](std::int64_t first, std::int64_t last) {
    std::array<double, kColumnsPerBlock> sums{};
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* const row = x.values + r * x.stride + first;
      for (std::int64_t c = 0; c < last - first; ++c) {
        sums[static_cast<std::size_t>(c)] += static_cast<double>(row[c]);
      }
    }
    std::transform(sums.begin(), sums.begin() + (last - first), sum + first,
                   [](double s) { return static_cast<float>(s); });
  });
}

}  // namespace

void linear_forward(const Execution& run, LinearShape shape, LinearWeights weights,
                    std::int64_t rows, ConstMatrix x, Matrix y, LinearScratch& scratch) {
  const float* const weight = as_float(run, weights.weight, shape.in * shape.out, scratch.weight);
  const bool has_bias = weights.bias != nullptr;
  if (has_bias) {
    fill_rows(run, as_float(run, weights.bias, shape.out, scratch.bias), rows, shape.out, y);
  }
  gemm(run.pool, {rows, shape.out, shape.in}, x, in_by_out(shape, weight), y, has_bias);
  round_in_place(run, y.values, rows, shape.out, y.stride);
}

void linear_backward_input(const Execution& run, LinearShape shape, const void* weight,
                           std::int64_t rows, ConstMatrix dy, Matrix dx, Store store,
                           LinearScratch& scratch) {
  const float* const values = as_float(run, weight, shape.in * shape.out, scratch.weight);
  gemm(run.pool, {rows, shape.in, shape.out}, dy, transpose(in_by_out(shape, values)), dx,
       store == Store::kAdd);
  round_in_place(run, dx.values, rows, shape.in, dx.stride);
}

void linear_backward_weights(const Execution& run, LinearShape shape, LinearGradients gradients,
                             std::int64_t rows, ConstMatrix x, ConstMatrix dy,
                             LinearScratch& scratch) {
  const std::int64_t elements = shape.in * shape.out;
  float* const weight = gradient_in_float(run, gradients.weight, elements, scratch.gradient);
  if (shape.is_conv1d) {
    gemm(run.pool, {shape.in, shape.out, rows}, transpose(x), dy, {weight, shape.out}, false);
  } else {
    gemm(run.pool, {shape.out, shape.in, rows}, transpose(dy), x, {weight, shape.in}, false);
  }
  store_gradient(run, weight, elements, gradients.weight);
  if (gradients.bias == nullptr) return;
  float* const bias = gradient_in_float(run, gradients.bias, shape.out, scratch.gradient);
  column_sums(run, dy, rows, shape.out, bias);
  store_gradient(run, bias, shape.out, gradients.bias);
}

}  // namespace zenflow::runtime
