/// The offload engine at the edges of its settings: shapes, intervals that change, runs that settle
/// and go on.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/offload/traffic.h"
#include "tests/support/error_of.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using namespace testing;
using zenflow::testing::error_of;

const std::vector<std::string> kAll = {"compute", "d2h", "h2d"};

TEST(OffloadEngineEdges, MatricesOfAnyShape) {
  const std::vector<std::vector<std::int64_t>> shapes = {{1, 1},       {1, 7},      {7, 1},
                                                         {1, 9, 1, 5}, {33, 2, 40}, {5, 64, 3}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      for (const double k : {0.0, 0.001, 0.4, 0.999, 1.0}) {
        Case c = random_case(100 * i + seed + 40'000);
        c.widths = shapes[i];
        c.settings.topk_ratio = k;
        c.jitter = {};
        c.lazy = kAll;
        compare_with_sequential(c, 12);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(OffloadEngineEdges, ColumnsRankedByL1) {
  for (std::uint64_t seed = 0; seed < tried(24U); ++seed) {
    Case c = random_case(41'000 + seed);
    c.settings.norm = NormKind::kL1;
    c.settings.topk_ratio = 0.3;
    c.jitter = {};
    c.lazy = kAll;
    compare_with_sequential(c, 16);
    if (HasFatalFailure()) return;
  }
}

TEST(OffloadEngineEdges, SettlingMidwayAndGoingOn) {
  for (std::uint64_t seed = 0; seed < tried(60U); ++seed) {
    Case c = random_case(42'000 + seed);
    c.lazy = kAll;
    compare_with_sequential(c, 18, static_cast<std::int64_t>(seed % 11));
    if (HasFatalFailure()) return;
  }
}

Case adaptive_case(std::uint64_t seed) {
  Case c = random_case(seed);
  c.settings.interval_is_auto = true;
  c.settings.select_interval = static_cast<std::int64_t>(seed % 3) * 3;
  c.next_interval = [seed](std::int64_t window) {
    return 1 + static_cast<std::int64_t>((seed + static_cast<std::uint64_t>(window) * 5) % 7) / 2;
  };
  c.jitter = {};
  c.lazy = kAll;
  return c;
}

TEST(OffloadEngineEdges, IntervalsThatChange) {
  for (std::uint64_t seed = 0; seed < tried(48U); ++seed) {
    compare_with_sequential(adaptive_case(43'000 + seed), 30,
                            seed % 2 == 0 ? -1 : static_cast<std::int64_t>(seed % 17));
    if (HasFatalFailure()) return;
  }
}

TEST(OffloadEngineEdges, IntervalsThatChangeResume) {
  for (std::uint64_t seed = 0; seed < tried(24U); ++seed) {
    const Case c = adaptive_case(44'000 + seed);
    SCOPED_TRACE(describe(c));
    const auto stop = static_cast<std::int64_t>(seed % 14);
    Trainer whole(c);
    whole.engine.load_weights(whole.model.initial_weights());
    for (std::int64_t t = 0; t < stop; ++t) whole.step();
    const Saved saved = save(whole.engine);
    Trainer resumed(c);
    restore(resumed.engine, saved);
    for (std::int64_t t = stop; t < 26; ++t) ASSERT_EQ(whole.step().loss, resumed.step().loss);
    EXPECT_EQ(save(whole.engine), save(resumed.engine));
  }
}

TEST(OffloadEngineEdges, NoIntervalMayExceedMaxStaleness) {
  for (const bool overlap : {false, true}) {
    for (const std::int64_t asked : {-1, 0, 5, 6, 7, 20}) {
      Case c = adaptive_case(45'000);
      c.settings.overlap_step = overlap;
      c.settings.full_warm_up_rounds = 0;
      c.settings.update_interval = 2;
      c.settings.max_staleness = 5;
      c.next_interval = [asked](std::int64_t) { return asked; };
      Trainer trainer(c);
      trainer.engine.load_weights(trainer.model.initial_weights());
      // After a window of two steps: asked - 1 + 2 with overlap, asked - 1 without.
      const bool possible = asked >= 1 && asked - 1 + (overlap ? 2 : 0) <= 5;
      for (int t = 0; t < 3; ++t) trainer.step();  // the first window's end asks nobody
      const auto [kind, message] = error_of([&] { trainer.step(); });
      EXPECT_EQ(message.empty(), possible) << overlap << " " << asked << " " << message;
      if (!possible) {
        EXPECT_EQ(kind, ErrorKind::kRuntime);
      }
    }
  }
}

TEST(OffloadEngineEdges, StalenessNeverExceedsItsBoundWhileIntervalsChange) {
  for (std::uint64_t seed = 0; seed < tried(20U); ++seed) {
    Case c = adaptive_case(46'000 + seed);
    c.settings.max_staleness = 7;  // S is 4 at most
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    std::int64_t largest = 0;
    std::int64_t before = 0;  // S of the window before
    for (int t = 0; t < 40; ++t) {
      const StepResult result = trainer.step();
      if (result.staleness) {
        const std::int64_t own = result.window_steps - 1;
        const bool warm = t < c.settings.full_warm_up_rounds;
        const std::int64_t expected = c.settings.overlap_step && !warm ? own + before : own;
        EXPECT_EQ(*result.staleness, expected) << "step " << t;
        largest = std::max(largest, *result.staleness);
      }
      if (result.window_ended) before = result.window_steps;
    }
    EXPECT_LE(largest, 7);
  }
}

TEST(OffloadEngineEdges, WarmUpAndSettlingDoNotAskForAnInterval) {
  Case c = adaptive_case(47'000);
  c.settings.full_warm_up_rounds = 4;
  c.settings.update_interval = 3;
  std::vector<std::int64_t> asked;
  c.next_interval = [&asked](std::int64_t window) {
    asked.push_back(window);
    return 3;
  };
  Trainer trainer(c);
  trainer.engine.load_weights(trainer.model.initial_weights());
  for (int t = 0; t < 4 + 6 + 2; ++t) trainer.step();
  EXPECT_EQ(asked, (std::vector<std::int64_t>{4, 5}));  // windows 0 to 3 were the warm-up
  trainer.engine.settle();
  EXPECT_EQ(asked.size(), 2U);
}

TEST(OffloadEngineEdges, TrafficIsTheClosedFormWhileIntervalsChange) {
  for (std::uint64_t seed = 0; seed < tried(30U); ++seed) {
    Case c = adaptive_case(47'500 + seed);
    c.settings.select_interval = 0;
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    const Layout& layout = trainer.engine.layout();
    LinkBytes expected;
    const auto count = [&expected](const LinkBytes& more) {
      expected.d2h += more.d2h;
      expected.h2d += more.h2d;
    };
    int windows = 0;
    while (windows < 9) {
      const StepResult result = trainer.step();
      if (!result.window_ended) continue;
      ++windows;
      count(result.step < c.settings.full_warm_up_rounds
                ? warm_up_traffic(layout, c.type)
                : window_traffic(layout, c.type, c.settings, result.window_steps));
    }
    trainer.engine.settle();
    const TrafficCount found = trainer.device.traffic();
    EXPECT_EQ(found.d2h[static_cast<std::size_t>(Traffic::kGradients)], expected.d2h);
    EXPECT_EQ(found.h2d[static_cast<std::size_t>(Traffic::kParameters)], expected.h2d);
  }
}

TEST(OffloadEngineEdges, AnIntervalPolicyNeedsSettingsThatAdapt) {
  Trainer trainer(random_case(1));
  EXPECT_EQ(
      error_of([&] { trainer.engine.set_interval_policy([](const auto&) { return 1; }); }).first,
      ErrorKind::kInput);
}

TEST(OffloadEngineEdges, ACheckpointWithALargerIntervalThanAllowedIsRefused) {
  Case c = adaptive_case(48'000);
  c.settings.full_warm_up_rounds = 0;
  c.settings.overlap_step = true;
  c.settings.update_interval = 2;
  c.next_interval = [](std::int64_t) { return 4; };
  Trainer trainer(c);
  trainer.engine.load_weights(trainer.model.initial_weights());
  for (int t = 0; t < 5; ++t) trainer.step();
  const Saved saved = save(trainer.engine);
  c.settings.max_staleness = 7;
  Trainer allowed(c);
  restore(allowed.engine, saved);
  c.settings.max_staleness = 6;
  Trainer refusing(c);
  const auto [kind, message] = error_of([&] { restore(refusing.engine, saved); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_EQ(message,
            "checkpoint: update_interval 4 makes gradients up to 7 steps old, max_staleness is 6");
}

// Which of two buffers a window's sums are in.
TEST(OffloadEngineEdges, ACheckpointOfAThirdBufferIsRefused) {
  const Case c = adaptive_case(48'000);
  Trainer trainer(c);
  trainer.engine.load_weights(trainer.model.initial_weights());
  trainer.step();
  for (const std::int64_t parity : {-1, 2, 1 << 30}) {
    Saved saved = save(trainer.engine);
    constexpr std::size_t kPlace = 6 * sizeof parity;
    std::memcpy(saved.at("counters").data() + kPlace, &parity, sizeof parity);
    Trainer refusing(c);
    const auto [kind, message] = error_of([&] { restore(refusing.engine, saved); });
    EXPECT_EQ(kind, ErrorKind::kInput);
    EXPECT_EQ(message, "checkpoint: parity of its window: expected a number from 0 to 1, found " +
                           std::to_string(parity));
  }
}

TEST(OffloadEngineEdges, WeightsBeforeTheFirstStepAreThoseLoaded) {
  for (std::uint64_t seed = 0; seed < tried(10U); ++seed) {
    const Case c = random_case(49'000 + seed);
    Trainer trainer(c);
    const auto initial = trainer.model.initial_weights();  // exact in bfloat16
    trainer.engine.load_weights(initial);
    expect_equal(initial, trainer.engine.weights(false), trainer.model.parameters());
    expect_equal(initial, trainer.engine.weights(true), trainer.model.parameters());
    trainer.engine.settle();
    expect_equal(initial, trainer.engine.weights(true), trainer.model.parameters());
  }
}

TEST(OffloadEngineEdges, GradientsOfZeroSelectAndUpdateAsTheRuleSays) {
  // One sample's worth of nothing: weights of zero in the last layer make all gradients below it
  // zero. Ties go to the lowest columns.
  Case c = random_case(50'000);
  c.type = ElementType::kFloat32;
  c.settings.topk_ratio = 0.25;
  c.settings.full_warm_up_rounds = 0;
  Trainer trainer(c);
  auto weights = trainer.model.initial_weights();
  std::fill(weights[4].begin(), weights[4].end(), 0.0F);
  trainer.engine.load_weights(weights);
  trainer.step();
  EXPECT_EQ(trainer.engine.slots(0).selected, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(trainer.engine.slots(2).selected, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
}

/// Recordings tell groups apart by the order of their spans.
TEST(OffloadEngineEdges, GroupsWithoutDeferredColumnsHaveSpansToo) {
  Case c = random_case(52'000);
  c.settings.topk_ratio = 0.25;
  c.settings.update_interval = 2;
  c.settings.select_interval = c.settings.full_warm_up_rounds = 0;
  c.settings.accumulate_on_device = false;
  c.widths = {13, 1, 17, 6};  // the second layer's matrix has one column, which is selected
  Trainer trainer(c);
  trainer.recorder.keep_spans(true);
  trainer.engine.load_weights(trainer.model.initial_weights());
  for (int t = 0; t < 4; ++t) trainer.step();
  trainer.engine.settle();
  std::map<Operation, int> spans;
  const sim::Timeline timeline = trainer.recorder.timeline("", "");
  for (const sim::TimelineSpan& span : timeline.spans) ++spans[span.operation];
  EXPECT_EQ(spans[Operation::kAccumulate], 3 * 4);
  EXPECT_EQ(spans[Operation::kCpuUpdate], 3 * 2);
}

TEST(OffloadEngineEdges, EverythingOnTheDeviceMovesNoGradientsAndKeepsNoHostState) {
  Case c = random_case(51'000);
  c.settings = settings_for(OffloadSchedule::kGpuOnly, c.settings);
  c.lazy = kAll;
  Trainer trainer(c);
  trainer.engine.load_weights(trainer.model.initial_weights());
  for (int t = 0; t < 5; ++t) trainer.step();
  trainer.engine.settle();
  const TrafficCount count = trainer.device.traffic();
  const auto of = [](const auto& counts, Traffic kind) {
    return counts[static_cast<std::size_t>(kind)];
  };
  EXPECT_EQ(of(count.d2h, Traffic::kGradients), 0U);
  EXPECT_EQ(of(count.h2d, Traffic::kParameters), 0U);
  for (const auto& [name, bytes] : save(trainer.engine)) {
    if (name.starts_with("deferred/")) {
      EXPECT_TRUE(bytes.empty()) << name;
    }
  }
}

}  // namespace
}  // namespace zenflow::runtime
