/// One step: forward, backward, what leaves the device, and what is updated at once.
#include <cmath>

#include <fmt/format.h>

#include "runtime/offload/engine.h"
#include "sim/base/error.h"

namespace zenflow::runtime {

bool OffloadEngine::selecting_first() const {
  return !selected_done_ && step_ >= settings_.full_warm_up_rounds;
}

bool OffloadEngine::last_of_window() const {
  return step_ + 1 == window_first_step_ + window_steps_;
}

StepResult OffloadEngine::step() {
  try {
    return run_step();
  } catch (...) {
    // A lane that has failed makes streams fail that wait for it: the lane knows why.
    check_lanes();
    throw;
  }
}

void OffloadEngine::check_lanes() const {
  sum_lane_.check();
  update_lane_.check();
}

StepResult OffloadEngine::run_step() {
  check_lanes();
  step_start_ = Clock::now();
  ++window_timed_steps_;
  StepResult result{.step = step_, .window_steps = window_steps_};
  if (warm_up_ && step_ >= settings_.full_warm_up_rounds) {
    // Buffers change their layout: nothing may be on its way.
    wait_for_lane(update_lane_, update_lane_.last(), &result);
    wait_for_uploads(true);
    deferred_.end_warm_up();
    warm_up_ = false;
  }
  const bool first_selection = selecting_first();
  const bool measure_norms =
      settings_.record_importance || (last_of_window() && (selection_due() || ratio_changes()));
  run_passes(first_selection, measure_norms, result);
  if (first_selection || measure_norms) norms_step_ = step_;
  if (first_selection) {
    selected_done_ = true;
    deferred_.release_if_empty();
  }
  check_gradients();
  result.loss = model_.loss();
  result.gradient_norm = gradient_norm_;
  sum_deferred();
  if (selected_done_) update_selected();
  if (last_of_window()) {
    end_window(result);
  } else {
    window_seconds_ += std::chrono::duration<double>(Clock::now() - step_start_).count();
  }
  ++step_;
  return result;
}

void OffloadEngine::run_passes(bool first_selection, bool measure_norms, StepResult& result) {
  const std::int64_t micro_batches = settings_.gradient_accumulation_steps;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    model_.begin_micro_batch(static_cast<std::size_t>(i));
    forward(result);
    if (i + 1 < micro_batches) {
      backward();
    } else {
      last_backward(first_selection, measure_norms);
    }
  }
}

void OffloadEngine::forward(StepResult& result) {
  for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
    if (uploads_ && !overlaps()) {
      // Without a second set of weights a layer waits for its own upload, not for all.
      if (!uploads_->issued[group].complete()) {
        const Clock::time_point start = Clock::now();
        uploads_->issued[group].wait();
        note_wait(start, &result);
      } else {
        uploads_->issued[group].wait();  // rethrows
      }
      compute_->wait(uploads_->done[group], WaitCause::kH2D);
    }
    model_.forward(group, columns_.weights(), *compute_);
  }
  if (!overlaps()) uploads_.reset();
}

void OffloadEngine::backward() {
  for (std::size_t group = layout_.groups.size(); group-- > 0;) {
    model_.backward(group, columns_.weights(), columns_.gradients(), *compute_);
  }
}

void OffloadEngine::last_backward(bool first_selection, bool measure_norms) {
  for (std::size_t group = layout_.groups.size(); group-- > 0;) {
    model_.backward(group, columns_.weights(), columns_.gradients(), *compute_);
    gradients_ready(group, first_selection, measure_norms);
  }
}

void OffloadEngine::gradients_ready(std::size_t group, bool first, bool measure_norms) {
  const GroupRange& range = layout_.groups[group];
  for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
    const Slice& slice = layout_.slices[s];
    const DeviceMatrix gradient = columns_.gradient_slice(s);
    device_.square_sum(*compute_, type_, gradient.values, slice.elements(),
                       columns_.square_sums.on_device() + 2 * s, {Operation::kGradientNorm, step_});
    const bool selects = slice.selectable && (first || measure_norms);
    if (selects || (settings_.record_importance && slice.columns > 1)) {
      float* norms = columns_.norms.on_device() + columns_.column_first[s];
      device_.column_norms(*compute_, type_, gradient, settings_.norm, norms,
                           {Operation::kColumnNorms, step_});
      device_.copy(*compute_, columns_.norms.on_host() + columns_.column_first[s], norms,
                   slice.columns * sizeof(float), CopyDirection::kDeviceToHost, Traffic::kSelection,
                   {Operation::kColumnNorms, step_});
    }
  }
  if (first) {
    compute_->record().wait();
    for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
      first_selection(s);
    }
  }
  if (selected_done_ || first) gather_selected(group);
  pack_and_send(group);
}

void OffloadEngine::gather_selected(std::size_t group) {
  const GroupRange& range = layout_.groups[group];
  for (std::size_t s = range.first_slice; s < range.first_slice + range.slices; ++s) {
    const Slice& slice = layout_.slices[s];
    if (slice.selected == 0) continue;
    const std::uint32_t* column = slice.selected == slice.columns
                                      ? nullptr
                                      : columns_.columns.on_device() + columns_.column_first[s];
    device_.gather_columns(*compute_, type_, columns_.gradient_slice(s), column, slice.selected,
                           columns_.selected_gradient(s), {Operation::kGatherSelected, step_});
    device_.square_sum(*compute_, type_, columns_.selected_gradient(s), slice.rows * slice.selected,
                       columns_.square_sums.on_device() + 2 * s + 1,
                       {Operation::kGradientNorm, step_});
  }
}

