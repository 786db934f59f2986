// What a forward pass keeps, added up by hand.
#include "sim/memory/activation_memory.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(memory.embedding.value(), 128 * 32 * 2);
  // Logits of 256: bf16, fp32 and log-softmax, 10 B; their fp32 gradient.
  EXPECT_EQ(memory.logits_forward.value(), 128 * 256 * 4);
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

TEST(ActivationMemory, OfFp32IsWider) {
  // 2 (128 + 128 + 128) + 4 x 96 + 16 + 4 x 4 x 64 = 2,192 B a token.
  const ActivationMemory memory = activation_memory(tiny_llama(), training(false, DType::kFp32));
  EXPECT_EQ(memory.layer[0].value(), 2192 * 128);
}

}  // namespace
}  // namespace zenflow::sim
