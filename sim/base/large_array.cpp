#include "sim/base/large_array.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include <sys/mman.h>

#include "sim/base/stop.h"
#include "sim/base/thread_pool.h"

namespace zenflow {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20U;
constexpr std::size_t kPiece = std::size_t{64} << 20U;  // of a thread, in bytes
/// Clearing is bound by memory, not by cores, well before so many.
constexpr unsigned kMostThreads = 16;

/// Bytes [first, first + bytes), nothing of which is used yet, get their memory. What a system does
/// not know (MADV_POPULATE_WRITE is Linux 5.14's) it leaves to the first touch.
void touch(std::byte* first, std::size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers do not have
  static_cast<void>(madvise(first, bytes, MADV_HUGEPAGE));
  static_cast<void>(madvise(first, bytes, kPopulateWrite));
}

/// The whole large pages of an array.
void touch_by_threads(float* array, std::size_t count) {
  const auto begin = reinterpret_cast<std::uintptr_t>(array);
  const std::uintptr_t first = (begin + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t end = (begin + count * sizeof(float)) / kLargePage * kLargePage;
  if (end <= first || end - first < 2 * kPiece) return;
  const std::size_t pieces = (end - first + kPiece - 1) / kPiece;
  ThreadPool pool(std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads));
  pool.run(pieces, [&](std::size_t piece) {
    throw_if_stopped();
    const std::uintptr_t at = first + piece * kPiece;
    touch(reinterpret_cast<std::byte*>(at), std::min(kPiece, end - at));
  });
}

}  // namespace

void fill_with_zeros(std::vector<float>& array, std::size_t count) {
  constexpr std::size_t kElements = std::size_t{16} << 20U;
  array.reserve(count);
  touch_by_threads(array.data(), count);
  while (array.size() < count) {
    throw_if_stopped();
    array.resize(std::min(count, array.size() + kElements));
  }
}

}  // namespace zenflow