void OffloadEngine::pack_and_send(std::size_t group) {
  arrived_[group] = {};
  const std::size_t count = deferred_.group_elements(group);
  if (count == 0) return;
  const std::size_t element = bytes_per_element(type_);
  const bool whole = whole_step();
  const std::size_t place = whole ? group : packed_turn_;
  std::byte* packed = columns_.packed[whole ? 0 : packed_turn_].data() +
                      (whole ? deferred_.group_offset(group) * element : 0);
  compute_->wait(packed_free_[place], WaitCause::kD2H);
  packed_turn_ = 1 - packed_turn_;
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
    device_.gather_columns(*compute_, type_, columns_.gradient_slice(s), column, width,
                           packed + at * element, {Operation::kGatherDeferred, step_});
  }
  if (settings_.sums_on_device() && !reads_staging()) return;
  d2h_->wait(compute_->record(), WaitCause::kCompute);
  d2h_->wait(staging_free_[group], WaitCause::kCpuUpdate);
  device_.copy(*d2h_, deferred_.staging(group), packed, count * element,
               CopyDirection::kDeviceToHost, Traffic::kGradients,
               {Operation::kGradientsDown, step_});
  packed_free_[place] = arrived_[group] = d2h_->record();
}

void OffloadEngine::check_gradients() {
  Mirrored<double>& sums = columns_.square_sums;
  const std::size_t slices = layout_.slices.size();
  device_.copy(*compute_, sums.on_host(), sums.on_device(), 2 * slices * sizeof(double),
               CopyDirection::kDeviceToHost, Traffic::kControl, {Operation::kGradientNorms, step_});
  compute_->record().wait();

  double total = 0;
  std::size_t bad = slices;
  for (std::size_t s = 0; s < slices; ++s) {
    const double sum = sums.on_host()[2 * s];
    if (!std::isfinite(sum)) bad = s;  // the last: backward came to it first
    total += sum;
    importance_[s].square_sum = sum;
    importance_[s].selected_square_sum =
        selected_done_ && layout_.slices[s].selected > 0 ? sums.on_host()[2 * s + 1] : 0;
    window_importance_[s].square_sum += sum;
    window_importance_[s].selected_square_sum += importance_[s].selected_square_sum;
  }
  // Every rank must see the same total, and so the same failure and the same clipping.
  communicator_.sum(std::span(&total, 1));
  if (!std::isfinite(total)) {
    throw Error(
        ErrorKind::kRuntime,
        bad == slices
            ? fmt::format("step {}: a gradient of another rank is not finite", step_)
            : fmt::format("step {}: the gradient of {} is not finite (the first one that "
                          "backward reached); loss {}; no weight has been changed by "
                          "this step",
                          step_, columns_.table.parameters[layout_.slices[bad].parameter].name,
                          model_.loss()));
  }
  gradient_norm_ = std::sqrt(total);
  const double limit = settings_.gradient_clipping;
  scale_ = limit > 0 && gradient_norm_ > limit ? static_cast<float>(limit / gradient_norm_) : 1.0F;
}

void OffloadEngine::sum_deferred() {
  if (reads_staging()) return;
  const bool first = step_ == window_first_step_;
  if (settings_.sums_on_device()) {
    if (first) compute_->wait(sums_read_, WaitCause::kD2H);
    device_.accumulate(*compute_, type_, columns_.packed[0].data(), scale_,
                       layout_.deferred_elements(), first, columns_.sums.as<float>(),
                       {Operation::kGpuAccumulate, step_});
    return;
  }
  std::vector<std::shared_ptr<Signal>> read(layout_.groups.size());
  for (std::size_t g = 0; g < read.size(); ++g) {
    read[g] = device_.make_signal();
    staging_free_[g] = read[g]->event();
  }
  sum_lane_.submit([this, first, read = std::move(read), arrived = arrived_, parity = parity_,
                    scale = scale_, step = step_] {
    for (std::size_t g = layout_.groups.size(); g-- > 0;) {
      arrived[g].wait();
      const Clock::time_point start = Clock::now();
      deferred_.accumulate(g, parity, first, scale, sum_pool_);
      sum_track_.span(Operation::kAccumulate, step, start, Clock::now());
      read[g]->set();
    }
  });
}

void OffloadEngine::update_selected() {
  std::size_t slots = 0;
  float* sizes = columns_.step_sizes.on_host();
  float* seconds = columns_.second_corrections.on_host();
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    kernels::BiasCorrection correction{};
    std::uint32_t known = 0;
    for (std::uint32_t& updates : columns_.selected_updates[s]) {
      ++updates;
      if (updates != known) correction = kernels::bias_correction(settings_.adamw, updates);
      known = updates;
      sizes[slots] = correction.step_size;
      seconds[slots++] = correction.inverse_sqrt_correction2;
    }
  }
  if (slots == 0) return;
  for (const Mirrored<float>* array : {&columns_.step_sizes, &columns_.second_corrections}) {
    device_.copy(*compute_, array->on_device(), array->on_host(), slots * sizeof(float),
                 CopyDirection::kHostToDevice, Traffic::kControl,
                 {Operation::kBiasCorrections, step_});
  }
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    if (slice.selected == 0) continue;
    SelectedColumns selected = columns_.selected(s);
    if (slice.selected == slice.columns) selected.column = nullptr;
    device_.update_columns(*compute_, type_, settings_.adamw,
                           {columns_.step_sizes.on_device() + columns_.slot_first[s],
                            columns_.second_corrections.on_device() + columns_.slot_first[s]},
                           scale_, columns_.selected_gradient(s), selected,
                           columns_.weight_slice(s), {Operation::kUpdateSelected, step_});
  }
}

}  // namespace zenflow::runtime
