// The closed form that plans memory, and what the transformer lays out.
#include "sim/memory/trainer_activations.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "runtime/cuda_model/transformer.h"

namespace zenflow {
namespace {

struct Case {
  const char* model;
  std::int64_t sequences;
  std::int64_t length;
};

class TrainerActivations : public ::testing::TestWithParam<Case> {};

TEST_P(TrainerActivations, AreWhatTheTransformerTakes) {
  const runtime::TransformerConfig config = runtime::load_transformer_config(
      std::filesystem::path(ZENFLOW_SOURCE_DIR) / "scenarios/models" /
          (std::string(GetParam().model) + ".json"),
      runtime::Task::language_modelling());
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
        // Up to 255 bytes before each array: 13 of a block and its input, 20 of the rest.
        const auto layers = static_cast<double>(config.model.layers());
        const double kept = static_cast<double>(taken.kept) - planned.kept.value();
        EXPECT_GE(kept, 0.0);
        EXPECT_LE(kept, 255.0 * (14 * layers + 1));
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
                                           Case{"qwen2_5_3b", 1, 100}, Case{"qwen2_5_3b", 1, 1}),
                         [](const auto& instance) {
                           return std::string(instance.param.model) + "_" +
                                  std::to_string(instance.param.length);
                         });

}  // namespace
}  // namespace zenflow
