/// Partitions, selections, exchanges, settings and traffic, by numbers worked by hand.
#include <array>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/offload/layout.h"
#include "runtime/offload/selection.h"
#include "runtime/offload/settings.h"
#include "runtime/offload/traffic.h"
#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using zenflow::testing::error_of;

/// A matrix [4, 10], a vector of 6, a matrix [3, 5]: 40 + 6 + 15 = 61 elements in two groups.
ParameterTable small_table() {
  ParameterTable table;
  table.groups = {{"layers.0", 0, 2}, {"layers.1", 2, 1}};
  table.parameters = {{"a", 4, 10, true, 0}, {"b", 1, 6, false, 0}, {"c", 3, 5, true, 1}};
  return table;
}

/// Sums of a window move 10 S bytes an element, its update 30.
TEST(ShareCores, GivesUpdatesAndSumsThreadsByTheirBytes) {
  OffloadSettings settings;
  settings.schedule = OffloadSchedule::kZenFlow;
  settings.overlap_step = true;
  const auto shares = [&](int cores, std::int64_t interval) {
    settings.update_interval = interval;
    const CpuThreads threads = share_cores(cores, settings);
    return std::array{threads.optimizer, threads.sums};
  };
  EXPECT_EQ(shares(16, 3), (std::array{8, 8}));
  EXPECT_EQ(shares(16, 9), (std::array{4, 12}));
  EXPECT_EQ(shares(2, 64), (std::array{1, 1}));
  EXPECT_EQ(shares(1, 4), (std::array{1, 1}));
  settings.accumulate_on_device = true;
  EXPECT_EQ(shares(16, 4), (std::array{16, 1}));
  settings.accumulate_on_device = false;
  settings.overlap_step = false;
  EXPECT_EQ(shares(16, 1), (std::array{16, 1}));  // the update reads what came down
}

TEST(SelectedColumns, IntegerPartButOneAtLeast) {
  EXPECT_EQ(selected_columns(0, 1000), 0U);
  EXPECT_EQ(selected_columns(0.1, 1000), 100U);
  EXPECT_EQ(selected_columns(0.3, 10), 3U);  // 0.3 * 10 is 2.9999999999999996
  EXPECT_EQ(selected_columns(0.29, 10), 2U);
  EXPECT_EQ(selected_columns(0.001, 10), 1U);
  EXPECT_EQ(selected_columns(0.5, 1), 1U);
  EXPECT_EQ(selected_columns(0.999, 4), 3U);
  EXPECT_EQ(selected_columns(1, 4), 4U);
}

TEST(Layout, OneRankOwnsEverything) {
  const Layout layout = make_layout(small_table(), 0.25, false, 0, 1);
  ASSERT_EQ(layout.slices.size(), 3U);
  const auto& [a, b, c] = std::tie(layout.slices[0], layout.slices[1], layout.slices[2]);
  EXPECT_EQ(a.rows, 4U);
  EXPECT_EQ(a.columns, 10U);
  EXPECT_EQ(a.selected, 2U);
  EXPECT_TRUE(a.selectable);
  EXPECT_EQ(a.first, 0U);
  EXPECT_EQ(b.rows, 6U);  // a vector: rows of one column, selected whole
  EXPECT_EQ(b.columns, 1U);
  EXPECT_EQ(b.selected, 1U);
  EXPECT_FALSE(b.selectable);
  EXPECT_EQ(b.first, 40U);
  EXPECT_EQ(c.selected, 1U);
  EXPECT_EQ(c.first, 46U);
  EXPECT_EQ(layout.elements, 61U);
  EXPECT_EQ(layout.selected_elements(), 4U * 2 + 6 + 3 * 1);
  EXPECT_EQ(layout.deferred_elements(), 61U - 17);
  ASSERT_EQ(layout.groups.size(), 2U);
  EXPECT_EQ(layout.groups[0].first_slice, 0U);
  EXPECT_EQ(layout.groups[0].slices, 2U);
  EXPECT_EQ(layout.groups[1].first_slice, 2U);
  EXPECT_EQ(layout.groups[1].slices, 1U);
}

TEST(Layout, NothingOrEverythingSelected) {
  const Layout none = make_layout(small_table(), 0, false, 0, 1);
  EXPECT_EQ(none.selected_elements(), 0U);
  for (const Slice& slice : none.slices) EXPECT_FALSE(slice.selectable);
  for (const Layout& all :
       {make_layout(small_table(), 1, false, 0, 1), make_layout(small_table(), 0, true, 0, 1)}) {
    EXPECT_EQ(all.deferred_elements(), 0U);
    for (const Slice& slice : all.slices) EXPECT_FALSE(slice.selectable);
  }
}

