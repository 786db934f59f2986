/// Columns of all matrices compete: the same bits as the sequential program, memory planned at the
/// start, and resumes that go on as if there had been no stop. On several ranks:
/// offload_ranks_test.cpp.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using namespace testing;
using zenflow::testing::error_of;

Case global_case(std::uint64_t seed) {
  static constexpr std::array kRatios = {0.1, 0.2, 0.25, 0.4, 0.6, 0.9};
  Case c = random_case(seed);
  c.settings.topk_ratio = kRatios.at(seed % kRatios.size());
  c.settings.topk_is_global = true;
  c.settings.norm = seed % 5 == 0 ? NormKind::kL1 : NormKind::kL2;
  return c;
}

class GlobalSelection : public ::testing::TestWithParam<int> {};

TEST_P(GlobalSelection, SameBitsAsTheSequentialProgram) {
  for (std::uint64_t i = 0; i < tried(8U); ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam()) * 1000 + 700 + i;
    compare_with_sequential(global_case(seed), 26, i % 2 == 0 ? 13 : -1);
    if (::testing::Test::HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, GlobalSelection, ::testing::Range(0, 12));

TEST(GlobalSelection, SameBitsOnStreamsThatRunAsLateAsTheyCan) {
  for (std::uint64_t seed = 0; seed < tried(12U); ++seed) {
    Case c = global_case(seed + 40);
    c.jitter = {};
    c.lazy = {"compute", "d2h", "h2d"};
    c.settings.interval_is_auto = true;
    c.next_interval = [seed](std::int64_t window) {
      return 1 + (static_cast<std::int64_t>(seed) + window * 5) % 7 / 2;
    };
    compare_with_sequential(c, 26);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

std::size_t selected_of_matrices(const Layout& layout) {
  std::size_t sum = 0;
  for (const Slice& slice : layout.slices)
    sum += slice.columns > 1 ? slice.rows * slice.selected : 0;
  return sum;
}

/// What the comparison with the sequential program would otherwise not have tried.
TEST(GlobalSelection, WidthsOfMatricesVaryWithinOneBudget) {
  int differ = 0;
  for (std::uint64_t seed = 0; seed < tried(12U); ++seed) {
    const Case c = global_case(seed + 80);
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    const Layout alone = trainer.engine.layout();
    for (int t = 0; t < 26; ++t) {
      trainer.step();
      const Layout& layout = trainer.engine.layout();
      EXPECT_LE(selected_of_matrices(layout), selected_of_matrices(alone));
      for (std::size_t s = 0; s < layout.slices.size(); ++s) {
        if (!layout.slices[s].selectable) continue;
        differ += layout.slices[s].selected == alone.slices[s].selected ? 0 : 1;
        EXPECT_GE(layout.slices[s].selected, 1U);
        EXPECT_LT(layout.slices[s].selected, layout.slices[s].columns);
      }
    }
  }
  EXPECT_GT(differ, 100);
}

TEST(GlobalSelection, AllocatesNoDeviceMemory) {
  for (std::uint64_t seed = 0; seed < tried(12U); ++seed) {
    expect_no_allocations(global_case(seed + 200), 20);
  }
}

TEST(GlobalSelection, ResumesBitForBitFromAnyStep) {
  for (std::uint64_t seed = 0; seed < tried(30U); ++seed) {
    compare_with_resumed(global_case(seed + 900), static_cast<std::int64_t>(seed % 14), 22);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

Case plain_case() {
  Case c;
  c.settings.topk_ratio = 0.25;
  c.settings.update_interval = 2;
  c.settings.topk_is_global = true;
  return c;
}

TEST(GlobalSelection, WidthsThatNoRunHasAreRefused) {
  Trainer trainer(plain_case());
  trainer.engine.load_weights(trainer.model.initial_weights());
  for (int t = 0; t < 3; ++t) trainer.step();
  const Saved saved = save(trainer.engine);
  const auto refusal = [&](std::size_t columns) {
    Saved other = saved;
    other["slots/selected/layers.1.weight"].resize(columns * sizeof(std::uint32_t));
    Trainer fresh(plain_case());
    return error_of([&] { restore(fresh.engine, other); });
  };
  for (const std::size_t columns : {0U, 24U, 1000U}) {
    const auto [kind, message] = refusal(columns);
    EXPECT_EQ(kind, ErrorKind::kInput);
    EXPECT_NE(message.find("slots/selected/layers.1.weight: expected a number from 1 to 23"),
              std::string::npos)
        << message;
  }
  const auto [kind, message] = refusal(23);  // more than all matrices may have
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_NE(message.find("selected parameters: expected"), std::string::npos) << message;
}

TEST(GlobalSelection, HasOneRatio) {
  OffloadSettings settings = plain_case().settings;
  settings.interval_is_auto = true;
  settings.topk_range = {0.1, 0.5};
  const auto [kind, message] =
      error_of([&] { static_cast<void>(settings_for(OffloadSchedule::kZenFlow, settings)); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_NE(message.find("topk_range: expected topk_scope matrix"), std::string::npos) << message;
}

}  // namespace
}  // namespace zenflow::runtime
