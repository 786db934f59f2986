/// How far the gradients of the last windows let S and k go.
///
/// S may rise to what none of the last eight windows was below, and falls to what most of the last
/// five ask for. k falls and rises alike, and falls only when there are five.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/tune/window.h"

namespace zenflow::runtime {

inline constexpr std::size_t kWindowsKept = 8;
inline constexpr std::size_t kWindowsOfMedian = 5;  ///< those that were last

/// No longer than it takes for deferred gradients to add up to selected ones.
class DueLimit {
 public:
  /// `due`: a window's TuneWindow::importance_due. Whether S may rise further than before.
  bool add(std::int64_t due);
  [[nodiscard]] std::int64_t to_stay() const;
  [[nodiscard]] std::int64_t to_rise() const;

 private:
  std::deque<std::int64_t> due_;
  std::int64_t before_ = 0;  ///< to_rise() before the last window
};

/// No more of the squared gradient norm deferred than `most`; 1: no limit.
class ShareLimit {
 public:
  explicit ShareLimit(double most) : most_(most) {}

  /// Whether k may fall further than before.
  bool add(const std::vector<DeferredShare>& shares);
  /// In every one of the last windows, and there are some, no more would be deferred.
  [[nodiscard]] bool allows(double topk_ratio) const;

  struct Excess {
    double deferred = 0;    ///< the median of the last windows
    double topk_ratio = 0;  ///< with which it is not, or the largest there is
  };
  /// What is deferred too much with the ratio at hand, if a larger one may help.
  [[nodiscard]] std::optional<Excess> excess(double topk_ratio) const;

 private:
  double most_;
  std::deque<std::vector<DeferredShare>> shares_;
  double before_ = 1;  ///< the least ratio allowed before the last window
};

}  // namespace zenflow::runtime
