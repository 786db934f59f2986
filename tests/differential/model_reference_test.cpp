// Loss, logits and every gradient against PyTorch, from files that
// tests/data/model/make_reference.py wrote. Hugging Face's own classes made them: Llama (tied and
// untied, grouped queries, all biases, llama3 scaling), Qwen2 (linear scaling), Mistral's window,
// Qwen3, Gemma 1 to 3, Phi-3 (longrope, part of a head turns), OLMo 2 and 3 (YaRN), OPT, GPT-2, and
// classification and regression heads.
//
// Bounds: 1e-5 relative for the loss, and for every tensor for the norm of the difference over the
// norm of the reference. Element by element, 1e-5 of the tensor's largest element.
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "runtime/model/safetensors.h"
#include "runtime/model/weight_file.h"
#include "runtime/model_config/transformer_config.h"
#include "tests/support/model_step.h"

namespace zenflow::runtime {
namespace {

using testing::ModelUnderTest;

constexpr double kBound = 1e-5;
constexpr std::int64_t kSequences = 3;
constexpr std::int64_t kLength = 10;

struct Case {
  const char* name;
  Task task;
};

std::vector<float> values(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  if (tensor == nullptr) {
    ADD_FAILURE() << file.path() << " has no " << name;
    return {};
  }
  std::vector<float> out((tensor->end - tensor->begin) / sizeof(float));
  file.read_as(*tensor, ElementType::kFloat32, out.data());
  return out;
}

std::vector<std::int32_t> whole(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

struct Difference {
  double norm = 0.0;     ///< |a - b| / |b|
  double element = 0.0;  ///< max |a - b| / max |b|
};

Difference difference(const std::vector<float>& found, const std::vector<float>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double squares = 0.0;
  double reference = 0.0;
  double largest = 0.0;
  double largest_reference = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = static_cast<double>(expected[i]);
    const double d = static_cast<double>(found[i]) - e;
    squares += d * d;
    reference += e * e;
    largest = std::max(largest, std::fabs(d));
    largest_reference = std::max(largest_reference, std::fabs(e));
  }
  EXPECT_GT(reference, 0.0);  // a gradient that is 0 throughout would prove nothing
  return {std::sqrt(squares / reference), largest / largest_reference};
}

/// A bias of keys moves all scores of a query alike where positions do not turn them: its gradient
/// is 0 but for rounding.
bool is_without_effect(const std::string& parameter) {
  return parameter.starts_with("model.decoder.") && parameter.ends_with("k_proj.bias");
}

double norm_of(const std::vector<float>& values) {
  double squares = 0.0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

class ModelReference : public ::testing::TestWithParam<Case> {
 protected:
  ModelReference()
      : folder_(std::filesystem::path(ZENFLOW_SOURCE_DIR) / "tests/data/model"),
        file_(folder_ / (std::string(GetParam().name) + ".safetensors")),
        config_(load_transformer_config(folder_ / (std::string(GetParam().name) + ".json"),
                                        GetParam().task)) {}

  [[nodiscard]] Batch batch() const {
    Batch batch = {kSequences, kLength, whole(values(file_, "inputs")), {}, {}, {}};
    if (GetParam().task.labels == 1) {
      batch.values = values(file_, "targets");
    } else {
      batch.targets = whole(values(file_, "targets"));
    }
    batch.lengths = whole(values(file_, "lengths"));
    return batch;
  }

  void load(ModelUnderTest& model) const {
    const auto& parameters = model.model.parameters().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<float> weights = values(file_, parameters[i].name);
      ASSERT_EQ(weights.size(), model.weights.size(i));
      for (std::size_t e = 0; e < weights.size(); ++e) model.weights.set(i, e, weights[e]);
    }
  }

  std::filesystem::path folder_;
  SafetensorsFile file_;
  TransformerConfig config_;
};

TEST_P(ModelReference, LossAndEveryGradientAgreeWithPyTorch) {
  ModelUnderTest model(config_, kSequences, kLength, ElementType::kFloat32, 2);
  load(model);
  const double expected = static_cast<double>(values(file_, "loss")[0]);
  const double loss = model.step(batch());
  EXPECT_NEAR(loss / expected, 1.0, kBound);

  double worst_norm = 0.0;
  double worst_element = 0.0;
  const auto& parameters = model.model.parameters().parameters;
  std::size_t in_file = 0;
  for (const StoredTensor& tensor : file_.tensors()) in_file += tensor.name.starts_with("grad.");
  EXPECT_EQ(parameters.size(), in_file);  // none is left out
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto [norm, element] =
        difference(model.gradients.values(i), values(file_, "grad." + parameters[i].name));
    if (is_without_effect(parameters[i].name)) {
      EXPECT_LT(norm_of(model.gradients.values(i)), kBound) << parameters[i].name;
      EXPECT_LT(norm_of(values(file_, "grad." + parameters[i].name)), kBound);
      continue;
    }
    EXPECT_LT(norm, kBound) << parameters[i].name;
    EXPECT_LT(element, kBound) << parameters[i].name;
    worst_norm = std::max(worst_norm, norm);
    worst_element = std::max(worst_element, element);
  }
  RecordProperty("loss", std::to_string(std::fabs(loss / expected - 1.0) * 1e9) + "e-9");
  RecordProperty("worst_norm", std::to_string(worst_norm * 1e9) + "e-9");
  RecordProperty("worst_element", std::to_string(worst_element * 1e9) + "e-9");
}

TEST_P(ModelReference, LogitsOfTheLastTokensAgreeWithPyTorch) {
  ModelUnderTest model(config_, kSequences, kLength);
  load(model);
  const Evaluation evaluation = model.model.evaluate(batch(), model.weights.constant());
  const auto [norm, element] = difference(evaluation.logits, values(file_, "logits"));
  EXPECT_LT(norm, kBound);
  EXPECT_LT(element, kBound);
  EXPECT_NEAR(evaluation.loss / static_cast<double>(values(file_, "loss")[0]), 1.0, kBound);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ModelReference,
    ::testing::Values(
        Case{"llama", Task::language_modelling()}, Case{"llama_tied", Task::language_modelling()},
        Case{"qwen2", Task::language_modelling()}, Case{"gpt2", Task::language_modelling()},
        Case{"gpt2_classes", Task::classification(3)},
        Case{"mistral_regression", Task::classification(1)},
        Case{"mistral_window", Task::language_modelling()},
        Case{"qwen3", Task::language_modelling()}, Case{"gemma", Task::language_modelling()},
        Case{"gemma2", Task::language_modelling()}, Case{"gemma3", Task::language_modelling()},
        Case{"phi3", Task::language_modelling()}, Case{"olmo2", Task::language_modelling()},
        Case{"olmo3", Task::language_modelling()}, Case{"opt", Task::language_modelling()}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace zenflow::runtime
