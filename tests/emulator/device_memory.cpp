#include "tests/emulator/device_memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include <sys/mman.h>

namespace zenflow::emulator {
namespace {

/// What cudaMalloc promises.
constexpr std::align_val_t kAlignment{256};
constexpr std::size_t kPage = 4096;
constexpr int kPoison = 0xFF;

/// Address space of which the part in use is opened and closed as a whole. Nothing is used twice
/// before all of it is free: what is read after it was freed is poison.
class Arena {
 public:
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (base_ == nullptr && !reserve()) return nullptr;
    const std::size_t pages = (bytes + kPage - 1) / kPage + 1;  // one behind it is nobody's
    if (pages * kPage > kDeviceBytes - used_) return nullptr;
    std::byte* memory = base_ + used_;
    used_ += pages * kPage;
    live_.emplace(memory, bytes);
    ::mprotect(memory, pages * kPage, PROT_READ | PROT_WRITE);
    std::memset(memory, kPoison, bytes);
    if (users_ == 0) ::mprotect(memory, pages * kPage, PROT_NONE);
    return memory;
  }

  bool free(void* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<std::byte*>(memory));
    if (found == live_.end()) return false;
    ::mprotect(base_, used_, PROT_READ | PROT_WRITE);
    std::memset(memory, kPoison, found->second);
    if (users_ == 0) ::mprotect(base_, used_, PROT_NONE);
    live_.erase(found);
    if (live_.empty()) used_ = 0;
    return true;
  }

  void enter() {
    const std::lock_guard lock(mutex_);
    if (users_++ == 0 && used_ > 0) ::mprotect(base_, used_, PROT_READ | PROT_WRITE);
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0 && used_ > 0) ::mprotect(base_, used_, PROT_NONE);
  }
  [[nodiscard]] std::size_t left() const {
    const std::lock_guard lock(mutex_);
    return kDeviceBytes - used_;
  }

 private:
  bool reserve() {
    void* space = ::mmap(nullptr, kDeviceBytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return false;
    base_ = static_cast<std::byte*>(space);
    return true;
  }

  mutable std::mutex mutex_;  // guards the rest
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  std::size_t users_ = 0;
  std::map<std::byte*, std::size_t> live_;
};

Arena& arena() {
  static Arena arena;
  return arena;
}

std::mutex pinned_mutex;  // guards the next
std::map<const std::byte*, std::size_t>& pinned() {
  static std::map<const std::byte*, std::size_t> ranges;
  return ranges;
}

void* poisoned(std::size_t bytes) {
  void* memory = ::operator new(bytes, kAlignment, std::nothrow);
  if (memory != nullptr) std::memset(memory, kPoison, bytes);
  return memory;
}

}  // namespace

void* allocate_device(std::size_t bytes, bool guarded) {
  return guarded ? arena().allocate(bytes) : poisoned(bytes);
}

void free_device(void* memory) {
  if (memory == nullptr || arena().free(memory)) return;
  ::operator delete(memory, kAlignment);
}

void* allocate_pinned(std::size_t bytes) {
  void* memory = poisoned(bytes);
  if (memory == nullptr) return nullptr;
  const std::lock_guard lock(pinned_mutex);
  pinned().emplace(static_cast<const std::byte*>(memory), bytes);
  return memory;
}

void free_pinned(void* memory) {
  if (memory == nullptr) return;
  {
    const std::lock_guard lock(pinned_mutex);
    const auto found = pinned().find(static_cast<const std::byte*>(memory));
    std::memset(memory, kPoison, found->second);
    pinned().erase(found);
  }
  ::operator delete(memory, kAlignment);
}

bool is_pinned(const void* address, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(address);
  const std::lock_guard lock(pinned_mutex);
  auto range = pinned().upper_bound(first);
  if (range == pinned().begin()) return false;
  --range;
  return first + bytes <= range->first + range->second;
}

std::size_t device_bytes_free() {
  return arena().left();
}

DeviceAccess::DeviceAccess() {
  arena().enter();
}
DeviceAccess::~DeviceAccess() {
  arena().leave();
}

}  // namespace zenflow::emulator
