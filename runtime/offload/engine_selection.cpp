/// Which columns are selected: at first, and when they change place between two windows.
#include <algorithm>
#include <utility>

#include "runtime/offload/engine.h"

namespace zenflow::runtime {
namespace {

std::vector<std::uint32_t> counting(std::size_t count) {
  std::vector<std::uint32_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<std::uint32_t>(i);
  return numbers;
}

}  // namespace

bool OffloadEngine::selection_due() const {
  return selected_done_ && settings_.select_interval > 0 &&
         step_ + 1 - last_selection_ >= settings_.select_interval;
}

void OffloadEngine::first_selection(std::size_t s) {
  const Slice& slice = layout_.slices[s];
  ColumnSlots& slots = columns_.slots(s);
  if (slice.selectable) {
    const std::span<float> norms(columns_.norms.on_host() + columns_.column_first[s],
                                 slice.columns);
    sum_column_norms(communicator_, settings_.norm, norms);
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
  carrier_.give(*compute_, s, counting(slice.selected), state, false, step_);
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
    sum_column_norms(communicator_, settings_.norm, norms);
    ColumnSlots& slots = columns_.slots(s);
    const ColumnExchange exchange = plan_exchange(norms, slots);
    if (exchange.selected_slot.empty()) continue;
    ColumnState leaving = carrier_.take(*compute_, s, exchange.selected_slot, step_);
    const ColumnState entering = deferred_.take(s, exchange.deferred_slot, flush);
    apply_exchange(exchange, slots);
    send_columns(s);
    carrier_.give(*compute_, s, exchange.selected_slot, entering, flush != nullptr, step_);
    result.columns_exchanged += exchange.selected_slot.size();
    installs.push_back({s, exchange.deferred_slot, std::move(leaving)});
  }
  last_selection_ = step_ + 1;
  result.selected_anew = true;
  return installs;
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

}  // namespace zenflow::runtime
