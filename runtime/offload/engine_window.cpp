/// Where windows meet: updates are handed over and taken in, and columns change place.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kernels/cast/cast.h"
#include "runtime/offload/engine.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::uint32_t> counting(std::size_t count) {
  std::vector<std::uint32_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<std::uint32_t>(i);
  return numbers;
}

}  // namespace

void OffloadEngine::note_wait(Clock::time_point start, StepResult* result) {
  waits_.wait(WaitCause::kCpuUpdate, step_, start, Clock::now());
  window_waited_ += seconds_since(start);
  if (result != nullptr) result->waited_for_cpu += seconds_since(start);
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

bool OffloadEngine::selection_due() const {
  return selected_done_ && settings_.select_interval > 0 &&
         step_ + 1 - last_selection_ >= settings_.select_interval;
}

void OffloadEngine::end_window(StepResult& result) {
  result.window_ended = true;
  const DeferredUpdate update = window_update();
  send_sums(update);
  std::vector<Install> installs;
  if (overlaps()) {
    take_upload(&result);
    if (selection_due()) {
      // The columns' sums must be complete before columns leave with them.
      wait_for_lane(sum_lane_, sum_lane_.last(), &result);
      for (const Event& arrived : arrived_) arrived.wait();
      installs = exchange_columns(&update, result);
    }
    pending_first_step_ = window_first_step_;
    pending_last_step_ = step_;
    submit_update(update, std::move(installs));
    parity_ = 1 - parity_;
  } else {
    submit_update(update, {});
    result.staleness = step_ - window_first_step_;
    result.newest_staleness = 0;
    if (selection_due()) {
      wait_for_lane(update_lane_, update_lane_.last(), &result);
      wait_for_uploads(true);
      for (Install& install : exchange_columns(nullptr, result)) {
        deferred_.put(install.slice, install.slots, install.state);
      }
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
                               .steps = window_steps_,
                               .window_seconds = seconds_since(window_start_),
                               .waited_seconds = std::exchange(window_waited_, 0),
                               .update_seconds = update_seconds_,
                               .importance = window_importance_};
  window_first_step_ = step_ + 1;
  const bool regular = window_first_step_ >= settings_.full_warm_up_rounds;
  // Warm-up windows have no selected columns, a window cut short has not its number of steps:
  // neither says anything about S.
  const bool telling = may_adapt && step_ >= settings_.full_warm_up_rounds && windows_ > 0;
  if (telling && interval_policy_) settings_.update_interval = adapted_interval(seen);
  window_steps_ = regular ? settings_.update_interval : 1;
  ++windows_;
  window_start_ = Clock::now();
  for (SliceImportance& slice : window_importance_) {
    slice.square_sum = slice.selected_square_sum = 0;
  }
}

void OffloadEngine::send_sums(const DeferredUpdate& update) {
  if (update.source != GradientSource::kSums || !settings_.accumulate_on_device) return;
  d2h_->wait(compute_->record(), WaitCause::kCompute);
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    const std::size_t first = deferred_.group_offset(g);
    device_.copy(*d2h_, deferred_.sums(update.parity) + first, columns_.sums.as<float>() + first,
                 deferred_.group_elements(g) * sizeof(float), CopyDirection::kDeviceToHost,
                 Traffic::kGradients, {"gradient sums down", step_});
    arrived_[g] = d2h_->record();
  }
  sums_read_ = d2h_->record();
}

void OffloadEngine::submit_update(const DeferredUpdate& update, std::vector<Install> installs) {
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
                                  installs = std::move(installs), may_write = compute_->record(),
                                  step = step_] {
    const Clock::time_point begin = Clock::now();
    sum_lane_.wait(summed);
    last_upload_.wait();  // the buffers for uploads are free
    h2d_->wait(may_write, WaitCause::kCompute);
    for (std::size_t g = 0; g < issued.size(); ++g) {
      arrived[g].wait();
      if (settings_.before_update) settings_.before_update(g);
      const Clock::time_point start = Clock::now();
      deferred_.update(g, update, update_pool_);
      const GroupRange& range = layout_.groups[g];
      for (const Install& install : installs) {
        if (install.slice - range.first_slice < range.slices) {
          deferred_.put(install.slice, install.slots, install.state);
        }
      }
      update_track_.span("update", step, start, Clock::now());
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
               CopyDirection::kHostToDevice, Traffic::kParameters, {"weights up", step});
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
                            {"scatter weights", step});
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

void OffloadEngine::refresh_selected() {
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    if (slice.selected == 0 || !selected_done_) continue;
    const std::uint32_t* column = columns_.selected(s).column;
    if (slice.selected == slice.columns) column = nullptr;
    // This step's selected gradients have been used: their space holds the weights in passing.
    std::byte* passing = columns_.selected_gradient(s);
    device_.gather_columns(*compute_, type_, columns_.weight_slice(s), column, slice.selected,
                           passing, {"carry selected", step_});
    device_.scatter_columns(*compute_, type_, passing, column, slice.selected,
                            columns_.second_weight_slice(s), {"carry selected", step_});
  }
}

