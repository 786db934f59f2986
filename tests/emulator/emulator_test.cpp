/// Does the emulator do what a GPU does, and does it find what it is for?
#include "tests/emulator/emulator.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "sim/base/error.h"
#include "tests/emulator/fiber.h"
#include "tests/support/on_device.h"
#include "tests/support/sanitizers.h"

#if defined(ZENFLOW_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace zenflow::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::OnDevice;
using ::testing::ThrowsMessage;

std::vector<unsigned> counted(std::size_t n) {
  std::vector<unsigned> values(n);
  std::iota(values.begin(), values.end(), 0U);
  return values;
}

__global__ void write_places(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  out[block * threads + thread] = block * 1000 + thread;
}

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  const OnDevice<unsigned> out(std::vector<unsigned>(24 * 30, 0));
  launch(write_places, dim3(2, 3, 4), dim3(5, 3, 2), 0, nullptr, out.get());
  const std::vector<unsigned> places = out.read();
  for (unsigned block = 0; block < 24; ++block) {
    for (unsigned thread = 0; thread < 30; ++thread) {
      ASSERT_EQ(places[block * 30 + thread], block * 1000 + thread);
    }
  }
}

/// Reverses a block's numbers by static shared memory; every block leaves other numbers there.
__global__ void reverse_static(const unsigned* in, unsigned* out) {
  __shared__ unsigned numbers[96];
  numbers[threadIdx.x] = in[thread_number()];
  __syncthreads();
  out[thread_number()] = numbers[blockDim.x - 1 - threadIdx.x];
}

__global__ void reverse_dynamic(const unsigned* in, unsigned* out) {
  auto* numbers = dynamic_shared<unsigned>();
  numbers[threadIdx.x] = in[thread_number()];
  __syncthreads();
  out[thread_number()] = numbers[blockDim.x - 1 - threadIdx.x];
}

TEST(Emulator, SharesMemoryWithinABlockAndNotBetweenBlocks) {
  constexpr unsigned kBlocks = 200;  // enough for several threads of the host
  const OnDevice<unsigned> in(counted(kBlocks * 96));
  for (const auto kernel : {&reverse_static, &reverse_dynamic}) {
    const OnDevice<unsigned> out(kBlocks * 96);
    launch(kernel, kBlocks, 96, 96 * sizeof(unsigned), nullptr, in.get(), out.get());
    const std::vector<unsigned> reversed = out.read();
    for (unsigned i = 0; i < reversed.size(); ++i) {
      ASSERT_EQ(reversed[i], i / 96 * 96 + 95 - i % 96);
    }
  }
}

__global__ void use_shuffles(float* down, float* up, float* exchanged, double* broadcast) {
  const auto lane = static_cast<float>(threadIdx.x);
  down[threadIdx.x] = __shfl_down_sync(kAllLanes, lane, 3, 8);
  up[threadIdx.x] = __shfl_up_sync(kAllLanes, lane, 1);
  exchanged[threadIdx.x] = __shfl_xor_sync(kAllLanes, lane, 5);
  broadcast[threadIdx.x] = __shfl_sync(kAllLanes, 0.5 + threadIdx.x, 2, 4);
}

TEST(Emulator, ShufflesWithinSegmentsOfAWarp) {
  const OnDevice<float> down(64), up(64), exchanged(64);
  const OnDevice<double> broadcast(64);
  launch(use_shuffles, 1, 64, 0, nullptr, down.get(), up.get(), exchanged.get(), broadcast.get());
  for (unsigned i = 0; i < 64; ++i) {
    EXPECT_EQ(down.read()[i], static_cast<float>(i % 8 < 5 ? i + 3 : i)) << i;
    EXPECT_EQ(up.read()[i], static_cast<float>(i % 32 == 0 ? i : i - 1)) << i;
    EXPECT_EQ(exchanged.read()[i], static_cast<float>(i ^ 5U)) << i;
    EXPECT_EQ(broadcast.read()[i], 0.5 + (i / 4 * 4 + 2)) << i;
  }
}

/// The upper half of a warp votes without the lower half.
__global__ void use_votes(unsigned* ballot, int* any, int* all) {
  const unsigned lane = threadIdx.x;
  const unsigned half = lane < 16 ? 0x0000FFFFU : 0xFFFF0000U;
  ballot[lane] = __ballot_sync(half, lane % 3 == 0 ? 1 : 0);
  any[lane] = __any_sync(half, lane == 17 ? 1 : 0);
  all[lane] = __all_sync(half, lane >= 16 ? 1 : 0);
}

