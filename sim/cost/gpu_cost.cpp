#include "sim/cost/gpu_cost.h"

#include <algorithm>

#include "sim/cost/product_cost.h"

namespace zenflow::sim {
namespace {

// Passes of Hugging Face's eager modules, counted from their operations. An operation reads
// its inputs and writes its output once; fp32 up-casts are wide accesses.
struct ChainPasses {
  Passes rms_norm;
  Passes rotary;
  Passes swiglu;
  Passes new_gelu;
  Passes loss_forward;
  Passes loss_backward;
};
constexpr ChainPasses kEager{
    .rms_norm = {.narrow = 4, .wide = 7, .kernels = 6},  // cast pow mean scale cast weight
    .rotary = {.narrow = 10, .wide = 0, .kernels = 5},   // x cos, rotate (2), x sin, add
    .swiglu = {.narrow = 5, .wide = 0, .kernels = 2},
    .new_gelu = {.narrow = 18, .wide = 0, .kernels = 8},
    .loss_forward = {.narrow = 1, .wide = 5, .kernels = 4},  // cast, shift, log-softmax
    .loss_backward = {.narrow = 1, .wide = 6, .kernels = 4}};
// Each chain is one kernel that reads its inputs and writes its result.
constexpr ChainPasses kFused{.rms_norm = {.narrow = 2, .wide = 0, .kernels = 1},
                             .rotary = {.narrow = 2, .wide = 0, .kernels = 1},
                             .swiglu = {.narrow = 3, .wide = 0, .kernels = 1},
                             .new_gelu = {.narrow = 2, .wide = 0, .kernels = 1},
                             .loss_forward = {.narrow = 1, .wide = 0, .kernels = 1},
                             .loss_backward = {.narrow = 2, .wide = 0, .kernels = 1}};
constexpr Passes kLayerNorm{.narrow = 2, .wide = 0, .kernels = 1};
constexpr Passes kResidual{.narrow = 3, .wide = 0, .kernels = 1};
constexpr Passes kRelu{.narrow = 2, .wide = 0, .kernels = 1};
constexpr Passes kDropout{.narrow = 2.5, .wide = 0, .kernels = 1};  // and a byte of mask
constexpr Passes kEmbedding{.narrow = 2, .wide = 0, .kernels = 1};
/// Passes of a chain's backward for one of its forward: the incoming gradient and what was saved
/// are read and a gradient is written, where forward reads and writes; a product of two has two
/// gradients, a sum or a cast saves nothing. Our operations on the host have been timed at two,
/// which is also taken of devices that are described by shares alone.
double backward_passes(const GpuProfile& gpu) {
  return gpu.multiprocessors > 0 ? 1.5 : 2;
}
// Five products instead of two; q, k, v, o and the gradient of o in, three gradients out.
constexpr double kAttentionBackward = 2.5;
constexpr double kAttentionBackwardPasses = 2;

/// Share of the rate of a benchmark, which runs one product over and over, that products hold in a
/// step: operands come from memory, and the clock falls under the power limit. Source: the four
/// rows of llm-foundry on eight A100, whose batches are published.
constexpr double kHeldInTraining = 0.73;

double as_double(std::int64_t n) {
  return static_cast<double>(n);
}

Seconds chain_time(const GpuProfile& gpu, Bytes traffic, double kernels) {
  return traffic / (gpu.elementwise_efficiency * gpu.memory_bandwidth) +
         kernels * gpu.kernel_launch;
}

struct Chain {
  Bytes traffic;
  double kernels = 0;

