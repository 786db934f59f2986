/// topk_ratio changes while the engine trains: the same bits as the sequential program, exact bytes
/// over the link, memory planned at the start, and resumes that go on as if there had been no stop.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/offload/traffic.h"
#include "sim/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using namespace testing;
using zenflow::testing::error_of;

class RatioChange : public ::testing::TestWithParam<int> {};

TEST_P(RatioChange, SameBitsAsTheSequentialProgram) {
  for (std::uint64_t i = 0; i < tried(8U); ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam()) * 1000 + 500 + i;
    // Settling leaves a change that is wanted for the next window's end.
    compare_with_sequential(random_ratio_case(seed), 26, i % 2 == 0 ? 13 : -1);
    if (::testing::Test::HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RatioChange, ::testing::Range(0, 12));

TEST(RatioChange, SameBitsOnStreamsThatRunAsLateAsTheyCan) {
  for (std::uint64_t seed = 0; seed < tried(12U); ++seed) {
    Case c = random_ratio_case(seed + 40);
    c.jitter = {};
    c.lazy = {"compute", "d2h", "h2d"};
    c.next_interval = [seed](std::int64_t window) {
      return 1 + (static_cast<std::int64_t>(seed) + window * 5) % 7 / 2;
    };
    compare_with_sequential(c, 26);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// What the comparison with the sequential program would otherwise not have tried.
TEST(RatioChange, ColumnsSelectedAreThoseOfTheRatio) {
  int grown = 0;
  int shrunk = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Case c = random_ratio_case(seed + 80);
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    double before = c.settings.topk_ratio;
    for (int t = 0; t < 26; ++t) {
      const StepResult result = trainer.step();
      const double now = trainer.engine.settings().topk_ratio;
      if (t < c.settings.full_warm_up_rounds) continue;
      EXPECT_TRUE(now == before || (result.window_ended && result.selected_anew));
      grown += now > before ? 1 : 0;
      shrunk += now < before ? 1 : 0;
      before = now;
      const Layout& layout = trainer.engine.layout();
      for (std::size_t s = 0; s < layout.slices.size(); ++s) {
        const Slice& slice = layout.slices[s];
        const std::size_t expected = slice.columns == 1 ? 1 : selected_columns(now, slice.columns);
        ASSERT_EQ(trainer.engine.slots(s).selected.size(), expected);
        ASSERT_EQ(trainer.engine.slots(s).deferred.size(), slice.columns - expected);
        ASSERT_EQ(trainer.engine.last_importance()[s].selected, expected);
      }
    }
  }
  EXPECT_GT(grown, 20);
  EXPECT_GT(shrunk, 20);
}

TEST(RatioChange, ToTheRatioAtHandChangesNothing) {
  for (std::uint64_t seed = 0; seed < tried(12U); ++seed) {
    Case c = random_ratio_case(seed + 120);
    SCOPED_TRACE(describe(c));
    c.next_ratio = [k = c.settings.topk_ratio](std::int64_t) { return k; };
    Trainer asked(c);
    c.next_ratio = nullptr;
    Trainer fixed(c);
    asked.engine.load_weights(asked.model.initial_weights());
    fixed.engine.load_weights(fixed.model.initial_weights());
    for (int t = 0; t < 20; ++t) {
      const StepResult result = asked.step();
      ASSERT_EQ(result.selected_anew, fixed.step().selected_anew) << "step " << t;
    }
    EXPECT_EQ(save(asked.engine), save(fixed.engine));
  }
}

/// A range alone is memory: what is computed is the same as without.
TEST(RatioChange, ARangeThatIsNotUsedChangesNoWeight) {
  for (std::uint64_t seed = 0; seed < tried(12U); ++seed) {
    Case c = random_ratio_case(seed + 160);
    SCOPED_TRACE(describe(c));
    c.next_ratio = nullptr;
    Trainer ranged(c);
    c.settings.topk_range.reset();
    Trainer fixed(c);
    for (Trainer* trainer : {&ranged, &fixed}) {
      trainer->engine.load_weights(trainer->model.initial_weights());
      for (int t = 0; t < 20; ++t) trainer->step();
      trainer->engine.settle();
    }
    expect_equal(fixed.engine.weights(true), ranged.engine.weights(true), fixed.model.parameters());
  }
}

TEST(RatioChange, AllocatesNoDeviceMemory) {
  for (std::uint64_t seed = 0; seed < tried(12U); ++seed) {
    expect_no_allocations(random_ratio_case(seed + 200), 20);
  }
}

/// Selected state for the largest ratio, what crosses the link for the smallest.
TEST(RatioChange, MemoryIsThatOfTheWorstRatios) {
  const auto bytes_of = [](double k, std::optional<TopkRange> range, std::string_view purpose) {
    Case c;
    c.settings.topk_ratio = k;
    c.settings.topk_range = range;
    Trainer trainer(c);
    std::uint64_t sum = 0;
    for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinnedHost}) {
      const auto by_purpose = trainer.device.memory_use(kind).by_purpose;
      const auto found = by_purpose.find(std::string(purpose));
      if (found != by_purpose.end()) sum += found->second;
    }
    return sum;
  };
  for (const char* selected : {"selected state", "selected gradients", "column exchange"}) {
    EXPECT_GT(bytes_of(0.5, {}, selected), 0U);
    EXPECT_EQ(bytes_of(0.2, TopkRange{0.1, 0.5}, selected), bytes_of(0.5, {}, selected));
  }
  for (const char* deferred :
       {"packed gradients", "arriving weights", "deferred gradients", "updated weights"}) {
    EXPECT_GT(bytes_of(0.1, {}, deferred), 0U);
    EXPECT_EQ(bytes_of(0.2, TopkRange{0.1, 0.5}, deferred), bytes_of(0.1, {}, deferred));
  }
}

