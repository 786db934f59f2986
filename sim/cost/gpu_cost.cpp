#include "sim/cost/gpu_cost.h"

#include <algorithm>
#include <cmath>

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
/// Softmax in fp32, top k, their normalisation, sorting by expert, counts and offsets, of which
/// only the first are as wide as there are experts. Counted from integrations/moe.py of
/// transformers 5.23.
constexpr Passes kRouting{.narrow = 3, .wide = 4, .kernels = 12};
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

/// Passes of one chain of the layer, by width.
const Passes& passes_of(ChainKind kind, const ChainPasses& passes) {
  switch (kind) {
    case ChainKind::kRmsNorm:
      return passes.rms_norm;
    case ChainKind::kLayerNorm:
      return kLayerNorm;
    case ChainKind::kResidual:
      return kResidual;
    case ChainKind::kDropout:
      return kDropout;
    case ChainKind::kRotary:
      return passes.rotary;
    case ChainKind::kGate:
      return passes.swiglu;
    case ChainKind::kActivation:
      return kRelu;
    case ChainKind::kNewGelu:
      return passes.new_gelu;
    case ChainKind::kEmbedding:
      return kEmbedding;
    case ChainKind::kRouting:
      return kRouting;
  }
  return kResidual;
}

/// Tokens of one micro-batch in the layer's stream.
double tokens_of(const Layer& layer, const TrainingSettings& training) {
  return as_double(layer.tokens > 0 ? layer.tokens * training.micro_batch_size_per_gpu
                                    : training.tokens());
}

/// Of the layer's chains, without how an eager framework runs them.
Chain layer_chain(const Layer& layer, const TrainingSettings& training) {
  const ChainPasses& passes = chain_passes(training);
  const double tokens = tokens_of(layer, training);
  Chain chain;
  for (const sim::Chain& one : layer.chains) {
    chain.add(passes_of(one.kind, passes), tokens * one.width, training.dtype);
  }
  return chain;
}

/// How products of the layer run: tokens are no row length of theirs.
/// Compilers pad rows that are not aligned, our runtime takes such a product in two.
ProductKind product_kind(const TrainingSettings& training, double held, const Linear& layer) {
  const DType dtype = training.dtype;
  const bool aligned = is_aligned(dtype, layer.in) && is_aligned(dtype, layer.out);
  return {.aligned = training.fused_framework || aligned, .held = held};
}

/// Tokens that one of the products sees: at least one.
std::int64_t tokens_seen(const Linear& product, double tokens) {
  return std::max<std::int64_t>(1, std::llround(tokens * product.share));
}

/// Of a product of the layer, and of the gradients of its input and of its weight.
struct ProductWorks {
  BoundedWork forward;
  BoundedWork input;
  BoundedWork weight;
};

/// Experts are one kernel, whose tiles do not reach from one of them into the next (torch's
/// _grouped_mm, which transformers 5 takes): rows up to a multiple of the smallest tile's, and all
/// experts' weights.
ProductWorks product_works(const GpuProfile& gpu, const TrainingSettings& training, double held,
                           const Linear& product, double layer_tokens) {
  constexpr std::int64_t kTileRows = 64;
  const DType dtype = training.dtype;
  const std::int64_t tokens = tokens_seen(product, layer_tokens);
  const ProductKind kind = product_kind(training, held, product);
  const std::int64_t in = product.in;
  const std::int64_t out = product.out;
  const auto work = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return product_work(gpu, dtype, as_double(m), as_double(n), as_double(k), kind);
  };
  if (product.count == 1)
    return {work(tokens, out, in), work(tokens, in, out), work(in, out, tokens)};
  const std::int64_t rows = product.count * ((tokens + kTileRows - 1) / kTileRows) * kTileRows;
  ProductWorks works{work(rows, out, in), work(rows, in, out),
                     work(product.count * in, out, tokens)};
  const double b = as_double(bytes_per_element(dtype));
  const Bytes weights(b * as_double((product.count - 1) * in * out));
  works.forward.traffic += weights;
  works.input.traffic += weights;
  works.weight.traffic += Bytes(b * as_double((product.count - 1) * tokens * out));
  return works;
}

Seconds product_time(const GpuProfile& gpu, DType dtype, const BoundedWork& work) {
  const Seconds compute =
      (work.flops + gpu.gemm_half_size) / (gpu.gemm_efficiency * gpu.peak.at(dtype));
  return std::max(compute, work.traffic / (gpu.streaming_efficiency * gpu.memory_bandwidth)) +
         work.besides + gpu.kernel_launch;
}

