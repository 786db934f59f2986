/// L1 and L2 norm of every column of a matrix: how ZenFlow ranks columns of a gradient.
///
/// Arithmetic, the same in every implementation, so that results agree bit for bit. The rows of a
/// column are cut into blocks of kNormBlockRows, so that a GPU can work on many blocks at once;
/// with x_r the element in row r as fp32 (exact from bf16), for every block, r ascending:
///   b1 = 0;  b1 = b1 + |x_r|
///   b2 = 0;  b2 = b2 + x_r * x_r     the product is rounded before the sum: no fma
/// and over the blocks, ascending:
///   l1 = 0;  l1 = l1 + b1
///   s  = 0;  s  = s + b2;  l2 = sqrt(s)
/// All in fp32, IEEE 754, rounded to nearest even, denormals kept. A NaN in a column makes
/// both of its norms kNormNaN (hardware differs in the bits of a computed NaN); an infinity
/// makes them infinite. The square overflows from |x| = 2^64 on, and the norm is infinite then.
///
/// Cost: each element is read once, 4 or 2 bytes, and 4 operations; bound by memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/bf16/bf16.h"
#include "kernels/dispatch.h"
#include "kernels/matrix_view.h"

namespace zenflow::kernels {

/// Where the norms go: two arrays of [columns] each, overwritten.
struct ColumnNorms {
  float* l1;
  float* l2;
};

inline constexpr std::size_t kNormBlockRows = 128;

inline constexpr float kNormNaN = std::bit_cast<float>(std::uint32_t{0x7FC00000});

/// No rows give norms of 0, no columns give nothing.
void column_norms(const MatrixView<float>& matrix, ColumnNorms norms, Isa isa = best_isa());
void column_norms(const MatrixView<Bf16>& matrix, ColumnNorms norms, Isa isa = best_isa());

/// The reference.
void column_norms_scalar(const MatrixView<float>& matrix, ColumnNorms norms);
void column_norms_scalar(const MatrixView<Bf16>& matrix, ColumnNorms norms);

}  // namespace zenflow::kernels