std::vector<std::set<std::uint32_t>> selected_sets(Trainer& trainer) {
  std::vector<std::set<std::uint32_t>> sets;
  for (std::size_t s = 0; s < trainer.engine.layout().slices.size(); ++s) {
    const auto& selected = trainer.engine.slots(s).selected;
    sets.emplace_back(selected.begin(), selected.end());
  }
  return sets;
}

/// By the columns that have changed place between two looks at a run.
LinkBytes expected_selection(const Layout& before, const Case& c, bool ratio_changes,
                             const std::vector<std::set<std::uint32_t>>& sets_before,
                             const std::vector<std::set<std::uint32_t>>& sets_now) {
  LinkBytes sum;
  for (std::size_t s = 0; s < before.slices.size(); ++s) {
    if (!before.slices[s].selectable) continue;
    ChangedColumns changed{.ratio_changes = ratio_changes};
    for (const std::uint32_t column : sets_before[s])
      changed.leaving += 1 - sets_now[s].count(column);
    for (const std::uint32_t column : sets_now[s])
      changed.entering += 1 - sets_before[s].count(column);
    const LinkBytes one =
        selection_traffic(before.slices[s], c.type, changed, c.settings.overlap_step);
    sum.d2h += one.d2h;
    sum.h2d += one.h2d;
  }
  return sum;
}

