#include "runtime/train/step_statistics.h"

#include <algorithm>

namespace zenflow::runtime {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double waited(const TrackRecorder::Totals& before, const TrackRecorder::Totals& after,
              WaitCause cause) {
  const auto index = static_cast<std::size_t>(cause);
  return seconds(after.waiting.at(index) - before.waiting.at(index));
}

constexpr std::size_t kRampWindows = 2;

}  // namespace

StepStatistics::StepStatistics(const TrackRecorder& compute, const TrackRecorder& training_thread)
    : compute_(compute), training_thread_(training_thread) {}

void StepStatistics::begin() {
  start_ = Clock::now();
  compute_start_ = compute_.totals();
  training_start_ = training_thread_.totals();
}

StepTimes StepStatistics::times_until_now() {
  const TrackRecorder::Totals compute = compute_.totals();
  const TrackRecorder::Totals training = training_thread_.totals();
  StepTimes times;
  end_ = Clock::now();
  times.total = seconds(end_ - start_);
  // What is enqueued at a step's end may run in the next: a step cannot compute longer than it is.
  times.compute = std::min(times.total, seconds(compute.busy - compute_start_.busy));
  double left = times.total - times.compute;
  const auto take = [&left](double wanted) {
    const double taken = std::min(left, wanted);
    left -= taken;
    return taken;
  };
  times.cpu_update = take(waited(training_start_, training, WaitCause::kCpuUpdate));
  times.d2h = take(waited(compute_start_, compute, WaitCause::kD2H));
  times.h2d = take(waited(compute_start_, compute, WaitCause::kH2D));
  times.collective = take(waited(compute_start_, compute, WaitCause::kCollective) +
                          waited(training_start_, training, WaitCause::kCollective));
  times.launch = left;
  return times;
}

void StepStatistics::end_uncounted() {
  steps_.push_back(times_until_now());
  uncounted_ = 1;
}

void StepStatistics::end(const std::optional<WindowEnd>& window) {
  steps_.push_back(times_until_now());
  if (!window) return;
  // A window that a resume goes on with began in another process.
  const std::size_t length =
      std::min<std::size_t>(static_cast<std::size_t>(window->steps), steps_.size());
  windows_.push_back({steps_.size() - length, steps_.size(), window->traffic});
}

StepMeans StepStatistics::means() const {
  std::size_t first = 0;
  std::size_t last = steps_.size() - uncounted_;
  StepMeans means;
  if (!windows_.empty()) {
    for (std::size_t i = windows_.back().begin; i < windows_.back().end; ++i) {
      means.last_window.push_back(steps_[i].total);
    }
  }
  if (windows_.size() > kRampWindows) {
    const Window& ramp = windows_[kRampWindows - 1];
    first = ramp.end;
    last = windows_.back().end;
    means.traffic = difference(windows_.back().traffic, ramp.traffic);
  }
  means.steps = static_cast<std::int64_t>(last - first);
  if (means.steps == 0) return means;
  const auto count = static_cast<double>(means.steps);
  for (std::size_t i = first; i < last; ++i) {
    const StepTimes& step = steps_[i];
    means.mean.total += step.total / count;
    means.mean.compute += step.compute / count;
    means.mean.cpu_update += step.cpu_update / count;
    means.mean.d2h += step.d2h / count;
    means.mean.h2d += step.h2d / count;
    means.mean.collective += step.collective / count;
    means.mean.launch += step.launch / count;
  }
  return means;
}

}  // namespace zenflow::runtime
