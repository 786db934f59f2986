#include "runtime/tune/gradient_limits.h"

#include <algorithm>
#include <utility>

#include "sim/base/median.h"

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kNoLimit = 1'000'000'000;

/// The share at a ratio, looked up in a list; none: not known.
std::optional<double> share_at(const std::vector<DeferredShare>& shares, double topk_ratio) {
  const auto found = std::find_if(shares.begin(), shares.end(),
                                  [&](const auto& one) { return one.topk_ratio == topk_ratio; });
  return found == shares.end() ? std::nullopt : std::optional(found->share);
}

}  // namespace

bool DueLimit::add(std::int64_t due) {
  due_.push_back(due == 0 ? kNoLimit : due);
  if (due_.size() > kWindowsKept) due_.pop_front();
  return to_rise() > std::exchange(before_, to_rise());
}

std::int64_t DueLimit::to_stay() const {
  if (due_.size() < kWindowsOfMedian) return kNoLimit;
  return sim::upper_median<std::int64_t>({due_.end() - kWindowsOfMedian, due_.end()});
}

std::int64_t DueLimit::to_rise() const {
  return due_.empty() ? kNoLimit : *std::min_element(due_.begin(), due_.end());
}

bool ShareLimit::add(const std::vector<DeferredShare>& shares) {
  if (most_ >= 1) return false;
  shares_.push_back(shares);
  if (shares_.size() > kWindowsKept) shares_.pop_front();
  const auto least = std::find_if(shares.begin(), shares.end(),
                                  [this](const auto& one) { return allows(one.topk_ratio); });
  const double ratio = least == shares.end() ? 1 : least->topk_ratio;
  return ratio < std::exchange(before_, ratio);
}

bool ShareLimit::allows(double topk_ratio) const {
  if (most_ >= 1) return true;
  return shares_.size() >= kWindowsOfMedian &&
         std::all_of(shares_.begin(), shares_.end(), [&](const auto& window) {
           return share_at(window, topk_ratio).value_or(1) <= most_;
         });
}

std::optional<ShareLimit::Excess> ShareLimit::excess(double topk_ratio) const {
  if (most_ >= 1 || shares_.size() < kWindowsOfMedian) return std::nullopt;
  std::vector<double> last;
  for (auto window = shares_.end() - kWindowsOfMedian; window != shares_.end(); ++window) {
    last.push_back(share_at(*window, topk_ratio).value_or(0));
  }
  const double deferred = sim::median(std::move(last));
  if (deferred <= most_) return std::nullopt;
  const std::vector<DeferredShare>& now = shares_.back();
  auto enough = std::find_if(now.begin(), now.end(), [&](const DeferredShare& one) {
    return one.topk_ratio > topk_ratio && one.share <= most_;
  });
  if (enough == now.end() && !now.empty()) --enough;  // the largest there is
  if (enough == now.end() || enough->topk_ratio <= topk_ratio) return std::nullopt;
  return Excess{deferred, enough->topk_ratio};
}

}  // namespace zenflow::runtime
