#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/adamw/adamw.h"
#include "kernels/columns/columns.h"
#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

using testing::comparable;
using testing::kSizes;
using testing::ordinary;

constexpr AdamWSettings kUsual{
    .learning_rate = 1e-3F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F, .weight_decay = 0.1F};
constexpr std::size_t kRows = 5;

struct State {
  std::vector<float> p;
  std::vector<float> m;
  std::vector<float> v;

  explicit State(std::size_t n)
      : p(ordinary<float>(n, 1)), m(ordinary<float>(n, 2)), v(ordinary<float>(n, 3)) {
    for (float& value : v) value = value < 0 ? -value : value;
  }
  [[nodiscard]] AdamWState<float, float> from(std::size_t i) {
    return {p.data() + i, m.data() + i, v.data() + i};
  }
  [[nodiscard]] std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> all = comparable(p);
    for (const auto* part : {&m, &v}) {
      const auto more = comparable(*part);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
};

/// Corrections of columns after `updates`.
struct Corrections {
  std::vector<float> step_size;
  std::vector<float> inverse_sqrt_correction2;

  explicit Corrections(const std::vector<std::uint64_t>& updates) {
    for (const std::uint64_t t : updates) {
      const BiasCorrection correction = bias_correction(kUsual, t);
      step_size.push_back(correction.step_size);
      inverse_sqrt_correction2.push_back(correction.inverse_sqrt_correction2);
    }
  }
  [[nodiscard]] ColumnCorrections view() const {
    return {step_size.data(), inverse_sqrt_correction2.data()};
  }
};

class AdamWColumns : public ::testing::TestWithParam<Isa> {};

template <class Grad, class Out>
void expect_like_adamw(Isa isa) {
  for (const std::size_t columns : kSizes) {
    const std::size_t n = kRows * columns;
    const auto gradient = ordinary<Grad>(n, 4);
    State flat(n);
    State matrix(n);
    std::vector<Out> flat_copy(n);
    std::vector<Out> matrix_copy(n);
    adamw(kUsual, bias_correction(kUsual, 7), 0.5F, n, flat.from(0), gradient.data(),
          flat_copy.data(), isa);
    adamw_columns(kUsual, Corrections(std::vector<std::uint64_t>(columns, 7)).view(), 0.5F, kRows,
                  columns, matrix.from(0), gradient.data(),
                  ColumnScatter<Out>{matrix_copy.data(), columns, nullptr}, isa);
    EXPECT_EQ(matrix.bits(), flat.bits()) << columns;
    EXPECT_EQ(comparable(matrix_copy), comparable(flat_copy)) << columns;
  }
}

TEST_P(AdamWColumns, IsAdamWWhereAllColumnsHaveSeenTheSameUpdates) {
  expect_like_adamw<float, float>(GetParam());
  expect_like_adamw<float, Bf16>(GetParam());
  expect_like_adamw<Bf16, float>(GetParam());
  expect_like_adamw<Bf16, Bf16>(GetParam());
}

TEST_P(AdamWColumns, EachColumnHasItsOwnCorrection) {
  constexpr std::size_t kColumns = 37;
  std::vector<std::uint64_t> updates(kColumns);
  for (std::size_t j = 0; j < kColumns; ++j) updates[j] = 1 + j * j;
  const auto gradient = ordinary<float>(kRows * kColumns, 4);
  State all(kRows * kColumns);
  adamw_columns(kUsual, Corrections(updates).view(), 1.0F, kRows, kColumns, all.from(0),
                gradient.data(), ColumnScatter<float>{nullptr, 0, nullptr}, GetParam());
  for (std::size_t j = 0; j < kColumns; ++j) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t i = r * kColumns + j;
      State one(kRows * kColumns);
      adamw(kUsual, bias_correction(kUsual, updates[j]), 1.0F, 1, one.from(i), gradient.data() + i,
            GetParam());
      ASSERT_EQ(comparable(all.p[i]), comparable(one.p[i])) << "column " << j;
    }
  }
}

/// ZenFlow's use: columns of a wider matrix, whose state is kept by themselves.
TEST_P(AdamWColumns, ScattersSelectedColumnsIntoTheFullMatrix) {
  constexpr std::size_t kWide = 90;
  for (const std::size_t selected : {std::size_t{1}, std::size_t{16}, std::size_t{45}}) {
    std::vector<std::uint32_t> column(selected);
    for (std::size_t j = 0; j < selected; ++j) {
      column[j] = static_cast<std::uint32_t>((j * 7 + 3) % kWide);
    }
    const auto gradient = ordinary<Bf16>(kRows * selected, 4);
    const Corrections corrections(std::vector<std::uint64_t>(selected, 2));
    State state(kRows * selected);
    const auto before = ordinary<Bf16>(kRows * kWide, 5);
    auto weights = before;
    adamw_columns(kUsual, corrections.view(), 1.0F, kRows, selected, state.from(0), gradient.data(),
                  ColumnScatter<Bf16>{weights.data(), kWide, column.data()}, GetParam());

    std::vector<Bf16> rounded;
    for (const float p : state.p) rounded.push_back(round_to_bf16(p));
    auto expected = before;
    scatter_columns(rounded.data(), kRows, selected, column.data(), expected.data(), kWide);
    EXPECT_EQ(comparable(weights), comparable(expected)) << selected;
  }
}

TEST_P(AdamWColumns, RangesOfRowsGiveTheSameAsAllRows) {
  constexpr std::size_t kColumns = 45;
  const auto gradient = ordinary<float>(kRows * kColumns, 4);
  std::vector<std::uint64_t> updates(kColumns);
  for (std::size_t j = 0; j < kColumns; ++j) updates[j] = 1 + j;
  const Corrections corrections(updates);
  State whole(kRows * kColumns);
  State parts(kRows * kColumns);
  const ColumnScatter<float> nowhere{nullptr, 0, nullptr};
  adamw_columns(kUsual, corrections.view(), 1.0F, kRows, kColumns, whole.from(0), gradient.data(),
                nowhere, GetParam());
  for (const std::size_t r : {3U, 0U}) {  // rows 3 and 4, then 0 to 2
    const std::size_t rows = r == 3 ? 2 : 3;
    adamw_columns(kUsual, corrections.view(), 1.0F, rows, kColumns, parts.from(r * kColumns),
                  gradient.data() + r * kColumns, nowhere, GetParam());
  }
  EXPECT_EQ(parts.bits(), whole.bits());
}

INSTANTIATE_TEST_SUITE_P(Isas, AdamWColumns, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return to_string(isa.param); });

}  // namespace
}  // namespace zenflow::kernels
