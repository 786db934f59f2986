#include "runtime/tune/drift.h"

#include <algorithm>
#include <cmath>

#include "sim/base/median.h"

namespace zenflow::runtime {
namespace {

constexpr double kGuess = 0.02;   // relative spread before anything has been measured
constexpr double kMemory = 0.98;  // of differences, a window
constexpr double kOutlier = 4;    // standard deviations that one difference counts at most
constexpr std::size_t kLeastReferences = 3;  // windows of which one may be far off
constexpr double kNoiseInAllowance = 1.5;
constexpr double kNoiseInThreshold = 5;
constexpr double kOneWindow = 0.7;  // of the threshold, that one window adds at most

/// The median of the first `count` values.
template <std::size_t kMost>
double median_of_first(const std::array<double, kMost>& values, std::size_t count) {
  return sim::median({values.begin(), values.begin() + count});
}

}  // namespace

NoiseEstimate::NoiseEstimate() : sum_(2 * weight_ * kGuess * kGuess) {}

void NoiseEstimate::add(double log_ratio) {
  const double most = kOutlier * std::max(sigma(), kGuess);
  const double counted = std::clamp(log_ratio, -most, most);
  weight_ = kMemory * weight_ + 1;
  sum_ = kMemory * sum_ + counted * counted;
}

double NoiseEstimate::sigma() const {
  return std::sqrt(sum_ / (2 * weight_));  // a difference has the variance of both
}

void DriftMonitor::restart() {
  references_ = 0;
  reference_ = up_ = down_ = recent_ = 0;
  alarmed_ = suspicious_ = false;
}

void DriftMonitor::add(double seconds, double patience) {
  const double now = std::log(seconds);
  if (references_ > 0) noise_.add(now - last_);
  last_ = now;
  const double allowance = std::max(limits_.allowance, kNoiseInAllowance * sigma());
  const double threshold = patience * std::max(limits_.threshold, kNoiseInThreshold * sigma());
  const double away = now - reference_;
  if (references_ < kLeastReferences) {
    first_[references_++] = now;
    reference_ = median_of_first(first_, references_);
    return;
  }
  const auto grown = [&](double before, double x) {
    return std::max(0.0, before + std::min(x - allowance, kOneWindow * threshold));
  };
  up_ = grown(up_, away);
  down_ = grown(down_, -away);
  recent_ = away;
  const double most = std::max(up_, down_);
  alarmed_ = most > threshold;
  suspicious_ = most > threshold / 2;
  // What already looks like another time must not become the reference.
  if (references_ < first_.size() && !suspicious_) {
    first_[references_++] = now;
    reference_ = median_of_first(first_, references_);
  }
}

void DriftMonitor::skip() {
  up_ = down_ = 0;
  alarmed_ = suspicious_ = false;
}

double DriftMonitor::factor() const {
  return std::exp(recent_);
}

void UseMonitor::add(double cores, double patience) {
  constexpr double kWeight = 8;  // values that the reference stands for
  constexpr int kLeastAway = 2;
  if (references_ < first_.size()) {
    first_[references_++] = cores;
    reference_ = median_of_first(first_, references_);
    return;
  }
  if (away(cores)) {
    ++away_;
  } else {
    away_ = 0;
    reference_ += (cores - reference_) / kWeight;
  }
  alarmed_ = away_ >= std::max(kLeastAway, static_cast<int>(patience));
}

bool UseMonitor::away(double cores) const {
  constexpr double kAway = 0.3;  // cores: a third of a thread that is always busy
  return references_ > 0 && std::abs(cores - reference_) > kAway;
}

}  // namespace zenflow::runtime
