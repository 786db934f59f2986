#include <bit>
#include <cassert>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/top_k/norm_rank.h"
#include "kernels/top_k/top_k_cuda.h"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;
/// What cudaMalloc aligns to, and CUB wants of its own memory.
constexpr std::size_t kAlignment = 256;

/// Keys that ascend from the largest norm, and the indices beside them.
__global__ void make_keys_kernel(const float* norms, std::size_t n, std::uint32_t* keys,
                                 std::uint32_t* index) {
  const std::size_t i = thread_number();
  if (i >= n) return;
  keys[i] = ~norm_rank(norms[i]);
  index[i] = static_cast<std::uint32_t>(i);
}

/// Places in the workspace, in bytes.
struct Layout {
  std::size_t array;  ///< each of the four of [n]: keys and indices, before and after
  std::size_t sort;   ///< CUB's memory, for the larger of two sorts
};

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bits that differ among indices below n.
int index_bits(std::size_t n) {
  return n <= 1 ? 1 : static_cast<int>(std::bit_width(n - 1));
}

cudaError_t sort_pairs(void* memory, std::size_t& bytes, const std::uint32_t* keys,
                       std::uint32_t* sorted_keys, const std::uint32_t* index,
                       std::uint32_t* sorted_index, std::size_t n, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, sorted_keys, index, sorted_index, n,
                                         0, 32, stream);
}

cudaError_t sort_indices(void* memory, std::size_t& bytes, const std::uint32_t* from,
                         std::uint32_t* to, std::size_t k, std::size_t n, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortKeys(memory, bytes, from, to, k, 0, index_bits(n), stream);
}

Layout layout_of(std::size_t n, std::size_t k) {
  std::size_t pairs = 0;
  std::size_t indices = 0;
  cuda_check(sort_pairs(nullptr, pairs, nullptr, nullptr, nullptr, nullptr, n, nullptr),
             "cub::DeviceRadixSort::SortPairs");
  cuda_check(sort_indices(nullptr, indices, nullptr, nullptr, k, n, nullptr),
             "cub::DeviceRadixSort::SortKeys");
  return {.array = rounded_up(sizeof(std::uint32_t) * n), .sort = std::max(pairs, indices)};
}

}  // namespace

std::size_t top_k_workspace(std::size_t n, std::size_t k) {
  if (k == 0) return 0;
  const Layout layout = layout_of(n, k);
  return 4 * layout.array + layout.sort;
}

void top_k_cuda(const float* norms, std::size_t n, std::size_t k, std::uint32_t* columns,
                void* workspace, cudaStream_t stream) {
  assert(k <= n && n < (std::uint64_t{1} << 32U));
  if (k == 0) return;
  Layout layout = layout_of(n, k);
  auto* bytes = static_cast<std::byte*>(workspace);
  const auto array = [&](std::size_t number) {
    return reinterpret_cast<std::uint32_t*>(bytes + number * layout.array);
  };
  launch(make_keys_kernel, blocks_of(n, kBlockSize), kBlockSize, 0, stream, norms, n, array(0),
         array(1));
  void* memory = bytes + 4 * layout.array;
  cuda_check(sort_pairs(memory, layout.sort, array(0), array(2), array(1), array(3), n, stream),
             "cub::DeviceRadixSort::SortPairs");
  cuda_check(sort_indices(memory, layout.sort, array(3), columns, k, n, stream),
             "cub::DeviceRadixSort::SortKeys");
}

}  // namespace zenflow::kernels
