/// Which call put which piece of work on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

inline constexpr std::uint32_t kNoSpan = 0xFFFFFFFFU;

[[nodiscard]] inline bool is_gpu_work(SpanKind kind) {
  return kind == SpanKind::kKernel || kind == SpanKind::kCollective || kind == SpanKind::kCopy ||
         kind == SpanKind::kMemset;
}

/// What launched each span, by its index: kNoSpan where nothing did. A trace may have millions of
/// spans and no launch, which then takes no memory.
class SpanLaunches {
 public:
  explicit SpanLaunches(std::size_t spans) : spans_(spans) {}

  [[nodiscard]] std::uint32_t operator[](std::size_t span) const {
    return launch_.empty() ? kNoSpan : launch_[span];
  }
  void set(std::size_t span, std::uint32_t launch) {
    if (launch_.empty()) launch_.assign(spans_, kNoSpan);
    launch_[span] = launch;
  }
  [[nodiscard]] std::size_t size() const { return spans_; }
  /// One for each span.
  [[nodiscard]] std::vector<std::uint32_t> all() const {
    return launch_.empty() ? std::vector<std::uint32_t>(spans_, kNoSpan) : launch_;
  }

 private:
  std::size_t spans_;
  std::vector<std::uint32_t> launch_;
};

/// For each span the index of the call that launched it, kNoSpan where there is none: launch flows
/// first, then calls with its correlation number, of several the last that began before it. A
/// graph's launch has many.
[[nodiscard]] SpanLaunches launch_of_spans(const Timeline& timeline);

}  // namespace zenflow::sim
