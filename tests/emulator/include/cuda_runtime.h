/// What CUDA adds to C++ for device code, on the host: see emulator.h for how faithful it is.
///
/// Found in the place of CUDA's header by whatever is built for the emulator.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include <math.h>

#include <cuda_runtime_api.h>

#include "tests/emulator/emulator.h"
#include "tests/emulator/streams.h"

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
/// One for each thread of the host, which runs one block at a time. Keeps what the block before it
/// left there, as on a GPU.
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  // Not explicit, as in CUDA: grids and blocks are mostly numbers.
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)  // NOLINT
      : x(x_size), y(y_size), z(z_size) {}
  unsigned x, y, z;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

/// Where this thread is. Set before it runs and after every wait.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace zenflow::emulator {

inline uint3 place(std::size_t number, const dim3& size) {
  return {static_cast<unsigned>(number % size.x), static_cast<unsigned>(number / size.x % size.y),
          static_cast<unsigned>(number / size.x / size.y)};
}

inline std::size_t volume(const dim3& size) {
  return std::size_t{size.x} * size.y * size.z;
}

/// What the hardware accepts, as far as kernels here could exceed it.
inline bool is_launchable(const cudaLaunchConfig_t& config) {
  return volume(config.blockDim) > 0 && volume(config.blockDim) <= 1024 &&
         config.blockDim.z <= 64 && config.gridDim.x <= 0x7FFFFFFFU &&
         config.gridDim.y <= 0xFFFFU && config.gridDim.z <= 0xFFFFU && volume(config.gridDim) > 0 &&
         config.dynamicSmemBytes <= 48 * 1024;
}

}  // namespace zenflow::emulator

/// Gives the whole grid to the stream. It throws BrokenKernel if threads do not meet where they
/// have to: on the default stream, here.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  namespace emulator = zenflow::emulator;
  if (!emulator::is_launchable(*config)) return cudaErrorInvalidConfiguration;
  const dim3 grid = config->gridDim;
  const dim3 block = config->blockDim;
  const emulator::GridShape shape{.blocks = emulator::volume(grid),
                                  .threads = emulator::volume(block),
                                  .shared_bytes = config->dynamicSmemBytes};
  // A launch takes its arguments with it.
  return emulator::enqueue(
      config->stream,
      [grid, block, shape, kernel, taken = std::tuple<std::decay_t<Parameters>...>(arguments...)] {
        emulator::run_grid(
            shape,
            [&](std::size_t block_number, std::size_t thread_number) {
              gridDim = grid;
              blockDim = block;
              blockIdx = emulator::place(block_number, grid);
              threadIdx = emulator::place(thread_number, block);
            },
            [&] { std::apply(kernel, taken); });
      });
}

// --- Arithmetic with a stated rounding. The build keeps the compiler from contracting any.
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline float __fsqrt_rn(float a) {
  return sqrtf(a);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __fma_rn(double a, double b, double c) {
  return fma(a, b, c);
}
template <class T>
T __ldg(const T* from) {
  return *from;
}

// --- Meeting points. The default arguments are where the kernel calls them.
using EmulatedSite = zenflow::emulator::Site;

inline void* emulated_dynamic_shared() {
  return zenflow::emulator::dynamic_shared();
}
inline void __threadfence() {}
inline void __syncthreads(EmulatedSite at = EmulatedSite::here()) {
  zenflow::emulator::sync_block(at);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, EmulatedSite at = EmulatedSite::here()) {
  zenflow::emulator::vote(mask, false, at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              EmulatedSite at = EmulatedSite::here()) {
  return zenflow::emulator::vote(mask, predicate != 0, at);
}
inline int __any_sync(unsigned mask, int predicate, EmulatedSite at = EmulatedSite::here()) {
  return zenflow::emulator::vote(mask, predicate != 0, at) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, EmulatedSite at = EmulatedSite::here()) {
  return zenflow::emulator::vote(mask, predicate == 0, at) == 0 ? 1 : 0;
}

namespace zenflow::emulator {

template <class T>
T exchanged(unsigned mask, T value, unsigned source, Site at) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(
      static_cast<Bits>(exchange(mask, std::bit_cast<Bits>(value), source, at)));
}

/// The lanes of `width` neighbours among which a shuffle stays.
struct Segment {
  unsigned lane;
  unsigned first;
  unsigned last;
};
inline Segment segment(int width) {
  const unsigned lane = lane_number();
  const unsigned first = lane & ~(static_cast<unsigned>(width) - 1U);
  return {lane, first, first + static_cast<unsigned>(width) - 1U};
}

}  // namespace zenflow::emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              EmulatedSite at = EmulatedSite::here()) {
  const auto s = zenflow::emulator::segment(width);
  const unsigned from = s.first + (static_cast<unsigned>(source) & (s.last - s.first));
  return zenflow::emulator::exchanged(mask, value, from, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   EmulatedSite at = EmulatedSite::here()) {
  const auto s = zenflow::emulator::segment(width);
  const unsigned from = s.lane + delta > s.last ? s.lane : s.lane + delta;
  return zenflow::emulator::exchanged(mask, value, from, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 EmulatedSite at = EmulatedSite::here()) {
  const auto s = zenflow::emulator::segment(width);
  const unsigned from = s.lane < s.first + delta ? s.lane : s.lane - delta;
  return zenflow::emulator::exchanged(mask, value, from, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  EmulatedSite at = EmulatedSite::here()) {
  const auto s = zenflow::emulator::segment(width);
  const unsigned other = s.lane ^ static_cast<unsigned>(lane_mask);
  return zenflow::emulator::exchanged(mask, value, other > s.last ? s.lane : other, at);
}

// --- Atomics, on global and on shared memory alike: blocks run on several threads of the host.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value);
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> target(*address);
  T old = target.load();
  while (old < value && !target.compare_exchange_weak(old, value)) {
  }
  return old;
}
