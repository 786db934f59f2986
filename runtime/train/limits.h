/// What a training run may be, for those who plan one.
#pragma once

#include <cstdint>

namespace zenflow::runtime {

/// Micro-batches of a step in bf16: it has 8 significant bits, and the sum is rounded after each
/// micro-batch. A sum of equal parts stops growing at 256, and from 128 on what is added loses bits
/// where it matters.
inline constexpr std::int64_t kMostBf16MicroBatches = 128;

}  // namespace zenflow::runtime
