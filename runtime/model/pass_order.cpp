#include "runtime/model/pass_order.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

void PassOrder::take(std::size_t group, bool is_forward) {
  const std::size_t expected = is_forward ? turn_ : 2 * groups_ - 1 - turn_;
  const bool is_phase = is_forward ? turn_ < groups_ : turn_ >= groups_ && turn_ < 2 * groups_;
  if (!is_phase || group != expected) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{} of group {} out of order, after {} of the {} passes of a step",
                            is_forward ? "forward" : "backward", group, turn_, 2 * groups_));
  }
  ++turn_;
}

}  // namespace zenflow::runtime
