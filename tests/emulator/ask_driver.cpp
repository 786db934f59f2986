/// The emulator's answer to whether there is a usable GPU, in the place of the driver's.
#include <cuda_runtime_api.h>

#include "runtime/gpu/driver.h"

namespace zenflow::runtime {

DriverAnswer ask_driver() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  return {.built_with = 13000,
          .status = static_cast<int>(status),
          .error = cudaGetErrorName(status),
          .devices = devices,
          .supports = 13000};
}

}  // namespace zenflow::runtime
