#include "runtime/device/device.h"

namespace zenflow::runtime {

TrafficCount difference(const TrafficCount& after, const TrafficCount& before) {
  TrafficCount between;
  for (std::size_t kind = 0; kind < kTrafficKinds; ++kind) {
    between.h2d.at(kind) = after.h2d.at(kind) - before.h2d.at(kind);
    between.d2h.at(kind) = after.d2h.at(kind) - before.d2h.at(kind);
  }
  return between;
}

}  // namespace zenflow::runtime
