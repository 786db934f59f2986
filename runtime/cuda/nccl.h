/// NCCL's interface, opened at run time: programs start where it is missing.
///
/// Only for files that are built with CUDA; everything else includes nccl_communicator.h.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <cuda_runtime_api.h>

#include "runtime/comm/communicator.h"
#include "runtime/gpu/dynamic_library.h"

namespace zenflow::runtime {

// As NCCL 2's header declares them: ncclResult_t, ncclDataType_t and ncclRedOp_t are enumerations.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclBfloat16 = 9;
inline constexpr int kNcclSum = 0;
/// 2.10, the first with bfloat16.
inline constexpr int kNcclOldestVersion = 21000;

using NcclComm = struct NcclState*;
struct NcclUniqueId {
  std::array<char, 128> bytes;
};

/// What of it is called.
struct NcclFunctions {
  int (*get_version)(int* version);
  const char* (*get_error_string)(int status);
  const char* (*get_last_error)(NcclComm comm);  ///< null before 2.13
  int (*get_unique_id)(NcclUniqueId* id);
  int (*comm_init_rank)(NcclComm* comm, int ranks, NcclUniqueId id, int rank);
  int (*comm_get_async_error)(NcclComm comm, int* status);
  int (*comm_destroy)(NcclComm comm);
  int (*group_start)();
  int (*group_end)();
  int (*reduce)(const void* from, void* to, std::size_t n, int type, int operation, int root,
                NcclComm comm, cudaStream_t stream);
  int (*broadcast)(const void* from, void* to, std::size_t n, int type, int root, NcclComm comm,
                   cudaStream_t stream);
};

/// `library` is NCCL's and stays open as long as the result is used. Throws Error(kDevice) if it
/// has not all of them.
[[nodiscard]] NcclFunctions nccl_functions(const DynamicLibrary& library);

/// make_nccl_communicator over these functions.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control,
                                                                   const NcclFunctions& functions,
                                                                   int ordinal);

}  // namespace zenflow::runtime
