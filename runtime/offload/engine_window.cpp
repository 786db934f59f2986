/// Where windows meet: updates are handed over and taken in.
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/offload/engine.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void OffloadEngine::note_wait(Clock::time_point start, StepResult* result) {
  waits_.wait(WaitCause::kCpuUpdate, step_, start, Clock::now());
  if (result == nullptr) return;  // between two steps
  window_.waited += seconds_since(start);
  result->waited_for_cpu += seconds_since(start);
}

void OffloadEngine::wait_for_lane(CpuLane& lane, CpuLane::Ticket ticket, StepResult* result) {
  if (lane.done(ticket)) {
    lane.check();
    return;
  }
  const Clock::time_point start = Clock::now();
  lane.wait(ticket);
  note_wait(start, result);
}

void OffloadEngine::wait_for_upload(std::size_t group, StepResult* result) {
  if (!update_.uploads) return;  // all of them have been waited for
  const Event& issued = update_.uploads->issued[group];
  const bool waits = !issued.complete();
  const Clock::time_point start = Clock::now();
  issued.wait();  // rethrows
  if (waits) note_wait(start, result);
  compute_->wait(update_.uploads->done[group], WaitCause::kH2D);
}

void OffloadEngine::wait_for_uploads(bool on_host) {
  if (!update_.uploads) return;
  update_lane_.wait(update_.ticket);  // no longer than for the last group; tells why, if it failed
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    update_.uploads->issued[g].wait();
    if (on_host) update_.uploads->done[g].wait();
    compute_->wait(update_.uploads->done[g], WaitCause::kH2D);
  }
  update_.uploads.reset();
}

DeferredUpdate OffloadEngine::window_update(float scale) const {
  if (rule_.sums() == sim::WindowSums::kNone) {
    return {.adamw = settings_.adamw, .source = GradientSource::kStaging, .scale = scale};
  }
  // The mean of the window's gradients; an unfinished window has fewer.
  const std::int64_t steps = step_ + 1 - window_.first_step;
  return {.adamw = settings_.adamw,
          .scaling = settings_.deferred_scaling,
          .steps = steps,
          .source = GradientSource::kSums,
          .parity = window_.parity,
          .scale = 1.0F / static_cast<float>(steps)};
}

void OffloadEngine::end_window(Step& step) {
  StepResult& result = *step.result;
  result.window_ended = true;
  const DeferredUpdate update = window_update(step.scale);
  execute(rule_.send_sums(), step);
  execute(rule_.take_update(), step);
  const bool selects = selection_due() || ratio_changes();
  if (overlaps()) {
    if (selects) {
      // The columns' sums must be complete before columns leave with them.
      wait_for_lane(sum_lane_, sum_lane_.last(), &result);
      for (const Operation kind : {Operation::kGradientsDown, Operation::kGradientSumsDown}) {
        for (const Event& event : newest_[static_cast<std::size_t>(kind)]) event.wait();
      }
      select_anew(&update, result);
    }
    update_.first_step = window_.first_step;
    update_.last_step = step_;
    result.window_traffic = device_.traffic();  // before the lane goes on adding to it
    submit_update(update);
    window_.parity = 1 - window_.parity;
  } else {
    result.window_traffic = device_.traffic();
    submit_update(update);
    result.staleness = step_ - window_.first_step;
    result.newest_staleness = 0;
    if (selects) {
      wait_for_lane(update_lane_, update_lane_.last(), &result);
      wait_for_uploads(true);
      select_anew(nullptr, result);
    }
  }
  start_window(true);
}

