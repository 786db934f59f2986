/// Where windows meet: updates are handed over and taken in.
#include <utility>

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
  window_waited_ += seconds_since(start);
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

void OffloadEngine::wait_for_uploads(bool on_host) {
  if (!uploads_) return;
  update_lane_.wait(pending_);  // no longer than for the last group; and tells why, if it failed
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    uploads_->issued[g].wait();
    if (on_host) uploads_->done[g].wait();
    compute_->wait(uploads_->done[g], WaitCause::kH2D);
  }
  uploads_.reset();
}

DeferredUpdate OffloadEngine::window_update() const {
  if (reads_staging()) {
    return {.adamw = settings_.adamw, .source = GradientSource::kStaging, .scale = scale_};
  }
  // The mean of the window's gradients; an unfinished window has fewer.
  const std::int64_t steps = step_ + 1 - window_first_step_;
  return {.adamw = settings_.adamw,
          .scaling = settings_.deferred_scaling,
          .steps = steps,
          .source = GradientSource::kSums,
          .parity = parity_,
          .scale = 1.0F / static_cast<float>(steps)};
}

void OffloadEngine::end_window(StepResult& result) {
  result.window_ended = true;
  const DeferredUpdate update = window_update();
  send_sums(update);
  if (overlaps()) {
    take_upload(&result);
    if (selection_due() || ratio_changes()) {
      // The columns' sums must be complete before columns leave with them.
      wait_for_lane(sum_lane_, sum_lane_.last(), &result);
      for (const Event& arrived : arrived_) arrived.wait();
      select_anew(&update, result);
    }
    pending_first_step_ = window_first_step_;
    pending_last_step_ = step_;
    result.window_traffic = device_.traffic();  // before the lane goes on adding to it
    submit_update(update);
    parity_ = 1 - parity_;
  } else {
    result.window_traffic = device_.traffic();
    submit_update(update);
    result.staleness = step_ - window_first_step_;
    result.newest_staleness = 0;
    if (selection_due() || ratio_changes()) {
      wait_for_lane(update_lane_, update_lane_.last(), &result);
      wait_for_uploads(true);
      select_anew(nullptr, result);
    }
  }
  start_window(true);
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
  const WindowObservation seen{.window = windows_,
                               .first_step = window_first_step_,
                               .steps = window_steps_,
                               .topk_ratio = window_topk_ratio_,
                               .next_topk_ratio = settings_.topk_ratio,
                               .timed_steps = window_timed_steps_,
                               .window_seconds = window_seconds_ + seconds_since(step_start_),
                               .waited_seconds = std::exchange(window_waited_, 0),
                               .selection_seconds = std::exchange(selection_seconds_, 0),
                               .norms_step = norms_step_,
                               .update_seconds = update_seconds_,
                               .importance = window_importance_};
  window_first_step_ = step_ + 1;
  const bool regular = window_first_step_ >= settings_.full_warm_up_rounds;
  // Warm-up windows have no selected columns, a window cut short has not its number of steps:
  // neither says anything about S.
  const bool telling = may_adapt && step_ >= settings_.full_warm_up_rounds && windows_ > 0;
  if (telling && interval_policy_) settings_.update_interval = adapted_interval(seen);
  window_steps_ = regular ? settings_.update_interval : 1;
  window_topk_ratio_ = settings_.topk_ratio;
  ++windows_;
  window_timed_steps_ = 0;
  window_seconds_ = 0;
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    window_importance_[s].square_sum = window_importance_[s].selected_square_sum = 0;
    window_importance_[s].selected = importance_[s].selected = layout_.slices[s].selected;
  }
}

void OffloadEngine::send_sums(const DeferredUpdate& update) {
  if (update.source != GradientSource::kSums || !settings_.sums_on_device()) return;
  d2h_->wait(compute_->record(), WaitCause::kCompute);
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    const std::size_t first = deferred_.group_offset(g);
    device_.copy(*d2h_, deferred_.sums(update.parity) + first, columns_.sums.as<float>() + first,
                 deferred_.group_elements(g) * sizeof(float), CopyDirection::kDeviceToHost,
                 Traffic::kGradients, {Operation::kGradientSumsDown, step_});
    arrived_[g] = d2h_->record();
  }
  sums_read_ = d2h_->record();
}

