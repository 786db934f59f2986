// The model as the offload engine uses it: what a batch may be, bits that do not depend on threads,
// gradients that are written and not summed, and what bfloat16 means.
#include "runtime/model/transformer.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/closeness.h"
#include "tests/support/gradient_check.h"
#include "tests/support/model_step.h"

namespace zenflow::runtime {
namespace {

using ::testing::HasSubstr;
using testing::model_config;
using testing::ModelUnderTest;

const char* const kLlama = R"({"model_type": "llama", "vocab_size": 20, "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 160, "initializer_range": 0.2,
    "tie_word_embeddings": true})";
const char* const kGpt2 = R"({"model_type": "gpt2", "vocab_size": 20, "n_embd": 16, "n_layer": 2,
    "n_head": 4, "n_positions": 160, "initializer_range": 0.2})";
const char* const kGemma3 = R"({"model_type": "gemma3_text", "vocab_size": 20, "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
    "intermediate_size": 24, "max_position_embeddings": 160, "initializer_range": 0.2,
    "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]})";
const char* const kOlmo2 = R"({"model_type": "olmo2", "vocab_size": 20, "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 160, "initializer_range": 0.2})";
const char* const kPhi3 = R"({"model_type": "phi3", "vocab_size": 20, "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 160, "initializer_range": 0.2,
    "partial_rotary_factor": 0.5})";
const char* const kOpt = R"({"model_type": "opt", "vocab_size": 20, "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 24,
    "max_position_embeddings": 160, "init_std": 0.2})";
const char* const kFamilies[] = {kLlama, kGpt2, kGemma3, kOlmo2, kPhi3, kOpt};

Batch some_batch(std::int64_t sequences, std::int64_t length) {
  Batch batch = {sequences, length, {}, {}, {}, {}};
  for (std::int32_t i = 0; i < sequences * length; ++i) {
    batch.inputs.push_back(i * 7 % 20);
    batch.targets.push_back((i * 7 + 3) % 20);
  }
  return batch;
}

std::string error_of(ModelUnderTest& model, const Batch& batch) {
  try {
    model.model.begin(batch);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  ADD_FAILURE() << "the batch was accepted";
  return "";
}

TEST(Transformer, HasTheSameBitsInEveryRunAndOnAnyNumberOfThreads) {
  for (const char* json : kFamilies) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
      ModelUnderTest one(model_config(json), 3, 150, type, 1);
      ModelUnderTest four(model_config(json), 3, 150, type, 4);
      one.initialize(type);
      four.initialize(type);
      const Batch batch = some_batch(3, 150);
      const double loss = one.step(batch);
      EXPECT_EQ(four.step(batch), loss);
      EXPECT_EQ(four.gradients.bytes(), one.gradients.bytes());
      const auto before = one.gradients.bytes();
      EXPECT_EQ(one.step(batch), loss);  // and nothing is left of the step before
      EXPECT_EQ(one.gradients.bytes(), before);
    }
  }
}

TEST(Transformer, InstancesShareNothing) {
  ModelUnderTest a(model_config(kLlama), 2, 20, ElementType::kFloat32, 2);
  ModelUnderTest b(model_config(kGpt2), 2, 20, ElementType::kFloat32, 2);
  a.initialize(ElementType::kFloat32);
  b.initialize(ElementType::kFloat32);
  const Batch batch = some_batch(2, 20);
  const double loss_a = a.step(batch);
  const double loss_b = b.step(batch);
  std::vector<double> found_a;
  std::vector<double> found_b;
  std::jthread other([&] {
    for (int i = 0; i < 5; ++i) found_b.push_back(b.step(batch));
  });
  for (int i = 0; i < 5; ++i) found_a.push_back(a.step(batch));
  other.join();
  EXPECT_EQ(found_a, std::vector<double>(5, loss_a));
  EXPECT_EQ(found_b, std::vector<double>(5, loss_b));
}