  void add(const Passes& passes, double elements, DType dtype) {
    traffic += passes.bytes(elements, dtype);
    kernels += passes.kernels;
  }
};

/// Share of a contiguous element-wise kernel's rate that eager chains reach: many of their kernels
/// cast, or read halves of heads and transposed operands, with strides. Assumption; the published
/// 240 ms without offloading (blog zenflow-corebinding) agree with it.
constexpr double kEagerShare = 0.6;

/// With the traffic for which its kernels occupy the memory.
Chain as_run(const GpuProfile& gpu, const TrainingSettings& training, Chain chain) {
  if (gpu.multiprocessors > 0 && !training.fused_framework) {
    chain.traffic = chain.traffic / kEagerShare;
  }
  return chain;
}

Chain backward_of(const GpuProfile& gpu, const Chain& chain) {
  const double passes = backward_passes(gpu);
  return {passes * chain.traffic, passes * chain.kernels};
}

LayerTime chains_time(const GpuProfile& gpu, const Chain& forward, const Chain& backward) {
  return {chain_time(gpu, forward.traffic, forward.kernels),
          chain_time(gpu, backward.traffic, backward.kernels), forward.kernels, backward.kernels};
}

const ChainPasses& chain_passes(const TrainingSettings& training) {
  return training.fused_framework ? kFused : kEager;
}

Chain block_chain(const GpuProfile& gpu, const ModelSpec& model, const TrainingSettings& training) {
  const ChainPasses& passes = chain_passes(training);
  const double tokens = as_double(training.tokens());
  const DType dtype = training.dtype;
  Chain chain;
  const double hidden = tokens * as_double(model.hidden);
  const double inner = tokens * as_double(model.intermediate);
  for (int twice = 0; twice < 2; ++twice) {
    chain.add(model.gated_mlp ? passes.rms_norm : kLayerNorm, hidden, dtype);
    chain.add(kResidual, hidden, dtype);
    if (!model.gated_mlp) chain.add(kDropout, hidden, dtype);
  }
  if (model.gated_mlp) {
    chain.add(passes.rotary, tokens * as_double(model.heads * model.head_dim), dtype);
    chain.add(passes.rotary, tokens * as_double(model.kv_heads * model.head_dim), dtype);
    chain.add(passes.swiglu, inner, dtype);
  } else {
    chain.add(model.family == ModelFamily::kGpt2 ? passes.new_gelu : kRelu, inner, dtype);
  }
  return as_run(gpu, training, chain);
}

LayerTime linear_time(const GpuProfile& gpu, DType dtype, std::int64_t tokens,
                      const Linear& layer) {
  return {gemm_time(gpu, dtype, tokens, layer.out, layer.in),
          gemm_time(gpu, dtype, tokens, layer.in, layer.out) +
              gemm_time(gpu, dtype, layer.in, layer.out, tokens),
          1, 2};
}

LayerTime block_time(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training) {
  const DType dtype = training.dtype;
  const Chain chain = block_chain(gpu, model, training);
  LayerTime time = chains_time(gpu, chain, backward_of(gpu, chain));
  for (const Linear& layer : model.block_linears) {
    time += linear_time(gpu, dtype, training.tokens(), layer);
  }
  time.forward += attention_forward_time(gpu, model, dtype, training.micro_batch_size_per_gpu,
                                         training.sequence_length);
  time.backward += attention_backward_time(gpu, model, dtype, training.micro_batch_size_per_gpu,
                                           training.sequence_length);
  time.forward_kernels += 1;
  time.backward_kernels += 1;
  return time;
}

struct ChainPair {
  Chain forward;
  Chain backward;
};

ChainPair head_chains(const GpuProfile& gpu, const ModelSpec& model,
                      const TrainingSettings& training) {
  const DType dtype = training.dtype;
  const double tokens = as_double(training.tokens());
  const double logits = tokens * as_double(model.vocab);
  Chain norm;
  norm.add(model.gated_mlp ? chain_passes(training).rms_norm : kLayerNorm,
           tokens * as_double(model.hidden), dtype);
  ChainPair pair{norm, backward_of(gpu, norm)};
  pair.forward.add(chain_passes(training).loss_forward, logits, dtype);
  pair.backward.add(chain_passes(training).loss_backward, logits, dtype);
  return {as_run(gpu, training, pair.forward), as_run(gpu, training, pair.backward)};
}

LayerTime head_time(const GpuProfile& gpu, const ModelSpec& model,
                    const TrainingSettings& training) {
  const DType dtype = training.dtype;
  const ChainPair chains = head_chains(gpu, model, training);
  LayerTime time = chains_time(gpu, chains.forward, chains.backward);
  for (const Linear& layer : model.head_linears) {
    time += linear_time(gpu, dtype, training.tokens(), layer);
  }
  return time;
}

Chain embedding_chain(const GpuProfile& gpu, const ModelSpec& model,
                      const TrainingSettings& training) {
  Chain chain;
  chain.add(kEmbedding, as_double(training.tokens() * model.embedding_dim), training.dtype);
  if (model.learned_positions) {
    chain.add(kResidual, as_double(training.tokens() * model.hidden), training.dtype);
  }
  return as_run(gpu, training, chain);
}

LayerTime embedding_time(const GpuProfile& gpu, const ModelSpec& model,
                         const TrainingSettings& training) {
  const Chain chain = embedding_chain(gpu, model, training);
  return chains_time(gpu, chain, backward_of(gpu, chain));
}

/// FLOPs of the two causal products of one forward pass: 2 T L h d.
Flops attention_flops(const ModelSpec& model, std::int64_t sequences, std::int64_t length) {
  return Flops(2.0 * as_double(sequences) * as_double(length) * as_double(length) *
               as_double(model.heads * model.head_dim));
}

/// `passes` over q, k, v and o; `products` in units of the two forward ones.
BoundedWork attention_work(const ModelSpec& model, DType dtype, std::int64_t sequences,
                           std::int64_t length, double products, double passes) {
  const double elements = as_double(sequences * length) *
                          as_double(2 * (model.heads + model.kv_heads) * model.head_dim);
  return {products * attention_flops(model, sequences, length),
          Bytes(passes * elements * as_double(bytes_per_element(dtype)))};
}

Seconds attention_time(const GpuProfile& gpu, DType dtype, const BoundedWork& work) {
  const Seconds compute = work.flops / (gpu.attention_efficiency * gpu.peak.at(dtype));
  const Seconds memory = work.traffic / (gpu.streaming_efficiency * gpu.memory_bandwidth);
  return std::max(compute, memory) + gpu.kernel_launch;
}

}  // namespace

BoundedWork product_work(const GpuProfile& gpu, DType dtype, double m, double n, double k) {
  if (gpu.multiprocessors > 0) {
    const ProductRun run = product_run(gpu, dtype, m, n, k);
    return {run.busy / kHeldInTraining, run.operands, run.besides};
  }
  return {Flops(2.0 * m * n * k),
          Bytes((m * k + k * n + m * n) * as_double(bytes_per_element(dtype)))};
}

Seconds gemm_time(const GpuProfile& gpu, DType dtype, std::int64_t m, std::int64_t n,
                  std::int64_t k) {
  const BoundedWork work = product_work(gpu, dtype, as_double(m), as_double(n), as_double(k));
  const Seconds compute =
      (work.flops + gpu.gemm_half_size) / (gpu.gemm_efficiency * gpu.peak.at(dtype));
  return std::max(compute, work.traffic / (gpu.streaming_efficiency * gpu.memory_bandwidth)) +
         work.besides + gpu.kernel_launch;
}

Seconds attention_forward_time(const GpuProfile& gpu, const ModelSpec& model, DType dtype,
                               std::int64_t sequences, std::int64_t length) {
  return attention_time(gpu, dtype, attention_work(model, dtype, sequences, length, 1, 1));
}

Seconds attention_backward_time(const GpuProfile& gpu, const ModelSpec& model, DType dtype,
                                std::int64_t sequences, std::int64_t length) {
  return attention_time(gpu, dtype,
                        attention_work(model, dtype, sequences, length, kAttentionBackward,
                                       kAttentionBackwardPasses));
}

double gpu_adam_bytes(DType dtype) {
  constexpr double kState = 24;
  const auto width = static_cast<double>(bytes_per_element(dtype));
  return dtype == DType::kFp32 ? kState + width : kState + 2 * width;
}

Seconds stream_time(const GpuProfile& gpu, Bytes traffic) {
  return traffic / (gpu.streaming_efficiency * gpu.memory_bandwidth) + gpu.kernel_launch;
}

namespace {

BoundedWork product_of(const GpuProfile& gpu, DType dtype, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  return product_work(gpu, dtype, as_double(m), as_double(n), as_double(k));
}

LayerWork forward_work(const GpuProfile& gpu, const Chain& chain,
                       const std::vector<Linear>& linears, const TrainingSettings& training) {
  LayerWork work{{}, {}, chain.traffic, chain.kernels + as_double(std::ssize(linears))};
  for (const Linear& layer : linears) {
    work.products.push_back(
        product_of(gpu, training.dtype, training.tokens(), layer.out, layer.in));
  }
  return work;
}

/// For each linear layer, the gradients of its input and of its weights.
LayerWork backward_work(const GpuProfile& gpu, const Chain& chain,
                        const std::vector<Linear>& linears, const TrainingSettings& training) {
  LayerWork work{{}, {}, chain.traffic, chain.kernels + 2 * as_double(std::ssize(linears))};
  for (const Linear& layer : linears) {
    const std::int64_t tokens = training.tokens();
    work.products.push_back(product_of(gpu, training.dtype, tokens, layer.in, layer.out));
    work.products.push_back(product_of(gpu, training.dtype, layer.in, layer.out, tokens));
  }
  return work;
}

}  // namespace

ModelWork model_work(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training) {
  const Chain embedding = embedding_chain(gpu, model, training);
  const Chain block = block_chain(gpu, model, training);
  const ChainPair head = head_chains(gpu, model, training);
  ModelWork work{forward_work(gpu, embedding, {}, training),
                 backward_work(gpu, backward_of(gpu, embedding), {}, training),
                 forward_work(gpu, block, model.block_linears, training),
                 backward_work(gpu, backward_of(gpu, block), model.block_linears, training),
                 forward_work(gpu, head.forward, model.head_linears, training),
                 backward_work(gpu, head.backward, model.head_linears, training)};
  const std::int64_t sequences = training.micro_batch_size_per_gpu;
  const std::int64_t length = training.sequence_length;
  work.block_forward.attention = attention_work(model, training.dtype, sequences, length, 1, 1);
  work.block_backward.attention = attention_work(model, training.dtype, sequences, length,
                                                 kAttentionBackward, kAttentionBackwardPasses);
  work.block_forward.kernels += 1;
  work.block_backward.kernels += 1;
  return work;
}

ModelTime model_time(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training) {
  return {embedding_time(gpu, model, training), block_time(gpu, model, training),
          head_time(gpu, model, training)};
}

Flops model_flops(const ModelSpec& model, const TrainingSettings& training) {
  double weights = 0;
  for (const Linear& layer : model.block_linears) {
    weights += as_double(layer.in * layer.out) * as_double(model.layers);
  }
  for (const Linear& layer : model.head_linears) weights += as_double(layer.in * layer.out);
  const double tokens = as_double(training.tokens());
  const double attention = 4.0 * tokens * as_double(training.sequence_length) *
                           as_double(model.heads * model.head_dim) * as_double(model.layers);
  return Flops(3.0 * (2.0 * tokens * weights + attention));
}

}  // namespace zenflow::sim
