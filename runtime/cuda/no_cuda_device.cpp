#include "runtime/cuda/cuda_device.h"
#include "runtime/gpu/driver.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

[[noreturn]] void fail() {
  require_gpu({}, "the CUDA device");  // an answer of a build without CUDA
  throw Error(ErrorKind::kDevice, "this build has no CUDA in it");
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(const CudaDeviceSettings&, Recorder&) {
  fail();
}

CudaMemoryFacts cuda_memory(int) {
  fail();
}

std::string cuda_bus_id(int) {
  fail();
}

}  // namespace zenflow::runtime
