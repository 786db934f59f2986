// What a forward pass keeps, added up by hand.
#include "sim/memory/activation_memory.h"

#include <string>

#include <gtest/gtest.h>

#include "sim/config/document.h"
#include "sim/config/hub/hub_model.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::small_gpt2;
using testing::tiny_llama;
using testing::tiny_opt;

TrainingSettings training(bool checkpointing, DType dtype = DType::kBf16) {
  return {.micro_batch_size_per_gpu = 2,
          .sequence_length = 64,
          .dtype = dtype,
          .activation_checkpointing = checkpointing};
}

TEST(ActivationMemory, OfOneLlamaLayer) {
  // A token, bf16: two RMSNorms, fp32 input and two outputs of 32: 2 (128 + 64 + 64) = 512;
  // q 32, o 32, k 16, v 16 columns: 192; log-sum-exp of 4 heads: 16; gate, up, silu and their
  // product, 64 columns each: 512. 1,232 B x 128 tokens.
  const ActivationMemory memory = activation_memory(tiny_llama(), training(false));
  EXPECT_EQ(memory.layer[0].value(), 157696);
  EXPECT_EQ(memory.recomputed[0].value(), 0);
  EXPECT_EQ(memory.embedding.value(), 0);
  // The final norm's fp32 input and two outputs of 32, 256 B; logits of 256 in fp32, and twice as
  // much for their gradient.
  EXPECT_EQ(memory.logits_forward.value(), 128 * (256 + 256 * 4));
  EXPECT_EQ(memory.logits_backward.value(), 128 * 256 * 8);
}

TEST(ActivationMemory, OfOneOptLayer) {
  // A token: two LayerNorms, input and output of 32: 4 x 64 = 256; two dropout masks: 64; q, k,
  // v, o of 32: 256; log-sum-exp of 4 heads: 16; ReLU's output, 128 columns: 256. 848 B x 128.
  EXPECT_EQ(activation_memory(tiny_opt(), training(false)).layer[0].value(), 108544);
}

TEST(ActivationMemory, OfOneGpt2LayerKeepsGelusChain) {
  // h 512, f 2048, 8 heads: 4 x 2 x 512 + 2 x 512 + 2 x 4 x 512 + 32 = 9,248 B; of
  // 0.5 x (1 + tanh(...)) autograd keeps x, 0.5 x, the tanh, 1 + tanh and the product:
  // 5 x 2 x 2048 = 20,480 B.
  EXPECT_EQ(activation_memory(small_gpt2(), training(false)).layer[0].value(), 29728.0 * 128);
}

TEST(ActivationMemory, CheckpointingKeepsTheInputAndRecomputesTheRest) {
  const ActivationMemory memory = activation_memory(tiny_llama(), training(true));
  EXPECT_EQ(memory.layer[0].value(), 128 * 32 * 2);
  EXPECT_EQ(memory.recomputed[0].value(), 157696);
}

ModelSpec model_of(const char* config) {
  return read_model(parse_json(config, "config.json"), "model");
}

// One tensor of the vocabulary's size, and in its backward two, in the training type.
TEST(ActivationMemory, OfLogitsThatAreNotCast) {
  const ModelSpec bert = model_of(R"({"model_type": "bert", "architectures": ["BertForMaskedLM"],
      "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 64, "vocab_size": 1000})");
  const ModelSpec t5 = model_of(R"({"model_type": "t5", "d_model": 32, "d_kv": 8, "d_ff": 64,
      "num_layers": 2, "num_heads": 4, "vocab_size": 1000})");
  for (const ModelSpec& model : {bert, t5}) {
    const ActivationMemory narrow = activation_memory(model, training(false));
    const ActivationMemory wide = activation_memory(model, training(false, DType::kFp32));
    EXPECT_EQ(narrow.logits_backward.value(), 128 * 1000 * 4) << model.type;
    EXPECT_EQ(wide.logits_backward.value(), 128 * 1000 * 8) << model.type;
    EXPECT_LT(narrow.logits_forward.value(), 128 * 1000 * 4) << model.type;
  }
  const ModelSpec decoder = model_of(R"({"model_type": "bert", "is_decoder": true,
      "architectures": ["BertLMHeadModel"], "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 1000})");
  EXPECT_EQ(activation_memory(decoder, training(false)).logits_backward.value(), 128 * 1000 * 8);
}

// Mistral 7B of 4,096 tokens beside 4,095: 29,670 and 26,979 MB by the tensors that autograd saves.
TEST(ActivationMemory, OfAWindowThatTheSequenceFills) {
  const ModelSpec mistral = model_of(R"({"model_type": "mistral", "hidden_size": 32,
      "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 1,
      "intermediate_size": 64, "vocab_size": 256, "sliding_window": 64,
      "max_position_embeddings": 4096})");
  TrainingSettings settings = training(false);
  settings.sequence_length = 63;
  const double shorter = activation_memory(mistral, settings).layer[0].value() / (2 * 63);
  settings.sequence_length = 64;
  const double filled = activation_memory(mistral, settings).layer[0].value() / (2 * 64);
  // Keys and values of three more heads of 8, and a mask of 64 keys, two bytes each.
  EXPECT_EQ(filled - shorter, 2 * 3 * 8 * 2 + 64 * 2);
  settings.fused_framework = true;
  EXPECT_EQ(activation_memory(mistral, settings).layer[0].value() / (2 * 64), shorter);
}

TEST(ActivationMemory, OfNoDropoutHasNoMasks) {
  const auto kept = [](const std::string& dropout) {
    return activation_memory(model_of((R"({"model_type": "gpt2", "n_embd": 512, "n_layer": 1,
        "n_head": 8, "vocab_size": 256, "n_positions": 512, "resid_pdrop": )" +
                                       dropout + "}")
                                          .c_str()),
                             training(false))
        .layer[0]
        .value();
  };
  EXPECT_EQ(kept("0.1") - kept("0.0"), 128 * 2 * 512);
}

TEST(ActivationMemory, OfFp32IsWider) {
  // 2 (128 + 128 + 128) + 4 x 96 + 16 + 4 x 4 x 64 = 2,192 B a token.
  const ActivationMemory memory = activation_memory(tiny_llama(), training(false, DType::kFp32));
  EXPECT_EQ(memory.layer[0].value(), 2192 * 128);
}

}  // namespace
}  // namespace zenflow::sim