/// A quantised weight is read and written in the training type before each product with it: once
/// forward and once for the gradient of the input.
Bytes dequantising_traffic(const Linear& product, DType dtype) {
  return Bytes(as_double(product.count * product.in * product.out) *
               (product.stored_bytes + as_double(bytes_per_element(dtype))));
}

LayerTime linear_time(const GpuProfile& gpu, const TrainingSettings& training, double held,
                      const Linear& product, double layer_tokens) {
  const ProductWorks works = product_works(gpu, training, held, product, layer_tokens);
  LayerTime time{product_time(gpu, training.dtype, works.forward),
                 product_time(gpu, training.dtype, works.input), 1, 1};
  if (product.trained) {
    time.backward += product_time(gpu, training.dtype, works.weight);
    time.backward_kernels += 1;
  }
  if (product.no_grad) {
    time.backward = Seconds(0);
    time.backward_kernels = 0;
  }
  if (product.stored_bytes > 0) {
    const Seconds dequantised = stream_time(gpu, dequantising_traffic(product, training.dtype));
    time.forward += dequantised;
    time.backward += dequantised;
    time.forward_kernels += 1;
    time.backward_kernels += 1;
  }
  return time;
}

struct ChainPair {
  Chain forward;
  Chain backward;
};

/// Of the layer, and of the loss over `outputs` logits a token above it.
ChainPair chain_pair(const GpuProfile& gpu, const Layer& layer, const TrainingSettings& training,
                     std::int64_t outputs) {
  const Chain chain = layer_chain(layer, training);
  if (outputs == 0) {
    const Chain run = as_run(gpu, training, chain);
    return {run, backward_of(gpu, run)};
  }
  const double logits = tokens_of(layer, training) * as_double(outputs);
  ChainPair pair{chain, backward_of(gpu, chain)};
  pair.forward.add(chain_passes(training).loss_forward, logits, training.dtype);
  pair.backward.add(chain_passes(training).loss_backward, logits, training.dtype);
  return {as_run(gpu, training, pair.forward), as_run(gpu, training, pair.backward)};
}

/// Of the two products of one forward pass over `sequences` of `length` queries: each pair of a
/// query and a key that it sees costs a multiplication and an addition a column of both.
Flops attention_flops(const Attention& attention, double sequences, double length) {
  const double heads = as_double(attention.heads);
  if (attention.linear) {
    // Adding a key and value to the state, and reading it.
    return Flops(4.0 * sequences * length * heads *
                 as_double(attention.head_dim * attention.value_dim));
  }
  return Flops(2.0 * sequences * attention.pairs(length) * heads *
               as_double(attention.head_dim + attention.value_dim));
}

