#include "runtime/tune/live_tuning.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/tune/candidates.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Layers that recorded updates and uploads belong to are told by their order, so a set of them
/// must be whole. Of the window before the recording only its update is wanted, if recording
/// `began` before its first part ended: beside a trace its spans are there in any case, a GPU's
/// uploads not.
void keep_whole_sets(sim::Timeline& timeline, std::int64_t first_step, std::int64_t layers,
                     Picoseconds began) {
  std::int64_t updates = 0;
  const auto is_before = [&](const sim::TimelineSpan& span) {
    return timeline.extra_of(span).step == first_step - 1;
  };
  for (const sim::TimelineSpan& span : timeline.spans) {
    const bool updates_layer = span.operation == Operation::kCpuUpdate && span.end >= began;
    if (updates_layer && is_before(span)) ++updates;
  }
  std::erase_if(timeline.spans, [&](const sim::TimelineSpan& span) {
    if (!is_before(span)) return false;
    const auto lane = lane_of_track(timeline.tracks[span.track].name);
    return updates != layers || (lane != LaneKind::kCpuUpdate && lane != LaneKind::kH2D);
  });
}

}  // namespace

LiveTuning::LiveTuning(LiveTuningSettings settings, Recorder& recorder,
                       std::function<void(const TuneEvent&)> on_event)
    : settings_(std::move(settings)),
      recorder_(recorder),
      on_event_(std::move(on_event)),
      tuner_(settings_.tuner),
      points_(
          tune_points(staleness_limit(settings_.tuner.max_staleness, settings_.tuner.overlap_step),
                      settings_.topk_ratios)) {
  for (std::size_t t = 0; t < kTuneTracks; ++t) {
    tracks_.at(t) = recorder.find(kTuneTrackNames.at(t));
    if (tracks_.at(t) == nullptr) {
      throw Error(ErrorKind::kRuntime, fmt::format("no track {}", kTuneTrackNames.at(t)));
    }
  }
}

LiveTuning::~LiveTuning() = default;

std::array<double, kTuneTracks> LiveTuning::busy_since_last() {
  std::array<double, kTuneTracks> now{};
  for (std::size_t t = 0; t < kTuneTracks; ++t) {
    now.at(t) = std::chrono::duration<double>(tracks_.at(t)->totals().busy).count();
  }
  const std::array<double, kTuneTracks> before = busy_.value_or(now);
  busy_ = now;
  std::array<double, kTuneTracks> since{};
  for (std::size_t t = 0; t < kTuneTracks; ++t) since.at(t) = now.at(t) - before.at(t);
  return since;
}

LiveWindows LiveTuning::recorded(const TunePoint& point, const RecordedStep& at_hand) const {
  LiveWindows windows{
      point, recording_from_,
      recorder_.recent(recording_from_, at_hand, settings_.model.model.name, "device")};
  const auto began =
      std::chrono::duration_cast<std::chrono::nanoseconds>(recording_began_ - recorder_.origin());
  keep_whole_sets(windows.timeline, recording_from_, settings_.model.model.layers() + 2,
                  Picoseconds{began.count() * 1000});
  if (settings_.exchanges) windows.collectives = settings_.exchanges(recording_from_);
  if (settings_.read_cores) {
    OtherUse others =
        other_use(cores_then_, settings_.read_cores(), settings_.cpus, ticks_a_second());
    windows.other_cores = others.cores;
    windows.remark = std::move(others.problem);
  }
  return windows;
}

void LiveTuning::start_recording(std::int64_t step) {
  recording_from_ = step;
  recording_began_ = Clock::now();  // on all tracks
  if (settings_.read_cores) cores_then_ = settings_.read_cores();
}

std::optional<double> LiveTuning::used_lately() {
  constexpr double kUseSeconds = 0.1;  // ten ticks a CPU
  if (!settings_.read_cores) return std::nullopt;
  const CoreReading now = settings_.read_cores();
  if (!cores_lately_) cores_lately_ = now;
  if (now.at_seconds - cores_lately_->at_seconds < kUseSeconds) return std::nullopt;
  return other_use(*std::exchange(cores_lately_, now), now, settings_.cpus, ticks_a_second()).cores;
}

