#include "runtime/tune/interval_controller.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "runtime/tune/candidates.h"
#include "runtime/tune/gradient_limits.h"
#include "sim/base/median.h"

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kNever = 1'000'000'000;

/// Steps after which a deferred column's gradients weigh as much as a selected one's.
std::int64_t steps_until_due(const SliceImportance& slice) {
  const double deferred_sum = std::max(0.0, slice.square_sum - slice.selected_square_sum);
  const auto deferred_columns = static_cast<double>(slice.columns - slice.selected);
  const double selected =
      std::sqrt(slice.selected_square_sum / static_cast<double>(slice.selected));
  const double deferred = std::sqrt(deferred_sum / deferred_columns);
  if (selected <= deferred) return 1;
  if (deferred * static_cast<double>(kNever) <= selected) return kNever;
  return static_cast<std::int64_t>(std::ceil(selected / deferred));
}

void judge_gradients(const WindowObservation& seen, double auto_ratio, IntervalDecision& decision) {
  std::vector<std::int64_t> due;
  double total = 0;
  double deferred = 0;
  for (const SliceImportance& slice : seen.importance) {
    if (slice.selected == 0 || slice.selected >= slice.columns || slice.square_sum <= 0) continue;
    total += slice.square_sum;
    deferred += std::max(0.0, slice.square_sum - slice.selected_square_sum);
    due.push_back(steps_until_due(slice));
  }
  if (due.empty()) return;
  decision.deferred_share = deferred / total;
  const std::size_t place = matrices_wanted(auto_ratio, due.size()) - 1;
  std::nth_element(due.begin(), due.begin() + static_cast<std::ptrdiff_t>(place), due.end());
  decision.by_gradient = due[place];
}

void pace(IntervalDecision& decision) {
  const std::int64_t slowest = std::max<std::int64_t>(1, (decision.previous + 1) / 2);
  const std::int64_t paced =
      std::min(std::clamp(decision.next, slowest, 2 * decision.previous), decision.limit);
  if (paced != decision.next) decision.reason += ", by at most a factor of two a window";
  decision.next = paced;
}

}  // namespace

std::size_t matrices_wanted(double auto_ratio, std::size_t matrices) {
  // 0.55 * 100 is just above 55: a ratio given in decimals means the whole number it names.
  const double exact = auto_ratio * static_cast<double>(matrices);
  const auto whole = static_cast<std::size_t>(std::ceil(exact * (1 - 1e-12)));
  return std::clamp<std::size_t>(whole, 1, matrices);
}

IntervalDecision choose_interval(const WindowObservation& seen, const IntervalLimits& limits) {
  IntervalDecision decision{.window = seen.window, .previous = seen.steps};
  judge_gradients(seen, limits.auto_ratio, decision);
  const double step_seconds =
      (seen.window_seconds - seen.waited_seconds) / static_cast<double>(seen.timed_steps);
  if (seen.timed_steps > 0 && seen.update_seconds > 0 && step_seconds > 0) {
    decision.by_stall = static_cast<std::int64_t>(
        std::ceil(std::min(seen.update_seconds / step_seconds, static_cast<double>(kNever))));
  }
  decision.limit = staleness_limit(limits.max_staleness, limits.overlap_step);

  const std::int64_t wanted = std::max<std::int64_t>({1, decision.by_gradient, decision.by_stall});
  decision.next = std::min(wanted, decision.limit);
  if (wanted > decision.limit) {
    decision.reason = fmt::format("max_staleness {}", limits.max_staleness);
  } else if (decision.by_stall > decision.by_gradient) {
    decision.reason = "the CPU update must fit into a window";
  } else if (decision.by_gradient > 0) {
    decision.reason = "deferred gradients have added up to selected ones";
  } else {
    decision.reason = "nothing is deferred and nothing waits";
  }
  pace(decision);
  return decision;
}

IntervalDecision IntervalController::decide(const WindowObservation& seen) {
  IntervalDecision decision = choose_interval(seen, limits_);
  asked_.push_back(std::min(decision.limit,
                            std::max<std::int64_t>({1, decision.by_gradient, decision.by_stall})));
  if (asked_.size() > kWindowsKept) asked_.pop_front();
  const auto last = static_cast<std::ptrdiff_t>(std::min(kWindowsOfMedian, asked_.size()));
  const std::int64_t usual = sim::upper_median<std::int64_t>({asked_.end() - last, asked_.end()});
  std::int64_t most = *std::max_element(asked_.begin(), asked_.end());
  if (asked_.size() < kWindowsOfMedian) most = std::max(most, decision.previous);
  const std::int64_t alone = decision.next;
  decision.next = std::clamp(decision.previous, usual, most);
  pace(decision);
  if (decision.next != alone) {
    decision.reason =
        fmt::format("of the last {} windows some ask for {}, of the last {} half for {} or less",
                    asked_.size(), most, last, usual);
  }
  return decision;
}

}  // namespace zenflow::runtime
