#include "kernels/cuda/cuda_check.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::kernels {

void throw_cuda_error(cudaError_t status, const char* call, CallSite at) {
  // Otherwise the next, innocent check reports this error again.
  static_cast<void>(cudaGetLastError());
  throw Error(ErrorKind::kDevice,
              fmt::format("{}:{}: {}: {} ({})", at.file, at.line, call, cudaGetErrorString(status),
                          cudaGetErrorName(status)));
}

}  // namespace zenflow::kernels