/// Inputs and targets of `batch` from sequence `first` on.
Batch part_of(const Batch& batch, std::int64_t first, std::int64_t sequences) {
  const auto from = static_cast<std::ptrdiff_t>(first * batch.length);
  const auto to = from + static_cast<std::ptrdiff_t>(sequences * batch.length);
  return {sequences,
          batch.length,
          {batch.inputs.begin() + from, batch.inputs.begin() + to},
          {batch.targets.begin() + from, batch.targets.begin() + to},
          {},
          {}};
}

TEST(Transformer, MicroBatchesAddUpToTheBatch) {
  for (const char* json : kFamilies) {
    ModelUnderTest whole(model_config(json), 4, 20);
    ModelUnderTest parts(model_config(json), 2, 20);
    whole.initialize(ElementType::kFloat32);
    parts.initialize(ElementType::kFloat32);
    const Batch batch = some_batch(4, 20);
    parts.step(part_of(batch, 0, 2), {.adds = false, .weight = 0.5});
    const double loss = parts.step(part_of(batch, 2, 2), {.adds = true, .weight = 0.5});
    EXPECT_NEAR(loss, whole.step(batch), 1e-6);
    for (std::size_t i = 0; i < parts.gradients.bytes().size(); ++i) {
      // Rounding alone: a bias of keys changes nothing where positions do not turn them.
      const bool is_opt = json == kOpt;
      if (is_opt && whole.model.parameters().parameters[i].name.ends_with("k_proj.bias")) continue;
      // Sums over tokens in another order.
      kernels::testing::expect_close(parts.gradients.values(i), whole.gradients.values(i),
                                     {1e-5, 1e-5},
                                     whole.model.parameters().parameters[i].name.c_str());
    }
  }
}

/// Halves are exact, so a batch that comes twice is that batch to the bit. (Not with a tied head,
/// whose part and the embedding's are added one by one.)
TEST(Transformer, EqualMicroBatchesAddUpToTheBitsOfOne) {
  std::string llama = kLlama;
  llama.replace(llama.find("true"), 4, "false");
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const auto& [json, labels] :
         {std::pair<std::string, std::int64_t>{llama, 0}, {llama, 3}, {llama, 1}, {kGpt2, 3}}) {
      const Task task = labels == 0 ? Task{} : Task::classification(labels);
      ModelUnderTest model(model_config(json, task), 2, 12, type);
      model.initialize(type);
      Batch batch = some_batch(2, 12);
      if (labels == 3) batch.targets = {2, 0};
      if (labels == 1) {
        batch.targets.clear();
        batch.values = {0.25F, -1.5F};
      }
      const double loss = model.step(batch);
      const auto gradients = model.gradients.bytes();
      model.step(batch, {.adds = false, .weight = 0.5});
      EXPECT_EQ(model.step(batch, {.adds = true, .weight = 0.5}), loss);
      EXPECT_TRUE(model.gradients.bytes() == gradients) << json << labels;
    }
  }
}

TEST(Transformer, CheckpointingActivationsChangesNoBit) {
  for (const char* json : kFamilies) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
      ModelUnderTest whole(model_config(json), 2, 20, type);
      ModelUnderTest checkpointing(model_config(json), 2, 20, type, 1, true);
      whole.initialize(type);
      checkpointing.initialize(type);
      for (const std::int64_t length : {20, 7}) {
        const Batch batch = some_batch(2, length);
        for (const bool adds : {false, true}) {
          const MicroBatch part{.adds = adds, .weight = 0.5};
          EXPECT_EQ(checkpointing.step(batch, part), whole.step(batch, part));
          EXPECT_TRUE(checkpointing.gradients.bytes() == whole.gradients.bytes());
        }
      }
    }
  }
}

