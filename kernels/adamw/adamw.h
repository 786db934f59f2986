/// AdamW: one update of parameters from a gradient, with the scaling of the gradient before it
/// and the copy in working precision after it, in one pass over memory.
///
/// Source: Loshchilov and Hutter 2019, Algorithm 2, as torch.optim.AdamW computes it.
///
/// Arithmetic, the same in every implementation, so that results agree bit for bit. Each
/// operation is fp32, IEEE 754, rounded to nearest even, denormals kept; bfloat16 widens exactly.
///   g = gradient_scale * gradient
///   m = fma(beta1, m, (1 - beta1) * g)
///   v = fma(beta2, v, ((1 - beta2) * g) * g)
///   d = fma(sqrt(v), inverse_sqrt_correction2, epsilon)
///   w = fma(-decay, p, p)                      decay = learning_rate * weight_decay
///   p = fma(-step_size, m / d, w)
/// 1 - beta is exact for beta >= 1/2; decay is computed in double and rounded once. What is
/// stored in bfloat16 is rounded at the end (`round_to_bf16`): p follows from the unrounded m and
/// v, and `copy` from the stored p. Where a result is a NaN in one implementation it is one in
/// all; the bits of an fp32 NaN are not defined.
///
/// Each element stands alone, so a range may be cut into pieces, for threads say, with the same
/// result. The kernels themselves use one thread.
///
/// Cost: 28 bytes of memory traffic a parameter in fp32 (4 arrays read, 3 written), 2 more with a
/// bfloat16 copy, 22 with bfloat16 parameters and gradients, 14 all in bfloat16; a square root
/// and a division. Non-temporal stores would be slower: what is written was just read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bf16/bf16.h"
#include "kernels/dispatch.h"

namespace zenflow::kernels {

struct AdamWSettings {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
};

/// What depends on how many updates a parameter has seen.
struct BiasCorrection {
  float step_size;                 ///< learning_rate / (1 - beta1^updates)
  float inverse_sqrt_correction2;  ///< 1 / sqrt(1 - beta2^updates)
};

/// `updates` counts the one that is to be made. Computed in double, rounded once.
/// Precondition: updates >= 1.
[[nodiscard]] BiasCorrection bias_correction(const AdamWSettings& settings, std::uint64_t updates);

/// Three arrays of one length. They must not overlap each other or any other argument.
template <class Param, class Moment>
struct AdamWState {
  Param* parameters;
  Moment* first_moment;
  Moment* second_moment;
};

/// Updates `state`, arrays of [n], from `gradient`, [n]. `gradient_scale` undoes loss scaling and
/// applies clipping. `copy`, [n], receives the new parameters, unless it is null.
///
/// There is <Param, Moment, Grad, Out> for <float, float, float or Bf16, float or Bf16>.
template <class Param, class Moment, class Grad, class Out>
void adamw(const AdamWSettings& settings, BiasCorrection correction, float gradient_scale,
           std::size_t n, AdamWState<Param, Moment> state, const Grad* gradient, Out* copy,
           Isa isa = best_isa());

/// The same without a copy. There is <Param, Moment, Grad> for <float, float, float or Bf16>,
/// <Bf16, float, Bf16> and <Bf16, Bf16, Bf16>.
template <class Param, class Moment, class Grad>
void adamw(const AdamWSettings& settings, BiasCorrection correction, float gradient_scale,
           std::size_t n, AdamWState<Param, Moment> state, const Grad* gradient,
           Isa isa = best_isa());

/// Bias corrections of columns that have seen different numbers of updates: arrays of [columns].
struct ColumnCorrections {
  const float* step_size;
  const float* inverse_sqrt_correction2;
};

/// Where the new parameters go besides `state`: element (r, j) to
/// values[r * row_stride + column[j]], or to values[r * row_stride + j] if `column` is null.
/// Nowhere if `values` is null. With several `column` entries alike, which of them is stored is
/// not defined.
template <class Out>
struct ColumnScatter {
  Out* values;
  std::size_t row_stride;       ///< in elements
  const std::uint32_t* column;  ///< [columns] or null
};

/// AdamW on a matrix with a bias correction for each column. `state` and `gradient` are
/// [rows, columns], contiguous; `out` is where the columns live in the full matrix. This is
/// ZenFlow's selective AdamW: state for the selected columns alone, results into all weights.
/// The arithmetic is that of adamw(): with equal corrections the results are the same bits.
///
/// Rows stand alone: a caller may hand out ranges of rows by moving the pointers.
/// There is <Grad, Out> for float or Bf16 each.
template <class Grad, class Out>
void adamw_columns(const AdamWSettings& settings, ColumnCorrections corrections,
                   float gradient_scale, std::size_t rows, std::size_t columns,
                   AdamWState<float, float> state, const Grad* gradient, ColumnScatter<Out> out,
                   Isa isa = best_isa());

}  // namespace zenflow::kernels
