#include "kernels/columns/columns_cuda.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
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
using testing::synchronize;

/// rows, columns, stride less columns, selected columns, elements before the contiguous side
using Shape = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;

class ColumnsCuda : public NeedsDevice<::testing::TestWithParam<Shape>> {};

std::size_t extent(std::size_t rows, std::size_t columns, std::size_t gap) {
  return rows == 0 ? 0 : (rows - 1) * (columns + gap) + columns;
}

/// Any `n` of `columns`, in any order.
std::vector<std::uint32_t> selection(std::size_t columns, std::size_t n) {
  std::vector<std::uint32_t> all(columns);
  std::iota(all.begin(), all.end(), 0U);
  std::mt19937 random(5);
  for (std::size_t i = 0; i < n; ++i) std::swap(all[i], all[i + random() % (columns - i)]);
  all.resize(n);
  return all;
}

std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}
std::vector<std::uint32_t> bits(const std::vector<Bf16>& values) {
  return testing::comparable(values);
}

template <class Element>
void expect_gathered(const Shape& shape) {
  const auto [rows, columns, gap, n, skip] = shape;
  const std::vector<Element> matrix = any_bits<Element>(extent(rows, columns, gap), 1);
  const std::vector<std::uint32_t> column = selection(columns, n);
  std::vector<Element> expected(rows * n);
  gather_columns(MatrixView<Element>{matrix.data(), rows, columns, columns + gap}, column.data(), n,
                 expected.data());
  in_every_order([&, rows = rows, columns = columns, gap = gap, n = n, skip = skip] {
    const OnDevice<Element> from(matrix);
    const OnDevice<std::uint32_t> of(column);
    const OnDevice<Element> out(rows * n, skip);
    gather_columns_cuda(MatrixView<Element>{from.get(), rows, columns, columns + gap}, of.get(), n,
                        out.get(), nullptr);
    synchronize();
    EXPECT_EQ(bits(out.read()), bits(expected));
  });
}

template <class Element>
void expect_scattered(const Shape& shape) {
  const auto [rows, columns, gap, n, skip] = shape;
  const std::vector<Element> values = any_bits<Element>(rows * n, 2);
  const std::vector<Element> before = any_bits<Element>(extent(rows, columns, gap), 3);
  const std::vector<std::uint32_t> column = selection(columns, n);
  std::vector<Element> expected = before;
  scatter_columns(values.data(), rows, n, column.data(), expected.data(), columns + gap);
  in_every_order([&, rows = rows, columns = columns, gap = gap, n = n, skip = skip] {
    const OnDevice<Element> from(values, skip);
    const OnDevice<std::uint32_t> to(column);
    const OnDevice<Element> out(before);
    scatter_columns_cuda(static_cast<const Element*>(from.get()), rows, n, to.get(), out.get(),
                         columns + gap, nullptr);
    synchronize();
    EXPECT_EQ(bits(out.read()), bits(expected)) << "also what no column names";
  });
}

TEST_P(ColumnsCuda, GathersWhatTheReferenceDoes) {
  expect_gathered<float>(GetParam());
  expect_gathered<Bf16>(GetParam());
}

TEST_P(ColumnsCuda, ScattersWhatTheReferenceDoes) {
  expect_scattered<float>(GetParam());
  expect_scattered<Bf16>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Shapes, ColumnsCuda,
                         ::testing::Values(Shape{0, 0, 0, 0, 0}, Shape{0, 5, 0, 3, 0},
                                           Shape{5, 5, 0, 0, 0}, Shape{1, 1, 0, 1, 0},
                                           Shape{1, 1, 0, 1, 3}, Shape{7, 31, 1, 15, 1},
                                           Shape{8, 40, 0, 16, 0}, Shape{9, 40, 3, 17, 2},
                                           Shape{31, 31, 0, 31, 7}, Shape{16, 300, 0, 255, 0},
                                           Shape{15, 300, 5, 256, 4}, Shape{17, 300, 0, 257, 1},
                                           Shape{33, 1000, 1, 1000, 0}, Shape{1000, 33, 0, 17, 5}));

/// Every number of rows with every number of selected columns, of rows of odd strides.
std::vector<Shape> all_sizes() {
  std::vector<Shape> shapes;
  for (const std::size_t rows : kMatrixSizes) {
    for (const std::size_t n : kMatrixSizes) {
      for (const std::size_t gap : {0U, 1U, 13U}) {
        if (rows * n >= 1'000'000 && gap != 13) continue;  // takes seconds under a sanitizer
        shapes.emplace_back(rows, 2 * n + 1, gap, n, gap % 4);
      }
    }
  }
  return shapes;
}
INSTANTIATE_TEST_SUITE_P(AllSizes, ColumnsCuda, ::testing::ValuesIn(all_sizes()));

}  // namespace
}  // namespace zenflow::kernels
