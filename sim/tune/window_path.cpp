#include "sim/tune/window_path.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

class WindowWalk {
 public:
  WindowWalk(StepFacts& steps, const ZenFlowWindow& window, std::int64_t micro_steps, bool selects)
      : steps_(steps), window_(window), micro_steps_(micro_steps), selects_(selects) {}

  double go() {
    now_ = first_forward();
    for (std::int64_t i = 0; i < micro_steps_;) {
      const StepPlace which{.first = i == 0, .boundary = i + 1 == micro_steps_};
      const bool isolated = worked_ >= window_.isolated_after;
      const bool slowed = !isolated && now_ < window_.slow.until;
      const double began = now_;
      now_ = isolated ? after_isolated_step(which) : after_step(which, slowed);
      worked_ += now_ - began;
      ++i;
      // Where all that is left before the boundary goes like this one.
      const bool settled = isolated || (!slowed && never_isolated());
      if (which.first || which.boundary || !settled) continue;
      now_ += static_cast<double>(micro_steps_ - 1 - i) * (now_ - began);
      i = micro_steps_ - 1;
    }
    return now_;
  }

 private:
  [[nodiscard]] bool never_isolated() const {
    return window_.isolated_after == std::numeric_limits<double>::infinity();
  }

  /// The forward of the window's first step, after the boundary before it.
  [[nodiscard]] double first_forward() {
    // While the master is overwritten, the second layer's parameters may be fetched, which the
    // step's path then waits for, behind the first layer's forward.
    const double hidden = std::max(0.0, window_.second_fetch - steps_.parts.forward.front());
    const double overwriting = selects_ ? std::max(0.0, window_.overwriting - hidden) : 0;
    const double updated = window_.broadcast + swap_at_boundary() + window_.selected_update;
    const double ready = selects_ ? std::max(window_.chain, updated) : updated;
    return std::max(window_.chain + window_.first_part + window_.first_fetch, ready + overwriting);
  }

  /// The window before may have had any number of steps.
  [[nodiscard]] double swap_at_boundary() {
    if (window_.isolated_after > 0 || window_.moments.up == 0) return window_.swap;
    const auto swap = [&](bool first) {
      const IsolatedStep& step =
          steps_.isolated({first, true}, window_.pageable_fp32, window_.moments);
      return step.swapped - step.gradients;
    };
    return std::min(swap(true), swap(false));
  }

  /// A window of one step selects concurrently with its boundary's own work, which may hide it.
  [[nodiscard]] double update_of(StepPlace which) const {
    const bool selects = selects_ && which.first && micro_steps_ > 1;
    return window_.selected_update + (selects ? window_.more_of_selection : 0);
  }

  /// When the next forward starts, or at the boundary when the stream is empty.
  [[nodiscard]] double after_isolated_step(StepPlace which) {
    const IsolatedStep& step = steps_.isolated(which, window_.pageable_fp32, window_.moments);
    return which.boundary ? now_ + step.gradients : now_ + step.swapped + update_of(which);
  }
  [[nodiscard]] double after_step(StepPlace which, bool slowed) {
    const Slowdown& slow = window_.slow;
    const double drained =
        now_ + (slowed ? step_path(steps_.parts, which, window_.pageable_fp32, slow.after(now_))
                       : steps_.path(which, window_.pageable_fp32));
    if (which.boundary) return drained;
    const double sent = drained + window_.broadcast;
    return std::max(end_of(sent + window_.swap, update_of(which), slow.compute, slow.until),
                    sent + window_.first_fetch);
  }

  StepFacts& steps_;
  const ZenFlowWindow& window_;
  std::int64_t micro_steps_;
  bool selects_;
  double now_ = 0;
  double worked_ = 0;  ///< since the first forward began, at least
};

}  // namespace

double window_path(StepFacts& steps, const ZenFlowWindow& window, std::int64_t micro_steps,
                   bool selects) {
  return WindowWalk(steps, window, micro_steps, selects).go();
}

}  // namespace zenflow::sim