TEST(Emulator, VotesAmongTheLanesOfAMask) {
  const OnDevice<unsigned> ballot(32);
  const OnDevice<int> any(32), all(32);
  launch(use_votes, 1, 32, 0, nullptr, ballot.get(), any.get(), all.get());
  unsigned thirds = 0;
  for (unsigned lane = 0; lane < 32; lane += 3) thirds |= 1U << lane;
  for (unsigned i = 0; i < 32; ++i) {
    EXPECT_EQ(ballot.read()[i], i < 16 ? thirds & 0xFFFFU : thirds & 0xFFFF0000U) << i;
    EXPECT_EQ(any.read()[i], i < 16 ? 0 : 1) << i;
    EXPECT_EQ(all.read()[i], i < 16 ? 0 : 1) << i;
  }
}

__global__ void use_atomics(float* sum, unsigned* largest, unsigned long long* of_blocks) {
  __shared__ unsigned in_block;
  if (threadIdx.x == 0) in_block = 0;
  __syncthreads();
  atomicAdd(sum, 0.5F);
  atomicMax(largest, static_cast<unsigned>(thread_number()));
  atomicAdd(&in_block, threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(of_blocks, in_block);
}

TEST(Emulator, AddsAndMaximisesAtomically) {
  const OnDevice<float> sum(std::vector<float>{0});
  const OnDevice<unsigned> largest(std::vector<unsigned>{7});
  const OnDevice<unsigned long long> of_blocks(std::vector<unsigned long long>{0});
  launch(use_atomics, 100, 64, 0, nullptr, sum.get(), largest.get(), of_blocks.get());
  EXPECT_EQ(sum.read()[0], 3200.0F);  // exact in any order
  EXPECT_EQ(largest.read()[0], 6399U);
  EXPECT_EQ(of_blocks.read()[0], 100ULL * (63 * 64 / 2));
}

__global__ void copy_packs(const float4* from, float4* to) {
  to[thread_number()] = __ldg(from + thread_number());
}

TEST(Emulator, Moves16BytesAtOnce) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8};
  const OnDevice<float> from(values);
  const OnDevice<float> to(8);
  launch(copy_packs, 1, 2, 0, nullptr, reinterpret_cast<const float4*>(from.get()),
         reinterpret_cast<float4*>(to.get()));
  EXPECT_EQ(to.read(), values);
}

