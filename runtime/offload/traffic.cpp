#include "runtime/offload/traffic.h"

namespace zenflow::runtime {

LinkBytes window_traffic(const Layout& layout, ElementType type, const OffloadSettings& settings,
                         std::int64_t steps) {
  const std::uint64_t deferred = layout.deferred_elements();
  const std::uint64_t once = deferred * bytes_per_element(type);
  const bool sums_come_down = settings.accumulate_on_device && (steps > 1 || settings.overlap_step);
  return {
      .d2h = sums_come_down ? deferred * sizeof(float) : once * static_cast<std::uint64_t>(steps),
      .h2d = once};
}

LinkBytes warm_up_traffic(const Layout& layout, ElementType type) {
  const std::uint64_t all = layout.elements * bytes_per_element(type);
  return {.d2h = all, .h2d = all};
}

}  // namespace zenflow::runtime
