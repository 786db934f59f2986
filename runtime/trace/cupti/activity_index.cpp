#include "runtime/trace/cupti/activity_index.h"

#include <algorithm>
#include <iterator>

namespace zenflow::runtime {

ActivityIndex::ActivityIndex(const ActivityLog& log) : log_(log) {
  for (std::size_t i = 0; i < log.activities.size(); ++i) add(i);
}

void ActivityIndex::add(std::size_t index) {
  const Activity& activity = log_.activities[index];
  switch (activity.kind) {
    case ActivityKind::kRuntimeCall:
    case ActivityKind::kDriverCall: {
      if (!is_timed(activity) || !in_session(activity)) return;
      const auto [known, is_new] = calls_.try_emplace(activity.correlation, index);
      if (!is_new && activity.start < log_.activities[known->second].start) known->second = index;
      return;
    }
    case ActivityKind::kKernel:
    case ActivityKind::kCopy:
    case ActivityKind::kMemset:
      devices_.try_emplace(activity.context, activity.device);
      return;
    case ActivityKind::kEventRecord:
      if (activity.id != 0) recordings_by_id_.try_emplace(activity.id, index);
      recordings_[{activity.context, activity.event}].try_emplace(activity.correlation, index);
      return;
    case ActivityKind::kRangeStart:
      range_starts_.try_emplace(activity.id, index);
      return;
    case ActivityKind::kRangeEnd:
      range_ends_.try_emplace(activity.id, index);
      return;
    case ActivityKind::kSynchronization:
    case ActivityKind::kOverhead:
    case ActivityKind::kInstant:
      return;
  }
}

std::optional<std::size_t> ActivityIndex::call(std::uint32_t correlation) const {
  const auto found = calls_.find(correlation);
  if (correlation == 0 || found == calls_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::uint32_t> ActivityIndex::device_of(std::uint32_t context) const {
  const auto found = devices_.find(context);
  if (found == devices_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> ActivityIndex::recording(const Activity& wait) const {
  if (wait.id != 0) {
    const auto found = recordings_by_id_.find(wait.id);
    if (found == recordings_by_id_.end()) return std::nullopt;
    return found->second;
  }
  const auto event = recordings_.find({wait.context, wait.event});
  if (event == recordings_.end()) return std::nullopt;
  const auto after = event->second.lower_bound(wait.correlation);
  if (after == event->second.begin()) return std::nullopt;
  return std::prev(after)->second;
}

std::optional<std::size_t> ActivityIndex::range_end(const Activity& start) const {
  const auto found = range_ends_.find(start.id);
  if (found == range_ends_.end()) return std::nullopt;
  if (log_.activities[found->second].start < start.start) return std::nullopt;
  return found->second;
}

bool ActivityIndex::has_start(const Activity& range_end) const {
  return range_starts_.contains(range_end.id);
}

bool ActivityIndex::in_session(const Activity& activity) const {
  return activity.start >= log_.session_start &&
         std::max(activity.start, activity.end) - log_.session_start <= kLongestSession &&
         (log_.session_end == 0 || activity.end <= log_.session_end);
}

}  // namespace zenflow::runtime
