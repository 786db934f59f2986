/// One step: the rule's operations, enqueued on streams and handed to the CPU's lanes.
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "runtime/offload/engine.h"
#include "sim/base/error.h"
#include "sim/base/text.h"

namespace zenflow::runtime {
namespace {

using sim::IssuedOperation;
using sim::OffloadOperation;

WaitCause cause_of(LaneKind lane) {
  switch (lane) {
    case LaneKind::kD2H:
      return WaitCause::kD2H;
    case LaneKind::kH2D:
      return WaitCause::kH2D;
    case LaneKind::kCompute:
      return WaitCause::kCompute;
    default:
      return WaitCause::kCpuUpdate;
  }
}

}  // namespace

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
  ++window_.timed_steps;
  StepResult result{.step = step_, .window_steps = window_.steps};
  if (warm_up_ && step_ >= settings_.full_warm_up_rounds) end_warm_up(result);
  const bool last_of_window = step_ + 1 == window_.first_step + window_.steps;
  const bool selects_first = !selection_.done && !warm_up_;
  Step step{.result = &result,
            .selects_first = selects_first,
            .ranks_columns = selects_first || settings_.record_importance ||
                             (last_of_window && (selection_due() || ratio_changes()))};
  execute(rule_.step(step_ == window_.first_step, step.ranks_columns), step);
  if (last_of_window) {
    end_window(step);
  } else {
    window_.seconds += std::chrono::duration<double>(Clock::now() - step_start_).count();
  }
  ++step_;
  return result;
}

/// Buffers change their layout: nothing may be on its way.
void OffloadEngine::end_warm_up(StepResult& result) {
  wait_for_lane(update_lane_, update_lane_.last(), &result);
  wait_for_uploads(true);
  deferred_.end_warm_up();
  warm_up_ = false;
}

void OffloadEngine::execute(std::span<const OffloadOperation> operations, Step& step) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const OffloadOperation& operation = operations[i];
    switch (sim::issuing_lane(operation.kind)) {
      case LaneKind::kCompute:
        compute(operation, step);
        break;
      case LaneKind::kD2H:
        send(operation);
        break;
      case LaneKind::kTraining:
        check_gradients(step);
        break;
      default: {
        std::size_t end = i + 1;
        while (end < operations.size() && operations[end].kind == operation.kind) ++end;
        submit_sums(operations.subspan(i, end - i), step.scale);
        i = end - 1;
      }
    }
  }
}

Event& OffloadEngine::newest(const IssuedOperation& operation) {
  return newest_[static_cast<std::size_t>(operation.kind)][group_of(operation)];
}

void OffloadEngine::wait_on(Stream& stream, const OffloadOperation& operation) {
  for (const IssuedOperation& one : operation.after) {
    const LaneKind lane = sim::issuing_lane(one.kind);
    stream.wait(lane == LaneKind::kCompute ? compute_->record() : newest(one), cause_of(lane));
  }
}