TEST(Layout, ARangeOfRatiosIsRemembered) {
  Layout layout = make_layout(small_table(), 0.25, false, 0, 1, TopkRange{0.1, 0.65});
  const auto& [a, b, c] = std::tie(layout.slices[0], layout.slices[1], layout.slices[2]);
  EXPECT_EQ(a.selected, 2U);
  EXPECT_EQ(a.least_selected, 1U);
  EXPECT_EQ(a.most_selected, 6U);
  EXPECT_EQ(a.most_deferred(), 9U);
  EXPECT_EQ(b.most_selected, 1U);  // a vector stays selected
  EXPECT_EQ(b.most_deferred(), 0U);
  EXPECT_EQ(c.least_selected, 1U);
  EXPECT_EQ(c.most_selected, 3U);
  set_topk_ratio(layout, 0.6);
  EXPECT_EQ(a.selected, 6U);
  EXPECT_EQ(b.selected, 1U);
  EXPECT_EQ(c.selected, 3U);
  EXPECT_EQ(layout.selected_elements(), 4U * 6 + 6 + 3 * 3);
  const Layout fixed = make_layout(small_table(), 0.25, false, 0, 1);
  EXPECT_EQ(fixed.slices[0].least_selected, 2U);
  EXPECT_EQ(fixed.slices[0].most_selected, 2U);
}

TEST(Layout, EveryParameterHasOneOwner) {
  ParameterTable uneven = small_table();
  uneven.parameters[1] = {"b", 1, 1, false, 0};
  uneven.parameters[2] = {"c", 1, 30, true, 1};  // as large as several shares
  for (const ParameterTable& table : {small_table(), uneven}) {
    for (int ranks = 1; ranks <= 7; ++ranks) {
      const std::vector<int> owners = parameter_owners(table, ranks);
      EXPECT_TRUE(std::is_sorted(owners.begin(), owners.end()));
      std::size_t elements = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Layout layout = make_layout(table, 0.25, false, rank, ranks);
        std::size_t at = 0;
        for (const Slice& slice : layout.slices) {
          EXPECT_EQ(owners[slice.parameter], rank);
          EXPECT_EQ(slice.first, at);
          at += slice.elements();
        }
        EXPECT_EQ(layout.elements, at);
        EXPECT_EQ(layout.groups.size(), 2U);
        EXPECT_EQ(layout.groups[0].slices + layout.groups[1].slices, layout.slices.size());
        elements += layout.elements;
      }
      EXPECT_EQ(elements, static_cast<std::size_t>(table.elements())) << ranks << " ranks";
    }
  }
}

using Columns = std::vector<std::uint32_t>;

TEST(FirstSelection, TakesTheLargestAndOfTiesTheFirst) {
  const std::vector<float> norms = {1, 5, 3, 5, 3, 0};
  const ColumnSlots three = first_selection(norms, 3);
  EXPECT_EQ(three.selected, (Columns{1, 2, 3}));
  EXPECT_EQ(three.deferred, (Columns{0, 4, 5}));
  EXPECT_EQ(first_selection(norms, 6).deferred, Columns{});
  EXPECT_EQ(first_selection(norms, 0).selected, Columns{});
}

TEST(Exchange, PairsLeavingAndEnteringInAscendingOrder) {
  // Selected: 5 3 0 by slot. The largest three are 0, 2 and 4: so 3 and 5 leave for 2 and 4.
  ColumnSlots slots{{5, 3, 0}, {4, 1, 2}};
  const std::vector<float> norms = {9, 1, 8, 2, 7, 3};
  const ColumnExchange exchange = plan_exchange(norms, slots);
  EXPECT_EQ(exchange.selected_slot, (Columns{1, 0}));  // of 3, of 5
  EXPECT_EQ(exchange.deferred_slot, (Columns{2, 0}));  // of 2, of 4
  apply_exchange(exchange, slots);
  EXPECT_EQ(slots.selected, (Columns{4, 2, 0}));
  EXPECT_EQ(slots.deferred, (Columns{5, 1, 3}));
  EXPECT_TRUE(plan_exchange(norms, slots).selected_slot.empty());
}

TEST(Exchange, TiesKeepWhoIsSelectedThenTheLowerIndex) {
  const std::vector<float> equal(6, 2.0F);
  EXPECT_TRUE(plan_exchange(equal, {{4, 5}, {0, 1, 2, 3}}).selected_slot.empty());
  // Column 4 falls behind: of the tied ones outside, 0 enters.
  const std::vector<float> norms = {2, 2, 2, 2, 1, 2};
  const ColumnSlots slots{{4, 5}, {3, 2, 1, 0}};
  const ColumnExchange exchange = plan_exchange(norms, slots);
  EXPECT_EQ(exchange.selected_slot, Columns{0});
  EXPECT_EQ(exchange.deferred_slot, Columns{3});
}

