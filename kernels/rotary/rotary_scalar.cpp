#include "kernels/rotary/rotary.h"

namespace zenflow::kernels {

template <class Element>
void rotary_scalar(const RotaryShape& shape, RotaryAngles angles, RotaryDirection direction,
                   Element* x, Range rows) {
  const std::size_t half = shape.turned / 2;
  const float sign = direction == RotaryDirection::kForward ? 1.0F : -1.0F;
  for (std::size_t r = rows.first; r < rows.end(shape.rows); ++r) {
    const std::size_t angle = r % shape.length * half;
    for (std::size_t head = 0; head < shape.heads; ++head) {
      Element* const low = x + r * shape.stride + head * shape.head_dim;
      Element* const high = low + half;
      for (std::size_t c = 0; c < half; ++c) {
        const float a = to_float(low[c]);
        const float b = to_float(high[c]);
        const float cosine = angles.cosine[angle + c];
        const float sine = angles.sine[angle + c];
        low[c] = as_element<Element>(a * cosine - (sign * b) * sine);
        high[c] = as_element<Element>(b * cosine + (sign * a) * sine);
      }
    }
  }
}

template void rotary_scalar(const RotaryShape&, RotaryAngles, RotaryDirection, float*, Range);
template void rotary_scalar(const RotaryShape&, RotaryAngles, RotaryDirection, Bf16*, Range);
template void rotary_scalar(const RotaryShape&, RotaryAngles, RotaryDirection, WideBf16*, Range);

}  // namespace zenflow::kernels