/// So that all ranks decide the same: gradients of all owners, a window as long as it is on
/// average, and the update of the slowest, which the others wait for.
WindowObservation OffloadEngine::of_all_ranks(WindowObservation seen) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  if (ranks == 1) return seen;
  constexpr std::size_t kTimes = 3;
  constexpr std::size_t kFigures = 4;
  const std::size_t parameters = columns_.table.parameters.size();
  std::vector<double> all(kTimes + ranks + kFigures * parameters, 0.0);
  all[0] = seen.window_seconds;
  all[1] = seen.waited_seconds;
  all[2] = seen.selection_seconds;
  const std::span<double> updates(all.data() + kTimes, ranks);
  updates[static_cast<std::size_t>(communicator_.rank())] = seen.update_seconds;
  const std::span<double> figures(updates.data() + ranks, kFigures * parameters);
  for (const SliceImportance& one : seen.importance) {
    double* const of = &figures[kFigures * one.parameter];
    of[0] = one.square_sum;
    of[1] = one.selected_square_sum;
    of[2] = static_cast<double>(one.columns);
    of[3] = static_cast<double>(one.selected);
  }
  communicator_.sum(all);
  seen.window_seconds = all[0] / static_cast<double>(ranks);
  seen.waited_seconds = all[1] / static_cast<double>(ranks);
  seen.selection_seconds = all[2] / static_cast<double>(ranks);
  seen.update_seconds = *std::max_element(updates.begin(), updates.end());
  seen.importance.clear();
  for (std::size_t p = 0; p < parameters; ++p) {
    const double* const of = &figures[kFigures * p];
    seen.importance.push_back(
        {p, of[0], of[1], static_cast<std::size_t>(of[2]), static_cast<std::size_t>(of[3])});
  }
  return seen;
}

std::int64_t OffloadEngine::adapted_interval(const WindowObservation& seen) const {
  const std::int64_t steps = interval_policy_(seen);
  if (steps >= 1 && oldest_gradient(seen.steps, steps) <= settings_.max_staleness) return steps;
  throw Error(ErrorKind::kRuntime,
              fmt::format("step {}: an update_interval of {} after one of {} is not possible: "
                          "expected at least 1, and gradients at most {} steps old",
                          step_, steps, seen.steps, settings_.max_staleness));
}

void OffloadEngine::start_window(bool may_adapt) {
  const WindowObservation seen{.window = window_.index,
                               .first_step = window_.first_step,
                               .steps = window_.steps,
                               .topk_ratio = window_.topk_ratio,
                               .next_topk_ratio = settings_.topk_ratio,
                               .timed_steps = window_.timed_steps,
                               .window_seconds = window_.seconds + seconds_since(step_start_),
                               .waited_seconds = window_.waited,
                               .selection_seconds = window_.selection_seconds,
                               .norms_step = selection_.norms_step,
                               .update_seconds = update_seconds_,
                               .importance = window_.importance};
  // Warm-up windows have no selected columns, a window cut short has not its number of steps:
  // neither says anything about S.
  const bool telling = may_adapt && step_ >= settings_.full_warm_up_rounds && window_.index > 0;
  if (telling && interval_policy_) {
    settings_.update_interval = adapted_interval(of_all_ranks(seen));
  }
  Window next{.index = window_.index + 1,
              .first_step = step_ + 1,
              .topk_ratio = settings_.topk_ratio,
              .parity = window_.parity,
              .importance = std::move(window_.importance)};
  const bool warm_up = next.first_step < settings_.full_warm_up_rounds;
  if (!warm_up) next.steps = settings_.update_interval;
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    SliceImportance& importance = next.importance[s];
    importance.square_sum = importance.selected_square_sum = 0;
    importance.selected = importance_[s].selected = layout_.slices[s].selected;
  }
  window_ = std::move(next);
  rule_.begin_window(warm_up, window_.steps);
}

void OffloadEngine::submit_update(const DeferredUpdate& update) {
  submit_uploads(true, [this, update, step = step_](std::size_t group) {
    const Clock::time_point start = Clock::now();
    if (settings_.before_update) settings_.before_update(group);  // a delay is the optimizer's
    deferred_.update(group, update, update_pool_);
    update_track_.span(Operation::kCpuUpdate, step, start, Clock::now());
  });
}

