#include "runtime/tune/drift_watch.h"

#include <algorithm>

#include <fmt/format.h>

namespace zenflow::runtime {
namespace {

constexpr double kPatience = 1.5;  // by which an alarm raises the bar for the next
constexpr double kMostPatience = 8;
constexpr std::int64_t kCalm = 64;    // windows after which it is lowered again
constexpr double kLeastShare = 0.02;  // of the window: tracks busy for less say nothing
constexpr DriftLimits kStepLimits{.allowance = 0.02, .threshold = 0.06};
constexpr DriftLimits kTrackLimits{.allowance = 0.1, .threshold = 0.3};

}  // namespace

DriftWatch::DriftWatch() : step_(kStepLimits), tracks_(kTuneTracks, DriftMonitor(kTrackLimits)) {}

void DriftWatch::add(const TuneWindow& seen) {
  step_.add(seen.step_seconds, patience_);
  const double steps = static_cast<double>(seen.steps);
  for (std::size_t t = 0; t < kTuneTracks; ++t) {
    if (seen.busy.at(t) < kLeastShare * seen.step_seconds * steps) {
      tracks_[t].skip();
    } else {
      tracks_[t].add(seen.busy.at(t), patience_);
    }
  }
  if (seen.other_cores) others_.add(*seen.other_cores, patience_);
  if (++quiet_ >= kCalm) {
    patience_ = std::max(1.0, patience_ / kPatience);
    quiet_ = 0;
  }
}

std::string DriftWatch::alarm(const TuneWindow& seen) const {
  std::string what;
  const auto ask = [&](const DriftMonitor& monitor, const char* name) {
    if (!monitor.alarmed()) return;
    what += fmt::format("{}{} takes {:.2f} times what it took", what.empty() ? "" : ", ", name,
                        monitor.factor());
  };
  ask(step_, "a step");
  for (std::size_t t = 0; t < kTuneTracks; ++t) ask(tracks_[t], kTuneTrackNames.at(t));
  if (others_.alarmed() && seen.other_cores) {
    what += fmt::format("{}other programs use {:.2f} cores, not {:.2f}", what.empty() ? "" : ", ",
                        *seen.other_cores, others_.reference());
  }
  return what;
}

void DriftWatch::raise_bar() {
  patience_ = std::min(kMostPatience, patience_ * kPatience);
  quiet_ = 0;
}

void DriftWatch::restart() {
  step_.restart();
  for (DriftMonitor& monitor : tracks_) monitor.restart();
  others_.restart();
}

bool DriftWatch::doubt(std::int64_t window) {
  decltype(suspects_) suspects;
  suspects[0] = step_.suspicious();
  suspects[1] = others_.suspicious();
  for (std::size_t t = 0; t < kTuneTracks; ++t) suspects[2 + t] = tracks_[t].suspicious();
  const bool one_more = (suspects & ~suspects_).any();
  suspects_ = suspects;
  if (suspects.none()) {
    since_.reset();
  } else if (!since_) {
    since_ = window;
  }
  return one_more;
}

}  // namespace zenflow::runtime
