/// The offload engine on real transformers of both families trains as the sequential program does,
/// bit for bit, whatever the threads.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "kernels/cast/cast.h"
#include "runtime/device/host_device.h"
#include "runtime/model/initialize.h"
#include "runtime/offload/engine.h"
#include "runtime/train/host_model.h"
#include "sim/config/document.h"
#include "tests/support/sequential_trainer.h"

namespace zenflow::runtime {
namespace {

using testing::SequentialRule;
using testing::SequentialTrainer;

constexpr std::int64_t kSequences = 2;
constexpr std::int64_t kLength = 9;

constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 24,
  "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
  "hidden_act": "silu", "tie_word_embeddings": true})";
constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 40, "n_embd": 20,
  "n_layer": 2, "n_head": 2, "n_positions": 32, "layer_norm_epsilon": 1e-5,
  "activation_function": "gelu_new", "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})";

TransformerConfig config_of(const char* text) {
  return read_transformer_config(parse_json(text, "config.json"), "tiny",
                                 Task::language_modelling());
}

Batch batch_of(std::int64_t step) {
  Batch batch{.sequences = kSequences,
              .length = kLength,
              .inputs = {},
              .targets = {},
              .values = {},
              .lengths = {}};
  for (std::int64_t i = 0; i < kSequences * kLength; ++i) {
    batch.inputs.push_back(static_cast<std::int32_t>((7 * i + 11 * step + i * i) % 40));
    batch.targets.push_back(static_cast<std::int32_t>((5 * i + 3 * step) % 40));
  }
  return batch;
}

/// Loss and gradients of a batch, away from any device.
class Oracle {
 public:
  Oracle(const TransformerConfig& config, ElementType type)
      : type_(type), transformer_(config, kSequences, kLength, type) {}

  std::vector<std::vector<float>> gradients(const std::vector<std::vector<float>>& weights,
                                            std::int64_t step) {
    const std::size_t element = bytes_per_element(type_);
    std::vector<std::vector<std::byte>> stored;
    std::vector<std::vector<std::byte>> written;
    for (const auto& values : weights) {
      stored.emplace_back(values.size() * element);
      written.emplace_back(values.size() * element);
      if (type_ == ElementType::kFloat32) {
        std::memcpy(stored.back().data(), values.data(), stored.back().size());
      } else {
        kernels::to_bf16(values.data(), values.size(),
                         reinterpret_cast<kernels::Bf16*>(stored.back().data()));
      }
    }
    std::vector<const void*> in;
    std::vector<void*> out;
    for (std::size_t i = 0; i < stored.size(); ++i) {
      in.push_back(stored[i].data());
      out.push_back(written[i].data());
    }
    const std::size_t groups = transformer_.parameters().groups.size();
    transformer_.begin(batch_of(step));
    for (std::size_t g = 0; g < groups; ++g) transformer_.forward(g, in);
    for (std::size_t g = groups; g-- > 0;) transformer_.backward(g, in, out);
    std::vector<std::vector<float>> result;
    for (std::size_t i = 0; i < written.size(); ++i) {
      result.emplace_back(weights[i].size());
      if (type_ == ElementType::kFloat32) {
        std::memcpy(result[i].data(), written[i].data(), written[i].size());
      } else {
        kernels::to_float(reinterpret_cast<const kernels::Bf16*>(written[i].data()),
                          result[i].size(), result[i].data());
      }
    }
    return result;
  }
  [[nodiscard]] double loss() const { return transformer_.loss(); }

 private:
  ElementType type_;
  HostTransformer transformer_;
};

struct TransformerCase {
  const char* name;
  const char* config;
  OffloadSchedule schedule;
  ElementType type;
  OffloadSettings settings;
};

class OffloadTransformer : public ::testing::TestWithParam<TransformerCase> {};

