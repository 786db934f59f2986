/// Several ranks train as one does with the same global batch. Micro-batches of one rank are added
/// in fp32 in the order in which ranks are, so that weights are the same to the bit in fp32, but
/// for a tied embedding, to which head and embedding add one by one.
#include <array>
#include <cmath>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/closeness.h"
#include "tests/support/device_ranks.h"
#include "tests/support/family_steps.h"
#include "tests/support/long_tests.h"
#include "tests/support/offload_case.h"
#include "tests/support/test_model.h"

namespace zenflow::runtime {
namespace {

using namespace testing;

struct Trained {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<float>> masters;
  std::vector<double> losses;
  std::vector<double> norms;
  std::uint64_t sent_gradients = 0;  ///< bytes
  std::uint64_t gradient_memory = 0;
};

/// State of all ranks, as a checkpoint has it.
class Shards {
 public:
  void add(const Saved& shard) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, bytes] : shard) {
      EXPECT_TRUE(all_.emplace(name, bytes).second) << name << " has two owners";
    }
  }
  [[nodiscard]] const Saved& all() const { return all_; }

 private:
  std::mutex mutex_;
  Saved all_;
};

/// Steps of a run, which may go on from a checkpoint and end with one.
struct Part {
  std::int64_t first = 0;
  std::int64_t last = 11;
  const Shards* from = nullptr;
  Shards* into = nullptr;
};

/// Trains on every `communicator.size()`-th of the `global` micro-batches of each step, from
/// `communicator.rank()` on.
Trained train(const TransformerConfig& config, Case c, std::int64_t global,
              Communicator& communicator, const Part& part = {},
              const IntervalPolicy& policy = nullptr) {
  const FamilyOracle oracle(config, c);
  c.settings.gradient_accumulation_steps = global / communicator.size();
  Recorder recorder(false);
  const TestDevice settings{
      .jitter = c.jitter, .lazy_streams = c.lazy, .rank = communicator.rank()};
  if (communicator.size() == 1) start_test_devices(settings, 1);
  const auto device = test_device_of_rank(settings, recorder);
  TestModel model(HostTransformer(config, {kFamilySequences, kFamilyLength, c.type}));
  OffloadEngine engine(model, c.type, c.settings, *device, communicator, recorder);
  if (policy) engine.set_interval_policy(policy);
  if (part.from == nullptr) {
    engine.load_weights(oracle.initial());
  } else {
    restore(engine, part.from->all());
  }
  Trained result;
  for (std::int64_t t = part.first; t < part.last; ++t) {
    std::vector<Batch> batches;
    for (std::int64_t i = communicator.rank(); i < global; i += communicator.size()) {
      batches.push_back(family_batch(c.seed, t * global + i, config.model.vocab));
    }
    model.begin_step(batches, communicator.size());
    const StepResult step = engine.step();
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
  }
  if (part.into != nullptr) part.into->add(save(engine));
  result.weights = engine.weights(false);
  engine.settle();
  result.masters = engine.weights(true);
  result.sent_gradients = communicator.traffic().gradients;
  result.gradient_memory = device->memory_use(MemoryKind::kDevice).by_purpose.at("gradients");
  return result;
}

std::vector<Trained> train_on_ranks(const TransformerConfig& config, const Case& c, int ranks,
                                    std::int64_t global, const Part& part = {}) {
  std::vector<Trained> all(static_cast<std::size_t>(ranks));
  const Jitter jitter{c.seed, std::chrono::microseconds(50)};
  start_test_devices({.jitter = jitter, .lazy_streams = c.lazy}, ranks);
  run_on_ranks(ranks, [&](Communicator& communicator) {
    Case own = c;
    own.jitter = {c.seed + static_cast<std::uint64_t>(communicator.rank()),
                  std::chrono::microseconds(50)};
    all[static_cast<std::size_t>(communicator.rank())] =
        train(config, own, global, communicator, part);
  });
  return all;
}

