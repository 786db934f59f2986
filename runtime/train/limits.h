/// What a training run may be, for those who plan one.
#pragma once

#include <cstdint>

namespace zenflow::runtime {

/// The most micro-batches that a step may have.
inline constexpr std::int64_t kMostMicroBatches = 4096;
/// bf16 has 8 significant bits, and the sum is rounded after each micro-batch: of equal parts it
/// stops growing at 256, and from 128 on what is added loses bits where it matters.
inline constexpr std::int64_t kMostBf16MicroBatches = 128;

}  // namespace zenflow::runtime
