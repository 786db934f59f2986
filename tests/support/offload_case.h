/// Runs of the offload engine on a small model, and their comparison with the sequential program.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runtime/offload/engine.h"
#include "sim/base/error.h"
#include "tests/support/long_tests.h"
#include "tests/support/sequential_trainer.h"
#include "tests/support/test_device.h"
#include "tests/support/toy_model.h"

namespace zenflow::runtime::testing {

using zenflow::testing::tried;

struct Case {
  OffloadSettings settings;
  ElementType type = ElementType::kFloat32;
  std::uint64_t seed = 1;
  Jitter jitter{};
  std::vector<std::int64_t> widths{13, 24, 17, 6};  ///< of the model
  bool tied = false;                                ///< see ToyModel
  std::vector<std::string> lazy{};                  ///< streams
  std::optional<Bytes> memory{};                    ///< of the device
  /// S of the window after number `window`, with interval_is_auto.
  std::function<std::int64_t(std::int64_t window)> next_interval{};
  /// The share of columns asked for then, with interval_is_auto and a topk_range.
  std::function<double(std::int64_t window)> next_ratio{};
};

inline std::string describe(const Case& c) {
  const OffloadSettings& s = c.settings;
  return fmt::format(
      "seed {} k {} S {} select {} warm-up {} overlap {} device sums {} clipping {} bf16 {} "
      "threads {} decays vectors {} delays {} lazy {} l1 {} global {} tied {} micro-batches {}",
      c.seed, s.topk_ratio, s.update_interval, s.select_interval, s.full_warm_up_rounds,
      s.overlap_step, s.accumulate_on_device, s.gradient_clipping, c.type == ElementType::kBfloat16,
      s.optimizer_threads, s.decays_vectors, c.jitter.longest.count(), fmt::join(c.lazy, " "),
      s.norm == NormKind::kL1, s.topk_is_global, c.tied, s.gradient_accumulation_steps);
}

inline SequentialRule rule_of(const Case& c) {
  const OffloadSettings& s = c.settings;
  return {.topk_ratio = s.everything_on_device() ? 1 : s.topk_ratio,
          .update_interval = s.update_interval,
          .select_interval = s.select_interval,
          .warm_up = s.full_warm_up_rounds,
          .overlap = s.overlap_step,
          .learning_rate = s.adamw.learning_rate,
          .beta1 = s.adamw.beta1,
          .beta2 = s.adamw.beta2,
          .epsilon = s.adamw.epsilon,
          .weight_decay = s.adamw.weight_decay,
          .decays_vectors = s.decays_vectors,
          .scaling = static_cast<int>(s.deferred_scaling),
          .bf16 = c.type == ElementType::kBfloat16,
          .l1 = s.norm == NormKind::kL1,
          .global = s.topk_is_global,
          .next_interval = c.next_interval,
          .next_ratio = c.next_ratio};
}

/// A model, a device and an engine on it. Memory that nobody has written is full of NaNs.
struct Trainer {
  explicit Trainer(const Case& c)
      : recorder(false),
        owned_device(make_test_device(
            {.memory = c.memory, .jitter = c.jitter, .lazy_streams = c.lazy}, recorder)),
        device(*owned_device),
        model(c.widths, c.type, c.seed, c.tied),
        engine(model, c.type, c.settings, device, self, recorder) {
    if (c.next_interval || c.next_ratio) {
      engine.set_interval_policy(
          [this, steps = c.next_interval, ratio = c.next_ratio](const WindowObservation& seen) {
            if (ratio) engine.change_topk_ratio(ratio(seen.window));
            return steps ? steps(seen.window) : seen.steps;
          });
    }
  }

  StepResult step() {
    model.set_step(engine.steps_done());
    return engine.step();
  }
  /// Allocations of memory so far, on both sides.
  [[nodiscard]] std::uint64_t allocations() const {
    return device.memory_use(MemoryKind::kDevice).allocations +
           device.memory_use(MemoryKind::kPinnedHost).allocations;
  }

