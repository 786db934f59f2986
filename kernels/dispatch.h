/// Which instruction sets this machine has, for kernels that exist for several of them.
///
/// All versions of a kernel give the same bits, so the choice changes nothing but speed. It is
/// made once a call, not in inner loops; tests pass every entry of `available_isas`.
#pragma once

#include <vector>

namespace zenflow::kernels {

enum class Isa {
  kScalar,  ///< the references, in plain C++: for comparison and for other processors
  kAvx2,    ///< AVX2 with FMA3
  kAvx512,  ///< AVX-512 F, BW, DQ and VL
};

#if defined(__x86_64__)
inline constexpr bool kIsX86 = true;
#else
inline constexpr bool kIsX86 = false;
#endif

/// In ascending order; kScalar is always there.
[[nodiscard]] std::vector<Isa> available_isas();

/// The last of `available_isas()`, looked up once.
[[nodiscard]] Isa best_isa();

[[nodiscard]] const char* to_string(Isa isa);

}  // namespace zenflow::kernels