TEST(Moves, ThoseWhoStayCloseRanksThoseWhoComeAreLast) {
  // Selected: 5 3 0 by slot. The four columns with the largest norms are 0, 2, 4 and 1.
  const std::vector<float> norms = {9, 5, 8, 2, 7, 3};
  ColumnSlots slots{{5, 3, 0}, {4, 1, 2}};
  const ColumnMoves more = plan_moves(norms, slots, 4);
  EXPECT_EQ(more.leaving, (Columns{0, 1}));
  EXPECT_EQ(more.entering, (Columns{0, 1, 2}));
  apply_moves(more, slots);
  EXPECT_EQ(slots.selected, (Columns{0, 4, 1, 2}));
  EXPECT_EQ(slots.deferred, (Columns{5, 3}));
  const ColumnMoves fewer = plan_moves(norms, slots, 1);
  EXPECT_EQ(fewer.leaving, (Columns{1, 2, 3}));
  EXPECT_EQ(fewer.entering, Columns{});
  apply_moves(fewer, slots);
  EXPECT_EQ(slots.selected, Columns{0});
  EXPECT_EQ(slots.deferred, (Columns{5, 3, 4, 1, 2}));
  EXPECT_EQ(slots_left(4, Columns{}), (Columns{0, 1, 2, 3}));
  EXPECT_EQ(slots_left(4, Columns{0, 3}), (Columns{1, 2}));
}

TEST(Exchange, EverythingSelectedChangesNothing) {
  EXPECT_TRUE(plan_exchange(std::vector<float>{1, 2}, {{1, 0}, {}}).selected_slot.empty());
}

TEST(WindowTraffic, WorkedByHand) {
  const Layout layout = make_layout(small_table(), 0.25, false, 0, 1);  // 44 deferred
  OffloadSettings s;
  s.overlap_step = true;
  EXPECT_EQ(window_traffic(layout, ElementType::kBfloat16, s, 3).d2h, 3U * 88);
  EXPECT_EQ(window_traffic(layout, ElementType::kBfloat16, s, 3).h2d, 88U);
  EXPECT_EQ(window_traffic(layout, ElementType::kFloat32, s, 1).d2h, 176U);
  s.accumulate_on_device = true;
  EXPECT_EQ(window_traffic(layout, ElementType::kBfloat16, s, 3).d2h, 176U);
  EXPECT_EQ(window_traffic(layout, ElementType::kBfloat16, s, 1).d2h, 176U);
  s.overlap_step = false;
  EXPECT_EQ(window_traffic(layout, ElementType::kBfloat16, s, 1).d2h, 88U);
  EXPECT_EQ(warm_up_traffic(layout, ElementType::kBfloat16).d2h, 122U);
  EXPECT_EQ(warm_up_traffic(layout, ElementType::kBfloat16).h2d, 122U);
}

TEST(SelectionTraffic, WorkedByHand) {
  const Slice slice{.rows = 4, .columns = 10, .selected = 3};
  const auto of = [&](const ChangedColumns& changed, bool overlap) {
    return selection_traffic(slice, ElementType::kBfloat16, changed, overlap);
  };
  // Norms alone.
  EXPECT_EQ(of({.ratio_changes = true}, true).d2h, 40U);
  EXPECT_EQ(of({.ratio_changes = true}, true).h2d, 0U);
  // Two columns change place with two: 8 elements of 12 bytes each way, 10 + 2 + 2 indices; with
  // overlap 2 indices and 8 weights more.
  EXPECT_EQ(of({.leaving = 2, .entering = 2}, false).d2h, 40U + 96);
  EXPECT_EQ(of({.leaving = 2, .entering = 2}, false).h2d, 56U + 96);
  EXPECT_EQ(of({.leaving = 2, .entering = 2}, true).h2d, 56U + 96 + 8 + 16);
  // One leaves for three: of the two that stay old and new slots go up.
  const ChangedColumns more{.leaving = 1, .entering = 3, .ratio_changes = true};
  EXPECT_EQ(of(more, false).d2h, 40U + 48);
  EXPECT_EQ(of(more, false).h2d, 56U + 144 + 16);
}

