#include "runtime/offload/saved_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/offload/knobs.h"

namespace zenflow::runtime {
namespace {

/// Without overlap nothing is on its way between two steps; with it, the window before the one at
/// hand, whose gradients must not become too old.
void check_pending(const SavedCounters& c, const OffloadSettings& settings) {
  const bool may_be = settings.overlap_step && c.window_first_step > 0;
  if (c.pending_first_step == -1 || !may_be) {
    check_saved("first step of the update on its way", c.pending_first_step, -1, -1);
    check_saved("last step of the update before", c.pending_last_step, -1,
                std::max<std::int64_t>(-1, c.step - 1));
    return;
  }
  const std::int64_t taken = c.window_first_step + c.window_steps - 1;
  const std::int64_t oldest = std::max<std::int64_t>(0, taken - settings.max_staleness);
  check_saved("first step of the update on its way", c.pending_first_step,
              std::min(oldest, c.window_first_step - 1), c.window_first_step - 1);
  check_saved("last step of the update on its way", c.pending_last_step, c.window_first_step - 1,
              c.window_first_step - 1);
}

}  // namespace

void check_saved(std::string_view name, std::int64_t found, std::int64_t least, std::int64_t most) {
  if (found >= least && found <= most) return;
  const std::string expected =
      least == most ? std::to_string(least) : fmt::format("a number from {} to {}", least, most);
  throw Error(ErrorKind::kInput,
              fmt::format("checkpoint: {}: expected {}, found {}", name, expected, found));
}

void check_saved(const SavedCounters& c, const OffloadSettings& settings) {
  const std::int64_t warm_up = settings.full_warm_up_rounds;
  const auto most_interval = static_cast<std::int64_t>(sim::setup_knob("update_interval").high);
  check_saved("steps", c.step, 0, kMostSteps);
  check_saved("update_interval", c.update_interval, 1, most_interval);
  check_saved("first step of its window", c.window_first_step, 0, c.step);
  const std::int64_t steps = c.window_first_step < warm_up ? 1 : c.update_interval;
  check_saved("steps of its window", c.window_steps, steps, steps);
  check_saved("steps", c.step, c.window_first_step, c.window_first_step + steps - 1);
  check_saved("windows", c.windows, std::min<std::int64_t>(1, c.window_first_step),
              c.window_first_step);
  check_saved("steps at the last selection", c.last_selection, 0, c.step);
  check_saved("parity of its window", c.parity, 0, 1);
  const std::int64_t selected = c.step > warm_up ? 1 : 0;
  check_saved("columns are selected", c.selected_done, selected, selected);
  const std::int64_t warms_up = warm_up > 0 && c.step <= warm_up ? 1 : 0;
  check_saved("in the warm-up", c.warm_up, warms_up, warms_up);
  check_pending(c, settings);
}

void check_saved_updates(std::string_view name, std::span<const std::uint32_t> updates,
                         std::int64_t steps) {
  for (const std::uint32_t count : updates) check_saved(name, count, 0, steps);
}

}  // namespace zenflow::runtime
