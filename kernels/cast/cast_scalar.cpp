#include <type_traits>

#include "kernels/cast/cast_versions.h"

namespace zenflow::kernels {

template <class From, class To>
void cast_scalar(const From* values, std::size_t n, To* results) {
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<To, Bf16>) {
      results[i] = round_to_bf16(values[i]);
    } else {
      results[i] = to_float(values[i]);
    }
  }
}

template void cast_scalar(const float*, std::size_t, Bf16*);
template void cast_scalar(const Bf16*, std::size_t, float*);

}  // namespace zenflow::kernels