void LiveTuning::start_fit(LiveWindows windows) {
  auto work = [this, windows = std::move(windows)] {
    // Training goes first, by 3 to 1: beside a load that takes every core, a fit of the lowest
    // priority takes as many windows as it is to answer within. Where that cannot be had, the fit
    // is short all the same.
    constexpr int kNice = 5;
    (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
    const Clock::time_point start = Clock::now();
    TuneFit fit;
    try {
      fit = fit_and_predict(settings_.model, windows, points_);
    } catch (const std::exception& error) {  // of memory; the training can go on without a fit
      fit.failure = error.what();
    }
    fit.seconds = seconds_since(start);
    return fit;
  };
  try {
    fit_ = std::async(std::launch::async, std::move(work));
  } catch (const std::system_error& error) {  // no thread to be had
    std::promise<TuneFit> failed;
    failed.set_value({.predictions = {}, .failure = error.what()});
    fit_ = failed.get_future();
  }
}

std::vector<DeferredShare> LiveTuning::deferred_shares(const WindowObservation& seen,
                                                       const IntervalDecision& importance) {
  const std::vector<double>& ratios = settings_.topk_ratios;
  if (settings_.tuner.max_deferred_share >= 1 || ratios.size() < 2) return {};
  if (importance.by_gradient == 0) return {};  // no gradients to judge by
  if (seen.norms_step > norms_step_) {
    shares_of_norms_ = settings_.shares_of_norms(ratios);
    norms_step_ = seen.norms_step;
  }
  const auto at = std::find(ratios.begin(), ratios.end(), seen.topk_ratio) - ratios.begin();
  const auto here = static_cast<std::size_t>(at);
  const double share = importance.deferred_share;
  double scale = 1;
  bool knows_norms = !shares_of_norms_.empty();
  if (knows_norms && here < ratios.size()) {
    // Norms that say nothing is deferred where something is are of other gradients.
    knows_norms = shares_of_norms_[here] > 0 || share == 0;
    if (shares_of_norms_[here] > 0) scale = share / shares_of_norms_[here];
  }
  std::vector<DeferredShare> shares;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (knows_norms) {
      shares.push_back({ratios[i], std::min(1.0, scale * shares_of_norms_[i])});
    } else if (i >= here) {
      shares.push_back({ratios[i], share});
    }
  }
  return shares;
}

TunePoint LiveTuning::window_ended(const WindowObservation& seen, Clock::time_point step_start) {
  const TunePoint point{seen.steps, seen.topk_ratio};
  const IntervalDecision importance = choose_interval(seen, settings_.importance);
  TuneWindow window{.window = seen.window,
                    .point = point,
                    .next_topk_ratio = seen.next_topk_ratio,
                    .steps = seen.timed_steps,
                    .step_seconds = seen.window_seconds / static_cast<double>(seen.timed_steps),
                    .busy = busy_since_last(),
                    .importance_due = importance.by_gradient,
                    .deferred_shares = deferred_shares(seen, importance),
                    .selection_seconds = seen.selection_seconds,
                    .other_cores = used_lately(),
                    .steps_left = settings_.steps - seen.first_step - seen.steps};
  log_.windows.push_back({seen.window, seen.first_step, point, recording_from_ >= 0,
                          window.step_seconds, window.importance_due, importance.deferred_share,
                          seen.selection_seconds});
  std::optional<TuneFit> fit;
  if (settings_.wait_for_fits && fit_.valid()) fit_.wait();
  if (fit_.valid() && fit_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    fit = fit_.get();
  }
  const TuneOrder order = tuner_.window_ended(window, fit);
  log_events();
  // What others use beside another setting is another question.
  if (!(order.next == point)) cores_lately_.reset();
  const std::int64_t next_step = seen.first_step + seen.steps;
  if (order.fit) {
    if (settings_.finish_recording) settings_.finish_recording();
    start_fit(recorded(point, {next_step - 1, step_start, Clock::now()}));
  }
  if (!order.record || order.anew) {
    recorder_.keep_spans(false);
    recording_from_ = -1;
  }
  if (order.record && recording_from_ < 0) {
    recorder_.keep_spans(true);
    start_recording(next_step);
  }
  return order.next;
}

void LiveTuning::suspended(const CoreReading& begin, const CoreReading& end) {
  cores_then_.leave_out(begin, end);
  if (cores_lately_) cores_lately_->leave_out(begin, end);
}

void LiveTuning::end() {
  tuner_.end();
  log_events();
}

void LiveTuning::log_events() {
  for (const TuneEvent& event : tuner_.events()) {
    log_.events.push_back(event);
    if (on_event_) on_event_(event);
  }
}

}  // namespace zenflow::runtime