std::vector<Case> cases(ElementType type) {
  std::vector<Case> all;
  for (std::uint64_t i = 0; i < (zenflow::testing::long_tests() ? 6 : 2); ++i) {
    Case c = random_case(70'000 + i);
    c.type = type;
    c.settings.topk_is_global = i % 2 == 1;
    all.push_back(c);
  }
  for (const OffloadSchedule schedule :
       {OffloadSchedule::kGpuOnly, OffloadSchedule::kZeroOffload, OffloadSchedule::kZeroOffloadDpu,
        OffloadSchedule::kZenFlow}) {
    Case c;
    c.type = type;
    c.settings.schedule = schedule;
    c.settings.topk_ratio = 0.2;
    c.settings.update_interval = 3;
    c.settings.select_interval = 6;
    c.settings.overlap_step = true;
    c.settings.gradient_clipping = 0.5;
    c.settings = settings_for(schedule, c.settings);
    all.push_back(c);
  }
  all.push_back(all.back());
  all.back().settings.topk_is_global = true;
  return all;
}

class OffloadRanks : public ::testing::TestWithParam<int> {};

TEST_P(OffloadRanks, TrainAsOneWithTheGlobalBatch) {
  const TransformerConfig config = family_config("llama");
  for (const Case& c : cases(ElementType::kFloat32)) {
    SCOPED_TRACE(describe(c));
    SelfCommunicator self;
    const Trained one = train(config, c, GetParam(), self);
    for (const Trained& rank : train_on_ranks(config, c, GetParam(), GetParam())) {
      ASSERT_EQ(rank.losses, one.losses);
      ASSERT_EQ(rank.norms, one.norms);
      ASSERT_EQ(rank.weights, one.weights);
      ASSERT_EQ(rank.masters, one.masters);
    }
  }
}

TEST_P(OffloadRanks, AgreeWithEachOtherInBf16AndWithATiedHead) {
  for (const char* family : {"llama_tied", "gemma3"}) {
    const TransformerConfig config = family_config(family);
    for (const Case& c : cases(ElementType::kBfloat16)) {
      SCOPED_TRACE(describe(c));
      SelfCommunicator self;
      const Trained one = train(config, c, GetParam(), self);
      const std::vector<Trained> all = train_on_ranks(config, c, GetParam(), GetParam());
      for (const Trained& rank : all) {
        ASSERT_EQ(rank.losses, all.front().losses);
        ASSERT_EQ(rank.masters, all.front().masters);
        ASSERT_EQ(rank.weights, all.front().weights);
      }
      // Gradients round to bf16 before they are added; eleven steps apart.
      EXPECT_NEAR(all.front().losses.front(), one.losses.front(), 1e-5);
      EXPECT_NEAR(all.front().losses.back(), one.losses.back(), 0.05);
    }
  }
}

// ZeRO stage 2 sends each micro-batch's gradients, and keeps those that the rank owns; stage 1
// keeps all, and sends them once.
TEST_P(OffloadRanks, AddUpMicroBatchesInEitherZeroStage) {
  constexpr std::int64_t kMicroBatches = 3;
  for (const char* family : {"llama", "llama_tied"}) {
    const TransformerConfig config = family_config(family);
    std::vector<Case> tried = cases(ElementType::kFloat32);
    if (!zenflow::testing::long_tests()) tried = {tried.front(), tried.back()};
    for (Case c : tried) {
      SCOPED_TRACE(describe(c) + " " + family);
      SelfCommunicator self;
      const Part part{.last = 5};
      const std::int64_t global = kMicroBatches * GetParam();
      const Trained one = train(config, c, global, self, part);
      std::array<std::vector<Trained>, 2> stages;
      for (const std::int64_t stage : {1, 2}) {
        SCOPED_TRACE(stage);
        c.settings.zero_stage = stage;
        stages.at(static_cast<std::size_t>(stage - 1)) =
            train_on_ranks(config, c, GetParam(), global, part);
        for (const Trained& rank : stages.at(static_cast<std::size_t>(stage - 1))) {
          // The same sum in another order.
          EXPECT_NEAR(rank.norms.front(), one.norms.front(), 1e-5 * one.norms.front());
          EXPECT_NEAR(rank.losses.back(), one.losses.back(), 1e-3);
          EXPECT_EQ(rank.masters, stages.at(static_cast<std::size_t>(stage - 1)).front().masters);
        }
      }
      const auto& [whole, shares] = stages;
      for (std::size_t r = 0; r < whole.size(); ++r) {
        EXPECT_EQ(whole[r].gradient_memory, one.gradient_memory);
        // A tied embedding keeps its place on every rank, which may own all the rest.
        const bool may_own_all = config.model.tied_embeddings;
        EXPECT_LT(shares[r].gradient_memory, whole[r].gradient_memory + (may_own_all ? 1 : 0));
        EXPECT_GT(whole[r].sent_gradients, 0U);
        EXPECT_EQ(shares[r].sent_gradients, kMicroBatches * whole[r].sent_gradients);
      }
    }
  }
}

// With one micro-batch a step the stages are the same.
TEST_P(OffloadRanks, GiveTheSameBitsInEitherZeroStage) {
  const TransformerConfig config = family_config("llama_tied");
  Case c = cases(ElementType::kBfloat16).back();
  const std::vector<Trained> shares = train_on_ranks(config, c, GetParam(), GetParam());
  c.settings.zero_stage = 1;
  const std::vector<Trained> whole = train_on_ranks(config, c, GetParam(), GetParam());
  for (std::size_t r = 0; r < whole.size(); ++r) {
    EXPECT_EQ(whole[r].masters, shares[r].masters);
    EXPECT_EQ(whole[r].sent_gradients, shares[r].sent_gradients);
    EXPECT_EQ(whole[r].gradient_memory, shares[r].gradient_memory);
  }
}

// Another number of ranks takes a checkpoint, gives it back as it was, and goes on from it.
TEST_P(OffloadRanks, GoOnFromACheckpointOfAnotherNumberOfRanks) {
  constexpr std::int64_t kGlobal = 4;
  std::int64_t stop = 0;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    const bool in_bf16 = type == ElementType::kBfloat16;
    const TransformerConfig config = family_config(in_bf16 ? "llama_tied" : "llama");
    for (const Case& c : cases(type)) {
      stop = stop % 5 + 1;
      SCOPED_TRACE(describe(c) + " stopped after " + std::to_string(stop));
      const std::vector<Trained> whole = train_on_ranks(config, c, GetParam(), kGlobal);
      const std::vector<double> losses(whole.front().losses.begin() + stop,
                                       whole.front().losses.end());
      Shards saved;
      train_on_ranks(config, c, GetParam(), kGlobal, {.last = stop, .into = &saved});
      const std::vector<int> counts =
          zenflow::testing::long_tests()
              ? std::vector{1, 2, 4}
              : std::vector{std::array{1, 2, 4}.at(static_cast<std::size_t>(stop % 3))};
      for (const int others : counts) {
        SCOPED_TRACE(others);
        Shards passed_on;
        train_on_ranks(config, c, others, kGlobal,
                       {.first = stop, .last = stop, .from = &saved, .into = &passed_on});
        ASSERT_EQ(passed_on.all(), saved.all());
        const Trained rest =
            train_on_ranks(config, c, others, kGlobal, {.first = stop, .from = &saved}).front();
        if (others == GetParam()) {
          ASSERT_EQ(rest.losses, losses);
          ASSERT_EQ(rest.masters, whole.front().masters);
          continue;
        }
        // Sums are taken in another order.
        for (std::size_t t = 0; t < losses.size(); ++t) {
          ASSERT_NEAR(rest.losses[t], losses[t], in_bf16 ? 0.05 : 1e-3);
        }
      }
    }
  }
}