TEST(RatioChange, TrafficIsTheClosedForm) {
  const auto kind = [](Traffic t) { return static_cast<std::size_t>(t); };
  int changes = 0;
  for (std::uint64_t seed = 0; seed < tried(40U); ++seed) {
    Case c = random_ratio_case(seed + 300);
    c.settings.full_warm_up_rounds = 0;
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    const std::int64_t s = c.settings.update_interval;
    trainer.step();  // in which columns are selected first
    TrafficCount before = trainer.device.traffic();
    Layout layout = trainer.engine.layout();
    auto sets = selected_sets(trainer);
    std::optional<TrafficCount> window_before;
    // The traffic of the current window, and of the update that is uploaded while it runs.
    LinkBytes window = window_traffic(layout, c.type, c.settings, s);
    std::uint64_t upload = window.h2d;
    for (std::int64_t t = 1; t < 10 * s; ++t) {
      const StepResult result = trainer.step();
      const TrafficCount now = trainer.device.traffic();
      const TrafficCount step = difference(now, before);
      before = now;
      const Layout layout_now = trainer.engine.layout();
      const bool ratio_changes = layout_now.selected_elements() != layout.selected_elements();
      if (result.selected_anew) {
        changes += ratio_changes ? 1 : 0;
        const auto sets_now = selected_sets(trainer);
        const LinkBytes expected = expected_selection(layout, c, ratio_changes, sets, sets_now);
        ASSERT_EQ(step.d2h[kind(Traffic::kSelection)], expected.d2h) << "step " << t;
        ASSERT_EQ(step.h2d[kind(Traffic::kSelection)], expected.h2d) << "step " << t;
        sets = sets_now;
      } else {
        ASSERT_EQ(step.d2h[kind(Traffic::kSelection)], 0U) << "step " << t;
        ASSERT_EQ(step.h2d[kind(Traffic::kSelection)], 0U) << "step " << t;
      }
      if (!result.window_ended) continue;
      const LinkBytes next = window_traffic(layout_now, c.type, c.settings, s);
      // Two windows until an update is there to be uploaded in every one.
      if (window_before && t >= 3 * s - 1) {
        const TrafficCount between = difference(*result.window_traffic, *window_before);
        ASSERT_EQ(between.d2h[kind(Traffic::kGradients)], window.d2h) << "step " << t;
        ASSERT_EQ(between.h2d[kind(Traffic::kParameters)], upload) << "step " << t;
      }
      window_before = result.window_traffic;
      // With overlap the update that begins now has the new columns; else it has been, with the
      // old.
      upload = c.settings.overlap_step ? next.h2d : window.h2d;
      window = next;
      layout = layout_now;
    }
  }
  EXPECT_GT(changes, 40);
}

TEST(RatioChange, ResumesBitForBitFromAnyStep) {
  for (std::uint64_t seed = 0; seed < tried(30U); ++seed) {
    compare_with_resumed(random_ratio_case(seed + 900), static_cast<std::int64_t>(seed % 14), 22);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

Case ranged_case() {
  Case c;
  c.settings.topk_ratio = 0.4;
  c.settings.topk_range = {0.2, 0.5};
  c.settings.update_interval = 2;
  return c;
}

TEST(RatioChange, OutsideTheRangeIsRefused) {
  Trainer trainer(ranged_case());
  for (const double k : {0.19, 0.51, 0.0, 1.0}) {
    const auto [kind, message] = error_of([&] { trainer.engine.change_topk_ratio(k); });
    EXPECT_EQ(kind, ErrorKind::kInput);
    EXPECT_EQ(message, fmt::format("topk_ratio: expected a number from 0.2 to 0.5, found {}", k));
  }
  Trainer fixed(Case{});
  const auto [kind, message] = error_of([&] { fixed.engine.change_topk_ratio(0.2); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_EQ(message, "topk_ratio: 0.2 after 0.1: the settings have no topk_range");
}

TEST(RatioChange, StateOfARatioOutsideTheRangeIsRefused) {
  Trainer trainer(ranged_case());
  trainer.engine.load_weights(trainer.model.initial_weights());
  trainer.step();
  const Saved saved = save(trainer.engine);
  const auto refusal = [&](double k, std::optional<TopkRange> range, const Saved& state) {
    Case c = ranged_case();
    c.settings.topk_ratio = k;
    c.settings.topk_range = range;
    Trainer other(c);
    return error_of([&] { restore(other.engine, state); });
  };
  EXPECT_EQ(refusal(0.2, TopkRange{0.2, 0.3}, saved),
            std::pair(ErrorKind::kInput,
                      std::string("topk_ratio: expected a number from 0.2 to 0.3, found 0.4")));
  Saved without = saved;
  without.erase("topk_ratios");
  EXPECT_EQ(refusal(0.4, TopkRange{0.2, 0.5}, without).first, ErrorKind::kInput);
  EXPECT_NE(refusal(0.2, std::nullopt, saved).second.find("topk_ratio"), std::string::npos);
}

}  // namespace
}  // namespace zenflow::runtime