void OffloadEngine::compute(const OffloadOperation& operation, Step& step) {
  const std::size_t group = group_of(operation);
  switch (operation.kind) {
    case Operation::kAllGather:
      if (!operation.after.empty()) wait_for_upload(group, step.result);
      gather_weights(group);
      break;
    case Operation::kReduceScatter:
      reduce_gradients(group);
      break;
    case Operation::kForward:
      if (group == 0) model_.begin_micro_batch(step.micro_batches++);
      // Without a second set of weights a group waits for its own upload, not for all.
      if (!operation.after.empty()) wait_for_upload(group, step.result);
      model_.forward(group, columns_.weights(), *compute_);
      if (group + 1 == layout_.groups.size() && !overlaps()) update_.uploads.reset();
      break;
    case Operation::kBackward:
      if (step.micro_batches > 1) clear_sent_gradients(group);
      model_.backward(group, columns_.weights(), columns_.gradients(), *compute_);
      break;
    case Operation::kGradientNorm:
      measure_gradients(group);
      break;
    case Operation::kColumnNorms:
      for_slices(group, [&](std::size_t s) { rank_columns(s); });
      if (!step.selects_first) break;
      compute_->record().wait();
      for_slices(group, [&](std::size_t s) { first_selection(s); });
      break;
    case Operation::kGatherSelected:
      gather_selected(group);
      break;
    case Operation::kPackGradients:
      wait_on(*compute_, operation);
      for_slices(group, [&](std::size_t s) {
        pack(s, packed(group, operation.buffer) + bytes_into_group(s, group));
      });
      break;
    case Operation::kGradientNorms:
      gradients_have_left(step);
      break;
    case Operation::kGpuAccumulate:
      wait_on(*compute_, operation);
      device_.accumulate(*compute_, type_, columns_.packed[0].data(), step.scale,
                         layout_.deferred_elements(), step_ == window_.first_step,
                         columns_.sums.as<float>(), {operation.kind, step_});
      break;
    case Operation::kUpdateSelected:
      update_selected(step.scale);
      break;
    case Operation::kCarrySelected:
      take_upload(step.result);
      break;
    default:
      throw Error(
          ErrorKind::kRuntime,
          fmt::format("step {}: the engine has no code for operation {} of the offload rule", step_,
                      static_cast<int>(operation.kind)));
  }
}

void OffloadEngine::clear_sent_gradients(std::size_t g) {
  if (communicator_.size() == 1 || settings_.zero_stage == 1) return;
  const auto clear = [&](std::size_t i) {
    if (owners_[i] == communicator_.rank()) return;
    const auto count = static_cast<std::size_t>(columns_.table.parameters[i].elements());
    device_.clear(*compute_, columns_.gradients()[i], count * bytes_per_element(type_),
                  {Operation::kBackward, step_});
  };
  const ParameterGroup& group = columns_.table.groups[g];
  for (std::size_t i = group.first; i < group.first + group.count; ++i) {
    if (!model_.shared(i)) clear(i);
  }
  if (g + 1 < columns_.table.groups.size()) return;
  for (std::size_t i = 0; i < owners_.size(); ++i) {
    if (model_.shared(i)) clear(i);
  }
}

void OffloadEngine::reduce_gradients(std::size_t g) {
  communicator_.reduce(device_, *compute_, {Operation::kReduceScatter, step_}, type_,
                       owned_tensors(g, [this](std::size_t i) { return columns_.gradients()[i]; }));
}

void OffloadEngine::gather_weights(std::size_t g) {
  communicator_.broadcast(
      device_, *compute_, {Operation::kAllGather, step_}, type_,
      owned_tensors(g, [this](std::size_t i) { return columns_.parameter(i); }));
}

void OffloadEngine::measure_gradients(std::size_t group) {
  std::vector<SquareSum> sums;
  for_slices(group, [&](std::size_t s) {
    sums.push_back({columns_.gradient_slice(s).values, layout_.slices[s].elements(),
                    columns_.square_sums.on_device() + 2 * s});
  });
  device_.square_sums(*compute_, type_, sums, {Operation::kGradientNorm, step_});
}

void OffloadEngine::rank_columns(std::size_t s) {
  const Slice& slice = layout_.slices[s];
  if (!slice.selectable && !(settings_.record_importance && slice.columns > 1)) return;
  const std::size_t first = columns_.column_first[s];
  float* norms = columns_.norms.on_device() + first;
  device_.column_norms(*compute_, type_, columns_.gradient_slice(s), settings_.norm, norms,
                       {Operation::kColumnNorms, step_});
  device_.copy(*compute_, columns_.norms.on_host() + first, norms, slice.columns * sizeof(float),
               CopyDirection::kDeviceToHost, Traffic::kSelection, {Operation::kColumnNorms, step_});
}

