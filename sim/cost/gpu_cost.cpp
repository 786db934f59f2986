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

/// FLOPs per clock of a multiprocessor in products of 16-bit elements whose rows are no multiple of
/// 16 bytes: libraries read them one by one, with kernels of older generations. Source: the three
/// products with GPT-2's vocabulary of 50,257 on an H200 (docs/accuracy/h200, gpt2_medium) hold 97
/// to 147 TFLOPS, 124 in the mean, of 132 multiprocessors at 1.98 GHz. That padding it to 50,304
/// made nanoGPT a quarter faster on an A100 (its author) agrees.
constexpr double kUnalignedFlops = 474;
constexpr std::int64_t kAlignedBytes = 16;

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

/// How products of the layer run: tokens are no row length of theirs.
ProductKind product_kind(DType dtype, double held, const Linear& layer) {
  return {.aligned = is_aligned(dtype, layer.in) && is_aligned(dtype, layer.out), .held = held};
}

LayerTime linear_time(const GpuProfile& gpu, const TrainingSettings& training, double held,
                      const Linear& layer) {
  const DType dtype = training.dtype;
  const std::int64_t tokens = training.tokens();
  const ProductKind kind = product_kind(training.dtype, held, layer);
  return {gemm_time(gpu, dtype, tokens, layer.out, layer.in, kind),
          gemm_time(gpu, dtype, tokens, layer.in, layer.out, kind) +
              gemm_time(gpu, dtype, layer.in, layer.out, tokens, kind),
          1, 2};
}

LayerTime block_time(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training, double held) {
  const DType dtype = training.dtype;
  const Chain chain = block_chain(gpu, model, training);
  LayerTime time = chains_time(gpu, chain, backward_of(gpu, chain));
  for (const Linear& layer : model.block_linears) {
    time += linear_time(gpu, training, held, layer);
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

LayerTime head_time(const GpuProfile& gpu, const ModelSpec& model, const TrainingSettings& training,
                    double held) {
  const ChainPair chains = head_chains(gpu, model, training);
  LayerTime time = chains_time(gpu, chains.forward, chains.backward);
  for (const Linear& layer : model.head_linears) {
    time += linear_time(gpu, training, held, layer);
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

bool is_aligned(DType dtype, std::int64_t row) {
  return dtype == DType::kFp32 || row * bytes_per_element(dtype) % kAlignedBytes == 0;
}

BoundedWork product_work(const GpuProfile& gpu, DType dtype, double m, double n, double k,
                         ProductKind kind) {
  if (gpu.multiprocessors > 0) {
    const ProductRun run = product_run(gpu, dtype, m, n, k);
    const Flops busy = run.busy / kind.held;
    if (!kind.aligned && gpu.clock > 0) {
      // Whatever share of the peak aligned products reach.
      const double rate = kUnalignedFlops * as_double(gpu.multiprocessors) * gpu.clock;
      const Seconds alone(2.0 * m * n * k / rate);
      const bool slower = alone > busy / (gpu.gemm_efficiency * gpu.peak.at(dtype));
      if (slower) return {Flops(0), Bytes(0), run.besides + alone};
    }
    return {busy, run.operands, run.besides};
  }
  return {Flops(2.0 * m * n * k),
          Bytes((m * k + k * n + m * n) * as_double(bytes_per_element(dtype)))};
}

Seconds gemm_time(const GpuProfile& gpu, DType dtype, std::int64_t m, std::int64_t n,
                  std::int64_t k, ProductKind kind) {
  const BoundedWork work = product_work(gpu, dtype, as_double(m), as_double(n), as_double(k), kind);
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
                       std::int64_t k, ProductKind kind) {
  return product_work(gpu, dtype, as_double(m), as_double(n), as_double(k), kind);
}

LayerWork forward_work(const GpuProfile& gpu, const Chain& chain,
                       const std::vector<Linear>& linears, const TrainingSettings& training,
                       double held) {
  LayerWork work{{}, {}, chain.traffic, chain.kernels + as_double(std::ssize(linears))};
  for (const Linear& layer : linears) {
    work.products.push_back(product_of(gpu, training.dtype, training.tokens(), layer.out, layer.in,
                                       product_kind(training.dtype, held, layer)));
  }
  return work;
}

/// For each linear layer, the gradients of its input and of its weights.
LayerWork backward_work(const GpuProfile& gpu, const Chain& chain,
                        const std::vector<Linear>& linears, const TrainingSettings& training,
                        double held) {
  LayerWork work{{}, {}, chain.traffic, chain.kernels + 2 * as_double(std::ssize(linears))};
  for (const Linear& layer : linears) {
    const std::int64_t tokens = training.tokens();
    const ProductKind kind = product_kind(training.dtype, held, layer);
    work.products.push_back(product_of(gpu, training.dtype, tokens, layer.in, layer.out, kind));
    work.products.push_back(product_of(gpu, training.dtype, layer.in, layer.out, tokens, kind));
  }
  return work;
}

}  // namespace

ModelWork model_work(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training, double held) {
  const Chain embedding = embedding_chain(gpu, model, training);
  const Chain block = block_chain(gpu, model, training);
  const ChainPair head = head_chains(gpu, model, training);
  ModelWork work{forward_work(gpu, embedding, {}, training, held),
                 backward_work(gpu, backward_of(gpu, embedding), {}, training, held),
                 forward_work(gpu, block, model.block_linears, training, held),
                 backward_work(gpu, backward_of(gpu, block), model.block_linears, training, held),
                 forward_work(gpu, head.forward, model.head_linears, training, held),
                 backward_work(gpu, head.backward, model.head_linears, training, held)};
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
                     const TrainingSettings& training, double held) {
  return {embedding_time(gpu, model, training), block_time(gpu, model, training, held),
          head_time(gpu, model, training, held)};
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
