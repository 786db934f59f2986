#include "sim/offload/offload_rule.h"

namespace zenflow::sim {

WindowBytes window_bytes(const OffloadSetup& setup, std::int64_t steps,
                         std::int64_t deferred_elements, std::int64_t bytes_per_element) {
  const std::int64_t once = deferred_elements * bytes_per_element;
  const bool sums_come_down = setup.window_sums(steps) == WindowSums::kDevice;
  return {sums_come_down ? deferred_elements * kSumBytes : steps * once, once};
}

LaneKind issuing_lane(Operation operation) {
  switch (operation) {
    case Operation::kGradientsDown:
    case Operation::kGradientSumsDown:
      return LaneKind::kD2H;
    case Operation::kEnqueue:
      return LaneKind::kTraining;
    case Operation::kAccumulate:
      return LaneKind::kCpuAccumulate;
    case Operation::kCpuUpdate:
      return LaneKind::kCpuUpdate;
    case Operation::kWeightsUp:
    case Operation::kPlaceWeights:
      return LaneKind::kH2D;
    default:
      return LaneKind::kCompute;
  }
}

OffloadRule::OffloadRule(const OffloadSetup& setup, std::vector<std::int64_t> deferred,
                         std::int64_t bytes_per_element, std::size_t buffers)
    : setup_(setup),
      deferred_(std::move(deferred)),
      width_(bytes_per_element),
      buffers_take_turns_(buffers > 0),
      sent_from_(buffers == 0 ? deferred_.size() : buffers),
      sums_(setup.window_sums(setup.update_interval)) {}

void OffloadRule::begin_window(bool warm_up, std::int64_t steps) {
  warm_up_ = warm_up;
  sums_ = warm_up ? WindowSums::kNone : setup_.window_sums(steps);
}

std::int64_t OffloadRule::deferred(std::int32_t group) const {
  return (warm_up_ ? all_ : deferred_)[static_cast<std::size_t>(group)];
}

void OffloadRule::begin_list() {
  operations_.clear();
  awaited_.clear();
  first_awaited_.clear();
}

OffloadOperation& OffloadRule::add(Operation kind, std::int32_t group) {
  first_awaited_.push_back(awaited_.size());
  OffloadOperation& added = operations_.emplace_back();
  added.kind = kind;
  added.group = group;
  if (issuing_lane(kind) == LaneKind::kCompute) last_compute_ = added;
  return added;
}

void OffloadRule::wait_for(IssuedOperation issued) {
  if (issued.kind != Operation::kUnknown) awaited_.push_back(issued);
}

std::span<const OffloadOperation> OffloadRule::finish_list() {
  const std::span<const IssuedOperation> awaited = awaited_;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const std::size_t end = i + 1 < operations_.size() ? first_awaited_[i + 1] : awaited.size();
    operations_[i].after = awaited.subspan(first_awaited_[i], end - first_awaited_[i]);
  }
  return operations_;
}

std::span<const OffloadOperation> OffloadRule::step(bool first_of_window, bool ranks_columns) {
  begin_list();
  const std::int64_t micro_batches = setup_.gradient_accumulation_steps;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    for (std::int32_t g = 0; g < groups(); ++g) {
      // What this rank has uploaded is the others' weight, too.
      const bool gathers = several_ranks_ && i == 0;
      add(gathers ? Operation::kAllGather : Operation::kForward, g);
      if (forward_waits_) wait_for(uploads_[static_cast<std::size_t>(g)]);
      if (gathers) add(Operation::kForward, g);
    }
    forward_waits_ = false;
    for (std::int32_t g = groups(); g-- > 0;) {
      add(Operation::kBackward, g);
      if (several_ranks_ && setup_.exchanges_gradients(i)) add(Operation::kReduceScatter, g);
      if (i + 1 == micro_batches) gradients_leave(g, ranks_columns);
    }
  }
  add(Operation::kGradientNorms);
  add(Operation::kEnqueue);
  wait_for({Operation::kGradientNorms});
  sum(first_of_window);
  if (!warm_up_ && setup_.updates_on_device()) {
    add(Operation::kUpdateSelected);
  }
  return finish_list();
}