// Whoever chooses how long windows are sees the same on every rank, and of gradients what one rank
// alone sees of them.
TEST_P(OffloadRanks, ShowAPolicyTheSame) {
  struct Seen {
    std::vector<WindowObservation> windows;
    std::vector<std::vector<float>> masters;
  };
  const TransformerConfig config = family_config("llama");
  Case c;
  c.type = ElementType::kFloat32;
  c.settings.schedule = OffloadSchedule::kZenFlow;
  c.settings.topk_ratio = 0.2;
  c.settings.update_interval = 2;
  c.settings.select_interval = 4;
  c.settings.interval_is_auto = true;
  c.settings = settings_for(c.settings.schedule, c.settings);
  const auto watch = [&](Communicator& communicator) {
    Seen seen;
    seen.masters =
        train(config, c, GetParam(), communicator, {.last = 15}, [&](const auto& window) {
          seen.windows.push_back(window);
          return 1 + std::ssize(seen.windows) % 3;
        }).masters;
    return seen;
  };
  SelfCommunicator self;
  const Seen one = watch(self);
  std::vector<Seen> all(static_cast<std::size_t>(GetParam()));
  start_test_devices({}, GetParam());
  run_on_ranks(GetParam(), [&](Communicator& communicator) {
    all[static_cast<std::size_t>(communicator.rank())] = watch(communicator);
  });
  ASSERT_GT(one.windows.size(), 3U);
  for (const Seen& rank : all) {
    ASSERT_EQ(rank.masters, one.masters);
    ASSERT_EQ(rank.windows.size(), one.windows.size());
    for (std::size_t w = 0; w < one.windows.size(); ++w) {
      EXPECT_EQ(rank.windows[w].window_seconds, all.front().windows[w].window_seconds);
      EXPECT_EQ(rank.windows[w].waited_seconds, all.front().windows[w].waited_seconds);
      EXPECT_EQ(rank.windows[w].selection_seconds, all.front().windows[w].selection_seconds);
      EXPECT_EQ(rank.windows[w].update_seconds, all.front().windows[w].update_seconds);
      ASSERT_EQ(rank.windows[w].importance.size(), one.windows[w].importance.size());
      for (std::size_t p = 0; p < one.windows[w].importance.size(); ++p) {
        const SliceImportance& alone = one.windows[w].importance[p];
        const SliceImportance& found = rank.windows[w].importance[p];
        EXPECT_EQ(found.parameter, alone.parameter);
        EXPECT_EQ(found.square_sum, alone.square_sum);
        EXPECT_EQ(found.selected_square_sum, alone.selected_square_sum);
        EXPECT_EQ(found.columns, alone.columns);
        EXPECT_EQ(found.selected, alone.selected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, OffloadRanks, ::testing::Values(2, 4),
                         [](const auto& instance) { return std::to_string(instance.param); });

}  // namespace
}  // namespace zenflow::runtime
