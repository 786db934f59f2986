/// Several ranks train as one does with the same global batch. Micro-batches of one rank are added
/// in fp32 in the order in which ranks are, so that weights are the same to the bit in fp32, but
/// for a tied embedding, to which head and embedding add one by one.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/closeness.h"
#include "tests/support/family_steps.h"
#include "tests/support/offload_case.h"
#include "tests/support/test_model.h"
#include "tests/support/thread_ranks.h"

namespace zenflow::runtime {
namespace {

using namespace testing;

struct Trained {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<float>> masters;
  std::vector<double> losses;
  std::vector<double> norms;
};

/// Trains on micro-batch `communicator.rank()` of each step, or with one rank on all of `global`.
Trained train(const TransformerConfig& config, Case c, std::int64_t global,
              Communicator& communicator) {
  const bool alone = communicator.size() == 1;
  const FamilyOracle oracle(config, c);
  c.settings.gradient_accumulation_steps = alone ? global : 1;
  Recorder recorder(false);
  const auto device = make_test_device({.jitter = c.jitter, .lazy_streams = c.lazy}, recorder);
  TestModel model(HostTransformer(config, {kFamilySequences, kFamilyLength, c.type}));
  OffloadEngine engine(model, c.type, c.settings, *device, communicator, recorder);
  engine.load_weights(oracle.initial());
  Trained result;
  for (std::int64_t t = 0; t < 11; ++t) {
    std::vector<Batch> batches;
    for (std::int64_t i = 0; i < global; ++i) {
      if (!alone && i != communicator.rank()) continue;
      batches.push_back(family_batch(c.seed, t * global + i, config.model.vocab));
    }
    model.begin_step(batches, communicator.size());
    const StepResult step = engine.step();
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
  }
  result.weights = engine.weights(false);
  engine.settle();
  result.masters = engine.weights(true);
  return result;
}

std::vector<Trained> train_on_ranks(const TransformerConfig& config, const Case& c, int ranks) {
  std::vector<Trained> all(static_cast<std::size_t>(ranks));
  zenflow::testing::ThreadRanks(ranks).run([&](Communicator& communicator) {
    Case own = c;
    own.jitter = {c.seed + static_cast<std::uint64_t>(communicator.rank()),
                  std::chrono::microseconds(50)};
    all[static_cast<std::size_t>(communicator.rank())] = train(config, own, ranks, communicator);
  });
  return all;
}

std::vector<Case> cases(ElementType type) {
  std::vector<Case> all;
  for (std::uint64_t i = 0; i < 6; ++i) {
    Case c = random_case(70'000 + i);
    c.type = type;
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
  return all;
}

class OffloadRanks : public ::testing::TestWithParam<int> {};

TEST_P(OffloadRanks, TrainAsOneWithTheGlobalBatch) {
  const TransformerConfig config = family_config("llama");
  for (const Case& c : cases(ElementType::kFloat32)) {
    SCOPED_TRACE(describe(c));
    SelfCommunicator self;
    const Trained one = train(config, c, GetParam(), self);
    for (const Trained& rank : train_on_ranks(config, c, GetParam())) {
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
      const std::vector<Trained> all = train_on_ranks(config, c, GetParam());
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

INSTANTIATE_TEST_SUITE_P(Counts, OffloadRanks, ::testing::Values(2, 4),
                         [](const auto& instance) { return std::to_string(instance.param); });

}  // namespace
}  // namespace zenflow::runtime
