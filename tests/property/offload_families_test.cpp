/// The offload engine trains the real models, of each family, as the sequential program does: bit
/// for bit, for any settings, thread counts and delays.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/family_steps.h"
#include "tests/support/offload_case.h"
#include "tests/support/test_model.h"

namespace zenflow::runtime {
namespace {

using namespace testing;
void compare(const TransformerConfig& config, const Case& c, std::size_t threads) {
  SCOPED_TRACE(describe(c));
  FamilyOracle oracle(config, c);
  const ParameterTable& table = oracle.table();
  const SequentialTrainer::Tensors& initial = oracle.initial();
  SequentialTrainer sequential(table, rule_of(c), initial);

  Recorder recorder(false);
  SelfCommunicator self;
  const auto device = make_test_device({.jitter = c.jitter, .lazy_streams = c.lazy}, recorder);
  TestModel model(HostTransformer(config, {kFamilySequences, kFamilyLength, c.type}, threads));
  OffloadEngine engine(model, c.type, c.settings, *device, self, recorder);
  engine.load_weights(initial);
  for (std::int64_t t = 0; t < 10; ++t) {
    const std::vector<Batch> batches = family_batches(c, t, config.model.vocab);
    double loss = 0;
    const auto expected = oracle.gradients(sequential.working(), batches, loss);
    model.begin_step(batches);
    const StepResult result = engine.step();
    ASSERT_EQ(result.loss, loss) << "step " << t;
    const double limit = c.settings.gradient_clipping;
    sequential.step(expected, limit > 0 && result.gradient_norm > limit
                                  ? static_cast<float>(limit / result.gradient_norm)
                                  : 1.0F);
  }
  expect_equal(sequential.working(), engine.weights(false), table);
  if (::testing::Test::HasFatalFailure()) return;
  engine.settle();
  sequential.settle();
  expect_equal(sequential.master(), engine.weights(true), table);
}

class OffloadFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(OffloadFamilies, SameBits) {
  const TransformerConfig config = family_config(GetParam());
  for (std::uint64_t i = 0; i < tried(16U); ++i) {
    Case c = random_case(60'000 + i);
    c.jitter = {i, std::chrono::microseconds(i % 3 == 0 ? 100 : 0)};
    if (i % 3 == 1) c.lazy = {"d2h", "h2d"};
    if (i % 3 == 2) c.lazy = {"compute", "d2h", "h2d"};
    compare(config, c, 1 + i % 3);
    if (HasFatalFailure()) return;
  }
}

/// Weights after `steps` steps of AdamW on the CPU, by parameter.
std::vector<std::vector<float>> trained(const TransformerConfig& config, const Case& c,
                                        std::int64_t steps) {
  const FamilyOracle oracle(config, c);
  Recorder recorder(false);
  SelfCommunicator self;
  const auto device = make_test_device({}, recorder);
  TestModel model(HostTransformer(config, {kFamilySequences, kFamilyLength, c.type}));
  OffloadEngine engine(model, c.type, c.settings, *device, self, recorder);
  engine.load_weights(oracle.initial());
  for (std::int64_t t = 0; t < steps; ++t) {
    model.begin_step(family_batches(c, t, config.model.vocab));
    engine.step();
  }
  engine.settle();
  return engine.weights(true);
}

/// Micro-batches can add up in the device's gradients, or as the steps of a window on the host: a
/// window of N steps in which everything is deferred and nothing overlaps. Sums are taken in one
/// order, and a power of two scales exactly, so the weights are the same to the bit. (Not with a
/// tied head, whose part and the embedding's are added one by one on the device.)
TEST(OffloadAccumulation, OnTheDeviceIsThatOnTheHost) {
  for (const auto& [family, count] :
       {std::pair("llama", 2), {"llama", 4}, {"qwen2", 2}, {"qwen2", 4}}) {
    const TransformerConfig config = family_config(family);
    Case on_device;
    on_device.settings.gradient_accumulation_steps = count;
    on_device.settings = settings_for(OffloadSchedule::kZeroOffload, on_device.settings);
    Case on_host;
    on_host.settings.topk_ratio = 0;
    on_host.settings.update_interval = count;
    on_host.settings.overlap_step = false;
    expect_equal(trained(config, on_device, 5), trained(config, on_host, 5 * count),
                 parameter_table(config.model, config.task));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations, OffloadFamilies,
                         ::testing::Values("gpt2", "llama", "llama_tied", "qwen2", "gemma3", "phi3",
                                           "olmo3", "opt"),
                         [](const auto& which) { return std::string(which.param); });

}  // namespace
}  // namespace zenflow::runtime
