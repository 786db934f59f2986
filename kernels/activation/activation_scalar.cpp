#include "kernels/activation/activation.h"
#include "kernels/activation/functions.h"

namespace zenflow::kernels {

template <class Element>
void activation_scalar(ActivationFunction f, std::size_t n, const Element* x, Element* y,
                       Range part) {
  with_function(f, [&](auto function) {
    for (std::size_t i = part.first; i < part.end(n); ++i)
      y[i] = as_element<Element>(function.both(to_float(x[i])).value);
  });
}

template <class Element>
void activation_gradient_scalar(ActivationFunction f, std::size_t n,
                                const ActivationGradient<Element>& v, Range part) {
  with_function(f, [&](auto function) {
    for (std::size_t i = part.first; i < part.end(n); ++i) {
      v.dx[i] = as_element<Element>(to_float(v.dy[i]) * function.both(to_float(v.x[i])).slope);
    }
  });
}

template <class Element>
void gated_scalar(ActivationFunction f, std::size_t n, const Element* gate, const Element* up,
                  Element* y, Range part) {
  with_function(f, [&](auto function) {
    for (std::size_t i = part.first; i < part.end(n); ++i) {
      const float value = rounded_to<Element>(function.both(to_float(gate[i])).value);
      y[i] = as_element<Element>(value * to_float(up[i]));
    }
  });
}

template <class Element>
void gated_gradient_scalar(ActivationFunction f, std::size_t n, const GatedGradient<Element>& v,
                           Range part) {
  with_function(f, [&](auto function) {
    for (std::size_t i = part.first; i < part.end(n); ++i) {
      const auto [value, slope] = function.both(to_float(v.gate[i]));
      const float dy = to_float(v.dy[i]);
      v.d_gate[i] = as_element<Element>(rounded_to<Element>(dy * to_float(v.up[i])) * slope);
      v.d_up[i] = as_element<Element>(dy * rounded_to<Element>(value));
    }
  });
}

#define ZENFLOW_ACTIVATIONS(Element)                                                          \
  template void activation_scalar(ActivationFunction, std::size_t, const Element*, Element*,  \
                                  Range);                                                     \
  template void activation_gradient_scalar(ActivationFunction, std::size_t,                   \
                                           const ActivationGradient<Element>&, Range);        \
  template void gated_scalar(ActivationFunction, std::size_t, const Element*, const Element*, \
                             Element*, Range);                                                \
  template void gated_gradient_scalar(ActivationFunction, std::size_t,                        \
                                      const GatedGradient<Element>&, Range);
ZENFLOW_ACTIVATIONS(float)
ZENFLOW_ACTIVATIONS(Bf16)
ZENFLOW_ACTIVATIONS(WideBf16)
#undef ZENFLOW_ACTIVATIONS

}  // namespace zenflow::kernels
