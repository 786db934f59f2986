#include "sim/tune/risk.h"

namespace zenflow::sim {

std::uint64_t kind_of(const Setting& setting) {
  constexpr std::uint64_t kLargest = 1 << 20;
  std::uint64_t kind = static_cast<std::uint64_t>(setting.placement()) * 4 +
                       static_cast<std::uint64_t>(setting.stage());
  kind = kind * kLargest + static_cast<std::uint64_t>(setting.whole(Knob::kMicroBatch)) % kLargest;
  if (!setting.zenflow()) return kind * kLargest * 2;
  kind = kind * kLargest + static_cast<std::uint64_t>(setting.interval());
  return 2 * kind + (setting.flag(Knob::kOverlapStep) ? 1 : 0);
}

Risk risk_of(const Setting& setting, std::int64_t staleness, double gpu_bytes, const Setting& own,
             std::uint64_t index) {
  int changes = 0;
  for (const KnobInfo& one : knobs()) {
    if (one.of_zenflow && !setting.zenflow()) continue;
    changes += setting.get(one.knob) != own.get(one.knob) ? 1 : 0;
  }
  return {staleness, setting.zenflow() ? -setting.topk_ratio() : -1, gpu_bytes, changes, index};
}

}  // namespace zenflow::sim
