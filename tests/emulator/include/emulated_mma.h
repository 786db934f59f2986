/// kernels/cuda/mma.cuh's instructions for the emulator: the lanes of a warp leave what they bring
/// where all can read it, meet, and compute their own part.
///
/// Which lane brings and gets what is written here from PTX's documentation a second time, in terms
/// of elements; that hardware does the same is for tests on a GPU. Sums are taken in ascending
/// order in fp32, while tensor cores add in an order of their own.
#pragma once

#include <array>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/bf16/bf16.h"

namespace zenflow::emulator {

struct BroughtByLane {
  std::array<std::uint32_t, 6> registers;
  const kernels::Bf16* row;
};

/// Two of them by turns: a lane that is ahead writes to the other one.
struct WarpExchange {
  std::array<std::array<BroughtByLane, 32>, 2> brought;
  std::array<unsigned, 32> turn;
};

/// The exchanges of the block that the host's thread runs; a block has at most 32 warps.
inline WarpExchange& warp_exchange() {
  static thread_local std::array<WarpExchange, 32> exchanges{};
  return exchanges[threadIdx.x / 32];
}

/// Element `number` of a row of pairs.
inline float half_of(std::uint32_t pair, unsigned number) {
  return kernels::to_float(
      kernels::Bf16{static_cast<std::uint16_t>(number % 2 == 0 ? pair : pair >> 16U)});
}

/// What all lanes of the warp brought. Blocks have one dimension.
inline const std::array<BroughtByLane, 32>& meet(const BroughtByLane& mine, Site at) {
  WarpExchange& exchange = warp_exchange();
  const unsigned lane = lane_number();
  const unsigned turn = exchange.turn[lane]++ % 2;
  exchange.brought[turn][lane] = mine;
  vote(0xFFFFFFFFU, true, at);
  return exchange.brought[turn];
}

}  // namespace zenflow::emulator

inline void emulated_mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                 std::uint32_t b1, EmulatedSite at = EmulatedSite::here()) {
  namespace emulator = zenflow::emulator;
  const auto& brought = emulator::meet({{a[0], a[1], a[2], a[3], b0, b1}, nullptr}, at);
  const unsigned lane = emulator::lane_number();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + (i >= 2 ? 8 : 0);
    const unsigned column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned of_a = row % 8 * 4 + k % 8 / 2;
      const unsigned register_a = (row >= 8 ? 1U : 0U) + (k >= 8 ? 2U : 0U);
      const unsigned of_b = column * 4 + k % 8 / 2;
      const unsigned register_b = 4 + (k >= 8 ? 1U : 0U);
      c[i] += emulator::half_of(brought[of_a].registers[register_a], k) *
              emulator::half_of(brought[of_b].registers[register_b], k);
    }
  }
}

inline void emulated_ldmatrix(std::uint32_t (&out)[4], const zenflow::kernels::Bf16* row,
                              bool transposed, EmulatedSite at = EmulatedSite::here()) {
  namespace emulator = zenflow::emulator;
  const auto& brought = emulator::meet({{}, row}, at);
  const unsigned lane = emulator::lane_number();
  for (unsigned m = 0; m < 4; ++m) {
    const unsigned fixed = lane / 4;
    const unsigned pair = lane % 4 * 2;
    const auto element = [&](unsigned offset) -> std::uint32_t {
      return transposed ? brought[m * 8 + pair + offset].row[fixed].bits
                        : brought[m * 8 + fixed].row[pair + offset].bits;
    };
    out[m] = element(0) | (element(1) << 16U);
  }
}
