/// CUB's radix sort by the standard library: stable, ascending, by the given bits of the keys.
///
/// Found in the place of CUB's header by whatever is built for the emulator. So what CUB does on a
/// GPU is not tested, but how it is called is: the question for the size of its memory, that size,
/// and the order of equal keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/emulator/streams.h"

namespace cub {

struct DeviceRadixSort {
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* memory, std::size_t& bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, Count count,
                               int first_bit, int end_bit, cudaStream_t stream) {
    const auto n = static_cast<std::size_t>(count);
    if (memory == nullptr) {
      bytes = scratch_bytes(n);
      return cudaSuccess;
    }
    if (bytes < scratch_bytes(n)) return cudaErrorInvalidValue;
    return zenflow::emulator::enqueue(stream, [=] {
      use(memory, n);
      const std::vector<std::size_t> order = order_of(keys, n, first_bit, end_bit);
      for (std::size_t i = 0; i < n; ++i) {
        sorted_keys[i] = keys[order[i]];
        sorted_values[i] = values[order[i]];
      }
    });
  }

  template <class Key, class Count>
  static cudaError_t SortKeys(void* memory, std::size_t& bytes, const Key* keys, Key* sorted_keys,
                              Count count, int first_bit, int end_bit, cudaStream_t stream) {
    const auto n = static_cast<std::size_t>(count);
    if (memory == nullptr) {
      bytes = scratch_bytes(n);
      return cudaSuccess;
    }
    if (bytes < scratch_bytes(n)) return cudaErrorInvalidValue;
    return zenflow::emulator::enqueue(stream, [=] {
      use(memory, n);
      const std::vector<std::size_t> order = order_of(keys, n, first_bit, end_bit);
      for (std::size_t i = 0; i < n; ++i) sorted_keys[i] = keys[order[i]];
    });
  }

 private:
  /// Never 0, as of CUB.
  static std::size_t scratch_bytes(std::size_t n) { return 1 + 2 * n; }

  /// A workspace that is too small is found by AddressSanitizer.
  static void use(void* memory, std::size_t n) {
    std::fill_n(static_cast<unsigned char*>(memory), scratch_bytes(n),
                static_cast<unsigned char>(0xA5));
  }

  template <class Key>
  static std::vector<std::size_t> order_of(const Key* keys, std::size_t n, int first_bit,
                                           int end_bit) {
    const auto digits = [=](std::size_t i) {
      const unsigned long long bits = keys[i];
      const unsigned long long below = end_bit == 64 ? ~0ULL : (1ULL << end_bit) - 1;
      return (bits & below) >> first_bit;
    };
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return digits(a) < digits(b); });
    return order;
  }
};

}  // namespace cub
