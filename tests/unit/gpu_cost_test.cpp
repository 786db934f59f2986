// GPU times by hand on round_node: 100 TFLOPS bf16 at 0.5, 1 GFLOP lost a product, 1000 GB/s at
// 0.8 streaming and 0.5 element-wise, attention at 0.25 of peak, 5 us a kernel.
#include "sim/cost/gpu_cost.h"

#include <gtest/gtest.h>

#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::round_node;
using testing::tiny_llama;
using testing::tiny_opt;

constexpr double kTolerance = 1e-15;  // a thousandth of a picosecond

Attention heads_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  return {.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim, .value_dim = head_dim};
}

TEST(GemmTime, OfALargeProductIsComputeBound) {
  // F = 2 x 1000 x 2000 x 3000 = 1.2e10; (F + 1e9) / 5e13 = 260 us; traffic 2 (3 + 6 + 2) MB at
  // 800 GB/s is 27.5 us.
  EXPECT_NEAR(gemm_time(round_node().gpu, DType::kBf16, 1000, 2000, 3000).value(), 265e-6,
              kTolerance);
}

TEST(GemmTime, OfOneRowIsMemoryBound) {
  // Traffic 2 (4000 + 16e6 + 4000) = 32,016,000 B at 800 GB/s = 40.02 us; F + H: 20.64 us.
  EXPECT_NEAR(gemm_time(round_node().gpu, DType::kBf16, 1, 4000, 4000).value(), 45.02e-6,
              kTolerance);
}

TEST(GemmTime, UsesThePeakAndWidthOfTheElementType) {
  // 1.3e10 / (0.5 x 50e12) = 520 us.
  EXPECT_NEAR(gemm_time(round_node().gpu, DType::kFp32, 1000, 2000, 3000).value(), 525e-6,
              kTolerance);
  // 4 B: 64,032,000 B = 80.04 us.
  EXPECT_NEAR(gemm_time(round_node().gpu, DType::kFp32, 1, 4000, 4000).value(), 85.04e-6,
              kTolerance);
}

TEST(GemmTime, ReachesHalfItsEfficiencyAtTheHalfSize) {
  GpuProfile gpu = round_node().gpu;
  gpu.kernel_launch = Seconds(0);
  // 2 x 1000 x 1000 x 500 = 1 GFLOP: (1e9 + 1e9) / 5e13 = 40 us, twice the 20 us of 50 TFLOPS.
  EXPECT_NEAR(gemm_time(gpu, DType::kBf16, 1000, 1000, 500).value(), 40e-6, kTolerance);
}

TEST(GemmTime, OfAGpuWithMultiprocessorsIsTheRunOfItsTilesAtTheHeldRate) {
  GpuProfile gpu = round_node().gpu;
  gpu.multiprocessors = 100;
  gpu.gemm_half_size = Flops(0);
  // 10 x 20 tiles of 256 x 128, two waves: 2 x 2560 x 2560 x 1000 FLOP at 1.1 x 50 TFLOPS;
  // half of the result, 6,553,600 B, at 800 GB/s; 2 us and a launch.
  const auto time = [&gpu](ProductKind kind) {
    return gemm_time(gpu, DType::kBf16, 2560, 2560, 1000, kind).value();
  };
  constexpr double kFlops = 2 * 2560.0 * 2560 * 1000;
  constexpr double kBesides = 6553600 / 800e9 + 7e-6;
  EXPECT_NEAR(time({}), kFlops / (1.1 * 50e12) + kBesides, 1e-12);
  EXPECT_NEAR(time({.held = 0.73}), kFlops / (1.1 * 0.73 * 50e12) + kBesides, 1e-12);
  // Element by element 474 FLOP a clock: 100 x 1.5 GHz x 474 = 71.1 TFLOPS, which is no less.
  gpu.clock = 1.5e9;
  EXPECT_EQ(time({.aligned = false}), time({}));
  gpu.clock = 0.5e9;  // 23.7 TFLOPS
  EXPECT_NEAR(time({.aligned = false}), kFlops / 23.7e12 + kBesides, 1e-12);
}

// GPT-2's words are 50,257; nanoGPT pads them to 50,304.
TEST(GemmTime, OfUnalignedWordsIsThatOfTheHeadAlone) {
  EXPECT_FALSE(is_aligned(DType::kBf16, 50257));
  EXPECT_TRUE(is_aligned(DType::kBf16, 50304));
  EXPECT_TRUE(is_aligned(DType::kFp32, 50257));
  GpuProfile gpu = round_node().gpu;
  gpu.multiprocessors = 100;
  gpu.clock = 0.1e9;  // 4.74 TFLOPS
  gpu.gemm_half_size = Flops(0);
  ModelSpec odd = tiny_llama();
  odd.outputs += 1;
  for (Linear& product : odd.head.products) product.out += 1;
  const TrainingSettings training{.micro_batch_size_per_gpu = 64, .sequence_length = 64};
  const ModelTime even_time = model_time(gpu, tiny_llama(), training);
  const ModelTime odd_time = model_time(gpu, odd, training);
  EXPECT_EQ(odd_time.kinds[0].forward, even_time.kinds[0].forward);
  EXPECT_GT(odd_time.head.forward.value(), 2 * 4096 * 32.0 * 257 / 4.74e12);
  EXPECT_GT(odd_time.head.forward, even_time.head.forward + Seconds(5e-6));
}

