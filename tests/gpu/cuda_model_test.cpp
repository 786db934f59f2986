// The transformer on the device against Hugging Face's numbers (tests/data/model, as in
// model_reference_test) and against the host's. Built twice: with cuBLASLt for a GPU, and for the
// emulator with products by a kernel.
#include <cmath>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "runtime/cuda_model/transformer.h"
#include "runtime/model/safetensors.h"
#include "sim/base/error.h"
#include "tests/support/closeness.h"
#include "tests/support/cuda_model_step.h"
#include "tests/support/long_tests.h"
#if defined(ZENFLOW_CUDA_EMULATOR)
#include "tests/emulator/kernel_gemm.h"
#else
#include "runtime/cuda_model/cublas.h"
#include "tests/support/gpu_libraries.h"
#endif

namespace zenflow::runtime {
namespace {

using kernels::testing::Bounds;
using kernels::testing::expect_close;
using kernels::testing::NeedsDevice;
using testing::CudaModelUnderTest;
using testing::ModelUnderTest;

std::unique_ptr<DeviceGemm> make_gemm(Device& device, bool fuses) {
#if defined(ZENFLOW_CUDA_EMULATOR)
  static_cast<void>(device);
  return std::make_unique<testing::KernelGemm>(fuses);
#else
  static_cast<void>(fuses);  // the library decides
  return std::make_unique<CublasGemm>(testing::library_folders_of_this_process(), device);
#endif
}
auto with_gemm(bool fuses) {
  return [fuses](Device& device) { return make_gemm(device, fuses); };
}

void copy_weights(const testing::TensorStore& from, CudaModelUnderTest& to) {
  for (std::size_t i = 0; i < from.bytes().size(); ++i) {
    std::memcpy(to.weights.pointers()[i], from.constant()[i], from.bytes()[i].size());
  }
  to.upload_weights();
}

// --- Against Hugging Face.
struct Case {
  const char* name;
  Task task;
};

class CudaModelReference : public NeedsDevice<::testing::TestWithParam<Case>> {
 protected:
  static constexpr std::int64_t kSequences = 3;
  static constexpr std::int64_t kLength = 10;
  static constexpr Bounds kBounds{1e-5, 1e-5};

  CudaModelReference()
      : folder_(std::filesystem::path(ZENFLOW_SOURCE_DIR) / "tests/data/model"),
        file_(folder_ / (std::string(GetParam().name) + ".safetensors")),
        config_(load_transformer_config(folder_ / (std::string(GetParam().name) + ".json"),
                                        GetParam().task)) {}

  [[nodiscard]] std::vector<float> values(const std::string& name) const {
    const StoredTensor* tensor = file_.find(name);
    if (tensor == nullptr) {
      ADD_FAILURE() << file_.path() << " has no " << name;
      return {};
    }
    std::vector<float> out((tensor->end - tensor->begin) / sizeof(float));
    file_.read_as(*tensor, ElementType::kFloat32, out.data());
    return out;
  }
  [[nodiscard]] std::vector<std::int32_t> whole(const std::string& name) const {
    const std::vector<float> numbers = values(name);
    return {numbers.begin(), numbers.end()};
  }
  [[nodiscard]] Batch batch() const {
    Batch batch = {kSequences, kLength, whole("inputs"), {}, {}, whole("lengths")};
    if (GetParam().task.labels == 1) {
      batch.values = values("targets");
    } else {
      batch.targets = whole("targets");
    }
    return batch;
  }
  void load(CudaModelUnderTest& model) const {
    const auto& parameters = model.model.parameters().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<float> weights = values(parameters[i].name);
      ASSERT_EQ(weights.size(), model.weights.size(i));
      for (std::size_t e = 0; e < weights.size(); ++e) model.weights.set(i, e, weights[e]);
    }
    model.upload_weights();
  }

  std::filesystem::path folder_;
  SafetensorsFile file_;
  TransformerConfig config_;
};

TEST_P(CudaModelReference, LossAndEveryGradientAgreeWithPyTorch) {
  for (const bool fuses : {true, false}) {
    CudaModelUnderTest model(config_, {{kSequences, kLength, ElementType::kFloat32}},
                             with_gemm(fuses));
    load(model);
    EXPECT_NEAR(model.step({batch()}) / static_cast<double>(values("loss")[0]), 1.0, 1e-5);
    const auto& parameters = model.model.parameters().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].name;
      // Without effect where positions do not turn keys: rounding alone.
      if (name.starts_with("model.decoder.") && name.ends_with("k_proj.bias")) continue;
      expect_close(model.gradients.values(i), values("grad." + name), kBounds, name.c_str());
    }
  }
}

