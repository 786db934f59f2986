/// A training that is tuned while it runs is the sequential program with the settings that were
/// chosen, bit for bit: whatever was recorded, and however late streams are.
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/tune/candidates.h"
#include "tests/support/family_steps.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/tuned_training.h"

namespace zenflow::runtime {
namespace {

using namespace testing;

constexpr std::int64_t kSteps = 44;

/// The update of a window takes 40 ms, four groups', whatever the machine, and a step without it
/// far less: from S = 1 there is something to gain.
Case late_optimizer() {
  Case c = tuned_case();
  c.settings.before_update = [](std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  return c;
}

void compare(Case c, const std::vector<double>& ratios) {
  SCOPED_TRACE(describe(c));
  const TransformerConfig config = family_config("llama");
  FamilyOracle oracle(config, c);
  TunedTraining training(config, c, kSteps, ratios);
  training.engine().load_weights(oracle.initial());
  std::vector<StepResult> results;
  for (std::int64_t t = 0; t < kSteps; ++t) {
    results.push_back(training.step(family_batches(c, t, config.model.vocab)));
  }
  for (const TuneEvent& event : training.log().events) {
    EXPECT_NE(event.kind, TuneEvent::Kind::kFailed) << event.reason;
  }
  std::int64_t changes = 0;
  for (const TuneEvent& event : training.log().events) {
    changes += event.kind == TuneEvent::Kind::kChange ? 1 : 0;
  }
  EXPECT_GT(changes, 0);

  c.next_interval = [&](std::int64_t window) {
    return training.chosen().at(window).update_interval;
  };
  c.next_ratio = [&](std::int64_t window) { return training.chosen().at(window).topk_ratio; };
  SequentialTrainer sequential(oracle.table(), rule_of(c), oracle.initial());
  for (std::int64_t t = 0; t < kSteps; ++t) {
    double loss = 0;
    const auto gradients =
        oracle.gradients(sequential.working(), family_batches(c, t, config.model.vocab), loss);
    ASSERT_EQ(results.at(static_cast<std::size_t>(t)).loss, loss) << "step " << t;
    sequential.step(gradients, 1.0F);
  }
  expect_equal(sequential.working(), training.engine().weights(false), oracle.table());
  if (::testing::Test::HasFatalFailure()) return;
  training.engine().settle();
  sequential.settle();
  expect_equal(sequential.master(), training.engine().weights(true), oracle.table());
}

TEST(OffloadTuned, IntervalsThatWereChosenGiveTheSequentialProgramsBits) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const bool overlap : {true, false}) {
      Case c = late_optimizer();
      c.type = type;
      c.settings.overlap_step = overlap;
      compare(c, {c.settings.topk_ratio});
      if (HasFatalFailure()) return;
    }
  }
}

// The host device's streams are not waited for when a recording ends.
#if defined(ZENFLOW_FAKE_CUDA)
TEST(OffloadTuned, OnStreamsThatAreLateToo) {
  for (const std::vector<std::string>& lazy :
       {std::vector<std::string>{"d2h"}, {"h2d"}, {"compute", "d2h", "h2d"}}) {
    Case c = late_optimizer();
    c.lazy = lazy;
    compare(c, {c.settings.topk_ratio});
    if (HasFatalFailure()) return;
  }
}
#endif

TEST(OffloadTuned, AndRatios) {
  Case c = late_optimizer();
  c.settings.topk_range = {0.1, 0.8};
  c.settings.max_staleness = 1;  // S stays: more selected columns are what is left to gain
  compare(c, topk_ratios(0.1, 0.8, c.settings.topk_ratio));
}

// The simulator has several ranks on a host's cores alone.
#if !defined(ZENFLOW_FAKE_CUDA)
/// One rank with the global batch and the settings of every window given by hand.
std::vector<std::vector<float>> trained_by_hand(const TransformerConfig& config, Case c, int ranks,
                                                const std::map<std::int64_t, TunePoint>& chosen) {
  c.settings.gradient_accumulation_steps = ranks;
  Recorder recorder(false);
  SelfCommunicator self;
  const auto device = make_test_device({}, recorder);
  TestModel model(HostTransformer(config, {kFamilySequences, kFamilyLength, c.type}));
  OffloadEngine engine(model, c.type, c.settings, *device, self, recorder);
  engine.set_interval_policy([&](const WindowObservation& seen) {
    engine.change_topk_ratio(chosen.at(seen.window).topk_ratio);
    return chosen.at(seen.window).update_interval;
  });
  engine.load_weights(FamilyOracle(config, c).initial());
  for (std::int64_t t = 0; t < kSteps; ++t) {
    model.begin_step(family_batches(c, t, config.model.vocab));
    static_cast<void>(engine.step());
  }
  engine.settle();
  return engine.weights(true);
}