void OffloadRule::gradients_leave(std::int32_t group, bool ranks_columns) {
  add(Operation::kGradientNorm, group);
  if (ranks_columns) add(Operation::kColumnNorms, group);
  if (!warm_up_ && setup_.updates_on_device()) {
    add(Operation::kGatherSelected, group);
  }
  const std::size_t buffer = buffers_take_turns_ ? next_buffer_ : static_cast<std::size_t>(group);
  add(Operation::kPackGradients, group).buffer = static_cast<std::int32_t>(buffer);
  if (deferred(group) == 0) return;
  wait_for(std::exchange(sent_from_[buffer], {}));
  next_buffer_ = (buffer + 1) % sent_from_.size();
  if (sums_ == WindowSums::kDevice) return;
  OffloadOperation& down = add(Operation::kGradientsDown, group);
  down.bytes = width_ * deferred(group);
  down.buffer = static_cast<std::int32_t>(buffer);
  sent_from_[buffer] = down;
  wait_for({Operation::kPackGradients, group});
  wait_for({staging_reader_, group});
}

/// On the device a window's first sums overwrite those of the window before, which must have gone
/// down.
void OffloadRule::sum(bool first_of_window) {
  if (sums_ == WindowSums::kNone) return;
  if (sums_ == WindowSums::kDevice) {
    add(Operation::kGpuAccumulate);
    if (first_of_window) wait_for(last_sums_down_);
    return;
  }
  for (std::int32_t g = groups(); g-- > 0;) {  // as they come down
    if (deferred(g) == 0) continue;
    add(Operation::kAccumulate, g);
    wait_for({Operation::kGradientsDown, g});
    wait_for({Operation::kGradientNorms});
  }
  staging_reader_ = Operation::kAccumulate;
}

std::span<const OffloadOperation> OffloadRule::send_sums() {
  begin_list();
  if (sums_ != WindowSums::kDevice) return {};
  for (std::int32_t g = 0; g < groups(); ++g) {  // as they are updated
    if (deferred(g) == 0) continue;
    OffloadOperation& down = add(Operation::kGradientSumsDown, g);
    down.bytes = kSumBytes * deferred(g);
    last_sums_down_ = down;
    wait_for(last_compute_);
  }
  return finish_list();
}

std::span<const OffloadOperation> OffloadRule::take_update() {
  begin_list();
  if (!std::exchange(update_under_way_, false)) return {};
  add(Operation::kCarrySelected);
  for (std::size_t g = uploads_.size(); g-- > 0;) wait_for(uploads_[g]);
  return finish_list();
}

/// The embedding first: the next forward needs it first.
std::span<const OffloadOperation> OffloadRule::update() {
  begin_list();
  const IssuedOperation may_write = last_compute_;  // reads the weights that uploads replace
  const Operation ready = sums_ == WindowSums::kNone   ? Operation::kGradientsDown
                          : sums_ == WindowSums::kHost ? Operation::kAccumulate
                                                       : Operation::kGradientSumsDown;
  uploads_.assign(deferred_.size(), {});
  for (std::int32_t g = 0; g < groups(); ++g) {
    if (deferred(g) == 0) continue;
    add(Operation::kCpuUpdate, g);
    wait_for({ready, g});
    wait_for({Operation::kGradientNorms});
    add(Operation::kWeightsUp, g).bytes = width_ * deferred(g);
    wait_for({Operation::kCpuUpdate, g});
    wait_for(may_write);
    uploads_[static_cast<std::size_t>(g)] = add(Operation::kPlaceWeights, g);
  }
  if (sums_ == WindowSums::kNone) staging_reader_ = Operation::kCpuUpdate;
  update_under_way_ = overlaps();
  forward_waits_ = !overlaps();
  return finish_list();
}

}  // namespace zenflow::sim