void OffloadEngine::first_selection(std::size_t s) {
  const Slice& slice = layout_.slices[s];
  ColumnSlots& slots = columns_.slots(s);
  if (slice.selectable) {
    const std::span<float> norms(columns_.norms.on_host() + columns_.column_first[s],
                                 slice.columns);
    communicator_.sum(norms);
    slots = zenflow::runtime::first_selection(norms, slice.selected);
  } else if (slice.selected > 0) {
    slots.selected = counting(slice.columns);
  } else {
    slots.deferred = counting(slice.columns);
  }
  last_selection_ = step_;
  if (slice.selected == 0) return;
  const ColumnState state = deferred_.narrow(s, slots.selected);
  send_columns(s);
  give_to_device(s, counting(slice.selected), state, false);
}

void OffloadEngine::send_columns(std::size_t s) {
  const Slice& slice = layout_.slices[s];
  const ColumnSlots& slots = columns_.slots(s);
  std::uint32_t* host = columns_.columns.on_host() + columns_.column_first[s];
  std::copy(slots.selected.begin(), slots.selected.end(), host);
  std::copy(slots.deferred.begin(), slots.deferred.end(), host + slice.selected);
  device_.copy(*compute_, columns_.columns.on_device() + columns_.column_first[s], host,
               slice.columns * sizeof(std::uint32_t), CopyDirection::kHostToDevice,
               Traffic::kSelection, {"column indices", step_});
}

std::vector<OffloadEngine::Install> OffloadEngine::exchange_columns(const DeferredUpdate* flush,
                                                                    StepResult& result) {
  compute_->record().wait();  // the norms are here
  std::vector<Install> installs;
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    if (!slice.selectable) continue;
    const std::span<float> norms(columns_.norms.on_host() + columns_.column_first[s],
                                 slice.columns);
    communicator_.sum(norms);
    ColumnSlots& slots = columns_.slots(s);
    const ColumnExchange exchange = plan_exchange(norms, slots);
    if (exchange.selected_slot.empty()) continue;
    ColumnState leaving = take_from_device(s, exchange.selected_slot);
    const ColumnState entering = deferred_.take(s, exchange.deferred_slot, flush);
    apply_exchange(exchange, slots);
    send_columns(s);
    give_to_device(s, exchange.selected_slot, entering, flush != nullptr);
    result.columns_exchanged += exchange.selected_slot.size();
    installs.push_back({s, exchange.deferred_slot, std::move(leaving)});
  }
  last_selection_ = step_ + 1;
  result.selected_anew = true;
  return installs;
}

namespace {

/// Slots and three arrays of [rows, columns] on their way.
struct Transfer {
  Mirrored<std::uint32_t> slots;
  Mirrored<float> state;
  std::size_t each;

  Transfer(Device& device, std::span<const std::uint32_t> indices, std::size_t rows)
      : slots(device, indices.size(), "column exchange"),
        state(device, 3 * rows * indices.size(), "column exchange"),
        each(rows * indices.size()) {
    std::copy(indices.begin(), indices.end(), slots.on_host());
  }
};

/// Weights in working precision of selected slots, and their columns.
struct WeightTransfer {
  Mirrored<std::uint32_t> columns;
  Mirrored<std::byte> values;

