/// The emulator as an asynchronous device: streams that are late, in any order that events allow,
/// and memory that only their work may touch.
///
/// What it finds, beside wrong results: host code that reads or writes device memory (a fault, when
/// no stream is at work; with all streams lazy that is whenever host code runs); use of the default
/// stream; waits and copies that block without a word, by counting; calls from host functions.
///
/// What it cannot show: the memory model within a kernel, speed, how engines of a GPU are shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/device/host_stream.h"

namespace zenflow::emulator {

/// The program does with CUDA what it must not do.
class BrokenProgram : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

struct Behaviour {
  runtime::Jitter jitter{};  ///< of every stream; lazy: of all of them
  /// By number of the stream of its device: those run when somebody waits, and not before.
  std::vector<bool> lazy{};
  int devices = 1;
  /// Device memory is out of bounds for host code, and the default stream for all.
  bool strict = true;
};

/// For streams and memory made from now on; streams of each device count from 0. Forgets a failure.
/// Until it is called, nothing is lazy, strict or delayed. What waits for a device waits for the
/// streams of the calling thread's; memory is of all devices, as if each reached the others'.
void start(const Behaviour& behaviour);

/// Until the next `start`, copies of a kind take as long as their bytes do at this rate, and more.
void limit_copies(cudaMemcpyKind kind, double bytes_per_second);

/// Since `start`.
struct Counts {
  std::uint64_t operations = 0;  ///< kernels, copies and memsets of streams
  std::uint64_t waits = 0;       ///< cudaStreamWaitEvent
  std::uint64_t host_functions = 0;
  std::uint64_t pageable_copies = 0;   ///< cudaMemcpyAsync with memory that is not page-locked
  std::uint64_t synchronizations = 0;  ///< of a stream or the device; not of an event
  std::uint64_t event_waits = 0;       ///< cudaEventSynchronize
  std::uint64_t allocations = 0;       ///< of both kinds, and frees: each waits for the device
  std::uint64_t events = 0;            ///< recorded
};
[[nodiscard]] Counts counts();

/// Gives `work` to the stream, as a kernel: it may touch device memory. What it throws is a launch
/// failure. On the default stream, at once, and exceptions are the caller's.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace zenflow::emulator
