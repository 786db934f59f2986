/// The nonlinear part of a feed-forward layer: SwiGLU's gate and GPT-2's GELU.
#pragma once

#include <cstdint>

#include "runtime/model/numerics.h"
#include "runtime/model_config/transformer_config.h"

namespace zenflow::runtime {

/// y[i] = f(x[i]), rounded.
void activation_forward(const Execution& run, Activation f, std::int64_t count, const float* x,
                        float* y);
/// dx[i] = dy[i] * f'(x[i]); dx may be dy.
void activation_backward(const Execution& run, Activation f, std::int64_t count, const float* x,
                         const float* dy, float* dx);

/// y[i] = f(gate[i]) * up[i]; in bf16 f(gate) is rounded first.
void gated_forward(const Execution& run, Activation f, std::int64_t count, const float* gate,
                   const float* up, float* y);
/// d_gate and d_up are written; d_up may be dy.
void gated_backward(const Execution& run, Activation f, std::int64_t count, const float* gate,
                    const float* up, const float* dy, float* d_gate, float* d_up);

}  // namespace zenflow::runtime
