#include "runtime/cuda/gpu_recording.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

std::unique_ptr<GpuRecording> start_gpu_recording(const LibraryFolders&) {
  throw Error(ErrorKind::kDevice, "--trace: this build has no CUDA in it");
}

}  // namespace zenflow::runtime