TEST(Settings, EachBadValueIsNamed) {
  struct Bad {
    std::function<void(OffloadSettings&)> change;
    std::string message;
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Bad> list = {
      {[](auto& s) { s.topk_ratio = 1.5; }, "topk_ratio: expected a number from 0 to 1, found 1.5"},
      {[](auto& s) { s.topk_ratio = kNan; },
       "topk_ratio: expected a number from 0 to 1, found nan"},
      {[](auto& s) {
         s.topk_range = {0.0, 0.5};
       },
       "topk_range: expected two numbers above 0 and below 1, the smaller one first, found 0 and "
       "0.5"},
      {[](auto& s) {
         s.topk_range = {1e-310, 0.5};
       },
       "topk_range: expected at least 1e-06, found 1e-310"},
      {[](auto& s) {
         s.topk_range = {0.2, 0.5};
       },
       "topk_ratio: expected a number from 0.2 to 0.5 (topk_range), found 0.1"},
      {[](auto& s) { s.update_interval = 0; }, "update_interval: expected at least 1, found 0"},
      {[](auto& s) { s.select_interval = 6; },
       "select_interval: expected a multiple of update_interval (4), found 6: columns change place "
       "between two windows"},
      {[](auto& s) { s.select_interval = -4; },
       "select_interval: expected a multiple of update_interval (4), found -4: columns change "
       "place between two windows"},
      {[](auto& s) { s.full_warm_up_rounds = -1; },
       "full_warm_up_rounds: expected at least 0, found -1"},
      {[](auto& s) { s.gradient_clipping = -1; },
       "gradient_clipping: expected 0 (none) or a positive number, found -1"},
      {[](auto& s) { s.gradient_clipping = std::numeric_limits<double>::infinity(); },
       "gradient_clipping: expected 0 (none) or a positive number, found inf"},
      {[](auto& s) { s.optimizer_threads = 0; }, "optimizer threads: expected at least 1, found 0"},
      {[](auto& s) { s.sum_threads = 0; }, "sum threads: expected at least 1, found 0"},
      {[](auto& s) {
         s.optimizer_cores = {0, -1};
       },
       "optimizer cores: expected CPU numbers, found -1"},
      {[](auto& s) { s.max_staleness = 6; },
       "update_interval: 4 makes gradients up to 7 steps old, max_staleness is 6"},
      {[](auto& s) { s.overlap_step = false, s.max_staleness = 2; },
       "update_interval: 4 makes gradients up to 3 steps old, max_staleness is 2"},
      {[](auto& s) { s.adamw.learning_rate = -0.5F; },
       "learning rate: expected a finite number, 0 or more, found -0.5"},
      {[](auto& s) { s.adamw.beta1 = 1; }, "betas: expected from 0 to below 1, found 1 and 0.999"},
      {[](auto& s) { s.adamw.beta2 = kNan; },
       "betas: expected from 0 to below 1, found 0.9 and nan"},
      {[](auto& s) { s.adamw.epsilon = 0; }, "epsilon: expected a finite number above 0, found 0"},
      {[](auto& s) { s.adamw.epsilon = std::numeric_limits<float>::infinity(); },
       "epsilon: expected a finite number above 0, found inf"},
      {[](auto& s) {
         s.optimizer_cores = {1, 0, 1};
       },
       "optimizer cores: 1 is there twice"},
      {[](auto& s) { s.adamw.weight_decay = -1; },
       "weight decay: expected a finite number, 0 or more, found -1"}};
  for (const Bad& bad : list) {
    OffloadSettings settings;
    bad.change(settings);
    const auto [kind, message] =
        error_of([&] { (void)settings_for(OffloadSchedule::kZenFlow, settings); });
    EXPECT_EQ(kind, ErrorKind::kInput);
    EXPECT_EQ(message, bad.message);
  }
}

TEST(Settings, BoundsThemselvesAreAllowed) {
  OffloadSettings settings;
  settings.max_staleness = 7;
  EXPECT_EQ(settings_for(OffloadSchedule::kZenFlow, settings).update_interval, 4);
  settings.interval_is_auto = true;
  settings.select_interval = 6;  // needs no multiple where S changes
  EXPECT_TRUE(settings_for(OffloadSchedule::kZenFlow, settings).interval_is_auto);
}

TEST(Settings, OtherSchedulesAreFixed) {
  OffloadSettings settings;
  settings.interval_is_auto = true;
  settings.accumulate_on_device = true;
  settings.topk_range = {0.05, 0.2};
  settings.full_warm_up_rounds = 3;
  settings.max_staleness = 1;
  for (const OffloadSchedule schedule : {OffloadSchedule::kGpuOnly, OffloadSchedule::kZeroOffload,
                                         OffloadSchedule::kZeroOffloadDpu}) {
    const OffloadSettings made = settings_for(schedule, settings);
    EXPECT_EQ(made.topk_ratio, 0);
    EXPECT_FALSE(made.topk_range);
    EXPECT_EQ(made.update_interval, 1);
    EXPECT_EQ(made.full_warm_up_rounds, 0);
    EXPECT_FALSE(made.interval_is_auto);
    EXPECT_FALSE(made.accumulate_on_device);
    EXPECT_EQ(made.overlap_step, schedule == OffloadSchedule::kZeroOffloadDpu);
    EXPECT_EQ(made.everything_on_device(), schedule == OffloadSchedule::kGpuOnly);
  }
}

}  // namespace
}  // namespace zenflow::runtime
