/// The sum of the squares of an array: gradient norms, and whether all elements are finite.
///
/// Arithmetic, the same in every implementation, so that results agree bit for bit. In double;
/// the square of an fp32 or bfloat16 is exact there. Sums start at 0 and add in ascending order:
///  1. The array is cut into blocks of kSquareBlock elements. Each has 32 sums, of which number k
///     adds the squares of the block's elements k, k + 32, k + 64, ...
///     The block's sum is ((s[0] + s[1]) + s[2]) + ... + s[31].
///  2. 1,024 sums, of which number k adds the sums of the blocks k, k + 1024, k + 2048, ...
///  3. 32 sums, of which number k adds those of step 2 with k, k + 32, k + 64, ...; the result is
///     ((s[0] + s[1]) + s[2]) + ... + s[31].
/// A GPU has a few threads for each block, and then one thread for each sum of step 2.
/// The result depends on where an array is cut into pieces: callers that add up pieces fix their
/// sizes and order, not their number of threads.
///
/// The result is finite if and only if every element is: a finite square is at most 2^256, so
/// that no sum of fewer than 2^700 of them overflows. It thus serves as the check for NaN and
/// infinity. The bits of a NaN are not defined.
///
/// Cost: 4 or 2 bytes an element, read once; a conversion and an fma in double.
#pragma once

#include <cstddef>

#include "kernels/bf16/bf16.h"
#include "kernels/dispatch.h"

namespace zenflow::kernels {

inline constexpr std::size_t kSquareBlock = 2048;

/// The sum over `values`, an array of [n]; 0 if n is 0. There is Element = float and Bf16.
template <class Element>
[[nodiscard]] double square_sum(const Element* values, std::size_t n, Isa isa = best_isa());

}  // namespace zenflow::kernels
