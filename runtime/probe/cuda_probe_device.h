/// A GPU for the probe: the CUDA runtime, and cuBLAS opened at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/gpu/dynamic_library.h"
#include "runtime/probe/probe_device.h"

namespace zenflow::runtime {

/// Products are cuBLAS's, bf16 with fp32 sums; `update` and `pass` are our kernels of accumulation.
/// Throws Error(kDevice) in a build without CUDA, if CUDA fails or if cuBLAS is missing.
/// Precondition: require_gpu() does not throw.
[[nodiscard]] std::unique_ptr<ProbeDevice> make_cuda_probe_device(int device,
                                                                  const LibraryFolders& folders);

struct CudaDeviceFacts {
  std::uint64_t memory = 0;       ///< bytes
  std::uint64_t free_memory = 0;  ///< bytes, once the context is there
  double memory_bandwidth = 0;    ///< bytes/s, by clock and bus width; 0 if the driver does not say
  int multiprocessors = 0;
  int lanes = 0;       ///< fp32 lanes of a multiprocessor; 0 if its generation is not known
  double clock = 0;    ///< Hz, the highest of the multiprocessors
  std::string bus_id;  ///< "0000:3B:00.0"
};
/// Throws as above.
[[nodiscard]] CudaDeviceFacts cuda_device_facts(int device);

}  // namespace zenflow::runtime
