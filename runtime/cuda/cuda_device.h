/// The GPU that trains.
///
/// In a build without CUDA the same functions say so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/device/device.h"
#include "runtime/gpu/dynamic_library.h"
#include "runtime/trace/launch_log.h"
#include "sim/base/units.h"

namespace zenflow::runtime {

struct CudaDeviceSettings {
  int ordinal = 0;                ///< among the visible GPUs
  std::optional<Bytes> memory{};  ///< use no more than this; none: all that is free
  /// Where cuBLASLt and CUPTI are looked for.
  LibraryFolders libraries{};
  LaunchLog* launches = nullptr;  ///< is told of every operation; outlives the device
};

/// Streams are non-blocking CUDA streams, "compute" with the highest priority: nothing here or in
/// its users touches the default stream. Allocating and giving back memory waits for the whole
/// GPU, so both belong before and after training, as MemoryUse::allocations lets tests see.
///
/// `copy` throws Error(kRuntime) if its host side is not memory that `allocate` has given as
/// kPinnedHost: such a copy would block the caller without a word.
///
/// Signals. A stream that waits for a signal not yet set runs a host function that blocks. CUDA may
/// run host functions of all streams one after the other, so whoever sets the signal may wait for
/// what was enqueued before in the same stream, and for nothing that waits for a signal enqueued
/// later anywhere, nor for a thread that launches a kernel for the first time: CUDA loads kernels
/// then, which waits for the GPU (CUDA_MODULE_LOADING=EAGER loads all at the start). Waits for
/// signals that are set cost nothing. A signal that is destroyed unset lets the stream go on and
/// fails every event recorded behind it.
///
/// `recorder` gets a track for each stream: how long it was busy and what it waited for, by CUDA
/// events between its operations; gaps between kernels that are launched one after the other count
/// as busy. Spans are there for a part of a run alone (Recorder::keep_spans), under the host
/// device's names, by two more events for an operation, and on the host's clock as far as
/// device_clock.h says. A trace of a whole run is CUPTI's.
///
/// Throws Error(kDevice) if there is no usable GPU, or none of that number.
[[nodiscard]] std::unique_ptr<Device> make_cuda_device(const CudaDeviceSettings& settings,
                                                       Recorder& recorder);

/// Bytes of memory that the GPU has, and that are free now. Throws as make_cuda_device.
struct CudaMemoryFacts {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};
[[nodiscard]] CudaMemoryFacts cuda_memory(int ordinal);

/// Its place on the bus as Linux writes it, "0000:3b:00.0". Throws as make_cuda_device.
[[nodiscard]] std::string cuda_bus_id(int ordinal);

}  // namespace zenflow::runtime
