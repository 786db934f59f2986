#include "runtime/offload/traffic.h"

#include "sim/offload/offload_rule.h"

namespace zenflow::runtime {

LinkBytes window_traffic(const Layout& layout, ElementType type, const OffloadSettings& settings,
                         std::int64_t steps) {
  const sim::WindowBytes bytes =
      sim::window_bytes(settings, steps, static_cast<std::int64_t>(layout.deferred_elements()),
                        static_cast<std::int64_t>(bytes_per_element(type)));
  return {.d2h = static_cast<std::uint64_t>(bytes.down),
          .h2d = static_cast<std::uint64_t>(bytes.up)};
}

LinkBytes selection_traffic(const Slice& before, ElementType type, const ChangedColumns& changed,
                            bool overlap) {
  constexpr std::size_t kIndex = sizeof(std::uint32_t);
  constexpr std::size_t kState = 3 * sizeof(float);
  LinkBytes bytes{.d2h = before.columns * sizeof(float)};
  if (changed.leaving == 0 && changed.entering == 0) return bytes;
  bytes.d2h += before.rows * changed.leaving * kState;
  bytes.h2d = (before.columns + changed.leaving + changed.entering) * kIndex +
              before.rows * changed.entering * kState;
  if (overlap) {
    bytes.h2d += changed.entering * (kIndex + before.rows * bytes_per_element(type));
  }
  if (changed.ratio_changes) bytes.h2d += (before.selected - changed.leaving) * 2 * kIndex;
  return bytes;
}

LinkBytes warm_up_traffic(const Layout& layout, ElementType type) {
  const std::uint64_t all = layout.elements * bytes_per_element(type);
  return {.d2h = all, .h2d = all};
}

}  // namespace zenflow::runtime
