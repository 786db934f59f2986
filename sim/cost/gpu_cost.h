/// Time of GPU work from shapes: matrix products, attention, element-wise chains.
///
/// Symbols: T tokens, P peak FLOP/s of the element type, e gemm_efficiency, F FLOPs of
/// one product, H gemm_half_size, W memory bandwidth, s streaming_efficiency,
/// u elementwise_efficiency, l kernel_launch, b bytes of an element.
///
///   product [m,k]x[k,n]   max((F + H) / (e P), b (m k + k n + m n) / (s W)) + l
///   linear layer          forward one product, backward two of the same FLOPs
///   attention (fused)     forward 4 h d FLOPs a pair of a query and a key that it sees, T L / 2 of
///                         them if causal over sequences of L tokens; backward 2.5 times that, at
///                         attention_efficiency; never faster than reading q, k, v and writing o
///                         once
///   element-wise chain    bytes / (u W) + l a kernel
///   fused stream          bytes / (s W) + l
///
/// Of a GPU whose multiprocessors are stated products are timed by tiles (product_cost.h), among
/// several ranks at multi_gpu_gemm_share of a benchmark's rate, and with rows that are no multiple
/// of 16 bytes (a vocabulary of 50,257) at 474 FLOP per clock and multiprocessor at most. Of others
/// F = 2 m n k, and H is a fixed loss per product, in shape like the efficiency tables of Calculon
/// (systems/*.json). Source of the bound: roofline, Williams et al. 2009. docs/model.md lists the
/// element-wise passes and the known error.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.h"
#include "sim/config/hardware_profile.h"
#include "sim/config/scenario.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

/// How a product runs on a GPU whose multiprocessors are stated.
struct ProductKind {
  bool aligned = true;  ///< rows of its matrices are multiples of 16 bytes, or of fp32
  double held = 1;      ///< share of a benchmark's rate
};
/// Whether rows of `row` elements let libraries read 16 bytes at once.
[[nodiscard]] bool is_aligned(DType dtype, std::int64_t row);

/// [m, k] x [k, n]. Precondition: m, n, k >= 1 and the profile has a peak for `dtype`.
[[nodiscard]] Seconds gemm_time(const GpuProfile& gpu, DType dtype, std::int64_t m, std::int64_t n,
                                std::int64_t k, ProductKind kind = {});
/// Attention over `sequences` of `length` queries; forward.
[[nodiscard]] Seconds attention_forward_time(const GpuProfile& gpu, const Attention& attention,
                                             DType dtype, std::int64_t sequences,
                                             std::int64_t length);
[[nodiscard]] Seconds attention_backward_time(const GpuProfile& gpu, const Attention& attention,
                                              DType dtype, std::int64_t sequences,
                                              std::int64_t length);
/// One fused kernel that moves `traffic` bytes of device memory (Adam, casts, norms).
[[nodiscard]] Seconds stream_time(const GpuProfile& gpu, Bytes traffic);

/// Device memory traffic of Adam per parameter: fp32 weight and two moments read and written;
/// the gradient read and, unless training is in fp32, the 16-bit weight written.
[[nodiscard]] double gpu_adam_bytes(DType dtype);

/// Accesses per element of a chain of framework kernels, by width.
struct Passes {
  double narrow = 0;  ///< reads and writes of the training type
  double wide = 0;    ///< reads and writes of fp32
  double kernels = 0;

  [[nodiscard]] Bytes bytes(double elements, DType dtype) const {
    return Bytes(elements * (narrow * static_cast<double>(bytes_per_element(dtype)) + wide * 4));
  }
};

/// Of the device, and how many kernels the framework dispatches for it.
struct LayerTime {
  Seconds forward;
  Seconds backward;  ///< without recomputation
  double forward_kernels = 0;
  double backward_kernels = 0;

  LayerTime& operator+=(const LayerTime& other) {
    forward += other.forward;
    backward += other.backward;
    forward_kernels += other.forward_kernels;
    backward_kernels += other.backward_kernels;
    return *this;
  }
};

/// GPU time of a step's pieces for one micro-batch on one GPU.
struct ModelTime {
  LayerTime embedding;
  std::vector<LayerTime> kinds;  ///< of each of ModelSpec::kinds
  LayerTime head;                ///< final norm, vocabulary projection, loss
};

/// A kernel that takes as long as its arithmetic or its memory traffic, whichever is longer.
struct BoundedWork {
  Flops flops;  ///< 0: there is none
  Bytes traffic;
  Seconds besides{};  ///< before and after
};
/// What model_time() divides by rates, for a step's pieces: what measured times are fitted to.
struct LayerWork {
  std::vector<BoundedWork> products;  ///< without gemm_half_size
  std::vector<BoundedWork> attention;
  Bytes chains{};      ///< element-wise
  double kernels = 0;  ///< launches of all of them
};
struct LayerPasses {
  LayerWork forward;
  LayerWork backward;  ///< without recomputation
};
struct ModelWork {
  LayerPasses embedding;
  std::vector<LayerPasses> kinds;    ///< of each of ModelSpec::kinds
  std::vector<std::int64_t> counts;  ///< layers of each kind
  LayerPasses head;
};
/// [m, k] x [k, n] in a step. Precondition: the profile has a peak for `dtype`.
[[nodiscard]] BoundedWork product_work(const GpuProfile& gpu, DType dtype, double m, double n,
                                       double k, ProductKind kind = {});
/// `held`: share of a benchmark's rate that products hold, GpuProfile::gemm_share_among().
[[nodiscard]] ModelWork model_work(const GpuProfile& gpu, const ModelSpec& model,
                                   const TrainingSettings& training, double held = 1);

[[nodiscard]] ModelTime model_time(const GpuProfile& gpu, const ModelSpec& model,
                                   const TrainingSettings& training, double held = 1);

/// FLOPs of one step on one GPU that the model needs (no recomputation): three times
/// 2 T (linear weights that a token sees) + 4 T L h d a layer, L at most the window. PaLM and
/// llm-foundry count all parameters where this counts those that take part in products (the
/// vocabulary projection once, tied or not).
[[nodiscard]] Flops model_flops(const ModelSpec& model, const TrainingSettings& training);

}  // namespace zenflow::sim
