#include "tests/bench/allocation_meter.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include <malloc.h>

namespace zenflow::testing {
namespace {

// Relaxed: independent counters, read between benchmarks only.
std::atomic<std::size_t> live{0};
std::atomic<std::size_t> peak{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  // What the allocator set aside, not what was asked for.
  const std::size_t size = malloc_usable_size(memory);
  const std::size_t now = live.fetch_add(size, std::memory_order_relaxed) + size;
  std::size_t seen = peak.load(std::memory_order_relaxed);
  while (seen < now && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  return memory;
}

void release(void* memory) {
  if (memory == nullptr) return;
  live.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

std::size_t live_bytes() {
  return live.load(std::memory_order_relaxed);
}
std::size_t peak_bytes() {
  return peak.load(std::memory_order_relaxed);
}
void reset_peak() {
  peak.store(live_bytes(), std::memory_order_relaxed);
}

}  // namespace zenflow::testing

void* operator new(std::size_t size) {
  return zenflow::testing::counted(std::malloc(size));
}
void* operator new[](std::size_t size) {
  return zenflow::testing::counted(std::malloc(size));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return zenflow::testing::counted(std::aligned_alloc(align, (size + align - 1) / align * align));
}
// Whoever asks for these takes a null pointer for an answer, and frees with the operators below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size);
  return memory == nullptr ? nullptr : zenflow::testing::counted(memory);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  const auto align = static_cast<std::size_t>(alignment);
  void* memory = std::aligned_alloc(align, (size + align - 1) / align * align);
  return memory == nullptr ? nullptr : zenflow::testing::counted(memory);
}
void operator delete(void* memory) noexcept {
  zenflow::testing::release(memory);
}
void operator delete[](void* memory) noexcept {
  zenflow::testing::release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  zenflow::testing::release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  zenflow::testing::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  zenflow::testing::release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  zenflow::testing::release(memory);
}
