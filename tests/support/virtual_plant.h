/// A training that is only simulated: what a tuner would see of it, on a machine that is known
/// exactly and can be changed at any window.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "runtime/tune/live_tuner.h"
#include "sim/schedule/schedule.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/simulate/simulation.h"

namespace zenflow::testing {

/// Runs windows of live-zenflow on `machine`. Step times are those in steady state, times a
/// random factor; recordings are complete timelines, stretched by the same factor.
class VirtualPlant {
 public:
  VirtualPlant(runtime::LiveModelSettings settings, sim::HardwareProfile machine,
               std::uint64_t seed = 1, double noise = 0)
      : settings_(std::move(settings)),
        machine_(std::move(machine)),
        random_(seed),
        noise_(noise) {}

  /// From the next window on.
  void set_machine(const sim::HardwareProfile& machine) {
    machine_ = machine;
    times_.clear();
    steady_.clear();
  }
  [[nodiscard]] const sim::HardwareProfile& machine() const { return machine_; }
  /// Threads of other programs that always want a core, from the next window on. What they use is
  /// measured exactly.
  void set_other_threads(double threads) {
    other_threads_ = threads;
    times_.clear();
    steady_.clear();
  }
  /// Seconds in a window by which updates slow concurrent compute down, for reasons that no profile
  /// has, such as caches; where nothing is selected. From the next window on.
  void set_update_slowdown(double seconds) { update_slowdown_ = seconds; }
  /// Standard deviation, in seconds, of a step's first forward in recordings.
  void set_step_noise(double seconds) { step_noise_ = seconds; }
  /// Likewise of each step's in a window alike, by window: what makes the machine slower for a
  /// while.
  void set_window_noise(double seconds) { window_noise_ = seconds; }
  /// Standard deviation, relative, of what makes the machine slower or faster at every setting for
  /// a while, and the windows after which 1/e of it is left.
  void set_wander(double deviation, double memory) {
    wander_deviation_ = deviation;
    wander_memory_ = memory;
    wander_ = deviation * normal_(random_);
  }
  /// Standard deviation, relative, of what each setting takes that no profile has.
  void set_offsets(double deviation) { offsets_deviation_ = deviation; }
  /// Likewise of the time in each track's operations but compute's, from window to window.
  void set_track_noise(double deviation) { track_noise_ = deviation; }
  /// Whether what other programs use is known to who fits a recording.
  void hide_others() { others_are_hidden_ = true; }

  /// Without noise.
  [[nodiscard]] double step_seconds(const runtime::TunePoint& point) {
    auto known = times_.find(point);
    if (known == times_.end()) {
      const sim::Job job = job_of(point);
      const auto result = sim::simulate_schedule(job, sim::find_schedule(kSchedule));
      known = times_.emplace(point, result.step_time * 1e-12).first;
    }
    return offset(point) *
           (known->second + update_slowdown(point) / static_cast<double>(point.update_interval));
  }
  [[nodiscard]] double best(const std::vector<runtime::TunePoint>& points) {
    double best = INFINITY;
    for (const runtime::TunePoint& point : points) best = std::min(best, step_seconds(point));
    return best;
  }

  [[nodiscard]] runtime::TuneWindow window(std::int64_t number, const runtime::TunePoint& point,
                                           double next_topk_ratio) {
    const Steady& one = steady(point);
    if (wander_deviation_ > 0) {
      const double left = std::exp(-1 / wander_memory_);
      wander_ = left * wander_ + std::sqrt(1 - left * left) * wander_deviation_ * normal_(random_);
    }
    const double factor = std::exp(wander_ + noise_ * normal_(random_));
    runtime::TuneWindow seen{.window = number,
                             .point = point,
                             .next_topk_ratio = next_topk_ratio,
                             .steps = point.update_interval,
                             .step_seconds = factor * step_seconds(point),
                             .busy = one.busy};
    seen.busy[0] += update_slowdown(point);
    for (double& busy : seen.busy) busy *= factor;
    if (track_noise_ > 0) {
      for (std::size_t t = 1; t < seen.busy.size(); ++t) {
        seen.busy[t] *= std::exp(track_noise_ * normal_(random_));
      }
    }
    return seen;
  }

  /// What a recorder has of some windows at `point`.
  [[nodiscard]] runtime::LiveWindows recording(const runtime::TunePoint& point) {
    const sim::Timeline& exact = steady(point).timeline;
    runtime::LiveWindows windows{point, kFirstWindow * point.update_interval, exact};
    lengthen(windows.timeline, point);
    if (!others_are_hidden_) windows.other_cores = steady(point).other_cores;
    const double factor = std::exp(wander_ + noise_ * normal_(random_));
    const auto stretch = [factor](Picoseconds& time) {
      time.count = std::llround(factor * static_cast<double>(time.count));
    };
    for (sim::TimelineSpan& span : windows.timeline.spans) {
      stretch(span.start);
      stretch(span.end);
    }
    for (sim::TimelineStep& step : windows.timeline.steps) {
      stretch(step.start);
      stretch(step.end);
    }
    return windows;
  }

