/// Every version of the column norms against the scalar reference, bit for bit.
#include <cstdint>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/column_norm/column_norm.h"
#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

/// rows, columns, elements between the last column and the stride
using Shape = std::tuple<std::size_t, std::size_t, std::size_t>;

class ColumnNormIsas : public ::testing::TestWithParam<Shape> {
 protected:
  /// All bits: the norms define those of a NaN too.
  static std::vector<std::uint32_t> bits(const std::vector<float>& values) {
    std::vector<std::uint32_t> result;
    for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
    return result;
  }

  template <class Element>
  static void expect_reference_bits(const std::vector<Element>& values) {
    const auto [rows, columns, gap] = GetParam();
    const MatrixView<Element> matrix{values.data(), rows, columns, columns + gap};
    // One more, to see that it is left alone.
    const std::vector<float> blank(columns + 1, -1.0F);
    auto l1 = blank;
    auto l2 = blank;
    column_norms_scalar(matrix, {l1.data(), l2.data()});
    for (const Isa isa : available_isas()) {
      auto l1_isa = blank;
      auto l2_isa = blank;
      column_norms(matrix, {l1_isa.data(), l2_isa.data()}, isa);
      EXPECT_EQ(bits(l1_isa), bits(l1)) << to_string(isa);
      EXPECT_EQ(bits(l2_isa), bits(l2)) << to_string(isa);
    }
  }

  static std::size_t element_count() {
    const auto [rows, columns, gap] = GetParam();
    return rows * (columns + gap);
  }
};

TEST_P(ColumnNormIsas, AgreeOnOrdinaryNumbers) {
  expect_reference_bits(testing::ordinary<float>(element_count(), 1));
  expect_reference_bits(testing::ordinary<Bf16>(element_count(), 2));
}

TEST_P(ColumnNormIsas, AgreeOnExtremes) {
  expect_reference_bits(testing::any_bits<float>(element_count(), 3));
  expect_reference_bits(testing::any_bits<Bf16>(element_count(), 4));
}

INSTANTIATE_TEST_SUITE_P(Shapes, ColumnNormIsas,
                         ::testing::Values(Shape{0, 0, 0}, Shape{0, 3, 0}, Shape{3, 0, 0},
                                           Shape{1, 1, 0}, Shape{2, 15, 1}, Shape{3, 16, 0},
                                           Shape{4, 17, 2}, Shape{5, 31, 0}, Shape{6, 33, 3},
                                           Shape{7, 255, 0}, Shape{9, 1000, 1}, Shape{8, 2048, 0},
                                           Shape{11, 2049, 5}, Shape{6, 4129, 0}, Shape{128, 31, 1},
                                           Shape{129, 17, 0}, Shape{1000, 33, 5}));

}  // namespace
}  // namespace zenflow::kernels
