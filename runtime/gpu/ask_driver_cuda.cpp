#include <cuda_runtime_api.h>

#include "runtime/gpu/driver.h"
#include "runtime/gpu/driver_release_file.h"

namespace zenflow::runtime {

DriverAnswer ask_driver() {
  DriverAnswer answer;
  answer.built_with = CUDART_VERSION;
  int devices = 0;  // CUDA leaves it as it was when it fails
  const cudaError_t status = cudaGetDeviceCount(&devices);
  answer.status = static_cast<int>(status);
  answer.error = cudaGetErrorName(status);
  if (status == cudaSuccess) answer.devices = devices;
  // Otherwise the next, innocent call reports this error again.
  static_cast<void>(cudaGetLastError());
  int supports = 0;
  if (cudaDriverGetVersion(&supports) == cudaSuccess) answer.supports = supports;
  answer.release = installed_driver_release();
  return answer;
}

}  // namespace zenflow::runtime