void OffloadEngine::submit_update(const DeferredUpdate& update) {
  const std::size_t groups = layout_.groups.size();
  auto uploads = std::make_shared<Uploads>();
  std::vector<std::shared_ptr<Signal>> issued(groups);
  for (std::size_t g = 0; g < groups; ++g) {
    issued[g] = device_.make_signal();
    uploads->issued.push_back(issued[g]->event());
    uploads->done.emplace_back();
    if (update.source == GradientSource::kStaging) staging_free_[g] = issued[g]->event();
  }
  pending_ = update_lane_.submit([this, update, summed = sum_lane_.last(), uploads,
                                  issued = std::move(issued), arrived = arrived_,
                                  may_write = compute_->record(), step = step_] {
    const Clock::time_point begin = Clock::now();
    sum_lane_.wait(summed);
    last_upload_.wait();  // the buffers for uploads are free
    h2d_->wait(may_write, WaitCause::kCompute);
    for (std::size_t g = 0; g < issued.size(); ++g) {
      arrived[g].wait();
      const Clock::time_point start = Clock::now();
      if (settings_.before_update) settings_.before_update(g);  // a delay is the optimizer's
      deferred_.update(g, update, update_pool_);
      update_track_.span(Operation::kCpuUpdate, step, start, Clock::now());
      uploads->done[g] = upload_group(g, step);
      issued[g]->set();
    }
    last_upload_ = h2d_->record();
    update_seconds_ = seconds_since(begin);
  });
  uploads_ = std::move(uploads);
}

Event OffloadEngine::upload_group(std::size_t group, std::int64_t step) {
  const std::size_t count = deferred_.group_elements(group);
  if (count == 0) return {};
  const std::size_t element = bytes_per_element(type_);
  device_.copy(*h2d_, columns_.arrived.data(), deferred_.upload(group), count * element,
               CopyDirection::kHostToDevice, Traffic::kParameters, {Operation::kWeightsUp, step});
  const GroupRange& range = layout_.groups[group];
  for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
    const std::size_t width = deferred_.width(s);
    if (width == 0) continue;
    const Slice& slice = layout_.slices[s];
    const std::uint32_t* column =
        width == slice.columns
            ? nullptr
            : columns_.columns.on_device() + columns_.column_first[s] + slice.selected;
    const std::size_t at = deferred_.offset(s) - deferred_.group_offset(group);
    device_.scatter_columns(*h2d_, type_, columns_.arrived.data() + at * element, column, width,
                            warm_up_ ? columns_.weight_slice(s) : columns_.second_weight_slice(s),
                            {Operation::kPlaceWeights, step});
  }
  return h2d_->record();
}

void OffloadEngine::take_upload(StepResult* result) {
  if (pending_first_step_ < 0) return;
  wait_for_lane(update_lane_, pending_, result);
  wait_for_uploads(false);
  refresh_selected();
  columns_.swap_weights();
  const std::int64_t staleness = step_ - pending_first_step_;
  if (result != nullptr) {
    result->staleness = staleness;
    result->newest_staleness = step_ - pending_last_step_;
  }
  pending_first_step_ = -1;
  if (staleness > settings_.max_staleness) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("step {}: an update holds gradients {} steps old, max_staleness is {}",
                            step_, staleness, settings_.max_staleness));
  }
}

void OffloadEngine::settle() {
  const bool unfinished = step_ > window_first_step_;
  if (unfinished) --step_;  // the last step done, as where windows end
  take_upload(nullptr);
  if (unfinished) {
    const DeferredUpdate update = window_update();
    send_sums(update);
    submit_update(update);
    pending_first_step_ = overlaps() ? window_first_step_ : -1;
    pending_last_step_ = step_;
    take_upload(nullptr);
    start_window(false);
    ++step_;
  }
  wait_for_lane(update_lane_, update_lane_.last(), nullptr);
  wait_for_uploads(true);
  compute_->record().wait();
}

}  // namespace zenflow::runtime