// More is deferred than may be: whatever steps take, k has to rise.
TEST(OffloadTuned, RanksHaveTheSameSettingsAndTheWeightsOfOneThatIsGivenThem) {
  constexpr double kMostDeferred = 0.3;
  Case c = late_optimizer();
  c.settings.topk_range = {0.1, 0.8};
  const std::vector<double> ratios = topk_ratios(0.1, 0.8, c.settings.topk_ratio);
  const TransformerConfig config = family_config("llama");
  struct Outcome {
    std::map<std::int64_t, TunePoint> chosen;
    TuningLog log;
    std::vector<std::vector<float>> weights;
  };
  for (const int count : {2, 4}) {
    SCOPED_TRACE(count);
    std::vector<Outcome> all(static_cast<std::size_t>(count));
    zenflow::testing::ThreadRanks(count).run([&](Communicator& ranks) {
      TunedTraining training(config, c, kSteps, ratios, ranks, nullptr, kMostDeferred);
      training.engine().load_weights(FamilyOracle(config, c).initial());
      for (std::int64_t t = 0; t < kSteps; ++t) {
        static_cast<void>(
            training.step({family_batch(c.seed, t * count + ranks.rank(), config.model.vocab)}));
      }
      training.engine().settle();
      Outcome& own = all[static_cast<std::size_t>(ranks.rank())];
      own.chosen = training.chosen();
      if (ranks.rank() == 0) own.log = training.log();
      own.weights = training.engine().weights(true);
    });
    std::int64_t changes = 0;
    std::int64_t fits = 0;
    for (const TuneEvent& event : all.front().log.events) {
      EXPECT_NE(event.kind, TuneEvent::Kind::kFailed) << event.reason;
      changes += event.kind == TuneEvent::Kind::kChange ? 1 : 0;
      fits += event.kind == TuneEvent::Kind::kFitted ? 1 : 0;
      EXPECT_FALSE(event.other_cores.has_value());  // they would be the other ranks'
    }
    EXPECT_GT(changes, 0);
    EXPECT_GT(fits, 0);
    EXPECT_GT(all.front().chosen.rbegin()->second.topk_ratio, c.settings.topk_ratio);
    const auto by_hand = trained_by_hand(config, c, count, all.front().chosen);
    for (const Outcome& rank : all) {
      ASSERT_EQ(rank.chosen, all.front().chosen);
      ASSERT_EQ(rank.weights, by_hand);
    }
  }
}
#endif

// A second passes from one reading to the next. Each of two CPUs is idle for 0.3 of it, and this
// process ran for 0.9: 2 - 0.6 - 0.9 of a core are others'.
TEST(OffloadTuned, FitsAreToldWhatOtherProgramsUsed) {
  const Case c = tuned_case();
  const TransformerConfig config = family_config("llama");
  FamilyOracle oracle(config, c);
  std::int64_t second = 0;
  const auto read = [&] {
    ++second;
    const CpuTicks ticks{.idle = 30 * second, .all = 100 * second};
    return CoreReading{.cpus = {{0, ticks}, {1, ticks}, {2, {}}},
                       .own_seconds = 0.9 * static_cast<double>(second),
                       .at_seconds = static_cast<double>(second)};
  };
  for (const bool reads : {true, false}) {
    TunedTraining training(config, c, kSteps, {c.settings.topk_ratio},
                           reads ? std::function<CoreReading()>(read) : nullptr);
    training.engine().load_weights(oracle.initial());
    for (std::int64_t t = 0; t < 12; ++t) {
      static_cast<void>(training.step(family_batches(c, t, config.model.vocab)));
    }
    const auto& events = training.log().events;
    const auto fitted = std::find_if(events.begin(), events.end(), [](const auto& e) {
      return e.kind == TuneEvent::Kind::kFitted;
    });
    ASSERT_NE(fitted, events.end());
    ASSERT_EQ(fitted->other_cores.has_value(), reads);
    EXPECT_NEAR(fitted->other_cores.value_or(0.5), 0.5, 1e-9);
    // A GPU shares no cores with them.
    EXPECT_EQ(fitted->other_threads > 0, reads && !kTestDeviceIsAGpu);
  }
}

}  // namespace
}  // namespace zenflow::runtime
