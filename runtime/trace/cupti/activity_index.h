/// What one activity says about another: records arrive in no order, so this is read first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/trace/cupti/activity.h"

namespace zenflow::runtime {

/// Indices into `log.activities`; refers to `log`, which outlives it.
class ActivityIndex {
 public:
  explicit ActivityIndex(const ActivityLog& log);

  /// The call that launched what has this correlation; the outermost if there are several.
  [[nodiscard]] std::optional<std::size_t> call(std::uint32_t correlation) const;
  [[nodiscard]] std::optional<std::uint32_t> device_of(std::uint32_t context) const;
  /// The record of the event that a wait waits for: by the number of that recording if CUPTI has it
  /// (CUDA 12.8), else the event's last one before the wait.
  [[nodiscard]] std::optional<std::size_t> recording(const Activity& wait) const;
  /// The other end of an NVTX range; nothing if it is missing, or if an end precedes its start.
  [[nodiscard]] std::optional<std::size_t> range_end(const Activity& start) const;
  [[nodiscard]] bool has_start(const Activity& range_end) const;

  /// Whether the session's clock can have shown both times, no later than kLongestSession.
  [[nodiscard]] bool in_session(const Activity& activity) const;
  /// Whether both times are there, in order.
  [[nodiscard]] static bool is_timed(const Activity& activity) {
    return activity.start != 0 && activity.end >= activity.start;
  }

 private:
  void add(std::size_t index);

  const ActivityLog& log_;
  // Looked up in only.
  std::unordered_map<std::uint32_t, std::size_t> calls_;
  std::unordered_map<std::uint32_t, std::uint32_t> devices_;  // by context
  std::unordered_map<std::uint64_t, std::size_t> recordings_by_id_;
  // By context and event: recordings by ascending correlation.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint32_t, std::size_t>>
      recordings_;
  std::unordered_map<std::uint64_t, std::size_t> range_starts_;
  std::unordered_map<std::uint64_t, std::size_t> range_ends_;
};

}  // namespace zenflow::runtime