TEST_P(OffloadTransformer, SameBitsAsTheSequentialProgram) {
  const TransformerCase& c = GetParam();
  const OffloadSettings settings = settings_for(c.schedule, c.settings);
  const TransformerConfig config = config_of(c.config);
  Recorder recorder(false);
  SelfCommunicator self;
  HostDevice device({.jitter = {3, std::chrono::microseconds(50)}}, recorder);
  HostModel model(HostTransformer(config, kSequences, kLength, c.type, 2));
  OffloadEngine engine(model, c.type, settings, device, self, recorder);

  std::vector<std::vector<float>> weights;
  for (const Parameter& parameter : model.parameters().parameters) {
    weights.emplace_back(static_cast<std::size_t>(parameter.elements()));
    initialize(config, parameter, 1, ElementType::kFloat32, weights.back().data());
    for (float& w : weights.back()) w = kernels::to_float(kernels::round_to_bf16(w));
  }
  engine.load_weights(weights);
  Oracle oracle(config, c.type);
  SequentialTrainer sequential(
      model.parameters(),
      {.topk_ratio = settings.everything_on_device ? 1 : settings.topk_ratio,
       .update_interval = settings.update_interval,
       .select_interval = settings.select_interval,
       .warm_up = settings.full_warm_up_rounds,
       .overlap = settings.overlap_step,
       .learning_rate = settings.adamw.learning_rate,
       .weight_decay = settings.adamw.weight_decay,
       .bf16 = c.type == ElementType::kBfloat16},
      weights);
  double first = 0;
  double last = 0;
  for (std::int64_t t = 0; t < 24; ++t) {
    const auto gradients = oracle.gradients(sequential.working(), t % 3);
    model.begin(batch_of(t % 3));
    last = engine.step().loss;
    ASSERT_EQ(last, oracle.loss()) << "step " << t;
    if (t == 0) first = last;
    sequential.step(gradients, 1);
  }
  EXPECT_LT(last, first);  // three batches over and over: it learns them
  const auto found = engine.weights(false);
  for (std::size_t p = 0; p < found.size(); ++p) {
    EXPECT_EQ(found[p], sequential.working()[p]) << model.parameters().parameters[p].name;
  }
}

OffloadSettings zenflow(double k, std::int64_t s, std::int64_t select, std::int64_t warm_up,
                        bool overlap) {
  OffloadSettings settings;
  settings.topk_ratio = k;
  settings.update_interval = s;
  settings.select_interval = select;
  settings.full_warm_up_rounds = warm_up;
  settings.overlap_step = overlap;
  settings.adamw.learning_rate = 1e-2F;
  settings.optimizer_threads = 2;
  return settings;
}

constexpr auto kFp32 = ElementType::kFloat32;
constexpr auto kBf16 = ElementType::kBfloat16;
INSTANTIATE_TEST_SUITE_P(
    Families, OffloadTransformer,
    ::testing::Values(TransformerCase{"LlamaGpuOnly", kLlama, OffloadSchedule::kGpuOnly, kFp32,
                                      zenflow(0, 1, 0, 0, false)},
                      TransformerCase{"LlamaZeroOffload", kLlama, OffloadSchedule::kZeroOffload,
                                      kFp32, zenflow(0, 1, 0, 0, false)},
                      TransformerCase{"LlamaDelayed", kLlama, OffloadSchedule::kZeroOffloadDpu,
                                      kFp32, zenflow(0, 1, 0, 0, false)},
                      TransformerCase{"LlamaZenFlow", kLlama, OffloadSchedule::kZenFlow, kFp32,
                                      zenflow(0.1, 2, 4, 0, true)},
                      TransformerCase{"LlamaZenFlowWarmUpBf16", kLlama, OffloadSchedule::kZenFlow,
                                      kBf16, zenflow(0.25, 3, 3, 2, true)},
                      TransformerCase{"Gpt2ZeroOffload", kGpt2, OffloadSchedule::kZeroOffload,
                                      kBf16, zenflow(0, 1, 0, 0, false)},
                      TransformerCase{"Gpt2ZenFlow", kGpt2, OffloadSchedule::kZenFlow, kFp32,
                                      zenflow(0.2, 3, 6, 1, true)},
                      TransformerCase{"Gpt2ZenFlowNoOverlap", kGpt2, OffloadSchedule::kZenFlow,
                                      kFp32, zenflow(0.1, 2, 2, 0, false)}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace zenflow::runtime
