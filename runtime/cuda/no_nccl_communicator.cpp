#include "runtime/cuda/nccl_communicator.h"
#include "runtime/gpu/driver.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

std::unique_ptr<Communicator> make_nccl_communicator(Communicator&, const LibraryFolders&, int) {
  require_gpu({}, "ranks on GPUs");  // an answer of a build without CUDA
  throw Error(ErrorKind::kDevice, "this build has no CUDA in it");
}

}  // namespace zenflow::runtime
