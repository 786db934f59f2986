// The closed form that plans memory, and what the transformer lays out.
#include "sim/memory/trainer_activations.h"

#include <filesystem>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "runtime/cuda_model/transformer.h"
#include "sim/config/document.h"

namespace zenflow {
namespace {

struct Case {
  const char* model;  ///< of scenarios/models, or of kOthers
  std::int64_t sequences;
  std::int64_t length;
  int more_norms = 0;  ///< one behind branches, one of queries and keys
};

// In the sizes of Qwen3 0.6B, Gemma 3 1B, Gemma 2 2B and OLMo 2 1B.
const std::map<std::string, const char*> kOthers = {
    {"qwen3", R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
      "intermediate_size": 3072, "max_position_embeddings": 40960, "tie_word_embeddings": true})"},
    {"gemma3", R"({"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152,
      "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
      "intermediate_size": 6912, "max_position_embeddings": 32768, "sliding_window": 512})"},
    {"gemma2", R"({"model_type": "gemma2", "vocab_size": 256000, "hidden_size": 2304,
      "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "intermediate_size": 9216, "max_position_embeddings": 8192})"},
    {"olmo2", R"({"model_type": "olmo2", "vocab_size": 100352, "hidden_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
      "intermediate_size": 8192, "max_position_embeddings": 4096})"}};

runtime::TransformerConfig config_of(const std::string& model) {
  const auto task = runtime::Task::language_modelling();
  if (const auto other = kOthers.find(model); other != kOthers.end()) {
    return runtime::read_transformer_config(parse_json(other->second, "config.json"), model, task);
  }
  return runtime::load_transformer_config(
      std::filesystem::path(ZENFLOW_SOURCE_DIR) / "scenarios/models" / (model + ".json"), task);
}

class TrainerActivations : public ::testing::TestWithParam<Case> {};

TEST_P(TrainerActivations, AreWhatTheTransformerTakes) {
  const runtime::TransformerConfig config = config_of(GetParam().model);
  for (const bool checkpoints : {false, true}) {
    for (const bool narrow : {false, true}) {
      for (const std::int64_t logit_bytes : {std::int64_t{1} << 30, std::int64_t{1} << 20}) {
        const sim::TrainingSettings training{
            .micro_batch_size_per_gpu = GetParam().sequences,
            .sequence_length = GetParam().length,
            .dtype = narrow ? sim::DType::kBf16 : sim::DType::kFp32,
            .activation_checkpointing = checkpoints};
        const sim::TrainerActivations planned =
            sim::trainer_activations(config.model, training, logit_bytes);
        const runtime::NetworkMemory taken = runtime::cuda_transformer_memory(
            config, {{GetParam().sequences, GetParam().length,
                      narrow ? runtime::ElementType::kBfloat16 : runtime::ElementType::kFloat32,
                      checkpoints},
                     logit_bytes});
        // Up to 255 bytes before each array: 13 of a block and its input, 20 of the rest; five more
        // with norms behind branches, and as many with those of queries and keys.
        const auto layers = static_cast<double>(config.model.layers());
        const double kept = static_cast<double>(taken.kept) - planned.kept.value();
        EXPECT_GE(kept, 0.0);
        EXPECT_LE(kept, 255.0 * ((14 + 5 * GetParam().more_norms) * layers + 1));
        const double work = static_cast<double>(taken.work) - planned.work.value();
        EXPECT_GE(work, 0.0);
        EXPECT_LE(work, 255.0 * 20);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainerActivations,
                         ::testing::Values(Case{"gpt2_xl", 8, 1024}, Case{"gpt2", 3, 333},
                                           Case{"llama2_7b", 4, 2048}, Case{"llama3_8b", 2, 4096},
                                           Case{"qwen2_5_3b", 1, 100}, Case{"qwen2_5_3b", 1, 1},
                                           Case{"qwen3", 2, 2048, 1}, Case{"gemma3", 3, 1001, 2},
                                           Case{"gemma2", 1, 4096, 1}, Case{"olmo2", 4, 1024, 2},
                                           Case{"opt_1_3b", 2, 2048}),
                         [](const auto& instance) {
                           return std::string(instance.param.model) + "_" +
                                  std::to_string(instance.param.length);
                         });

}  // namespace
}  // namespace zenflow
