/// How values are held: fp32 throughout, or as bfloat16 values in fp32 containers.
///
/// With ElementType::kBfloat16 weights and gradients are stored as bfloat16, and every operation
/// of the model (a product with its bias, a norm, an activation, a residual sum, ...) computes in
/// fp32 from bfloat16 values and rounds its results to the nearest bfloat16, once. The containers
/// stay fp32, so that one implementation serves both types. Not rounded, as in fused kernels on
/// GPUs: attention scores and their log-sum-exp, statistics of norms, the loss.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/bf16/bf16.h"
#include "runtime/model_config/parameters.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

/// Rounds what an operation of this element type stores.
struct Rounding {
  bool to_bfloat16 = false;

  explicit Rounding(ElementType type) : to_bfloat16(type == ElementType::kBfloat16) {}
  [[nodiscard]] float operator()(float value) const {
    return to_bfloat16 ? kernels::to_float(kernels::round_to_bf16(value)) : value;
  }
};

/// What every operation runs with.
struct Execution {
  ThreadPool& pool;
  ElementType type;

  [[nodiscard]] Rounding rounding() const { return Rounding(type); }
};

/// Runs work(first, last) on ranges of [0, count) of at most `per_block`, on the pool.
template <class Work>
void for_ranges(ThreadPool& pool, std::int64_t count, std::int64_t per_block, const Work& work) {
  pool.run(static_cast<std::size_t>((count + per_block - 1) / per_block), [&](std::size_t block) {
    const std::int64_t first = static_cast<std::int64_t>(block) * per_block;
    work(first, first + per_block < count ? first + per_block : count);
  });
}

/// Ranges small enough to share out, large enough to be worth a thread: elementwise work on
/// [rows, columns].
[[nodiscard]] constexpr std::int64_t rows_per_block(std::int64_t columns) {
  constexpr std::int64_t kElements = 16384;
  return columns >= kElements ? 1 : kElements / columns;
}

/// Weights of any element type as fp32: in place, or widened into `scratch`, which lives as long
/// as the result is used.
[[nodiscard]] const float* as_float(const Execution& run, const void* values, std::int64_t count,
                                    std::vector<float>& scratch);

/// Where an operation writes a parameter's gradient in fp32: the gradient itself, or `scratch`,
/// from which `store_gradient` adds it to its place, or rounds it, or both.
[[nodiscard]] float* gradient_in_float(const Execution& run, void* gradient, std::int64_t count,
                                       bool adds, std::vector<float>& scratch);
void store_gradient(const Execution& run, const float* values, std::int64_t count, bool adds,
                    void* gradient);

/// x[rows, columns], rows `stride` apart, rounded in place; nothing to do in fp32.
void round_in_place(const Execution& run, float* x, std::int64_t rows, std::int64_t columns,
                    std::int64_t stride);

}  // namespace zenflow::runtime