 private:
  struct Steady {
    std::array<double, runtime::kTuneTracks> busy{};
    sim::Timeline timeline;
    double other_cores = 0;
  };
  static constexpr std::int64_t kFirstWindow = 3;
  static constexpr std::int64_t kWindows = 6;
  static constexpr const char* kSchedule = "live-zenflow";

  double offset(const runtime::TunePoint& point) {
    if (offsets_deviation_ == 0) return 1;
    const auto [offset, is_new] = offsets_.try_emplace(point);
    if (is_new) offset->second = std::exp(offsets_deviation_ * normal_(random_));
    return offset->second;
  }
  [[nodiscard]] double update_slowdown(const runtime::TunePoint& point) const {
    return update_slowdown_ * (1 - point.topk_ratio);
  }

  /// A step's first forward takes longer, by what updates take where it begins a window and by
  /// noise, and what begins later does so the later.
  void lengthen(sim::Timeline& timeline, const runtime::TunePoint& point) {
    if (update_slowdown_ == 0 && step_noise_ == 0 && window_noise_ == 0) return;
    // Shifted, so that none gets shorter than nothing.
    const auto noise = [this](double deviation) {
      return deviation == 0 ? 0 : deviation * std::max(0.0, 4 + normal_(random_));
    };
    double of_window = 0;
    std::map<std::int64_t, Picoseconds> longer;  // by when a forward begins
    for (const sim::TimelineStep& step : timeline.steps) {
      Picoseconds first{INT64_MAX};
      for (const sim::TimelineSpan& span : timeline.spans) {
        if (is_forward(span) && span.start >= step.start) {
          first = std::min(first, span.start);
        }
      }
      const bool begins_window = step.number % point.update_interval == 0;
      if (begins_window || longer.empty()) of_window = noise(window_noise_);
      longer[first.count] = to_picoseconds(
          Seconds((begins_window ? update_slowdown(point) : 0) + of_window + noise(step_noise_)));
    }
    const auto move = [&](Picoseconds& time) {
      std::int64_t later = 0;
      for (const auto& [begin, by] : longer) later += begin < time.count ? by.count : 0;
      time.count += later;
    };
    for (sim::TimelineSpan& span : timeline.spans) {
      const auto grown = longer.find(span.start.count);
      const bool grows = is_forward(span) && grown != longer.end();
      const Picoseconds length = span.end - span.start;
      move(span.start);
      span.end = span.start + length + (grows ? grown->second : Picoseconds{});
    }
    for (sim::TimelineStep& step : timeline.steps) {
      move(step.start);
      move(step.end);
    }
  }
  static bool is_forward(const sim::TimelineSpan& span) {
    return span.operation == Operation::kForward;
  }

  [[nodiscard]] sim::Job job_of(const runtime::TunePoint& point) const {
    sim::Job job = runtime::live_job(settings_, point, machine_);
    job.scenario.other_threads = other_threads_;
    return job;
  }

  const Steady& steady(const runtime::TunePoint& point) {
    const auto known = steady_.find(point);
    if (known != steady_.end()) return known->second;
    sim::Job job = job_of(point);
    Steady one;
    job.scenario.run = {.warmup_steps = kFirstWindow * point.update_interval,
                        .steps = (kWindows - kFirstWindow) * point.update_interval};
    const sim::FullRun run = sim::simulate_fully(job, sim::find_schedule(kSchedule));
    one.timeline = sim::simulated_timeline(job, kSchedule, run);
    one.other_cores = sim::background_rate(run).value();
    one.busy = busy_of(one.timeline, point.update_interval);
    return steady_[point] = std::move(one);
  }
  /// In the window after the ramp.
  static std::array<double, runtime::kTuneTracks> busy_of(const sim::Timeline& timeline,
                                                          std::int64_t steps) {
    static constexpr std::array<const char*, runtime::kTuneTracks> kNames = {
        "compute", "d2h", "h2d", "cpu_accumulate", "cpu_update"};
    std::array<double, runtime::kTuneTracks> busy{};
    Picoseconds begin{};
    Picoseconds end{};
    for (const sim::TimelineStep& step : timeline.steps) {
      if (step.number == kFirstWindow * steps) begin = step.start;
      if (step.number == (kFirstWindow + 1) * steps - 1) end = step.end;
    }
    for (const sim::TimelineSpan& span : timeline.spans) {
      if (span.start < begin || span.start >= end) continue;
      for (std::size_t t = 0; t < runtime::kTuneTracks; ++t) {
        if (timeline.tracks[span.track].name != kNames[t]) continue;
        busy[t] += to_seconds(span.end - span.start).value();
      }
    }
    return busy;
  }

  runtime::LiveModelSettings settings_;
  sim::HardwareProfile machine_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double noise_;
  double other_threads_ = 0;
  double update_slowdown_ = 0;
  double step_noise_ = 0;
  double window_noise_ = 0;
  double wander_deviation_ = 0;
  double wander_memory_ = 1;
  double wander_ = 0;
  double offsets_deviation_ = 0;
  double track_noise_ = 0;
  bool others_are_hidden_ = false;
  std::map<runtime::TunePoint, double> offsets_;
  std::map<runtime::TunePoint, double> times_;
  std::map<runtime::TunePoint, Steady> steady_;
};

}  // namespace zenflow::testing