void OffloadEngine::gather_selected(std::size_t group) {
  std::vector<SquareSum> sums;
  for_slices(group, [&](std::size_t s) {
    const Slice& slice = layout_.slices[s];
    if (slice.selected == 0) return;
    const std::uint32_t* column = slice.selected == slice.columns
                                      ? nullptr
                                      : columns_.columns.on_device() + columns_.column_first[s];
    device_.gather_columns(*compute_, type_, columns_.gradient_slice(s), column, slice.selected,
                           columns_.selected_gradient(s), {Operation::kGatherSelected, step_});
    sums.push_back({columns_.selected_gradient(s), slice.rows * slice.selected,
                    columns_.square_sums.on_device() + 2 * s + 1});
  });
  if (sums.empty()) return;
  device_.square_sums(*compute_, type_, sums, {Operation::kGradientNorm, step_});
}

std::byte* OffloadEngine::packed(std::size_t group, std::int32_t buffer) const {
  if (!settings_.has_whole_step()) {
    return columns_.packed.at(static_cast<std::size_t>(buffer)).data();
  }
  return columns_.packed[0].data() + deferred_.group_offset(group) * bytes_per_element(type_);
}

const std::uint32_t* OffloadEngine::deferred_indices(std::size_t s) const {
  const Slice& slice = layout_.slices[s];
  if (deferred_.width(s) == slice.columns) return nullptr;  // all, in order
  return columns_.columns.on_device() + columns_.column_first[s] + slice.selected;
}

std::size_t OffloadEngine::bytes_into_group(std::size_t s, std::size_t group) const {
  return (deferred_.offset(s) - deferred_.group_offset(group)) * bytes_per_element(type_);
}

void OffloadEngine::send(const OffloadOperation& operation) {
  const std::size_t group = group_of(operation);
  const auto bytes = static_cast<std::size_t>(operation.bytes);
  wait_on(*d2h_, operation);
  if (operation.kind == Operation::kGradientSumsDown) {
    const std::size_t first = deferred_.group_offset(group);
    device_.copy(*d2h_, deferred_.sums(window_.parity) + first, columns_.sums.as<float>() + first,
                 bytes, CopyDirection::kDeviceToHost, Traffic::kGradients, {operation.kind, step_});
  } else {
    device_.copy(*d2h_, deferred_.staging(group), packed(group, operation.buffer), bytes,
                 CopyDirection::kDeviceToHost, Traffic::kGradients, {operation.kind, step_});
  }
  newest(operation) = d2h_->record();
}

void OffloadEngine::gradients_have_left(Step& step) {
  if (step.ranks_columns) selection_.norms_step = step_;
  if (step.selects_first) {
    selection_.done = true;
    deferred_.release_if_empty();
  }
  Mirrored<double>& sums = columns_.square_sums;
  device_.copy(*compute_, sums.on_host(), sums.on_device(),
               2 * layout_.slices.size() * sizeof(double), CopyDirection::kDeviceToHost,
               Traffic::kControl, {Operation::kGradientNorms, step_});
}

