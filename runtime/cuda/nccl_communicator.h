/// Ranks with a GPU each, over NCCL.
///
/// In a build without CUDA the same function says so.
#pragma once

#include <memory>

#include "runtime/comm/communicator.h"
#include "runtime/gpu/dynamic_library.h"

namespace zenflow::runtime {

/// What is enqueued on streams goes from GPU to GPU; the rest `control` does, which stays alive,
/// and through which ranks find each other. All ranks call this at the same time, `ordinal` is the
/// GPU of this one. NCCL is looked for in `folders`.
///
/// NCCL chooses the order in which it adds, so that sums of more than two ranks are not those of
/// HostCommunicator to the bit: of N fp32 values they are at most (N - 1) 2^-24 times the sum of
/// their magnitudes off; of bfloat16, which it rounds after each addition, (N - 1) 2^-9 times.
/// Bytes are counted as HostCommunicator's are: each rank but the owner sends a gradient once, the
/// owner sends weights to each of the others.
///
/// Throws Error(kDevice) if NCCL is missing or too old, Error(kRuntime) if ranks do not find each
/// other. `sum` throws Error(kRuntime) once NCCL has seen a failure.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control,
                                                                   const LibraryFolders& folders,
                                                                   int ordinal);

}  // namespace zenflow::runtime
