#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/mapped_copy/mapped_copy_cuda.h"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

/// One thread per element.
template <class Word>
__global__ void mapped_copy_kernel(Word* to, const Word* from, std::size_t n) {
  const std::size_t i = thread_number();
  if (i < n) to[i] = from[i];
}

template <class Word>
void run(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  const std::size_t n = bytes / sizeof(Word);
  launch(mapped_copy_kernel<Word>, blocks_of(n, kBlockSize), kBlockSize, 0, stream,
         static_cast<Word*>(to), static_cast<const Word*>(from), n);
}

}  // namespace

void mapped_copy_cuda(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;  // a grid has at least one block
  const auto places = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if ((places | bytes) % sizeof(std::uint64_t) == 0) {
    run<std::uint64_t>(to, from, bytes, stream);
  } else if ((places | bytes) % sizeof(std::uint32_t) == 0) {
    run<std::uint32_t>(to, from, bytes, stream);
  } else {
    run<unsigned char>(to, from, bytes, stream);
  }
}

}  // namespace zenflow::kernels
