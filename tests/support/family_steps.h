/// Steps of the real models, tiny, as the offload engine is given them and as a program without
/// engine and device computes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/mix.h"
#include "tests/support/model_step.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime::testing {

inline constexpr std::int64_t kFamilySequences = 2;
inline constexpr std::int64_t kFamilyLength = 6;

/// A configuration of tests/data/model.
inline TransformerConfig family_config(const std::string& family) {
  return load_transformer_config(ZENFLOW_SOURCE_DIR "/tests/data/model/" + family + ".json",
                                 Task::language_modelling());
}

inline Batch family_batch(std::uint64_t seed, std::int64_t step, std::int64_t vocabulary) {
  using zenflow::testing::mix;
  Batch batch;
  batch.sequences = kFamilySequences;
  batch.length = kFamilyLength;
  for (std::int64_t i = 0; i <= kFamilySequences * kFamilyLength; ++i) {
    const auto token = static_cast<std::int32_t>(
        mix(seed * 1009 + mix(static_cast<std::uint64_t>(step * 97 + i))) %
        static_cast<std::uint64_t>(vocabulary));
    if (i < kFamilySequences * kFamilyLength) batch.inputs.push_back(token);
    if (i > 0) batch.targets.push_back(token);
  }
  return batch;
}

/// The micro-batches of a step.
inline std::vector<Batch> family_batches(const Case& c, std::int64_t step,
                                         std::int64_t vocabulary) {
  std::vector<Batch> batches;
  const std::int64_t count = c.settings.gradient_accumulation_steps;
  for (std::int64_t i = 0; i < count; ++i) {
    batches.push_back(family_batch(c.seed, step * count + i, vocabulary));
  }
  return batches;
}

/// Initial weights, and gradients of a step with any weights, without engine or device.
class FamilyOracle {
 public:
  FamilyOracle(const TransformerConfig& config, const Case& c)
      : model_(config, kFamilySequences, kFamilyLength, c.type) {
    model_.initialize(c.type, c.seed);
    for (std::size_t p = 0; p < table().parameters.size(); ++p) {
      initial_.push_back(model_.weights.values(p));
    }
  }
  [[nodiscard]] const ParameterTable& table() const { return model_.model.parameters(); }
  [[nodiscard]] const SequentialTrainer::Tensors& initial() const { return initial_; }

  SequentialTrainer::Tensors gradients(const SequentialTrainer::Tensors& at,
                                       const std::vector<Batch>& batches, double& loss) {
    for (std::size_t p = 0; p < at.size(); ++p) {
      for (std::size_t i = 0; i < at[p].size(); ++i) model_.weights.set(p, i, at[p][i]);
    }
    for (std::size_t i = 0; i < batches.size(); ++i) {
      loss = model_.step(batches[i],
                         {.adds = i > 0, .weight = 1.0 / static_cast<double>(batches.size())});
    }
    SequentialTrainer::Tensors result;
    for (std::size_t p = 0; p < at.size(); ++p) result.push_back(model_.gradients.values(p));
    return result;
  }

 private:
  zenflow::testing::ModelUnderTest model_;
  SequentialTrainer::Tensors initial_;
};

}  // namespace zenflow::runtime::testing
