// cuBLASLt's products and epilogues on a GPU against sums in double.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/activation/activation.h"
#include "kernels/bf16/stored.h"
#include "runtime/cuda_model/cublas.h"
#include "tests/support/closeness.h"
#include "tests/support/gpu_libraries.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"
#include "tests/support/plain_device.h"

namespace zenflow::runtime {
namespace {

using kernels::as_element;
using kernels::Bf16;
using kernels::to_float;
using kernels::testing::Bounds;
using kernels::testing::expect_close;
using kernels::testing::NeedsDevice;
using kernels::testing::OnDevice;
using kernels::testing::ordinary;
using kernels::testing::synchronize;

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool a_transposed;
  bool b_transposed;
  std::int64_t gap;  ///< between rows, of every matrix
};

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// A matrix as it is stored, and as the product reads it.
template <class Element>
struct Stored {
  Stored(std::int64_t product_rows, std::int64_t product_columns, bool is_transposed,
         std::int64_t gap, std::uint32_t seed)
      : rows(is_transposed ? product_columns : product_rows),
        stride((is_transposed ? product_rows : product_columns) + gap),
        transposed(is_transposed),
        values(ordinary<Element>(size(rows * stride), seed)) {}
  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(
        to_float(values[size(transposed ? column * stride + row : row * stride + column)]));
  }
  std::int64_t rows;
  std::int64_t stride;
  bool transposed;
  std::vector<Element> values;
};

class CublasGemmCuda : public NeedsDevice<::testing::TestWithParam<Shape>> {
 protected:
  template <class Element, class Out>
  void check(bool adds);
  template <class Element>
  void check_fused(Epilogue epilogue);
};

/// Sums of up to 1,500 products in fp32, rounded once at the end.
template <class Element>
constexpr Bounds bounds() {
  return sizeof(Element) == 2 ? Bounds{0x1p-8, 0x1p-7} : Bounds{2e-6, 8e-6};
}

template <class Element>
constexpr ElementType type_of() {
  return sizeof(Element) == 2 ? ElementType::kBfloat16 : ElementType::kFloat32;
}

template <class Element>
std::vector<double> product(const Shape& shape, const Stored<Element>& a,
                            const Stored<Element>& b) {
  std::vector<double> sums(size(shape.m * shape.n), 0.0);
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      double& sum = sums[size(i * shape.n + j)];
      for (std::int64_t k = 0; k < shape.k; ++k) sum += a.at(i, k) * b.at(k, j);
    }
  }
  return sums;
}

template <class Element, class Out>
void CublasGemmCuda::check(bool adds) {
  const Shape shape = GetParam();
  const Stored<Element> a(shape.m, shape.k, shape.a_transposed, shape.gap, 1);
  const Stored<Element> b(shape.k, shape.n, shape.b_transposed, shape.gap, 2);
  const std::int64_t stride = shape.n + shape.gap;
  std::vector<Out> expected = ordinary<Out>(size(shape.m * stride), 3);
  const OnDevice<Out> c(expected);
  const std::vector<double> sums = product(shape, a, b);
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      Out& value = expected[size(i * stride + j)];
      const double before = adds ? static_cast<double>(to_float(value)) : 0.0;
      value = as_element<Out>(static_cast<float>(before + sums[size(i * shape.n + j)]));
    }
  }
  const OnDevice<Element> device_a(a.values), device_b(b.values);
  testing::PlainDevice device;
  CublasGemm gemm(testing::library_folders_of_this_process(), device);
  gemm.multiply({.m = shape.m,
                 .n = shape.n,
                 .k = shape.k,
                 .type = type_of<Element>(),
                 .a = {device_a.get(), a.stride, shape.a_transposed},
                 .b = {device_b.get(), b.stride, shape.b_transposed},
                 .c = c.get(),
                 .c_stride = stride,
                 .c_is_float = sizeof(Out) == 4,
                 .adds = adds},
                nullptr);
  synchronize();
  expect_close(c.read(), expected, bounds<Out>(), "c");  // and what is between rows is untouched
}