/// An untrained model knows nothing: its loss is close to that of guessing.
TEST(Transformer, StartsAtTheLossOfGuessingAndLearns) {
  std::string json = kLlama;
  json.replace(json.find("0.2"), 3, "0.02");
  ModelUnderTest model(model_config(json), 4, 20);
  model.initialize(ElementType::kFloat32);
  const Batch batch = some_batch(4, 20);
  const double first = model.step(batch);
  EXPECT_NEAR(first, std::log(20.0), 0.1);
  double loss = first;
  for (int step = 0; step < 50; ++step) {
    for (std::size_t i = 0; i < model.model.parameters().parameters.size(); ++i) {
      for (std::size_t e = 0; e < model.weights.size(i); ++e) {
        model.weights.set(i, e, model.weights.get(i, e) - 0.5F * model.gradients.get(i, e));
      }
    }
    loss = model.step(batch);
  }
  EXPECT_LT(loss, 0.5 * first);
}

/// The loss's central difference along the gradient, over the gradient's norm: 1 if they agree. The
/// difference errs by rounding of the loss, about 1e-7 / step, and by step^2.
double slope_along_gradient(const char* json, std::int64_t sequences, std::int64_t length) {
  ModelUnderTest model(model_config(json), sequences, length);
  model.initialize(ElementType::kFloat32);
  const Batch batch = some_batch(sequences, length);
  static_cast<void>(model.step(batch));
  double squares = 0.0;
  const std::size_t count = model.model.parameters().parameters.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const float g : model.gradients.values(i)) squares += static_cast<double>(g * g);
  }
  constexpr float kStep = 1e-3F;
  const auto norm = static_cast<float>(std::sqrt(squares));
  const auto loss_at = [&](float distance) {
    ModelUnderTest moved(model_config(json), sequences, length);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t e = 0; e < model.weights.size(i); ++e) {
        moved.weights.set(i, e,
                          model.weights.get(i, e) + distance / norm * model.gradients.get(i, e));
      }
    }
    return moved.model.evaluate(batch, moved.weights.constant()).loss;
  };
  return (loss_at(kStep) - loss_at(-kStep)) / (2.0 * static_cast<double>(kStep * norm));
}

TEST(Transformer, LossFollowsItsGradient) {
  EXPECT_NEAR(slope_along_gradient(kLlama, 2, 12), 1.0, 2e-3);
  EXPECT_NEAR(slope_along_gradient(kGpt2, 2, 12), 1.0, 2e-3);
}

/// So large a vocabulary that the logits of two sequences are computed in parts of 64 tokens, which
/// do not end where the first sequence does; those of one sequence are one part. Tied and not.
TEST(Transformer, LogitsInPartsGiveTheGradientsOfTheWhole) {
  for (const char* tied : {"true", "false"}) {
    const std::string json =
        std::string(R"({"model_type": "gpt2", "vocab_size": 300000, "n_embd": 2, "n_layer": 1,
        "n_head": 1, "n_inner": 2, "n_positions": 50, "initializer_range": 1.0,
        "tie_word_embeddings": )") +
        tied + "}";
    ModelUnderTest model(model_config(json), 2, 50);
    model.initialize(ElementType::kFloat32);
    const Batch both = some_batch(2, 50);
    double loss = 0.0;
    std::vector<std::vector<double>> sums(model.weights.pointers().size());
    for (std::ptrdiff_t sequence = 0; sequence < 2; ++sequence) {
      Batch one = {1, 50, {}, {}, {}, {}};
      one.inputs.assign(both.inputs.begin() + sequence * 50,
                        both.inputs.begin() + sequence * 50 + 50);
      one.targets.assign(both.targets.begin() + sequence * 50,
                         both.targets.begin() + sequence * 50 + 50);
      loss += model.step(one) / 2.0;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i].resize(model.gradients.size(i));
        for (std::size_t e = 0; e < sums[i].size(); ++e) {
          sums[i][e] += static_cast<double>(model.gradients.get(i, e)) / 2.0;
        }
      }
    }
    EXPECT_NEAR(model.step(both) / loss, 1.0, 1e-6);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_LT(testing::relative_error(model.gradients.values(i), sums[i]), 1e-5)
          << model.model.parameters().parameters[i].name;
    }
  }
}

