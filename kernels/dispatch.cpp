#include "kernels/dispatch.h"

namespace zenflow::kernels {

std::vector<Isa> available_isas() {
  std::vector<Isa> isas{Isa::kScalar};
#if defined(__x86_64__)
  // These ask the operating system too whether it keeps the wide registers.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx2) isas.push_back(Isa::kAvx2);
  if (has_avx512) isas.push_back(Isa::kAvx512);
#endif
  return isas;
}

Isa best_isa() {
  static const Isa best = available_isas().back();
  return best;
}

const char* to_string(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

}  // namespace zenflow::kernels
