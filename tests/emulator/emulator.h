/// Runs CUDA kernels on the host, from the very sources that nvcc compiles: every thread of a block
/// is a fiber, blocks run on the host's threads. tests/emulator/include has the headers that take
/// the place of CUDA's.
///
/// What it finds: wrong results; with AddressSanitizer, accesses outside of device memory and of
/// dynamic shared memory; with UndefinedBehaviorSanitizer, misaligned packs and bad indices;
/// threads that do not meet at a barrier or warp function; shuffles from lanes that take no part;
/// shared memory that is read before it is written (it holds NaNs at first); and, by running the
/// threads of a block in two orders, most missing barriers.
///
/// It is stricter than hardware: all threads of a block must reach every __syncthreads(), and all
/// lanes in a mask every warp function, at the same place in the source, while a GPU overlooks
/// those that have left the kernel.
///
/// What it cannot show: speed; races within a warp or between blocks; the memory model; what
/// happens without a barrier that this order of threads does not need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace zenflow::emulator {

/// Where in a kernel's source threads meet.
struct Site {
  const char* file;
  int line;

  /// As a default argument: the place of the call. (std::source_location is missing from clang 14
  /// with libstdc++ 12.)
  [[nodiscard]] static constexpr Site here(const char* file = __builtin_FILE(),
                                           int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// The threads of a kernel do not meet where they have to.
class BrokenKernel : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// In which order threads of a block start, and go on after a barrier.
enum class ThreadOrder : std::uint8_t { kAscending, kDescending };

/// For launches from now on. A kernel whose result depends on it lacks a barrier.
void set_thread_order(ThreadOrder order);

struct GridShape {
  std::size_t blocks;
  std::size_t threads;       ///< of a block
  std::size_t shared_bytes;  ///< dynamic shared memory of a block
};

/// Runs `kernel` in every thread of every block. `place(block, thread)` is called before a thread
/// runs and whenever it goes on. Rethrows the first exception of a thread.
/// Throws: BrokenKernel.
void run_grid(const GridShape& shape, const std::function<void(std::size_t, std::size_t)>& place,
              const std::function<void()>& kernel);

// --- For kernels, while they run.
[[nodiscard]] void* dynamic_shared();
[[nodiscard]] unsigned lane_number();
void sync_block(Site at);
/// The lanes in `mask` whose predicate is true, when all of them have arrived.
unsigned vote(unsigned mask, bool predicate, Site at);
/// The value that lane `source` brought, when all lanes in `mask` have arrived.
std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source, Site at);

}  // namespace zenflow::emulator