TEST_P(CudaModelReference, LogitsOfTheLastTokensAgreeWithPyTorch) {
  CudaModelUnderTest model(config_, {{kSequences, kLength, ElementType::kFloat32}},
                           with_gemm(true));
  load(model);
  const Evaluation evaluation = model.evaluate(batch());
  expect_close(evaluation.logits, values("logits"), kBounds, "logits");
  EXPECT_NEAR(evaluation.loss / static_cast<double>(values("loss")[0]), 1.0, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Models, CudaModelReference,
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

// --- Against the host: shapes that tensor cores serve, more tokens, both element types.
constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
  "intermediate_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
  "hidden_act": "silu", "tie_word_embeddings": false, "initializer_range": 0.1})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 61, "n_embd": 64,
  "n_layer": 2, "n_head": 1, "n_inner": 96, "n_positions": 64, "layer_norm_epsilon": 1e-5,
  "activation_function": "gelu_new", "initializer_range": 0.1, "resid_pdrop": 0.0,
  "embd_pdrop": 0.0, "attn_pdrop": 0.0})";

// Norms on both sides of branches, caps and a window; then norms after them, of whole queries, and
// two kinds of rotary positions.
constexpr const char* kGemma2 = R"({"model_type": "gemma2", "vocab_size": 61, "hidden_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
  "intermediate_size": 48, "max_position_embeddings": 64, "sliding_window": 12,
  "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "initializer_range": 0.1})";
constexpr const char* kOlmo3 = R"({"model_type": "olmo3", "vocab_size": 61, "hidden_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
  "intermediate_size": 48, "max_position_embeddings": 64, "sliding_window": 12,
  "layer_types": ["sliding_attention", "full_attention"], "rope_theta": 1e4,
  "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "initializer_range": 0.1})";

// Together more than a tile's 64 rows.
constexpr std::int64_t kSequences = 2;
constexpr std::int64_t kLength = 33;

Batch some_batch(std::int64_t sequences, std::uint32_t seed) {
  Batch batch{sequences, kLength, {}, {}, {}, {}};
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(sequences * kLength); ++i) {
    const auto words = philox({i, 0, 0, 0}, {seed, 0});
    batch.inputs.push_back(static_cast<std::int32_t>(words[0] % 61));
    batch.targets.push_back(words[1] % 8 == 0 ? kIgnoredTarget
                                              : static_cast<std::int32_t>(words[2] % 61));
  }
  return batch;
}

class CudaModel : public NeedsDevice<::testing::TestWithParam<const char*>> {
 protected:
  [[nodiscard]] static TransformerConfig config() { return testing::model_config(GetParam()); }

  /// With the same weights as the host's.
  static std::unique_ptr<CudaModelUnderTest> make(const CudaTransformerSettings& settings,
                                                  bool fuses = true) {
    auto model = std::make_unique<CudaModelUnderTest>(config(), settings, with_gemm(fuses));
    ModelUnderTest host(config(), 1, 1, settings.type);
    host.initialize(settings.type);
    copy_weights(host.weights, *model);
    return model;
  }

  static void expect_gradients(const CudaModelUnderTest& found,
                               const testing::TensorStore& expected, Bounds bounds) {
    const auto& parameters = found.model.parameters().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      expect_close(found.gradients.values(i), expected.values(i), bounds,
                   parameters[i].name.c_str());
    }
  }

  static void expect_host(ElementType type, bool fuses, double loss_bound, Bounds bounds) {
    const Batch batch = some_batch(kSequences, 1);
    ModelUnderTest host(config(), kSequences, kLength, type);
    host.initialize(type);
    const double expected = host.step(batch);
    const auto model = make({{kSequences, kLength, type}}, fuses);
    EXPECT_NEAR(model->step({batch}) / expected, 1.0, loss_bound);
    expect_gradients(*model, host.gradients, bounds);
  }
};

TEST_P(CudaModel, Fp32AgreesWithTheHost) {
  expect_host(ElementType::kFloat32, true, 1e-6, {1e-5, 1e-5});
}