TEST_P(CublasGemmCuda, ProductsMatchDouble) {
  for (const bool adds : {false, true}) {
    check<float, float>(adds);
    check<Bf16, Bf16>(adds);
    check<Bf16, float>(adds);
  }
}

template <class Element>
void CublasGemmCuda::check_fused(Epilogue epilogue) {
  const Shape shape = GetParam();
  const Stored<Element> a(shape.m, shape.k, shape.a_transposed, shape.gap, 1);
  const Stored<Element> b(shape.k, shape.n, shape.b_transposed, shape.gap, 2);
  const std::vector<Element> bias = ordinary<Element>(size(shape.n), 3);
  const OnDevice<Element> device_a(a.values), device_b(b.values), device_bias(bias);
  const OnDevice<Element> c(size(shape.m * shape.n)), before(size(shape.m * shape.n)),
      sums(size(std::max(shape.m, shape.n)));
  testing::PlainDevice device;
  CublasGemm gemm(testing::library_folders_of_this_process(), device);
  const bool is_fused = gemm.multiply_fused({.m = shape.m,
                                             .n = shape.n,
                                             .k = shape.k,
                                             .type = type_of<Element>(),
                                             .a = {device_a.get(), a.stride, shape.a_transposed},
                                             .b = {device_b.get(), b.stride, shape.b_transposed},
                                             .c = c.get(),
                                             .c_stride = shape.n,
                                             .epilogue = epilogue,
                                             .bias = device_bias.get(),
                                             .before_gelu = before.get(),
                                             .sums = sums.get()},
                                            nullptr);
  synchronize();
  RecordProperty(sizeof(Element) == 2 ? "fused_bf16" : "fused_fp32", is_fused ? "yes" : "no");
  if (!is_fused) return;  // the model then takes several steps

  const bool has_bias = epilogue == Epilogue::kBias || epilogue == Epilogue::kBiasGelu;
  std::vector<double> expected = product(shape, a, b);
  std::vector<float> as_float;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (has_bias) expected[i] += static_cast<double>(to_float(bias[i % size(shape.n)]));
    as_float.push_back(static_cast<float>(expected[i]));
  }
  if (epilogue == Epilogue::kBiasGelu) {
    expect_close(before.read(), as_float, bounds<Element>(), "before GELU");
    std::vector<float> gelu(as_float.size());
    kernels::activation_scalar(kernels::ActivationFunction::kGeluTanh, as_float.size(),
                               as_float.data(), gelu.data());
    as_float = gelu;
  }
  expect_close(c.read(), as_float, bounds<Element>(), "c");
  std::vector<float> expected_sums;
  for (std::int64_t i = 0; epilogue == Epilogue::kSumsOfA && i < shape.m; ++i) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < shape.k; ++k) sum += a.at(i, k);
    expected_sums.push_back(static_cast<float>(sum));
  }
  for (std::int64_t j = 0; epilogue == Epilogue::kSumsOfB && j < shape.n; ++j) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < shape.k; ++k) sum += b.at(k, j);
    expected_sums.push_back(static_cast<float>(sum));
  }
  std::vector<Element> found = sums.read();
  found.resize(expected_sums.size());
  if (!has_bias) expect_close(found, expected_sums, bounds<Element>(), "sums");
}

TEST_P(CublasGemmCuda, FusedEpiloguesMatchDouble) {
  for (const Epilogue epilogue :
       {Epilogue::kBias, Epilogue::kBiasGelu, Epilogue::kSumsOfA, Epilogue::kSumsOfB}) {
    check_fused<float>(epilogue);
    check_fused<Bf16>(epilogue);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CublasGemmCuda,
    ::testing::Values(Shape{1, 1, 1, false, false, 0}, Shape{30, 12, 20, false, true, 0},
                      Shape{30, 61, 12, false, false, 3}, Shape{12, 20, 30, true, false, 0},
                      Shape{64, 192, 128, false, true, 64}, Shape{128, 64, 256, true, false, 0},
                      Shape{256, 384, 128, false, false, 8}, Shape{96, 160, 1500, true, false, 0}));

}  // namespace
}  // namespace zenflow::runtime