void OffloadEngine::submit_uploads(bool timed, std::function<void(std::size_t group)> prepare) {
  auto uploads = std::make_shared<Uploads>(layout_.groups.size());
  std::vector<LaneOperation> operations = handed_over(rule_.update());
  for (LaneOperation& one : operations) {
    if (one.operation.kind == Operation::kPlaceWeights) {
      uploads->issued[group_of(one.operation)] = one.done->event();
    }
  }
  update_.uploads = uploads;
  update_.ticket =
      update_lane_.submit([this, timed, uploads = std::move(uploads), step = step_,
                           operations = std::move(operations), prepare = std::move(prepare)] {
        const Clock::time_point begin = Clock::now();
        try {
          last_upload_.wait();  // the buffers for uploads are free
          prepare_and_upload(operations, prepare, *uploads, step);
        } catch (...) {
          sum_lane_.check();  // what it waited for in vain
          throw;
        }
        last_upload_ = h2d_->record();
        if (timed) update_seconds_ = seconds_since(begin);
      });
}

void OffloadEngine::prepare_and_upload(std::span<const LaneOperation> operations,
                                       const std::function<void(std::size_t group)>& prepare,
                                       Uploads& uploads, std::int64_t step) {
  std::size_t next = 0;
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    const auto is_of_group = [&] {
      return next < operations.size() && group_of(operations[next].operation) == g;
    };
    if (is_of_group()) wait_for(operations[next].after);
    prepare(g);  // also without columns: recordings count on one update for each group
    for (; is_of_group(); ++next) {
      const LaneOperation& one = operations[next];
      if (one.operation.kind == Operation::kWeightsUp) {
        for (const Event& event : one.after) h2d_->wait(event, WaitCause::kCompute);
        copy_up(one.operation, step);
      } else if (one.operation.kind == Operation::kPlaceWeights) {
        for_slices(g, [&](std::size_t s) { place_weights(s, g, step); });
        uploads.done[g] = h2d_->record();
      }
      one.done->set();
    }
  }
}

void OffloadEngine::copy_up(const sim::OffloadOperation& operation, std::int64_t step) {
  device_.copy(*h2d_, columns_.arrived.data(), deferred_.upload(group_of(operation)),
               static_cast<std::size_t>(operation.bytes), CopyDirection::kHostToDevice,
               Traffic::kParameters, {operation.kind, step});
}

void OffloadEngine::place_weights(std::size_t s, std::size_t group, std::int64_t step) {
  const std::size_t width = deferred_.width(s);
  if (width == 0) return;
  device_.scatter_columns(*h2d_, type_, columns_.arrived.data() + bytes_into_group(s, group),
                          deferred_indices(s), width,
                          warm_up_ ? columns_.weight_slice(s) : columns_.second_weight_slice(s),
                          {Operation::kPlaceWeights, step});
}

void OffloadEngine::take_upload(StepResult* result) {
  wait_for_lane(update_lane_, update_.ticket, result);
  wait_for_uploads(false);
  refresh_selected();
  columns_.swap_weights();
  const std::int64_t staleness = step_ - update_.first_step;
  if (result != nullptr) {
    result->staleness = staleness;
    result->newest_staleness = step_ - update_.last_step;
  }
  update_.first_step = -1;
  if (staleness > settings_.max_staleness) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("step {}: an update holds gradients {} steps old, max_staleness is {}",
                            step_, staleness, settings_.max_staleness));
  }
}

void OffloadEngine::settle() {
  Step none;
  const bool unfinished = step_ > window_.first_step;
  if (unfinished) --step_;  // the last step done, as where windows end
  execute(rule_.take_update(), none);
  if (unfinished) {
    execute(rule_.send_sums(), none);
    submit_update(window_update(none.scale));
    update_.first_step = overlaps() ? window_.first_step : -1;
    update_.last_step = step_;
    execute(rule_.take_update(), none);
    start_window(false);
    ++step_;
  }
  wait_for_lane(update_lane_, update_lane_.last(), nullptr);
  wait_for_uploads(true);
  compute_->record().wait();
}

}  // namespace zenflow::runtime
