/// Buffers for CUPTI's records, filled with zeros before they are needed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace zenflow::runtime {

/// A buffer travels in a circle: free -> lent to CUPTI -> filled -> parsed -> free.
///
/// `lend` and `take_back` run inside CUPTI's callbacks, in the middle of the traced program's
/// calls: they move one pointer under a mutex and allocate nothing. That mutex guards the two lists
/// and the counters; it is never held while CUPTI is called, since CUPTI calls back and would wait
/// for it.
class BufferPool {
 public:
  struct Buffer;

  /// Allocates and zeroes `count` buffers of `bytes` each, so that no page of them is touched for
  /// the first time inside a callback. `bytes`: a multiple of 8.
  BufferPool(std::size_t count, std::size_t bytes);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// A zeroed buffer, 8-byte aligned; null if all are out.
  [[nodiscard]] std::byte* lend();
  /// As `lend`, but makes a new buffer if all are out. Allocates; null if there is no memory.
  [[nodiscard]] std::byte* lend_or_make();
  /// `buffer`, from either, holds `valid` bytes of records.
  void take_back(std::byte* buffer, std::size_t valid);

  /// Waits for a filled buffer, the oldest; null once `close` was called and all are parsed.
  [[nodiscard]] Buffer* next_filled();
  [[nodiscard]] static std::span<std::byte> records(Buffer& buffer);
  /// Zeroes the buffer and frees it.
  void recycle(Buffer& buffer);

  /// `next_filled` waits no longer. Buffers that come later are filled, and kept, for nobody.
  void close();
  /// `next_filled` waits again.
  void open();

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t made() const;
  [[nodiscard]] std::uint64_t refused() const;

 private:
  [[nodiscard]] std::unique_ptr<Buffer> make() const;

  std::size_t bytes_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable filled_or_closed_;
  bool closed_ = false;
  std::uint64_t refused_ = 0;
  Buffer* free_ = nullptr;          // list
  Buffer* first_filled_ = nullptr;  // list, oldest first
  Buffer* last_filled_ = nullptr;
  std::vector<std::unique_ptr<Buffer>> all_;
  std::size_t prepared_ = 0;  // buffers that the constructor made
};

}  // namespace zenflow::runtime
