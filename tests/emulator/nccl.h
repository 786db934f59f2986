/// A stand-in for NCCL on the emulator's streams: ranks are threads of this process.
#pragma once

#include "runtime/cuda/nccl.h"

namespace zenflow::emulator {

/// Sums are added up in rank order; those of bfloat16 are rounded after each addition, as NCCL's
/// are. Calls of a group begin when it ends. ncclCommInitRank waits until all ranks have called it,
/// as NCCL's does.
[[nodiscard]] runtime::NcclFunctions nccl_stand_in();

/// Makes comm_get_async_error say this from now on: ncclSuccess, ncclRemoteError, ...
void set_nccl_failure(int status);

}  // namespace zenflow::emulator