/// `passes` over q, k, v and o; `products` in units of the two forward ones.
BoundedWork attention_work(const Attention& attention, DType dtype, double sequences, double length,
                           double products, double passes) {
  const double keys = attention.key_tokens > 0 ? as_double(attention.key_tokens) : length;
  const double columns = as_double(attention.head_dim + attention.value_dim);
  const double elements =
      sequences * (length * as_double(attention.heads) + keys * as_double(attention.kv_heads)) *
      columns;
  return {products * attention_flops(attention, sequences, length),
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
  return product_time(gpu, dtype,
                      product_work(gpu, dtype, as_double(m), as_double(n), as_double(k), kind));
}

Seconds attention_forward_time(const GpuProfile& gpu, const Attention& attention, DType dtype,
                               std::int64_t sequences, std::int64_t length) {
  return attention_time(
      gpu, dtype, attention_work(attention, dtype, as_double(sequences), as_double(length), 1, 1));
}

Seconds attention_backward_time(const GpuProfile& gpu, const Attention& attention, DType dtype,
                                std::int64_t sequences, std::int64_t length) {
  return attention_time(gpu, dtype,
                        attention_work(attention, dtype, as_double(sequences), as_double(length),
                                       kAttentionBackward, kAttentionBackwardPasses));
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

/// Queries of a sequence in the layer's stream.
std::int64_t length_of(const Layer& layer, const TrainingSettings& training) {
  return layer.tokens > 0 ? layer.tokens : training.sequence_length;
}

LayerTime layer_time(const GpuProfile& gpu, const Layer& layer, const TrainingSettings& training,
                     double held, std::int64_t outputs = 0) {
  const ChainPair chains = chain_pair(gpu, layer, training, outputs);
  LayerTime time = chains_time(gpu, chains.forward, chains.backward);
  const double tokens = tokens_of(layer, training);
  for (const Linear& product : layer.products) {
    time += linear_time(gpu, training, held, product, tokens);
  }
  for (const Attention& attention : layer.attention) {
    const std::int64_t sequences = training.micro_batch_size_per_gpu;
    const std::int64_t length = length_of(layer, training);
    time.forward += attention_forward_time(gpu, attention, training.dtype, sequences, length);
    time.forward_kernels += 1;
    if (attention.no_grad) continue;
    time.backward += attention_backward_time(gpu, attention, training.dtype, sequences, length);
    time.backward_kernels += 1;
  }
  if (!layer.runs_backward) {
    time.backward = Seconds(0);
    time.backward_kernels = 0;
  }
  return time;
}

LayerPasses layer_work(const GpuProfile& gpu, const Layer& layer, const TrainingSettings& training,
                       double held, std::int64_t outputs = 0) {
  const ChainPair chains = chain_pair(gpu, layer, training, outputs);
  LayerPasses work;
  work.forward.chains = chains.forward.traffic;
  work.forward.kernels = chains.forward.kernels;
  work.backward.chains = chains.backward.traffic;
  work.backward.kernels = chains.backward.kernels;
  const double layer_tokens = tokens_of(layer, training);
  for (const Linear& product : layer.products) {
    const ProductWorks works = product_works(gpu, training, held, product, layer_tokens);
    work.forward.products.push_back(works.forward);
    work.forward.kernels += 1;
    if (!product.no_grad) {
      work.backward.products.push_back(works.input);
      if (product.trained) work.backward.products.push_back(works.weight);
      work.backward.kernels += product.trained ? 2 : 1;
    }
    if (product.stored_bytes > 0) {
      const Bytes traffic = dequantising_traffic(product, training.dtype);
      work.forward.chains += traffic;
      work.backward.chains += traffic;
      work.forward.kernels += 1;
      work.backward.kernels += 1;
    }
  }
  const double sequences = as_double(training.micro_batch_size_per_gpu);
  const double length = as_double(length_of(layer, training));
  for (const Attention& attention : layer.attention) {
    work.forward.attention.push_back(
        attention_work(attention, training.dtype, sequences, length, 1, 1));
    work.forward.kernels += 1;
    if (attention.no_grad) continue;
    work.backward.attention.push_back(attention_work(attention, training.dtype, sequences, length,
                                                     kAttentionBackward, kAttentionBackwardPasses));
    work.backward.kernels += 1;
  }
  if (!layer.runs_backward) work.backward = {};
  return work;
}

}  // namespace

ModelWork model_work(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training, double held) {
  ModelWork work{layer_work(gpu, model.embedding, training, held),
                 {},
                 {},
                 layer_work(gpu, model.head, training, held, model.outputs)};
  for (const Layer& layer : model.kinds) {
    work.kinds.push_back(layer_work(gpu, layer, training, held));
  }
  work.counts = model.kind_counts();
  return work;
}

ModelTime model_time(const GpuProfile& gpu, const ModelSpec& model,
                     const TrainingSettings& training, double held) {
  ModelTime time{layer_time(gpu, model.embedding, training, held),
                 {},
                 layer_time(gpu, model.head, training, held, model.outputs)};
  for (const Layer& layer : model.kinds) {
    time.kinds.push_back(layer_time(gpu, layer, training, held));
  }
  return time;
}

Flops model_flops(const ModelSpec& model, const TrainingSettings& training) {
  double products = 0;
  double attention = 0;
  double frozen = 0;        // products without a gradient of their weight
  double forward_only = 0;  // FLOPs
  const auto add = [&](const Layer& layer, double count) {
    const double tokens = count * tokens_of(layer, training);
    for (const Linear& product : layer.products) {
      if (product.no_grad) {
        forward_only += 2 * tokens * product.active();
      } else {
        (product.trained ? products : frozen) += tokens * product.active();
      }
    }
    for (const Attention& one : layer.attention) {
      // All pairs, as PaLM counts them, though causal attention needs half of them.
      const double length = as_double(length_of(layer, training));
      double keys = one.key_tokens > 0 ? as_double(one.key_tokens) : length;
      if (one.window > 0) keys = std::min(keys, as_double(one.window));
      (one.no_grad ? forward_only : attention) +=
          one.linear
              ? count * attention_flops(one, as_double(training.micro_batch_size_per_gpu), length)
                            .value()
              : 2.0 * tokens * keys * as_double(one.heads) *
                    as_double(one.head_dim + one.value_dim);
    }
  };
  const std::vector<std::int64_t> counts = model.kind_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) add(model.kinds[i], as_double(counts[i]));
  add(model.embedding, 1);
  add(model.head, 1);
  return Flops(3.0 * (2.0 * products + attention) + 2.0 * (2.0 * frozen) + forward_only);
}

}  // namespace zenflow::sim