void OffloadEngine::check_gradients(Step& step) {
  compute_->record().wait();
  const double* sums = columns_.square_sums.on_host();
  const std::size_t slices = layout_.slices.size();
  // Every parameter's, and the loss: summed in the order of the parameters, whoever owns them.
  std::vector<double> all(columns_.table.parameters.size() + 1, 0.0);
  std::size_t bad = slices;
  for (std::size_t s = 0; s < slices; ++s) {
    const double sum = sums[2 * s];
    if (!std::isfinite(sum)) bad = s;  // the last: backward came to it first
    all[layout_.slices[s].parameter] = sum;
    importance_[s].square_sum = sum;
    importance_[s].selected_square_sum =
        selection_.done && layout_.slices[s].selected > 0 ? sums[2 * s + 1] : 0;
    window_.importance[s].square_sum += sum;
    window_.importance[s].selected_square_sum += importance_[s].selected_square_sum;
  }
  // Every rank must see the same total, and so the same failure and the same clipping.
  all.back() = model_.loss();
  const Clock::time_point start = Clock::now();
  communicator_.sum(all);
  if (communicator_.size() > 1) {
    waits_.wait(WaitCause::kCollective, step_, start, Clock::now());
  }
  const double loss = all.back();
  all.pop_back();
  const double total = std::accumulate(all.begin(), all.end(), 0.0);
  if (!std::isfinite(total)) {
    const std::int64_t number = step_ + 1;  // as users count
    throw Error(
        ErrorKind::kRuntime,
        bad == slices
            ? fmt::format("step {}: a gradient of another rank is not finite", number)
            : fmt::format("step {}: the gradient of {} is not finite (the first one that "
                          "backward reached); loss {}; no weight has been changed by "
                          "this step",
                          number, columns_.table.parameters[layout_.slices[bad].parameter].name,
                          number_text(loss)));
  }
  const double norm = std::sqrt(total);
  const double limit = settings_.gradient_clipping;
  step.scale = limit > 0 && norm > limit ? static_cast<float>(limit / norm) : 1.0F;
  step.result->loss = loss;
  step.result->gradient_norm = norm;
}

std::vector<OffloadEngine::LaneOperation> OffloadEngine::handed_over(
    std::span<const OffloadOperation> operations) {
  bool computed = false;  // lanes are in order: it is enough that the first one waits for compute
  std::vector<LaneOperation> result;
  for (const OffloadOperation& operation : operations) {
    LaneOperation& one = result.emplace_back(LaneOperation{operation, {}, device_.make_signal()});
    one.operation.after = {};
    for (const IssuedOperation& awaited : operation.after) {
      const LaneKind lane = sim::issuing_lane(awaited.kind);
      // The training thread has waited for the norm, and the lane itself for its updates.
      if (awaited.kind == Operation::kGradientNorms || lane == LaneKind::kCpuUpdate) continue;
      if (lane == LaneKind::kCompute && std::exchange(computed, true)) continue;
      one.after.push_back(lane == LaneKind::kCompute ? compute_->record() : newest(awaited));
    }
    newest(operation) = one.done->event();
  }
  return result;
}

void OffloadEngine::submit_sums(std::span<const OffloadOperation> operations, float scale) {
  sum_lane_.submit([this, sums = handed_over(operations), first = step_ == window_.first_step,
                    parity = window_.parity, scale, step = step_] {
    // Readers of recordings tell groups apart by the order of their spans, so a group without
    // deferred columns has one, too.
    auto one = sums.begin();
    for (std::size_t g = layout_.groups.size(); g-- > 0;) {
      const bool has_sums = one != sums.end() && group_of(one->operation) == g;
      if (has_sums) wait_for(one->after);
      const Clock::time_point start = Clock::now();
      deferred_.accumulate(g, parity, first, scale, sum_pool_);
      sum_track_.span(Operation::kAccumulate, step, start, Clock::now());
      if (has_sums) (one++)->done->set();
    }
  });
}

void OffloadEngine::pack(std::size_t s, std::byte* to) {
  const std::size_t width = deferred_.width(s);
  if (width == 0) return;
  device_.gather_columns(*compute_, type_, columns_.gradient_slice(s), deferred_indices(s), width,
                         to, {Operation::kGatherDeferred, step_});
}

void OffloadEngine::update_selected(float scale) {
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
    device_.update_columns(*compute_, type_, with_decay(settings_.adamw, slice.decays),
                           {columns_.step_sizes.on_device() + columns_.slot_first[s],
                            columns_.second_corrections.on_device() + columns_.slot_first[s]},
                           scale, columns_.selected_gradient(s), selected, columns_.weight_slice(s),
                           {Operation::kUpdateSelected, step_});
  }
}

}  // namespace zenflow::runtime
