/// Memory of a GPU and page-locked memory of the host, with the books that say who holds it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "runtime/device/device.h"
#include "runtime/device/memory_ledger.h"

namespace zenflow::runtime {

class CudaMemoryBooks {
 public:
  /// `limit`: of device memory, in bytes; none: what the GPU has.
  CudaMemoryBooks(int ordinal, std::optional<std::uint64_t> limit)
      : ordinal_(ordinal), limit_(limit) {}

  /// The buffer may outlive the books. Throws Error(kInfeasible): what wanted how much, how much is
  /// free, what holds the rest.
  [[nodiscard]] Buffer allocate(MemoryKind kind, std::size_t bytes, std::string_view purpose);
  [[nodiscard]] MemoryUse most(MemoryKind kind) const { return ledger(kind)->most(); }

  /// Whether all of it is page-locked memory that `allocate` gave.
  [[nodiscard]] bool is_pinned(const void* address, std::size_t bytes) const {
    return pinned_->contain(address, bytes);
  }

 private:
  /// By first byte. Any thread.
  class Ranges {
   public:
    void add(const void* address, std::size_t bytes);
    void remove(const void* address);
    [[nodiscard]] bool contain(const void* address, std::size_t bytes) const;

   private:
    mutable std::mutex mutex_;  // guards bytes_
    std::map<const std::byte*, std::size_t> bytes_;
  };

  [[nodiscard]] const std::shared_ptr<MemoryLedger>& ledger(MemoryKind kind) const {
    return ledgers_.at(static_cast<std::size_t>(kind));
  }
  [[noreturn]] void refuse(MemoryKind kind, std::size_t bytes, std::string_view purpose) const;

  int ordinal_;
  std::optional<std::uint64_t> limit_;
  // Shared with the buffers' deleters.
  std::array<std::shared_ptr<MemoryLedger>, 2> ledgers_{std::make_shared<MemoryLedger>(),
                                                        std::make_shared<MemoryLedger>()};
  std::shared_ptr<Ranges> pinned_ = std::make_shared<Ranges>();
};

}  // namespace zenflow::runtime