// Two chains of bf16 roundings of the same numbers, which differ where sums fall to the other side
// of a boundary: each operation then errs by up to 2^-8, and there are about ten in a row.
TEST_P(CudaModel, Bf16AgreesWithTheHost) {
  expect_host(ElementType::kBfloat16, true, 1e-3, {0x1p-5, 0x1p-4});
  expect_host(ElementType::kBfloat16, false, 1e-3, {0x1p-5, 0x1p-4});
}

TEST_P(CudaModel, BlocksComputedAgainGiveTheSameBits) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    CudaTransformerSettings settings{{kSequences, kLength, type}};
    const auto whole = make(settings);
    settings.checkpoints_activations = true;
    const auto checkpointed = make(settings);
    for (const std::uint32_t seed : {1U, 2U}) {  // the second finds what the first has left
      const Batch batch = some_batch(kSequences, seed);
      EXPECT_EQ(checkpointed->step({batch}), whole->step({batch}));
      EXPECT_EQ(checkpointed->gradients.bytes(), whole->gradients.bytes());
    }
    EXPECT_LT(checkpointed->device.held.at("activations"), whole->device.held.at("activations"));
  }
}

TEST_P(CudaModel, ChunksOfLogitsGiveTheSameGradients) {
  const Batch batch = some_batch(kSequences, 3);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    // In bf16 a chunk has to save more than the sums in fp32 take, so the sequences are many.
    const std::int64_t sequences = type == ElementType::kBfloat16 ? 16 : kSequences;
    CudaTransformerSettings settings{{sequences, kLength, type}};
    const auto whole = make(settings);
    settings.logit_bytes = 1;
    const auto chunked = make(settings);
    ASSERT_LT(chunked->device.held.at("model workspace"), whole->device.held.at("model workspace"));
    // Products of other shapes may take their sums in another order.
    const bool is_narrow = type == ElementType::kBfloat16;
    EXPECT_NEAR(chunked->step({batch}), whole->step({batch}), is_narrow ? 1e-3 : 1e-5);
    const Bounds bounds = is_narrow ? Bounds{0x1p-7, 0x1p-6} : Bounds{1e-5, 1e-5};
    expect_gradients(*chunked, whole->gradients, bounds);
    expect_close(chunked->evaluate(batch).logits, whole->evaluate(batch).logits, bounds, "logits");
  }
}

TEST_P(CudaModel, MicroBatchesAddUpToTheBatch) {
  const Batch first = some_batch(2, 1);
  Batch second = some_batch(2, 2);
  // As many targets count in both, so that the mean of means is the mean.
  const auto ignored = [](const Batch& b) {
    return std::count(b.targets.begin(), b.targets.end(), kIgnoredTarget);
  };
  for (std::size_t i = 0; ignored(second) != ignored(first); ++i) {
    const bool ignores = second.targets[i] == kIgnoredTarget;
    if (ignored(second) < ignored(first)) second.targets[i] = kIgnoredTarget;
    if (ignores && ignored(second) > ignored(first)) second.targets[i] = 5;
  }
  Batch both = first;
  both.sequences = first.sequences + second.sequences;
  both.inputs.insert(both.inputs.end(), second.inputs.begin(), second.inputs.end());
  both.targets.insert(both.targets.end(), second.targets.begin(), second.targets.end());
  CudaTransformerSettings settings{{both.sequences, kLength, ElementType::kFloat32}};
  const auto whole = make(settings);
  const auto parts = make(settings);
  EXPECT_NEAR(parts->step({first, second}), whole->step({both}), 1e-6);
  expect_gradients(*parts, whole->gradients, {1e-5, 1e-5});
  // In bf16 the sums round once more; with chunks of logits those of the head begin in fp32 with
  // what is there.
  settings.type = ElementType::kBfloat16;
  settings.logit_bytes = 1;
  const auto narrow = make(settings);
  EXPECT_NEAR(narrow->step({first, second}), whole->model.loss(), 2e-2);
  expect_gradients(*narrow, whole->gradients, {0x1p-4, 0x1p-3});
}

TEST_P(CudaModel, EvaluationAgreesWithTheHostAndLeavesTrainingAsItWas) {
  const Batch batch = some_batch(kSequences, 4);
  const Batch other = some_batch(1, 5);
  ModelUnderTest host(config(), kSequences, kLength);
  host.initialize(ElementType::kFloat32);
  const Evaluation expected = host.model.evaluate(other, host.weights.constant());
  const auto model = make({{kSequences, kLength, ElementType::kFloat32}});
  const double before = model->step({batch});
  const auto gradients = model->gradients.bytes();
  const Evaluation found = model->evaluate(other);
  EXPECT_NEAR(found.loss, expected.loss, 1e-5);
  EXPECT_EQ(found.targets, expected.targets);
  EXPECT_EQ(found.correct, expected.correct);
  expect_close(found.logits, expected.logits, {1e-5, 1e-5}, "logits");
  EXPECT_EQ(model->step({batch}), before);
  EXPECT_EQ(model->gradients.bytes(), gradients);
}