  Recorder recorder;
  SelfCommunicator self;
  std::unique_ptr<Device> owned_device;
  Device& device;
  ToyModel model;
  OffloadEngine engine;
};

inline Case random_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](auto... options) {
    const auto list = {options...};
    return *(list.begin() + static_cast<std::ptrdiff_t>(random() % list.size()));
  };
  Case c;
  c.seed = seed;
  c.type = pick(ElementType::kFloat32, ElementType::kBfloat16);
  OffloadSettings& s = c.settings;
  s.topk_ratio = pick(0.0, 0.1, 0.25, 0.5, 1.0);
  s.update_interval = pick(1, 2, 3, 4);
  s.select_interval = s.update_interval * pick(0, 1, 2);
  s.full_warm_up_rounds = pick(0, 0, 1, 3);
  s.overlap_step = pick(true, true, false);
  s.accumulate_on_device = pick(false, false, true);
  s.whole_step_gradients = pick(true, false);
  s.deferred_scaling = pick(DeferredScaling::kNone, DeferredScaling::kSquareRoot,
                            DeferredScaling::kLinear, DeferredScaling::kThreeQuarters);
  s.gradient_clipping = pick(0.0, 0.5);
  s.decays_vectors = seed % 2 == 0;
  s.optimizer_threads = pick(1, 2, 3);
  s.sum_threads = pick(1, 2);
  s.adamw = {1e-2F, 0.9F, 0.999F, 1e-8F, 0.1F};
  c.jitter = {seed, std::chrono::microseconds(pick(0, 200))};
  // One row at a time, a few, all at once.
  s.exchange_bytes = pick(std::size_t{1}, std::size_t{200}, s.exchange_bytes);
  s.gradient_accumulation_steps = pick(1, 1, 1, 2, 3);
  return c;
}

/// The same with a share of columns that changes as the seed has it, now and then for some windows.
inline Case random_ratio_case(std::uint64_t seed) {
  Case c = random_case(seed);
  static constexpr std::array kRatios = {0.1, 0.2, 0.25, 0.4, 0.6, 0.9};
  c.settings.topk_ratio = kRatios.at(seed % kRatios.size());
  c.settings.topk_range = {kRatios.front(), kRatios.back()};
  c.settings.interval_is_auto = true;
  c.next_ratio = [seed](std::int64_t window) {
    std::mt19937_64 random(seed * 31 + static_cast<std::uint64_t>(window) / 2);
    return kRatios.at(random() % kRatios.size());
  };
  return c;
}

inline void expect_equal(const std::vector<std::vector<float>>& expected,
                         const std::vector<std::vector<float>>& found,
                         const ParameterTable& table) {
  for (std::size_t p = 0; p < expected.size(); ++p) {
    for (std::size_t i = 0; i < expected[p].size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(expected[p][i]),
                std::bit_cast<std::uint32_t>(found[p][i]))
          << table.parameters[p].name << "[" << i << "]: " << expected[p][i] << " and "
          << found[p][i];
    }
  }
}