TEST(ModelTime, AmongSeveralRanksProductsHoldLess) {
  GpuProfile gpu = round_node().gpu;
  EXPECT_EQ(gpu.gemm_share_among(1), 1);
  EXPECT_EQ(gpu.gemm_share_among(8), kMultiGpuGemmShare);
  gpu.multiprocessors = 100;
  gpu.gemm_half_size = Flops(0);
  const TrainingSettings training{.micro_batch_size_per_gpu = 64, .sequence_length = 64};
  const ModelTime alone = model_time(gpu, tiny_llama(), training);
  const ModelTime among = model_time(gpu, tiny_llama(), training, gpu.gemm_share_among(8));
  EXPECT_GT(among.kinds[0].forward, alone.kinds[0].forward);
  EXPECT_LT(among.kinds[0].forward.value(), alone.kinds[0].forward.value() / kMultiGpuGemmShare);
}

TEST(AttentionTime, OfLongSequencesIsComputeBound) {
  // 2 sequences of 2048, 32 x 128: 2 x 4096 x 2048 x 4096 = 68.719476736 GFLOP at 25 TFLOPS.
  const GpuProfile gpu = round_node().gpu;
  const Attention attention = heads_of(32, 8, 128);
  EXPECT_NEAR(attention_forward_time(gpu, attention, DType::kBf16, 2, 2048).value(),
              2748.77906944e-6 + 5e-6, kTolerance);
  EXPECT_NEAR(attention_backward_time(gpu, attention, DType::kBf16, 2, 2048).value(),
              2.5 * 2748.77906944e-6 + 5e-6, kTolerance);
}

TEST(AttentionTime, OfShortSequencesIsMemoryBound) {
  // 256 sequences of 16: q, o of 32 heads and k, v of 8: 4096 x 80 x 128 x 2 B = 83,886,080 B at
  // 800 GB/s = 104.8576 us; 2 x 4096 x 16 x 4096 FLOP take 21.5 us.
  const GpuProfile gpu = round_node().gpu;
  const Attention attention = heads_of(32, 8, 128);
  EXPECT_NEAR(attention_forward_time(gpu, attention, DType::kBf16, 256, 16).value(), 109.8576e-6,
              kTolerance);
  EXPECT_NEAR(attention_backward_time(gpu, attention, DType::kBf16, 256, 16).value(), 214.7152e-6,
              kTolerance);
}

TEST(StreamTime, IsBytesAtTheStreamingRateAndOneLaunch) {
  EXPECT_NEAR(stream_time(round_node().gpu, Bytes(800e6)).value(), 1e-3 + 5e-6, kTolerance);
}

TEST(Passes, CountNarrowAccessesByTypeAndWideOnesAsFp32) {
  const Passes passes{.narrow = 3, .wide = 2, .kernels = 1};
  EXPECT_EQ(passes.bytes(10, DType::kBf16).value(), 140);  // 10 x (3 x 2 + 2 x 4)
  EXPECT_EQ(passes.bytes(10, DType::kFp32).value(), 200);
}

// 2 sequences of 64: 128 tokens.
constexpr TrainingSettings kTraining{.micro_batch_size_per_gpu = 2, .sequence_length = 64};

TEST(ModelTime, OfTheEmbeddingIsAReadAndAWrite) {
  // 128 x 32 elements x 2 accesses x 2 B = 16,384 B at 500 GB/s, one kernel; backward twice that.
  const ModelTime time = model_time(round_node().gpu, tiny_llama(), kTraining);
  EXPECT_NEAR(time.embedding.forward.value(), 5.032768e-6, kTolerance);
  EXPECT_NEAR(time.embedding.backward.value(), 10.065536e-6, kTolerance);
}

TEST(ModelTime, OfLearnedPositionsAddsThem) {
  // And 3 accesses x 128 x 32 x 2 B = 24,576 B and a kernel.
  const ModelTime time = model_time(round_node().gpu, tiny_opt(), kTraining);
  EXPECT_NEAR(time.embedding.forward.value(), (16384 + 24576) / 500e9 + 10e-6, kTolerance);
}

