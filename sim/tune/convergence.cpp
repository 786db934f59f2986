#include "sim/tune/convergence.h"

#include <algorithm>
#include <string>

namespace zenflow::sim {

bool is_measured(const Setting& setting) {
  return std::any_of(kMeasuredLosses.begin(), kMeasuredLosses.end(), [&](const MeasuredLoss& one) {
    return one.topk_ratio == setting.get(Knob::kTopkRatio) &&
           one.interval == std::to_string(setting.interval());
  });
}

}  // namespace zenflow::sim