TEST(Transformer, IgnoredTargetsDoNotCount) {
  ModelUnderTest model(model_config(kGpt2), 2, 12);
  model.initialize(ElementType::kFloat32);
  Batch batch = some_batch(2, 12);
  double sum = 0.0;
  const Batch whole = batch;
  std::vector<std::size_t> kept = {0, 5, 17, 23};
  for (const std::size_t only : kept) {
    batch.targets.assign(24, kIgnoredTarget);
    batch.targets[only] = whole.targets[only];
    const Evaluation evaluation = model.model.evaluate(batch, model.weights.constant());
    EXPECT_EQ(evaluation.targets, 1);
    sum += evaluation.loss;
  }
  for (const std::size_t place : kept) batch.targets[place] = whole.targets[place];
  EXPECT_NEAR(model.step(batch), sum / 4.0, 1e-6);
}

/// Padding on the right changes nothing: neither the loss nor any gradient.
TEST(Transformer, PaddingHasNoEffect) {
  for (const char* json : kFamilies) {
    ModelUnderTest model(model_config(json), 1, 20);
    model.initialize(ElementType::kFloat32);
    const Batch shorter = some_batch(1, 12);
    const double loss = model.step(shorter);
    std::vector<std::vector<float>> gradients;
    for (std::size_t i = 0; i < model.gradients.pointers().size(); ++i) {
      gradients.push_back(model.gradients.values(i));
    }
    Batch padded = shorter;
    padded.length = 20;
    padded.inputs.resize(20, 19);
    padded.targets.resize(20, kIgnoredTarget);
    EXPECT_NEAR(model.step(padded), loss, 1e-6);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const std::vector<float> found = model.gradients.values(i);
      for (std::size_t e = 0; e < found.size(); ++e) EXPECT_NEAR(found[e], gradients[i][e], 1e-6F);
    }
  }
}

TEST(Transformer, EvaluationCountsCorrectTargetsAndReturnsLastLogits) {
  ModelUnderTest model(model_config(kLlama), 2, 6);
  model.initialize(ElementType::kFloat32);
  Batch batch = some_batch(2, 6);
  batch.lengths = {6, 4};
  const Evaluation first = model.model.evaluate(batch, model.weights.constant());
  ASSERT_EQ(first.logits.size(), 2U * 20U);
  EXPECT_EQ(first.targets, 12);
  // Make the last tokens' targets what the model says, and the others what it certainly does not.
  const auto largest = [&](std::size_t sequence) {
    const auto begin = first.logits.begin() + static_cast<std::ptrdiff_t>(sequence * 20);
    return static_cast<std::int32_t>(std::max_element(begin, begin + 20) - begin);
  };
  batch.targets.assign(12, kIgnoredTarget);
  batch.targets[5] = largest(0);
  batch.targets[6 + 3] = (largest(1) + 1) % 20;
  const Evaluation second = model.model.evaluate(batch, model.weights.constant());
  EXPECT_EQ(second.targets, 2);
  EXPECT_EQ(second.correct, 1);
  EXPECT_EQ(second.logits, first.logits);
}

TEST(Transformer, Bfloat16StaysCloseToFp32AndStoresBfloat16) {
  for (const char* json : kFamilies) {
    ModelUnderTest wide(model_config(json), 2, 16);
    ModelUnderTest narrow(model_config(json), 2, 16, ElementType::kBfloat16);
    narrow.initialize(ElementType::kBfloat16);
    const std::size_t count = wide.model.parameters().parameters.size();
    for (std::size_t i = 0; i < count; ++i) {  // the same, rounded, weights
      for (std::size_t e = 0; e < wide.weights.size(i); ++e) {
        wide.weights.set(i, e, narrow.weights.get(i, e));
      }
    }
    const Batch batch = some_batch(2, 16);
    const double loss = wide.step(batch);
    // 2^-9 relative a rounding, some thirty roundings deep, errors partly cancel: 3 %.
    EXPECT_NEAR(narrow.step(batch) / loss, 1.0, 0.03);
    EXPECT_NE(narrow.model.loss(), loss);
    double squares = 0.0;
    double reference = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t e = 0; e < wide.gradients.size(i); ++e) {
        const double g = static_cast<double>(wide.gradients.get(i, e));
        squares += std::pow(static_cast<double>(narrow.gradients.get(i, e)) - g, 2);
        reference += g * g;
      }
    }
    EXPECT_LT(std::sqrt(squares / reference), 0.05);
  }
}