TEST(ModelTime, OfALlamaBlockAddsChainProductsAndAttention) {
  // Element-wise, 4096 = 128 x 32 elements:
  //   2 RMSNorm   4 narrow + 7 wide = 36 B   294,912 B  12 kernels
  //   2 residual  3 narrow          =  6 B    49,152 B   2
  //   rotary q    10 narrow, 32 columns       81,920 B   5
  //   rotary k    10 narrow, 16 columns       40,960 B   5
  //   SwiGLU      5 narrow, 64 columns        81,920 B   2
  //                                          548,864 B at 500 GB/s = 1.097728 us, 26 x 5 us
  constexpr double kChain = 1.097728e-6 + 130e-6;
  // Products: 2 x 128 x (2 x 32 x 32 + 2 x 32 x 16 + 3 x 32 x 64) = 2,359,296 FLOP, and
  // 7 x 1 GFLOP lost, at 50 TFLOPS; 7 launches.
  constexpr double kProducts = 140.04718592e-6 + 35e-6;
  // Attention: 128 x 96 x 2 B = 24,576 B at 800 GB/s; 524,288 FLOP at 25 TFLOPS are less.
  constexpr double kAttention = 0.03072e-6 + 5e-6;
  const ModelTime time = model_time(round_node().gpu, tiny_llama(), kTraining);
  EXPECT_NEAR(time.kinds[0].forward.value(), kChain + kProducts + kAttention, kTolerance);
  // Twice the chain, 14 products of twice the FLOPs in all, attention's traffic twice.
  EXPECT_NEAR(time.kinds[0].backward.value(), 2 * kChain + 2 * kProducts + 0.06144e-6 + 5e-6,
              kTolerance);
}

TEST(ModelTime, OfAGpuWithMultiprocessorsHasOneAndAHalfPassesBackward) {
  GpuProfile gpu = round_node().gpu;
  gpu.multiprocessors = 100;
  const ModelTime time = model_time(gpu, tiny_llama(), kTraining);
  EXPECT_NEAR(time.embedding.backward.value(), 1.5 * (16384 / 0.6 / 500e9 + 5e-6), kTolerance);
}

TEST(ModelTime, OfFusedChainsIsOneKernelEach) {
  TrainingSettings training = kTraining;
  training.fused_framework = true;
  // 4096 elements: two norms of 2 accesses, two sums of 3, rotary of q 2 and of k half as much,
  // and SwiGLU of 3 on twice as many elements: 2 x 4096 x (4 + 6 + 2 + 1 + 6) B, seven kernels.
  const ModelTime eager = model_time(round_node().gpu, tiny_llama(), kTraining);
  const ModelTime fused = model_time(round_node().gpu, tiny_llama(), training);
  EXPECT_NEAR((eager.kinds[0].forward - fused.kinds[0].forward).value(),
              (548864 - 155648) / 500e9 + (26 - 7) * 5e-6, kTolerance);
  EXPECT_EQ(eager.kinds[0].forward_kernels, 26 + 7 + 1);
  EXPECT_EQ(fused.kinds[0].forward_kernels, 7 + 7 + 1);
  EXPECT_EQ(fused.kinds[0].backward_kernels, 2 * 7 + 14 + 1);
}

TEST(ModelTime, OfAnOptBlockHasNoRotaryAndOneProductLess) {
  // 2 LayerNorm 2 accesses, 2 residual 3, 2 dropout 2.5, of 4096 elements x 2 B: 122,880 B,
  // 6 kernels; ReLU 2 accesses of 128 x 128 x 2 B: 65,536 B, 1 kernel.
  constexpr double kChain = 188416 / 500e9 + 35e-6;
  // 2 x 128 x (4 x 32 x 32 + 2 x 32 x 128) = 3,145,728 FLOP and 6 GFLOP, 6 launches.
  constexpr double kProducts = (3145728 + 6e9) / 50e12 + 30e-6;
  // 128 x 2 x 64 x 2 B = 32,768 B.
  constexpr double kAttention = 32768 / 800e9 + 5e-6;
  const ModelTime time = model_time(round_node().gpu, tiny_opt(), kTraining);
  EXPECT_NEAR(time.kinds[0].forward.value(), kChain + kProducts + kAttention, kTolerance);
}

TEST(ModelTime, OfTheHeadAddsNormLossAndProjection) {
  // Norm 147,456 B, 6 kernels; loss 128 x 256 x (2 + 5 x 4) = 720,896 B, 4 kernels; projection
  // 2 x 128 x 32 x 256 = 2,097,152 FLOP.
  const ModelTime time = model_time(round_node().gpu, tiny_llama(), kTraining);
  const double projection = (2097152 + 1e9) / 50e12 + 5e-6;
  EXPECT_NEAR(time.head.forward.value(), 868352 / 500e9 + 50e-6 + projection, kTolerance);
  // Backward: norm twice, loss 1 narrow + 6 wide = 26 B and 4 kernels, two products.
  EXPECT_NEAR(time.head.backward.value(),
              (2 * 147456 + 32768 * 26) / 500e9 + 16 * 5e-6 + 2 * projection, kTolerance);
}

TEST(ModelFlops, CountWeightsAndAttentionThreeTimes) {
  // Weights: 2 blocks x 9,216 + 8,192 = 26,624; 2 x 128 x 26,624 = 6,815,744. Attention:
  // 4 x 128 x 64 x 32 x 2 blocks = 2,097,152.
  EXPECT_EQ(model_flops(tiny_llama(), kTraining).value(), 3 * (6815744.0 + 2097152.0));
}

}  // namespace
}  // namespace zenflow::sim
