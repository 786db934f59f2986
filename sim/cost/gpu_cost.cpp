#include "sim/cost/gpu_cost.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

// Passes of Hugging Face's eager modules, counted from their operations. An operation reads
// its inputs and writes its output once; fp32 up-casts are wide accesses.
constexpr Passes kRmsNorm{.narrow = 4, .wide = 7, .kernels = 6};  // cast pow mean scale cast weight
constexpr Passes kLayerNorm{.narrow = 2, .wide = 0, .kernels = 1};
constexpr Passes kRotary{.narrow = 10, .wide = 0, .kernels = 5};  // x cos, rotate (2), x sin, add
constexpr Passes kResidual{.narrow = 3, .wide = 0, .kernels = 1};
constexpr Passes kSwiglu{.narrow = 5, .wide = 0, .kernels = 2};
constexpr Passes kNewGelu{.narrow = 18, .wide = 0, .kernels = 8};
constexpr Passes kRelu{.narrow = 2, .wide = 0, .kernels = 1};
constexpr Passes kDropout{.narrow = 2.5, .wide = 0, .kernels = 1};  // and a byte of mask
constexpr Passes kEmbedding{.narrow = 2, .wide = 0, .kernels = 1};
constexpr Passes kLossForward{.narrow = 1, .wide = 5, .kernels = 4};  // cast, shift, log-softmax
constexpr Passes kLossBackward{.narrow = 1, .wide = 6, .kernels = 4};
// The backward of a pass reads the incoming gradient and what was saved, and writes a gradient.
constexpr double kBackwardPasses = 2;
// Five products instead of two; q, k, v, o and the gradient of o in, three gradients out.
constexpr double kAttentionBackward = 2.5;
constexpr double kAttentionBackwardPasses = 2;

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

Chain block_chain(const ModelSpec& model, double tokens, DType dtype) {
  Chain chain;
  const double hidden = tokens * as_double(model.hidden);
  const double inner = tokens * as_double(model.intermediate);
  for (int twice = 0; twice < 2; ++twice) {
    chain.add(model.gated_mlp ? kRmsNorm : kLayerNorm, hidden, dtype);
    chain.add(kResidual, hidden, dtype);
    if (!model.gated_mlp) chain.add(kDropout, hidden, dtype);
  }
  if (model.gated_mlp) {
    chain.add(kRotary, tokens * as_double(model.heads * model.head_dim), dtype);
    chain.add(kRotary, tokens * as_double(model.kv_heads * model.head_dim), dtype);
    chain.add(kSwiglu, inner, dtype);
  } else {
    chain.add(model.family == ModelFamily::kGpt2 ? kNewGelu : kRelu, inner, dtype);
  }
  return chain;
}

LayerTime linear_time(const GpuProfile& gpu, DType dtype, std::int64_t tokens,
                      const Linear& layer) {
  return {gemm_time(gpu, dtype, tokens, layer.out, layer.in),
          gemm_time(gpu, dtype, tokens, layer.in, layer.out) +
              gemm_time(gpu, dtype, layer.in, layer.out, tokens)};
}

LayerTime block_time(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training) {
  const DType dtype = training.dtype;
  const Chain chain = block_chain(model, as_double(training.tokens()), dtype);
  LayerTime time{chain_time(gpu, chain.traffic, chain.kernels),
                 chain_time(gpu, kBackwardPasses * chain.traffic, kBackwardPasses * chain.kernels)};
  for (const Linear& layer : model.block_linears) {
    const LayerTime linear = linear_time(gpu, dtype, training.tokens(), layer);
    time.forward += linear.forward;
    time.backward += linear.backward;
  }
  time.forward += attention_forward_time(gpu, model, dtype, training.micro_batch_size_per_gpu,
                                         training.sequence_length);
  time.backward += attention_backward_time(gpu, model, dtype, training.micro_batch_size_per_gpu,
                                           training.sequence_length);
  return time;
}

struct ChainPair {
  Chain forward;
  Chain backward;
};

ChainPair head_chains(const ModelSpec& model, const TrainingSettings& training) {
  const DType dtype = training.dtype;
  const double tokens = as_double(training.tokens());
  const double logits = tokens * as_double(model.vocab);
  Chain norm;
  norm.add(model.gated_mlp ? kRmsNorm : kLayerNorm, tokens * as_double(model.hidden), dtype);
  ChainPair pair{norm, {kBackwardPasses * norm.traffic, kBackwardPasses * norm.kernels}};
  pair.forward.add(kLossForward, logits, dtype);
  pair.backward.add(kLossBackward, logits, dtype);
  return pair;
}

