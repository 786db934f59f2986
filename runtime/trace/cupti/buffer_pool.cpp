#include "runtime/trace/cupti/buffer_pool.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace zenflow::runtime {

/// Stands before the bytes that CUPTI gets: found from their address without a search.
struct alignas(64) BufferPool::Buffer {
  Buffer* next = nullptr;
  std::size_t valid = 0;
  std::size_t bytes = 0;

  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  static Buffer* of(std::byte* data) { return reinterpret_cast<Buffer*>(data) - 1; }

  // The bytes lie behind the object, in one allocation.
  static void* operator new(std::size_t size, std::size_t bytes) {
    return ::operator new (size + bytes, std::align_val_t{alignof(Buffer)});
  }
  static void operator delete(void* memory, std::size_t) {
    ::operator delete (memory, std::align_val_t{alignof(Buffer)});
  }
  static void operator delete(void* memory) {
    ::operator delete (memory, std::align_val_t{alignof(Buffer)});
  }
};

BufferPool::BufferPool(std::size_t count, std::size_t bytes) : bytes_(bytes) {
  all_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    all_.push_back(make());
    all_.back()->next = free_;
    free_ = all_.back().get();
  }
  prepared_ = count;
}

BufferPool::~BufferPool() = default;

std::unique_ptr<BufferPool::Buffer> BufferPool::make() const {
  std::unique_ptr<Buffer> buffer(new (bytes_) Buffer);
  buffer->bytes = bytes_;
  std::memset(buffer->data(), 0, bytes_);
  return buffer;
}

std::byte* BufferPool::lend() {
  const std::lock_guard lock(mutex_);
  if (free_ == nullptr) {
    ++refused_;
    return nullptr;
  }
  Buffer* buffer = free_;
  free_ = buffer->next;
  return buffer->data();
}

std::byte* BufferPool::lend_or_make() {
  {
    const std::lock_guard lock(mutex_);
    if (Buffer* buffer = free_; buffer != nullptr) {
      free_ = buffer->next;
      return buffer->data();
    }
  }
  try {
    std::unique_ptr<Buffer> buffer = make();
    std::byte* const data = buffer->data();
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(buffer));
    return data;
  } catch (const std::bad_alloc&) {  // no exception may pass through CUPTI's frames
    const std::lock_guard lock(mutex_);
    ++refused_;
    return nullptr;
  }
}

void BufferPool::take_back(std::byte* data, std::size_t valid) {
  Buffer* buffer = Buffer::of(data);
  {
    const std::lock_guard lock(mutex_);
    buffer->valid = valid;
    buffer->next = nullptr;
    (last_filled_ == nullptr ? first_filled_ : last_filled_->next) = buffer;
    last_filled_ = buffer;
  }
  filled_or_closed_.notify_one();
}

BufferPool::Buffer* BufferPool::next_filled() {
  std::unique_lock lock(mutex_);
  filled_or_closed_.wait(lock, [this] { return first_filled_ != nullptr || closed_; });
  Buffer* buffer = first_filled_;
  if (buffer == nullptr) return nullptr;
  first_filled_ = buffer->next;
  if (first_filled_ == nullptr) last_filled_ = nullptr;
  return buffer;
}

std::span<std::byte> BufferPool::records(Buffer& buffer) {
  return {buffer.data(), std::min(buffer.valid, buffer.bytes)};
}

void BufferPool::recycle(Buffer& buffer) {
  // CUPTI may write beyond what it calls valid.
  std::memset(buffer.data(), 0, buffer.bytes);
  const std::lock_guard lock(mutex_);
  buffer.next = free_;
  free_ = &buffer;
}

void BufferPool::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  filled_or_closed_.notify_all();
}

void BufferPool::open() {
  const std::lock_guard lock(mutex_);
  closed_ = false;
}

std::uint64_t BufferPool::made() const {
  const std::lock_guard lock(mutex_);
  return all_.size() - prepared_;
}

std::uint64_t BufferPool::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace zenflow::runtime
