/// The GPU libraries that are opened at run time, by name.
#pragma once

#include <vector>

#include "runtime/gpu/dynamic_library.h"

namespace zenflow::runtime {

/// The toolkit that this build was compiled with, as CUDART_VERSION: 13000. 0: built without CUDA.
[[nodiscard]] int built_cuda_version();

// Interfaces change with CUDA's major version, and the names of cuBLAS and CUPTI with it.
[[nodiscard]] LibraryName cublas_library(int cuda_major);
[[nodiscard]] LibraryName cublas_lt_library(int cuda_major);
[[nodiscard]] LibraryName cupti_library(int cuda_major);
[[nodiscard]] LibraryName nccl_library(int cuda_major);
/// The driver's own libraries, of no toolkit.
[[nodiscard]] LibraryName nvml_library();
[[nodiscard]] LibraryName cuda_driver_library();

}  // namespace zenflow::runtime
