/// The nonlinear part of a feed-forward layer, with SwiGLU's gate or without one.
///
/// Arithmetic, in fp32 from stored values, each operation rounded by itself (no fma):
///   sigmoid(x) = 1 / (1 + exp(-x))
///   kSilu       f = x s, f' = s (1 + x (1 - s)), s = sigmoid(x)
///   kGeluTanh   f = x s, f' = s + x s (1 - s) k (1 + 3 a x^2), s = sigmoid(k (x + a x^3)),
///               k = 2 sqrt(2 / pi), a = 0.044715, as 0.5 (1 + tanh u) = sigmoid(2 u)
///   kRelu       f = max(x, 0), f' = 1 where x > 0, else 0
///   kGelu       f = x P, f' = P + x exp(-x^2 / 2) / sqrt(2 pi), P = erfc(-x / sqrt(2)) / 2
/// Plain: y = stored(f(x)), dx = stored(dy f'(x)).
/// Gated: y = stored(stored(f(gate)) up), d_gate = stored(stored(dy up) f'(gate)), d_up = stored(dy
/// stored(f(gate))).
///
/// exp and erfc are the platform's: implementations agree within 8 * 2^-24 relative before values
/// are stored (CUDA's expf and erfcf err by at most 2 and 6 units in the last place, by its
/// programming guide). Source of kGeluTanh: Hendrycks & Gimpel 2016, section 2.
#pragma once

#include <cstddef>

#include "kernels/bf16/stored.h"
#include "kernels/range.h"

namespace zenflow::kernels {

enum class ActivationFunction : unsigned char { kSilu, kGelu, kGeluTanh, kRelu };

/// Arrays of [n]. dx may be dy.
template <class Element>
struct ActivationGradient {
  const Element* x;
  const Element* dy;
  Element* dx;
};

/// Arrays of [n]. d_up may be dy, and d_gate may be gate.
template <class Element>
struct GatedGradient {
  const Element* gate;
  const Element* up;
  const Element* dy;
  Element* d_gate;
  Element* d_up;
};

// The references, which are the host's operations, too, over part of [n]. There is Element = float,
// Bf16 and WideBf16.
template <class Element>
void activation_scalar(ActivationFunction f, std::size_t n, const Element* x, Element* y,
                       Range part = {});
template <class Element>
void activation_gradient_scalar(ActivationFunction f, std::size_t n,
                                const ActivationGradient<Element>& values, Range part = {});
template <class Element>
void gated_scalar(ActivationFunction f, std::size_t n, const Element* gate, const Element* up,
                  Element* y, Range part = {});
template <class Element>
void gated_gradient_scalar(ActivationFunction f, std::size_t n,
                           const GatedGradient<Element>& values, Range part = {});

}  // namespace zenflow::kernels
