/// Lays arrays out in one piece of memory: run once without memory to learn how much it takes, and
/// once with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zenflow::runtime {

class Arena {
 public:
  /// Null: nothing is given out but null pointers, and bytes() tells what it would take.
  explicit Arena(std::byte* base) : base_(base) {}

  /// `count` elements at a multiple of 256 bytes, as kernels want it.
  template <class T>
  [[nodiscard]] T* take(std::int64_t count) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t begin = (bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    bytes_ = begin + static_cast<std::size_t>(count) * sizeof(T);
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + begin);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// Goes back to `bytes`: what is taken from there on shares memory with what was taken before,
  /// and the arena takes as much as the longer of the two if `furthest` is restored after.
  void rewind(std::size_t bytes) { bytes_ = bytes; }
  void extend_to(std::size_t bytes) {
    if (bytes_ < bytes) bytes_ = bytes;
  }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
};

}  // namespace zenflow::runtime