LayerTime head_time(const GpuProfile& gpu, const ModelSpec& model,
                    const TrainingSettings& training) {
  const DType dtype = training.dtype;
  const ChainPair chains = head_chains(model, training);
  LayerTime time{chain_time(gpu, chains.forward.traffic, chains.forward.kernels),
                 chain_time(gpu, chains.backward.traffic, chains.backward.kernels)};
  for (const Linear& layer : model.head_linears) {
    const LayerTime linear = linear_time(gpu, dtype, training.tokens(), layer);
    time.forward += linear.forward;
    time.backward += linear.backward;
  }
  return time;
}

Chain embedding_chain(const ModelSpec& model, const TrainingSettings& training) {
  Chain chain;
  chain.add(kEmbedding, as_double(training.tokens() * model.embedding_dim), training.dtype);
  if (model.learned_positions) {
    chain.add(kResidual, as_double(training.tokens() * model.hidden), training.dtype);
  }
  return chain;
}

LayerTime embedding_time(const GpuProfile& gpu, const ModelSpec& model,
                         const TrainingSettings& training) {
  const Chain chain = embedding_chain(model, training);
  return {chain_time(gpu, chain.traffic, chain.kernels),
          chain_time(gpu, kBackwardPasses * chain.traffic, kBackwardPasses * chain.kernels)};
}

/// FLOPs of the two causal products of one forward pass: 2 T L h d.
Flops attention_flops(const ModelSpec& model, std::int64_t sequences, std::int64_t length) {
  return Flops(2.0 * as_double(sequences) * as_double(length) * as_double(length) *
               as_double(model.heads * model.head_dim));
}

BoundedWork product_work(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  const double dm = as_double(m);
  const double dn = as_double(n);
  const double dk = as_double(k);
  return {Flops(2.0 * dm * dn * dk),
          Bytes((dm * dk + dk * dn + dm * dn) * as_double(bytes_per_element(dtype)))};
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

Seconds gemm_time(const GpuProfile& gpu, DType dtype, std::int64_t m, std::int64_t n,
                  std::int64_t k) {
  const BoundedWork work = product_work(dtype, m, n, k);
  const Seconds compute =
      (work.flops + gpu.gemm_half_size) / (gpu.gemm_efficiency * gpu.peak.at(dtype));
  return std::max(compute, work.traffic / (gpu.streaming_efficiency * gpu.memory_bandwidth)) +
         gpu.kernel_launch;
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

LayerWork forward_work(const Chain& chain, const std::vector<Linear>& linears,
                       const TrainingSettings& training) {
  LayerWork work{{}, {}, chain.traffic, chain.kernels + as_double(std::ssize(linears))};
  for (const Linear& layer : linears) {
    work.products.push_back(product_work(training.dtype, training.tokens(), layer.out, layer.in));
  }
  return work;
}

/// For each linear layer, the gradients of its input and of its weights.
LayerWork backward_work(const Chain& chain, const std::vector<Linear>& linears,
                        const TrainingSettings& training) {
  LayerWork work{{}, {}, chain.traffic, chain.kernels + 2 * as_double(std::ssize(linears))};
  for (const Linear& layer : linears) {
    const std::int64_t tokens = training.tokens();
    work.products.push_back(product_work(training.dtype, tokens, layer.in, layer.out));
    work.products.push_back(product_work(training.dtype, layer.in, layer.out, tokens));
  }
  return work;
}

Chain backward_of(const Chain& chain) {
  return {kBackwardPasses * chain.traffic, kBackwardPasses * chain.kernels};
}

}  // namespace

ModelWork model_work(const ModelSpec& model, const TrainingSettings& training) {
  const Chain embedding = embedding_chain(model, training);
  const Chain block = block_chain(model, as_double(training.tokens()), training.dtype);
  const ChainPair head = head_chains(model, training);
  ModelWork work{forward_work(embedding, {}, training),
                 backward_work(backward_of(embedding), {}, training),
                 forward_work(block, model.block_linears, training),
                 backward_work(backward_of(block), model.block_linears, training),
                 forward_work(head.forward, model.head_linears, training),
                 backward_work(head.backward, model.head_linears, training)};
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
