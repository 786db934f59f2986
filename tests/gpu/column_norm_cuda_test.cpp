#include "kernels/column_norm/column_norm_cuda.h"

#include <bit>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"
#include "tests/support/on_device.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::in_every_order;
using testing::kMatrixSizes;
using testing::NeedsDevice;
using testing::OnDevice;
using testing::ordinary;
using testing::synchronize;

/// rows, columns, elements between the last column and the stride, elements before the first row
using Shape = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;

class ColumnNormCuda : public NeedsDevice<::testing::TestWithParam<Shape>> {};

/// All bits: the norms define those of a NaN too.
std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

std::size_t element_count(const Shape& shape) {
  const auto [rows, columns, gap, skip] = shape;
  return rows == 0 ? 0 : (rows - 1) * (columns + gap) + columns;
}

template <class Element>
void expect_reference_bits(const std::vector<Element>& values, const Shape& shape) {
  const auto [rows, columns, gap, skip] = shape;
  std::vector<float> l1(columns, -1.0F);
  std::vector<float> l2(columns, -1.0F);
  column_norms_scalar(MatrixView<Element>{values.data(), rows, columns, columns + gap},
                      {l1.data(), l2.data()});

  in_every_order([&, rows = rows, columns = columns, gap = gap, skip = skip] {
    const OnDevice<Element> matrix(values, skip);
    const OnDevice<float> device_l1(columns);
    const OnDevice<float> device_l2(columns);
    const OnDevice<std::byte> workspace(column_norm_workspace(rows, columns));
    column_norms_cuda(MatrixView<Element>{matrix.get(), rows, columns, columns + gap},
                      {device_l1.get(), device_l2.get()}, workspace.get(), nullptr);
    synchronize();
    EXPECT_EQ(bits(device_l1.read()), bits(l1));
    EXPECT_EQ(bits(device_l2.read()), bits(l2));
  });
}

TEST_P(ColumnNormCuda, Fp32MatchesTheReference) {
  expect_reference_bits(ordinary<float>(element_count(GetParam()), 1), GetParam());
  expect_reference_bits(any_bits<float>(element_count(GetParam()), 2), GetParam());
}

TEST_P(ColumnNormCuda, Bf16MatchesTheReference) {
  expect_reference_bits(ordinary<Bf16>(element_count(GetParam()), 3), GetParam());
  expect_reference_bits(any_bits<Bf16>(element_count(GetParam()), 4), GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ColumnNormCuda,
    ::testing::Values(Shape{0, 0, 0, 0}, Shape{0, 3, 0, 0}, Shape{3, 0, 0, 0}, Shape{1, 1, 0, 0},
                      Shape{1, 1, 0, 3}, Shape{2, 15, 1, 0}, Shape{3, 16, 0, 0}, Shape{4, 17, 7, 0},
                      Shape{5, 16, 0, 1}, Shape{6, 31, 1, 5}, Shape{17, 32, 8, 4},
                      Shape{127, 31, 0, 0}, Shape{128, 16, 8, 0}, Shape{129, 17, 7, 3},
                      Shape{144, 40, 0, 7}, Shape{260, 36, 4, 0}, Shape{1000, 31, 5, 1},
                      Shape{4200, 9, 7, 0}, Shape{31, 1000, 0, 0}, Shape{130, 1031, 1, 2}));

/// Every number of rows with every number of columns, and rows that no access of 16 bytes fits.
std::vector<Shape> all_sizes() {
  std::vector<Shape> shapes;
  for (const std::size_t rows : kMatrixSizes) {
    for (const std::size_t columns : kMatrixSizes) {
      for (const std::size_t gap : {0U, 1U, 13U}) shapes.emplace_back(rows, columns, gap, gap % 4);
    }
  }
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(AllSizes, ColumnNormCuda, ::testing::ValuesIn(all_sizes()));

}  // namespace
}  // namespace zenflow::kernels
