/// Rotary position embedding in Hugging Face's layout, in place: column c of a head turns with
/// column c + turned / 2 by the angle of (position, c); columns from `turned` on stay.
///
/// Arithmetic, in fp32 from stored values, each operation rounded by itself (no fma), so that every
/// implementation agrees bit for bit; s = 1 forward and -1 backward:
///   low[c]  = stored(low[c] * cosine - (s * high[c]) * sine)
///   high[c] = stored(high[c] * cosine + (s * low[c]) * sine)      with the values before
/// Source: Su et al. 2021, section 3.2.
#pragma once

#include <cstddef>

#include "kernels/bf16/stored.h"
#include "kernels/range.h"

namespace zenflow::kernels {

/// The first `heads` heads of each of `rows` rows, `stride` elements apart, turn; row r is at
/// position r % length.
struct RotaryShape {
  std::size_t rows;
  std::size_t length;
  std::size_t heads;
  std::size_t head_dim;
  std::size_t stride;
  std::size_t turned = head_dim;  ///< columns of a head; even
};

/// [positions, turned / 2] each, at least `length` positions.
struct RotaryAngles {
  const float* cosine;
  const float* sine;
};

enum class RotaryDirection : unsigned char { kForward, kBackward };

// The reference, which is the host's operation, too. There is Element = float, Bf16 and WideBf16.
template <class Element>
void rotary_scalar(const RotaryShape& shape, RotaryAngles angles, RotaryDirection direction,
                   Element* x, Range rows = {});

}  // namespace zenflow::kernels
