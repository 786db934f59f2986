#include "runtime/cuda/cuda_memory.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_check.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

using kernels::cuda_check;

void CudaMemoryBooks::Ranges::add(const void* address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_.emplace(static_cast<const std::byte*>(address), bytes);
}

void CudaMemoryBooks::Ranges::remove(const void* address) {
  const std::lock_guard lock(mutex_);
  bytes_.erase(static_cast<const std::byte*>(address));
}

bool CudaMemoryBooks::Ranges::contain(const void* address, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(address);
  const std::lock_guard lock(mutex_);
  auto range = bytes_.upper_bound(first);
  if (range == bytes_.begin()) return false;
  --range;
  const auto before = static_cast<std::size_t>(first - range->first);
  return before <= range->second && bytes <= range->second - before;
}

void CudaMemoryBooks::refuse(MemoryKind kind, std::size_t bytes, std::string_view purpose) const {
  const MemoryLedger& books = *ledger(kind);
  if (kind == MemoryKind::kPinnedHost) {
    throw Error(ErrorKind::kInfeasible,
                fmt::format("page-locked host memory: {} needs {} bytes, CUDA has none left; held: "
                            "{}",
                            purpose, bytes, books.holders()));
  }
  std::size_t free = 0;
  std::size_t total = 0;
  if (limit_) {
    total = *limit_;
    free = total - std::min<std::size_t>(total, books.held());
  } else {
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  }
  throw Error(ErrorKind::kInfeasible,
              fmt::format("device memory: {} needs {} bytes, {} of {} are free; held: {}", purpose,
                          bytes, free, total, books.holders()));
}

Buffer CudaMemoryBooks::allocate(MemoryKind kind, std::size_t bytes, std::string_view purpose) {
  if (bytes == 0) return {};
  const bool on_device = kind == MemoryKind::kDevice;
  const std::shared_ptr<MemoryLedger> books = ledger(kind);
  const std::uint64_t capacity =
      on_device && limit_ ? *limit_ : std::numeric_limits<std::uint64_t>::max();
  if (!books->try_hold(bytes, purpose, capacity)) refuse(kind, bytes, purpose);
  cuda_check(cudaSetDevice(ordinal_), "cudaSetDevice");
  void* address = nullptr;
  const char* call = on_device ? "cudaMalloc" : "cudaHostAlloc";
  const cudaError_t status = on_device ? cudaMalloc(&address, bytes)
                                       : cudaHostAlloc(&address, bytes, cudaHostAllocPortable);
  if (status != cudaSuccess) {
    books->give_back(bytes, std::string(purpose));
    if (status != cudaErrorMemoryAllocation) cuda_check(status, call);
    static_cast<void>(cudaGetLastError());  // else the next check reports it
    refuse(kind, bytes, purpose);
  }
  if (on_device) {
    return {address, bytes, [bytes, books, name = std::string(purpose)](void* held) {
              static_cast<void>(cudaFree(held));
              books->give_back(bytes, name);
            }};
  }
  pinned_->add(address, bytes);
  return {address, bytes,
          [bytes, books, pinned = pinned_, name = std::string(purpose)](void* held) {
            pinned->remove(held);
            static_cast<void>(cudaFreeHost(held));
            books->give_back(bytes, name);
          }};
}

}  // namespace zenflow::runtime