TEST_P(CudaModel, TakesTheMemoryThatItSaysAndNoMoreAfterwards) {
  for (const bool checkpoints : {false, true}) {
    const CudaTransformerSettings settings{
        {kSequences, kLength, ElementType::kBfloat16, checkpoints}};
    const auto model = make(settings);
    const NetworkMemory memory = cuda_transformer_memory(config(), settings);
    EXPECT_EQ(model->device.held.at("activations"), memory.kept);
    EXPECT_EQ(model->device.held.at("model workspace"), memory.work);
    EXPECT_LT(model->device.held.at("batch"), 32 * settings.tokens() + 8 * 256);
    const std::size_t before = model->device.allocations;
    if (checkpoints) model->step({some_batch(2, 1), some_batch(1, 2)});
    EXPECT_EQ(model->device.allocations, before);
  }
}

// block.h's formula, from the difference that a layer makes. 128 tokens: every array is then
// a multiple of 256 bytes.
TEST_P(CudaModel, ALayerKeepsWhatItsHeaderSays) {
  TransformerConfig more = config();
  more.model.order.push_back(0);
  const sim::ModelSpec& model = more.model;
  const std::int64_t h = model.hidden;
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t v = model.kv_heads * model.head_dim;
  const std::int64_t f = model.intermediate;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    const auto b = static_cast<std::int64_t>(bytes_per_element(type));
    CudaTransformerSettings settings{{4, 32, type}};
    const auto layer = [&] {
      return static_cast<std::int64_t>(cuda_transformer_memory(more, settings).kept -
                                       cuda_transformer_memory(config(), settings).kept);
    };
    const std::int64_t norms = GetParam() == kGemma2 ? 4 : 2;
    const bool norms_queries = GetParam() == kOlmo3;  // in one row, and keys in another
    const std::int64_t block = b * ((norms + 1) * h + 2 * q + 2 * v + (norms_queries ? q + v : 0) +
                                    (model.gated_mlp ? 3 : 2) * f) +
                               8 * (norms + (norms_queries ? 2 : 0)) + 4 * model.heads;
    EXPECT_EQ(layer(), 128 * (block + b * h));
    settings.checkpoints_activations = true;
    EXPECT_EQ(layer(), 128 * b * h);
  }
}

TEST_P(CudaModel, RefusesGroupsOutOfOrderAndBatchesThatDoNotFit) {
  const auto model = make({{kSequences, kLength, ElementType::kFloat32}});
  const auto fails_with = [](ErrorKind kind, const auto& run) {
    try {
      run();
    } catch (const Error& error) {
      return error.kind() == kind;
    }
    return false;
  };
  testing::PlainStream stream;
  const auto forward = [&](std::size_t group) {
    return [&, group] { model->model.forward(group, model->on_device->constant(), stream); };
  };
  EXPECT_TRUE(fails_with(ErrorKind::kRuntime, forward(0)));
  EXPECT_TRUE(fails_with(ErrorKind::kInput,
                         [&] { model->model.begin(some_batch(kSequences + 1, 1), {}); }));
  model->model.begin(some_batch(kSequences, 1), {});
  EXPECT_TRUE(fails_with(ErrorKind::kRuntime, forward(1)));
  EXPECT_TRUE(fails_with(ErrorKind::kInput, [&] {
    CudaModelUnderTest(config(), {{1, 65, ElementType::kFloat32}}, with_gemm(true));
  }));
}

/// With sanitizers the one with the most operations, unless tests may be long.
std::vector<const char*> families() {
  if (zenflow::testing::kSanitized && !zenflow::testing::long_tests()) return {kOlmo3};
  return {kLlama, kGpt2, kGemma2, kOlmo3};
}

INSTANTIATE_TEST_SUITE_P(Families, CudaModel, ::testing::ValuesIn(families()),
                         [](const auto& instance) {
                           return testing::model_config(instance.param).model.type;
                         });

}  // namespace
}  // namespace zenflow::runtime