__global__ void read_what_was_not_written(float* out) {
  out[threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
}

TEST(Emulator, SharedMemoryStartsAsNaNs) {
  const OnDevice<float> out(32);
  launch(read_what_was_not_written, 1, 32, 32 * sizeof(float), nullptr, out.get());
  for (const float value : out.read()) EXPECT_TRUE(std::isnan(value));
}

__global__ void race(const unsigned* in, unsigned* out) {
  auto* numbers = dynamic_shared<unsigned>();
  numbers[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = numbers[threadIdx.x == 0 ? 0 : threadIdx.x - 1];  // no barrier before
}

TEST(Emulator, TheOrderOfThreadsShowsAMissingBarrier) {
  const OnDevice<unsigned> in(counted(64));
  const auto result = [&](emulator::ThreadOrder order) {
    const OnDevice<unsigned> out(64);
    emulator::set_thread_order(order);
    launch(race, 1, 64, 64 * sizeof(unsigned), nullptr, in.get(), out.get());
    emulator::set_thread_order(emulator::ThreadOrder::kAscending);
    return out.read();
  };
  EXPECT_NE(result(emulator::ThreadOrder::kAscending), result(emulator::ThreadOrder::kDescending));
}

__global__ void leave_before_the_barrier(unsigned* out) {
  if (threadIdx.x >= 30) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void wait_at_two_barriers(unsigned* out) {
  if (threadIdx.x < 7) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

__global__ void leave_the_warp(unsigned* out) {
  if (threadIdx.x == 5) return;
  out[threadIdx.x] = __ballot_sync(kAllLanes, 1);
}

__global__ void name_a_mask_without_oneself(unsigned* out) {
  out[threadIdx.x] = __ballot_sync(0x7FFFFFFFU, 1);
}

__global__ void read_a_lane_that_takes_no_part(unsigned* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xFFFFU, threadIdx.x, 20);
}

TEST(Emulator, ReportsThreadsThatDoNotMeet) {
  const OnDevice<unsigned> out(64);
  const auto running = [&](void (*kernel)(unsigned*), unsigned threads) {
    return [&out, kernel, threads] { launch(kernel, 3, threads, 0, nullptr, out.get()); };
  };
  using emulator::BrokenKernel;
  EXPECT_THAT(
      running(leave_before_the_barrier, 32),
      ThrowsMessage<BrokenKernel>(AllOf(HasSubstr("thread 0, at "), HasSubstr("emulator_test.cpp:"),
                                        HasSubstr("waits for a barrier of the block in vain"),
                                        HasSubstr("2 of 32 threads have left the kernel"))));
  EXPECT_THAT(running(wait_at_two_barriers, 32),
              ThrowsMessage<BrokenKernel>(HasSubstr("in vain: thread 7 waits at")));
  EXPECT_THAT(running(leave_the_warp, 64),
              ThrowsMessage<BrokenKernel>(AllOf(HasSubstr("waits for lanes of its warp in vain"),
                                                HasSubstr("have left the kernel"))));
  EXPECT_THAT(running(name_a_mask_without_oneself, 32),
              ThrowsMessage<BrokenKernel>(HasSubstr("is not in the mask that it names")));
  EXPECT_THAT(running(read_a_lane_that_takes_no_part, 32),
              ThrowsMessage<BrokenKernel>(HasSubstr("reads lane 20, which takes no part")));
  // And goes on working.
  launch(wait_at_two_barriers, 1, 7, 0, nullptr, out.get());
  EXPECT_EQ(out.read()[6], 1U);
}

TEST(Emulator, RefusesWhatHardwareWould) {
  const OnDevice<unsigned> out(1);
  const auto refused = [&](dim3 grid, dim3 block, std::size_t shared) {
    try {
      launch(write_places, grid, block, shared, nullptr, out.get());
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kDevice;
    }
    return false;
  };
  EXPECT_TRUE(refused(0, 32, 0));
  EXPECT_TRUE(refused(1, 0, 0));
  EXPECT_TRUE(refused(1, 1025, 0));
  EXPECT_TRUE(refused(dim3(1, 65536), 1, 0));
  EXPECT_TRUE(refused(1, 1, 48 * 1024 + 1));
  EXPECT_TRUE(refused(blocks_of(std::size_t{1} << 45U, 1), 1, 0));
}

TEST(BlocksOf, RoundsUp) {
  EXPECT_EQ(blocks_of(0, 256), 0U);
  EXPECT_EQ(blocks_of(1, 256), 1U);
  EXPECT_EQ(blocks_of(256, 256), 1U);
  EXPECT_EQ(blocks_of(257, 256), 2U);
}

TEST(Pack, CutsAnArrayAtMultiplesOfItsWidth) {
  const PackedRange range{9, 3};  // places 3 to 11 of three packs
  EXPECT_EQ(pack_count<4>(range), 3U);
  const auto expect = [&](std::size_t pack, std::size_t begin, unsigned count) {
    EXPECT_EQ(portion<4>(range, pack).count, count) << pack;
    if (count == 0) return;
    EXPECT_EQ(portion<4>(range, pack).begin, begin) << pack;
  };
  expect(0, 0, 1);
  expect(1, 1, 4);
  expect(2, 5, 4);
  expect(3, 0, 0);
  expect(1000, 0, 0);
  EXPECT_EQ(pack_count<4>(PackedRange{0, 3}), 0U);
  EXPECT_EQ(portion<4>(PackedRange{0, 3}, 0).count, 0U);
  EXPECT_EQ(portion<4>(PackedRange{2, 1}, 0).count, 2U) << "head and tail in one";
}

#if defined(ZENFLOW_ADDRESS_SANITIZER)
__global__ void write_at(unsigned* out, std::size_t at) {
  out[at] = 1;
}

__global__ void write_shared_at(std::size_t at) {
  dynamic_shared<unsigned>()[at] = 1;
}

__global__ void write_pack_at(float* out) {
  store_pack(out, Pack<float, 4>{});
}

TEST(EmulatorDeathTest, SanitizersSeeWhatKernelsTouch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OnDevice<unsigned> out(5);
  EXPECT_DEATH(launch(write_at, 1, 1, 0, nullptr, out.get(), std::size_t{5}),
               "heap-buffer-overflow");
  EXPECT_DEATH(launch(write_shared_at, 1, 1, 12, nullptr, std::size_t{3}), "heap-buffer-overflow");
  const OnDevice<float> floats(8);
  EXPECT_DEATH(launch(write_pack_at, 1, 1, 0, nullptr, floats.get() + 1), "misaligned address");
}
#endif

#if defined(ZENFLOW_ADDRESS_SANITIZER)
/// Whose memory may go to the thread-local variables of another thread.
TEST(Emulator, LeavesNoPoisonOnTheStackOfAFiber) {
  constexpr std::uintptr_t kPage = 4096;
  std::uintptr_t frame = 0;
  {
    emulator::Fiber fiber(
        [&] { frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); });
    fiber.resume();
  }
  // The frames below the body's are at higher addresses, all in the last pages of the stack.
  const std::uintptr_t end = (frame / kPage + 1) * kPage;
  EXPECT_EQ(__asan_region_is_poisoned(reinterpret_cast<void*>(frame), end - frame), nullptr);
}
#endif

}  // namespace
}  // namespace zenflow::kernels