  WeightTransfer(Device& device, const ColumnSlots& slots, std::span<const std::uint32_t> indices,
                 const std::vector<float>& weights, ElementType type)
      : columns(device, indices.size(), "column exchange"),
        values(device, weights.size() * bytes_per_element(type), "column exchange") {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      columns.on_host()[i] = slots.selected[indices[i]];
    }
    if (type == ElementType::kFloat32) {
      std::copy(weights.begin(), weights.end(), values.host.as<float>());
    } else {
      kernels::to_bf16(weights.data(), weights.size(), values.host.as<kernels::Bf16>());
    }
  }
};

}  // namespace

ColumnState OffloadEngine::take_from_device(std::size_t s, std::span<const std::uint32_t> indices) {
  const Slice& slice = layout_.slices[s];
  const Transfer transfer(device_, indices, slice.rows);
  device_.copy(*compute_, transfer.slots.on_device(), transfer.slots.on_host(),
               indices.size_bytes(), CopyDirection::kHostToDevice, Traffic::kSelection,
               {"column exchange", step_});
  for (std::size_t i = 0; i < 3; ++i) {
    float* array = columns_.selected_state[i].as<float>() + columns_.selected_first[s];
    device_.gather_columns(*compute_, ElementType::kFloat32, {array, slice.rows, slice.selected},
                           transfer.slots.on_device(), indices.size(),
                           transfer.state.on_device() + i * transfer.each,
                           {"column exchange", step_});
  }
  device_.copy(*compute_, transfer.state.on_host(), transfer.state.on_device(),
               3 * transfer.each * sizeof(float), CopyDirection::kDeviceToHost, Traffic::kSelection,
               {"column exchange", step_});
  compute_->record().wait();
  const float* host = transfer.state.on_host();
  ColumnState state{.columns = indices.size()};
  state.weights.assign(host, host + transfer.each);
  state.first_moment.assign(host + transfer.each, host + 2 * transfer.each);
  state.second_moment.assign(host + 2 * transfer.each, host + 3 * transfer.each);
  for (const std::uint32_t slot : indices)
    state.updates.push_back(columns_.selected_updates[s][slot]);
  return state;
}

void OffloadEngine::give_to_device(std::size_t s, std::span<const std::uint32_t> indices,
                                   const ColumnState& state, bool write_weights) {
  const Slice& slice = layout_.slices[s];
  // All memory before the first operation: none is given back while the stream still uses it.
  const Transfer transfer(device_, indices, slice.rows);
  std::optional<WeightTransfer> weights;
  if (write_weights) weights.emplace(device_, columns_.slots(s), indices, state.weights, type_);
  float* host = transfer.state.on_host();
  host = std::copy(state.weights.begin(), state.weights.end(), host);
  host = std::copy(state.first_moment.begin(), state.first_moment.end(), host);
  std::copy(state.second_moment.begin(), state.second_moment.end(), host);
  const auto send = [&](const auto& array) {
    device_.copy(*compute_, array.on_device(), array.on_host(), array.host.bytes(),
                 CopyDirection::kHostToDevice, Traffic::kSelection, {"column exchange", step_});
  };
  send(transfer.slots);
  send(transfer.state);
  for (std::size_t i = 0; i < 3; ++i) {
    float* array = columns_.selected_state[i].as<float>() + columns_.selected_first[s];
    device_.scatter_columns(*compute_, ElementType::kFloat32,
                            transfer.state.on_device() + i * transfer.each,
                            transfer.slots.on_device(), indices.size(),
                            {array, slice.rows, slice.selected}, {"column exchange", step_});
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    columns_.selected_updates[s][indices[i]] = state.updates[i];
  }
  if (weights) {
    send(weights->columns);
    send(weights->values);
    device_.scatter_columns(*compute_, type_, weights->values.on_device(),
                            weights->columns.on_device(), indices.size(), columns_.weight_slice(s),
                            {"column exchange", step_});
  }
  compute_->record().wait();
}

void OffloadEngine::settle() {
  const bool unfinished = step_ > window_first_step_;
  if (unfinished) --step_;  // the last step done, as where windows end
  take_upload(nullptr);
  if (unfinished) {
    const DeferredUpdate update = window_update();
    send_sums(update);
    submit_update(update, {});
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
