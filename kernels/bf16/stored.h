/// A computed fp32 as an element type holds it.
#pragma once

#include <type_traits>

#include "kernels/bf16/bf16.h"

namespace zenflow::kernels {

/// A bfloat16 value in an fp32 container: what the host computes with where products take fp32.
struct WideBf16 {
  float value;
};
[[nodiscard]] constexpr float to_float(WideBf16 number) {
  return number.value;
}

/// The type of parameters and their gradients where activations are of type Element.
template <class Element>
using ParameterOf = std::conditional_t<std::is_same_v<Element, WideBf16>, Bf16, Element>;

template <class Element>
[[nodiscard]] constexpr Element as_element(float value) {
  if constexpr (std::is_same_v<Element, Bf16>) {
    return round_to_bf16(value);
  } else if constexpr (std::is_same_v<Element, WideBf16>) {
    return {to_float(round_to_bf16(value))};
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
