/// How fast a model trains on the host: products alone, and forward and backward of a small model.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "runtime/model/gemm.h"
#include "tests/support/model_step.h"

namespace zenflow::runtime {
namespace {

void count_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

/// Arguments: m, n, k, threads.
void product(benchmark::State& state) {
  const GemmShape shape = {state.range(0), state.range(1), state.range(2)};
  ThreadPool pool(static_cast<std::size_t>(state.range(3)));
  const std::vector<float> a(static_cast<std::size_t>(shape.m * shape.k), 0.5F);
  const std::vector<float> b(static_cast<std::size_t>(shape.n * shape.k), 0.25F);
  std::vector<float> c(static_cast<std::size_t>(shape.m * shape.n));
  for (auto _ : state) {
    gemm(pool, shape, {a.data(), shape.k}, {b.data(), shape.k, Transposed::kYes},
         {c.data(), shape.n}, false);
    benchmark::DoNotOptimize(c.data());
  }
  count_flops(state, 2.0 * static_cast<double>(shape.m * shape.n * shape.k));
}
BENCHMARK(product)
    ->Name("Model/product")
    ->Args({1024, 1024, 1024, 1})
    ->Args({1024, 1024, 1024, 2})
    ->Args({256, 1024, 4096, 1})
    ->Args({1024, 256, 256, 1})
    ->UseRealTime();

/// 3.2 million parameters, the size of model that trains on a laptop in minutes.
constexpr std::int64_t kSequences = 8;
constexpr std::int64_t kLength = 128;
const char* const kLlama = R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 256,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 704, "max_position_embeddings": 128})";
const char* const kGpt2 = R"({"model_type": "gpt2", "vocab_size": 256, "n_embd": 256,
    "n_layer": 4, "n_head": 4, "n_positions": 128})";

/// 6 FLOPs for a matrix element and token, less the lookup of embeddings; and 12 for a score and
/// column of a head, of which causal attention needs half.
double step_flops(const sim::ModelSpec& model) {
  const auto tokens = static_cast<double>(kSequences * kLength);
  double matrices = static_cast<double>(model.vocab * model.hidden);
  for (const sim::Linear& linear : model.layer(0).products) {
    matrices += static_cast<double>(model.layers() * linear.in * linear.out);
  }
  const double scores =
      static_cast<double>(model.layers() * model.heads * model.head_dim * kLength);
  return tokens * (6.0 * matrices + 6.0 * scores);
}

void step(benchmark::State& state, const char* config, ElementType type) {
  testing::ModelUnderTest model(testing::model_config(config), kSequences, kLength, type,
                                static_cast<std::size_t>(state.range(0)));
  model.initialize(type);
  Batch batch = {kSequences, kLength, {}, {}, {}, {}};
  for (std::int32_t i = 0; i < kSequences * kLength; ++i) batch.inputs.push_back(i * 7919 % 256);
  batch.targets = batch.inputs;
  for (auto _ : state) benchmark::DoNotOptimize(model.step(batch));
  count_flops(state, step_flops(model.model.config().model));
}
BENCHMARK_CAPTURE(step, llama_fp32, kLlama, ElementType::kFloat32)
    ->Name("Model/step/llama/fp32")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, llama_bf16, kLlama, ElementType::kBfloat16)
    ->Name("Model/step/llama/bf16")
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt2_fp32, kGpt2, ElementType::kFloat32)
    ->Name("Model/step/gpt2/fp32")
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace zenflow::runtime
