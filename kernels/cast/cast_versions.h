/// The versions of the casts for each instruction set; not for callers.
#pragma once

#include "kernels/cast/cast.h"

namespace zenflow::kernels {

/// From fp32 to Bf16 or the other way.
template <class From, class To>
void cast_scalar(const From* values, std::size_t n, To* results);
template <class From, class To>
void cast_avx2(const From* values, std::size_t n, To* results);
template <class From, class To>
void cast_avx512(const From* values, std::size_t n, To* results);

}  // namespace zenflow::kernels
