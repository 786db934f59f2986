#include "runtime/probe/cuda_probe_device.h"
#include "runtime/probe/peer_experiments.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

[[noreturn]] void fail() {
  throw Error(ErrorKind::kDevice, "this build has no CUDA in it");
}

}  // namespace

std::unique_ptr<ProbeDevice> make_cuda_probe_device(int, const LibraryFolders&) {
  fail();
}

CudaDeviceFacts cuda_device_facts(int) {
  fail();
}

std::unique_ptr<PeerDevices> make_cuda_peer_devices() {
  fail();
}

}  // namespace zenflow::runtime
