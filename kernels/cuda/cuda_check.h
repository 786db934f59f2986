/// Turns CUDA status codes into exceptions that name the call and where it was made.
#pragma once

#include <cuda_runtime_api.h>

namespace zenflow::kernels {

/// A default argument `CallSite at = CallSite::here()` is the place of the call.
/// (std::source_location is missing from clang 14 with libstdc++ 12.)
struct CallSite {
  const char* file;
  int line;

  [[nodiscard]] static constexpr CallSite here(const char* file = __builtin_FILE(),
                                               int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Throws Error(kDevice) naming the call, the CUDA error and the call site. Resets CUDA's last
/// error. Formats in a .cpp file, since fmt 9 does not compile under nvcc.
[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call, CallSite at);

inline void cuda_check(cudaError_t status, const char* call, CallSite at = CallSite::here()) {
  if (status != cudaSuccess) throw_cuda_error(status, call, at);
}

}  // namespace zenflow::kernels
