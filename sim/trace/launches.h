/// Which call put which piece of work on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

inline constexpr std::uint32_t kNoSpan = 0xFFFFFFFFU;

[[nodiscard]] inline bool is_gpu_work(SpanKind kind) {
  return kind == SpanKind::kKernel || kind == SpanKind::kCollective || kind == SpanKind::kCopy ||
         kind == SpanKind::kMemset;
}

/// For each span the index of the call that launched it, kNoSpan where there is none: launch flows
/// first, then calls with its correlation number, of several the last that began before it. A
/// graph's launch has many.
[[nodiscard]] std::vector<std::uint32_t> launch_of_spans(const Timeline& timeline);

}  // namespace zenflow::sim
