/// AdamW with a C interface, for compare_adam.py.
#include "kernels/adamw/adamw.h"

using namespace zenflow::kernels;  // NOLINT: nothing includes this file

extern "C" {

/// Without a copy if `copy` is null.
void zenflow_adamw_fp32(const AdamWSettings* settings, std::uint64_t updates, float gradient_scale,
                        std::size_t n, float* parameters, float* first_moment, float* second_moment,
                        const float* gradient, Bf16* copy) {
  adamw(*settings, bias_correction(*settings, updates), gradient_scale, n,
        AdamWState<float, float>{parameters, first_moment, second_moment}, gradient, copy);
}

void zenflow_adamw_bf16_parameters(const AdamWSettings* settings, std::uint64_t updates,
                                   float gradient_scale, std::size_t n, Bf16* parameters,
                                   float* first_moment, float* second_moment,
                                   const Bf16* gradient) {
  adamw(*settings, bias_correction(*settings, updates), gradient_scale, n,
        AdamWState<Bf16, float>{parameters, first_moment, second_moment}, gradient);
}

void zenflow_adamw_all_bf16(const AdamWSettings* settings, std::uint64_t updates,
                            float gradient_scale, std::size_t n, Bf16* parameters,
                            Bf16* first_moment, Bf16* second_moment, const Bf16* gradient) {
  adamw(*settings, bias_correction(*settings, updates), gradient_scale, n,
        AdamWState<Bf16, Bf16>{parameters, first_moment, second_moment}, gradient);
}

}  // extern "C"
