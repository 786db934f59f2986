/// For any settings, thread counts and delays the engine trains as the sequential program does, bit
/// for bit; and moves exactly the bytes that its schedule says.
#include <string>

#include <gtest/gtest.h>

#include "runtime/offload/traffic.h"
#include "sim/base/error.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using namespace testing;

class OffloadEngineAgainstSequential : public ::testing::TestWithParam<int> {};

TEST_P(OffloadEngineAgainstSequential, SameBits) {
  for (std::uint64_t i = 0; i < tried(12U); ++i) {
    compare_with_sequential(random_case(static_cast<std::uint64_t>(GetParam()) * 1000 + i), 26);
    if (::testing::Test::HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, OffloadEngineAgainstSequential, ::testing::Range(0, 12));

Case zenflow_case(std::uint64_t seed = 5) {
  Case c;
  c.seed = seed;
  c.settings.topk_ratio = 0.25;
  c.settings.update_interval = 3;
  c.settings.select_interval = 6;
  c.settings.adamw = {1e-2F, 0.9F, 0.999F, 1e-8F, 0.1F};
  c.settings.optimizer_threads = 2;
  c.jitter = {seed, std::chrono::microseconds(100)};
  return c;
}

TEST(OffloadEngine, CasesDoExchangeColumns) {
  // What the comparison with the sequential program would otherwise not have tried.
  Trainer trainer(zenflow_case());
  trainer.engine.load_weights(trainer.model.initial_weights());
  std::size_t columns = 0;
  int selections = 0;
  for (int t = 0; t < 30; ++t) {
    const StepResult result = trainer.step();
    columns += result.columns_exchanged;
    selections += result.selected_anew ? 1 : 0;
    EXPECT_EQ(result.selected_anew, t % 6 == 5);
  }
  EXPECT_EQ(selections, 5);
  EXPECT_GT(columns, 0U);
}

/// A flat AdamW over all weights: no columns, no windows.
std::vector<std::vector<float>> plain_adamw(const Case& c, std::int64_t steps) {
  ToyModel model({13, 24, 17, 6}, c.type, c.seed);
  auto weights = model.initial_weights();
  auto m = weights;
  for (auto& values : m) std::fill(values.begin(), values.end(), 0.0F);
  auto v = m;
  const kernels::AdamWSettings& a = c.settings.adamw;
  for (std::int64_t t = 0; t < steps; ++t) {
    const auto gradients = model.gradients(weights, t);
    const kernels::BiasCorrection correction =
        kernels::bias_correction(a, static_cast<std::uint64_t>(t) + 1);
    for (std::size_t p = 0; p < weights.size(); ++p) {
      kernels::AdamWSettings of_parameter = a;
      if (!model.parameters().parameters[p].is_matrix) of_parameter.weight_decay = 0;
      kernels::adamw(of_parameter, correction, 1.0F, weights[p].size(),
                     kernels::AdamWState<float, float>{weights[p].data(), m[p].data(), v[p].data()},
                     gradients[p].data());
    }
  }
  return weights;
}

TEST(OffloadEngine, ZeroOffloadAndItsKinAreAdamW) {
  Case c;
  c.settings.adamw = {1e-2F, 0.9F, 0.999F, 1e-8F, 0.1F};
  const auto expected = plain_adamw(c, 20);
  OffloadSettings zenflow = c.settings;
  zenflow.topk_ratio = 0;
  zenflow.update_interval = 1;
  zenflow.overlap_step = false;
  for (const OffloadSettings& settings : {settings_for(OffloadSchedule::kZeroOffload, c.settings),
                                          settings_for(OffloadSchedule::kGpuOnly, c.settings),
                                          settings_for(OffloadSchedule::kZenFlow, zenflow)}) {
    c.settings = settings;
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    for (int t = 0; t < 20; ++t) trainer.step();
    expect_equal(expected, trainer.engine.weights(false), trainer.model.parameters());
    trainer.engine.settle();
    expect_equal(expected, trainer.engine.weights(true), trainer.model.parameters());
  }
}

TEST(OffloadEngine, StalenessIsThatOfTheSchedule) {
  for (const std::int64_t s : {1, 2, 5}) {
    for (const bool overlap : {false, true}) {
      Case c = zenflow_case();
      c.settings.update_interval = s;
      c.settings.select_interval = 0;
      c.settings.overlap_step = overlap;
      Trainer trainer(c);
      trainer.engine.load_weights(trainer.model.initial_weights());
      for (std::int64_t t = 0; t < 5 * s; ++t) {
        const StepResult result = trainer.step();
        EXPECT_EQ(result.window_ended, t % s == s - 1);
        const bool swapped = result.window_ended && (!overlap || t >= 2 * s - 1);
        ASSERT_EQ(result.staleness.has_value(), swapped) << "step " << t;
        if (swapped) {
          EXPECT_EQ(*result.staleness, overlap ? 2 * s - 1 : s - 1);
        }
      }
    }
  }
}

TEST(OffloadEngine, TrafficIsTheClosedForm) {
  for (std::uint64_t seed = 0; seed < tried(40U); ++seed) {
    Case c = random_case(seed + 500);
    c.settings.select_interval = 0;
    c.jitter = {};
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    const std::int64_t s = c.settings.update_interval;
    const std::int64_t windows = 4;
    for (std::int64_t t = 0; t < c.settings.full_warm_up_rounds + windows * s; ++t) trainer.step();
    trainer.engine.settle();
    const Layout& layout = trainer.engine.layout();
    const LinkBytes window = window_traffic(layout, c.type, c.settings, s);
    const LinkBytes warm_up = warm_up_traffic(layout, c.type);
    const auto rounds = static_cast<std::uint64_t>(c.settings.full_warm_up_rounds);
    const TrafficCount count = trainer.device.traffic();
    const auto kind = [](Traffic t) { return static_cast<std::size_t>(t); };
    EXPECT_EQ(count.d2h[kind(Traffic::kGradients)], rounds * warm_up.d2h + windows * window.d2h);
    EXPECT_EQ(count.h2d[kind(Traffic::kParameters)], rounds * warm_up.h2d + windows * window.h2d);
    EXPECT_EQ(count.h2d[kind(Traffic::kGradients)], 0U);
    EXPECT_EQ(count.d2h[kind(Traffic::kParameters)], 0U);
  }
}

TEST(OffloadEngine, MicroBatchesCrossTheLinkOnceAStep) {
  std::uint64_t once = 0;
  for (const std::int64_t count : {1, 2, 5}) {
    Case c = zenflow_case();
    c.settings.gradient_accumulation_steps = count;
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    for (int t = 0; t < 6; ++t) trainer.step();
    trainer.engine.settle();
    const auto kind = static_cast<std::size_t>(Traffic::kGradients);
    const std::uint64_t down = trainer.device.traffic().d2h[kind];
    if (count == 1) once = down;
    EXPECT_EQ(down, once);
    EXPECT_EQ(down, 2 * window_traffic(trainer.engine.layout(), c.type, c.settings, 3).d2h);
  }
}

TEST(WindowTraffic, IsThePaperFormulaWhereSharesAreWhole) {
  // 1000 columns, k = 0.1, S = 4, bf16: (1 - k)(1 + 1/S) = 1.125 model sizes of 2 bytes a step.
  ParameterTable table;
  table.parameters = {{"w", 64, 1000, true, 0}};
  table.groups = {{"layers.0", 0, 1}};
  const Layout layout = make_layout(table, 0.1, false, 0, 1);
  const LinkBytes bytes = window_traffic(layout, ElementType::kBfloat16, {}, 4);
  EXPECT_DOUBLE_EQ(static_cast<double>(bytes.d2h + bytes.h2d) / 4, 1.125 * 64'000 * 2);
}

TEST(OffloadEngine, ANaNStopsTheRunNamingTheParameterBeforeAnyWeightChanges) {
  for (const std::int64_t bad_step : {0, 4, 5}) {
    Trainer trainer(zenflow_case());
    trainer.engine.load_weights(trainer.model.initial_weights());
    trainer.model.poison(bad_step, 2);
    for (std::int64_t t = 0; t < bad_step; ++t) trainer.step();
    const auto before = trainer.engine.weights(false);
    try {
      trainer.step();
      FAIL() << "a NaN went unnoticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
      EXPECT_NE(std::string(error.what()).find("layers.1.weight"), std::string::npos)
          << error.what();
    }
    expect_equal(before, trainer.engine.weights(false), trainer.model.parameters());
  }
}

TEST(OffloadEngine, AFailingOptimizerThreadStopsTheRunWithItsOwnError) {
  for (const bool overlap : {false, true}) {
    for (const std::int64_t s : {1, 3}) {
      Case c = zenflow_case();
      c.settings.overlap_step = overlap;
      c.settings.update_interval = s;
      c.settings.select_interval = 0;
      int calls = 0;
      c.settings.before_update = [&calls](std::size_t) {
        if (++calls == 5) throw Error(ErrorKind::kRuntime, "the optimizer broke");
      };
      Trainer trainer(c);
      trainer.engine.load_weights(trainer.model.initial_weights());
      try {
        for (int t = 0; t < 40; ++t) trainer.step();
        FAIL() << "training went on without its optimizer";
      } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "the optimizer broke");
      }
    }
  }
}

TEST(OffloadEngine, DeviceMemoryThatIsTooSmallIsRefusedWithNumbers) {
  Recorder recorder(false);
  SelfCommunicator self;
  const auto device = make_test_device({.memory = Bytes(2000)}, recorder);
  ToyModel model({13, 24, 17, 6}, ElementType::kFloat32, 1);
  try {
    const OffloadEngine engine(model, ElementType::kFloat32, {}, *device, self, recorder);
    FAIL() << "more memory was given than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInfeasible);
    EXPECT_NE(std::string(error.what()).find("weights needs"), std::string::npos) << error.what();
  }
}

TEST(OffloadEngine, ResumesBitForBitFromAnyStep) {
  for (std::uint64_t seed = 0; seed < tried(30U); ++seed) {
    const Case c = random_case(seed + 900);
    SCOPED_TRACE(describe(c));
    const auto stop = static_cast<std::int64_t>(seed % 14);
    Trainer whole(c);
    whole.engine.load_weights(whole.model.initial_weights());
    Saved saved;
    std::vector<double> losses;
    for (std::int64_t t = 0; t < 22; ++t) {
      if (t == stop) saved = save(whole.engine);  // saving changes nothing either
      losses.push_back(whole.step().loss);
    }
    Trainer uninterrupted(c);
    uninterrupted.engine.load_weights(uninterrupted.model.initial_weights());
    for (std::int64_t t = 0; t < 22; ++t)
      ASSERT_EQ(uninterrupted.step().loss, losses[static_cast<std::size_t>(t)]);

    Trainer resumed(c);
    restore(resumed.engine, saved);
    ASSERT_EQ(resumed.engine.steps_done(), stop);
    for (std::int64_t t = stop; t < 22; ++t) {
      ASSERT_EQ(resumed.step().loss, losses[static_cast<std::size_t>(t)]) << "step " << t;
    }
    whole.engine.settle();
    resumed.engine.settle();
    expect_equal(whole.engine.weights(true), resumed.engine.weights(true),
                 whole.model.parameters());
    EXPECT_EQ(save(whole.engine), save(resumed.engine));
  }
}

TEST(OffloadEngine, StateOfAnotherRunIsRefused) {
  Trainer trainer(zenflow_case());
  trainer.engine.load_weights(trainer.model.initial_weights());
  trainer.step();
  const Saved saved = save(trainer.engine);
  const auto refuses = [&](auto change, std::string_view why) {
    Case c = zenflow_case();
    change(c);
    Trainer other(c);
    try {
      restore(other.engine, saved);
      ADD_FAILURE() << "took a checkpoint of other settings: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refuses([](Case& c) { c.settings.topk_ratio = 0.5; }, "topk_ratio");
  refuses([](Case& c) { c.settings.overlap_step = false; }, "overlap_step");
  refuses([](Case& c) { c.settings.update_interval = 2; }, "update_interval");
  refuses([](Case& c) { c.type = ElementType::kBfloat16; }, "bytes per weight");
}

TEST(OffloadEngine, SettlingAppliesWhatIsUnderWay) {
  // With one step a window every gradient is applied by the end: to the last bit AdamW with
  // weights one step old, which the sequential program computes.
  Case c = zenflow_case();
  c.settings.topk_ratio = 0;
  c.settings.update_interval = 1;
  c.settings.select_interval = 0;
  Trainer trainer(c);
  ToyModel oracle({13, 24, 17, 6}, c.type, c.seed);
  trainer.engine.load_weights(oracle.initial_weights());
  SequentialTrainer sequential(oracle.parameters(), rule_of(c), oracle.initial_weights());
  for (std::int64_t t = 0; t < 9; ++t) {
    trainer.step();
    sequential.step(oracle.gradients(sequential.working(), t), 1);
  }
  trainer.engine.settle();
  expect_equal(sequential.master(), trainer.engine.weights(false), oracle.parameters());
}

}  // namespace
}  // namespace zenflow::runtime