TEST(Transformer, RefusesGroupsOutOfOrder) {
  ModelUnderTest test(model_config(kLlama), 2, 8);
  test.initialize(ElementType::kFloat32);
  HostTransformer& model = test.model;
  const auto& weights = test.weights.constant();
  const auto& gradients = test.gradients.pointers();
  EXPECT_THROW(model.forward(0, weights), Error);  // no batch
  model.begin(some_batch(2, 8));
  EXPECT_THROW(model.forward(1, weights), Error);
  for (std::size_t group = 0; group < 4; ++group) {
    EXPECT_THROW(model.backward(3, weights, gradients), Error);
    model.forward(group, weights);
  }
  EXPECT_THROW(model.forward(3, weights), Error);
  EXPECT_THROW(model.backward(2, weights, gradients), Error);
  for (std::size_t group = 4; group-- > 0;) model.backward(group, weights, gradients);
  EXPECT_THROW(model.backward(0, weights, gradients), Error);
  static_cast<void>(model.evaluate(some_batch(2, 8), weights));
  EXPECT_THROW(model.backward(3, weights, gradients), Error);
}

TEST(Transformer, RefusesBatchesAndNamesThePlace) {
  ModelUnderTest model(model_config(kLlama), 2, 8);
  Batch batch = some_batch(2, 8);
  batch.inputs[11] = 20;
  EXPECT_EQ(error_of(model, batch),
            "batch: sequence 1, position 3: token 20 is not in the vocabulary of 20");
  batch = some_batch(2, 8);
  batch.targets[2] = -1;
  EXPECT_EQ(error_of(model, batch),
            "batch: sequence 0, position 2: target -1 is neither in the vocabulary of 20 nor -100");
  batch = some_batch(2, 8);
  batch.targets.assign(16, kIgnoredTarget);
  EXPECT_EQ(error_of(model, batch), "batch: every target is ignored: there is no loss");
  batch = some_batch(2, 8);
  batch.inputs.pop_back();
  EXPECT_EQ(error_of(model, batch), "batch: expected 16 input tokens, found 15");
  EXPECT_EQ(error_of(model, some_batch(3, 8)), "batch: expected 1 to 2 sequences, found 3");
  EXPECT_EQ(error_of(model, some_batch(1, 9)),
            "batch: expected sequences of 1 to 8 tokens, found 9");
  batch = some_batch(2, 8);
  batch.lengths = {8, 0};
  EXPECT_EQ(error_of(model, batch), "batch: sequence 1: length 0 is not within 1 to 8");
}

TEST(Transformer, RefusesLabelsThatAreNotThere) {
  ModelUnderTest classes(model_config(kLlama, Task::classification(3)), 2, 8);
  Batch batch = some_batch(2, 8);
  batch.targets = {2, 3};
  EXPECT_EQ(error_of(classes, batch), "batch: sequence 1: label 3 is not one of 3");
  batch.targets = {1};
  EXPECT_EQ(error_of(classes, batch), "batch: expected 2 labels, found 1");
  ModelUnderTest regression(model_config(kLlama, Task::classification(1)), 2, 8);
  batch.values = {1.0F, std::nanf("")};
  EXPECT_THAT(error_of(regression, batch), HasSubstr("sequence 1: value nan is not finite"));
}

TEST(Transformer, RefusesSequencesThatTheModelDoesNotReach) {
  const auto error_of_length = [](const std::string& json, std::int64_t length) -> std::string {
    try {
      const HostTransformer model(model_config(json), {1, length});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of_length(kGpt2, 161), HasSubstr("at most 160 tokens, the model's positions"));
  EXPECT_EQ(error_of_length(kGpt2, 160), "");
}

}  // namespace
}  // namespace zenflow::runtime