/// After `settle_after` steps both settle, and go on.
inline void compare_with_sequential(const Case& c, std::int64_t steps,
                                    std::int64_t settle_after = -1) {
  SCOPED_TRACE(describe(c));
  Trainer trainer(c);
  ToyModel oracle(c.widths, c.type, c.seed, c.tied);
  const auto initial = oracle.initial_weights();
  trainer.engine.load_weights(initial);
  SequentialTrainer sequential(oracle.parameters(), rule_of(c), initial);
  for (std::int64_t t = 0; t < steps; ++t) {
    if (t == settle_after) {
      trainer.engine.settle();
      sequential.settle();
      expect_equal(sequential.working(), trainer.engine.weights(false), oracle.parameters());
      expect_equal(sequential.master(), trainer.engine.weights(true), oracle.parameters());
      if (::testing::Test::HasFatalFailure()) return;
    }
    const auto gradients =
        oracle.gradients(sequential.working(), t, c.settings.gradient_accumulation_steps);
    const StepResult result = trainer.step();
    ASSERT_EQ(result.loss, oracle.loss()) << "step " << t;
    double squares = 0;
    for (const auto& g : gradients) {
      for (const float x : g) squares += static_cast<double>(x) * x;
    }
    ASSERT_NEAR(result.gradient_norm, std::sqrt(squares), 1e-9 * std::sqrt(squares));
    const double limit = c.settings.gradient_clipping;
    // The norm has been checked; its last bits are the engine's.
    sequential.step(gradients, limit > 0 && result.gradient_norm > limit
                                   ? static_cast<float>(limit / result.gradient_norm)
                                   : 1.0F);
  }
  expect_equal(sequential.working(), trainer.engine.weights(false), oracle.parameters());
  if (::testing::Test::HasFatalFailure()) return;
  if (c.settings.overlap_step) return;
  expect_equal(sequential.master(), trainer.engine.weights(true), oracle.parameters());
}

using Saved = std::map<std::string, std::vector<std::byte>, std::less<>>;

inline Saved save(OffloadEngine& engine) {
  struct Sink final : OffloadEngine::StateSink {
    Saved saved;
    std::vector<std::byte>* array = nullptr;  // that is under way
    std::size_t expected = 0;

    void begin(const std::string& name, std::size_t bytes) override {
      const auto [place, is_new] = saved.emplace(name, std::vector<std::byte>());
      EXPECT_TRUE(is_new) << name;
      array = &place->second;
      expected = bytes;
    }
    void append(std::span<const std::byte> piece) override {
      array->insert(array->end(), piece.begin(), piece.end());
    }
    void end() override { EXPECT_EQ(array->size(), expected); }
  };
  Sink sink;
  engine.save(sink);
  return sink.saved;
}

inline void restore(OffloadEngine& engine, const Saved& saved) {
  engine.restore([&](std::string_view name) -> std::span<const std::byte> {
    const auto found = saved.find(name);
    if (found == saved.end()) throw Error(ErrorKind::kInput, std::string(name) + " is not there");
    return found->second;
  });
}

/// A run that is saved before step `stop` and goes on from there does as one that goes on.
inline void compare_with_resumed(const Case& c, std::int64_t stop, std::int64_t steps) {
  SCOPED_TRACE(describe(c));
  Trainer whole(c);
  whole.engine.load_weights(whole.model.initial_weights());
  Saved saved;
  std::vector<double> losses;
  for (std::int64_t t = 0; t < steps; ++t) {
    if (t == stop) saved = save(whole.engine);
    losses.push_back(whole.step().loss);
  }
  Trainer resumed(c);
  restore(resumed.engine, saved);
  for (std::int64_t t = stop; t < steps; ++t) {
    ASSERT_EQ(resumed.step().loss, losses[static_cast<std::size_t>(t)]) << "step " << t;
  }
  EXPECT_EQ(resumed.engine.settings().topk_ratio, whole.engine.settings().topk_ratio);
  whole.engine.settle();
  resumed.engine.settle();
  expect_equal(whole.engine.weights(true), resumed.engine.weights(true), whole.model.parameters());
  EXPECT_EQ(save(whole.engine), save(resumed.engine));
}

/// All memory is there when a run begins.
inline void expect_no_allocations(const Case& c, int steps) {
  SCOPED_TRACE(describe(c));
  Trainer trainer(c);
  trainer.engine.load_weights(trainer.model.initial_weights());
  const std::uint64_t before = trainer.allocations();
  for (int t = 0; t < steps; ++t) trainer.step();
  EXPECT_EQ(trainer.allocations(), before);
}

}  // namespace zenflow::runtime::testing
