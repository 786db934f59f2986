/// A computed fp32 as an element type holds it.
#pragma once

#include <type_traits>

#include "kernels/bf16/bf16.h"

namespace zenflow::kernels {

template <class Element>
[[nodiscard]] constexpr Element as_element(float value) {
  if constexpr (std::is_same_v<Element, Bf16>) {
    return round_to_bf16(value);
  } else {
    return value;
  }
}
/// The same, as an fp32 again.
template <class Element>
[[nodiscard]] constexpr float rounded_to(float value) {
  return to_float(as_element<Element>(value));
}

}  // namespace zenflow::kernels
