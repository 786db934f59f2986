/// Which columns are selected: at first, and when they change place between two windows.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/offload/engine.h"
#include "sim/offload/column_split.h"

namespace zenflow::runtime {
namespace {

/// The last `n` of `count` slots, in order.
std::vector<std::uint32_t> last_slots(std::size_t count, std::size_t n) {
  std::vector<std::uint32_t> slots(n);
  std::iota(slots.begin(), slots.end(), static_cast<std::uint32_t>(count - n));
  return slots;
}

std::vector<std::uint32_t> counting(std::size_t count) {
  return last_slots(count, count);
}

}  // namespace

/// The first one is in the middle of a step, as gradients leave group by group. So one from all
/// matrices follows at the end of the first window.
bool OffloadEngine::selection_due() const {
  if (!selection_.done) return false;
  const bool from_all = settings_.topk_is_global && !ranked_.empty() && !selection_.from_all;
  return from_all || sim::selection_due(step_ + 1, selection_.last_step, settings_.select_interval);
}

void OffloadEngine::first_selection(std::size_t s) {
  const Slice& slice = layout_.slices[s];
  ColumnSlots& slots = columns_.slots(s);
  if (slice.selectable) {
    slots = zenflow::runtime::first_selection(column_norms(s), slice.selected);
  } else if (slice.selected > 0) {
    slots.selected = counting(slice.columns);
  } else {
    slots.deferred = counting(slice.columns);
  }
  selection_.last_step = step_;
  if (slice.selected == 0) return;
  const ColumnState state = deferred_.narrow(s, slots.selected, update_pool_);
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
               Traffic::kSelection, {Operation::kColumnIndices, step_});
}

// State of one matrix at a time is on its way: of all of them it could be as much as the selected
// columns have.
void OffloadEngine::exchange_columns(const DeferredUpdate* flush, StepResult& result) {
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    if (!slice.selectable) continue;
    ColumnSlots& slots = columns_.slots(s);
    const ColumnExchange exchange = plan_exchange(column_norms(s), slots);
    if (exchange.selected_slot.empty()) continue;
    const ColumnState leaving = carrier_.take(*compute_, s, exchange.selected_slot, step_);
    const ColumnState entering = deferred_.take(s, exchange.deferred_slot, flush, update_pool_);
    apply_exchange(exchange, slots);
    send_columns(s);
    carrier_.give(*compute_, s, exchange.selected_slot, entering, flush != nullptr, step_);
    result.columns_exchanged += exchange.selected_slot.size();
    deferred_.put(s, exchange.deferred_slot, leaving, flush != nullptr, update_pool_);
  }
}

void OffloadEngine::change_selected(const DeferredUpdate* flush, StepResult& result) {
  std::vector<WidthChange> widths(layout_.slices.size());
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    Slice& slice = layout_.slices[s];
    if (!slice.selectable) continue;
    const std::size_t before = slice.selected;
    const std::size_t count = selected_columns(selection_.next_topk_ratio, slice.columns);
    ColumnSlots& slots = columns_.slots(s);
    const ColumnMoves moves = plan_moves(column_norms(s), slots, count);
    if (moves.leaving.empty() && moves.entering.empty()) continue;
    ColumnState leaving;
    ColumnState entering;
    if (!moves.leaving.empty()) leaving = carrier_.take(*compute_, s, moves.leaving, step_);
    if (!moves.entering.empty()) entering = deferred_.take(s, moves.entering, flush, update_pool_);
    apply_moves(moves, slots);
    slice.selected = count;
    carrier_.keep(*compute_, s, slots_left(before, moves.leaving), before, step_);
    send_columns(s);
    if (!moves.entering.empty()) {
      carrier_.give(*compute_, s, last_slots(count, moves.entering.size()), entering,
                    flush != nullptr, step_);
    }
    result.columns_exchanged += moves.entering.size();
    widths[s] = {.gone = moves.entering, .added = moves.leaving.size()};
    deferred_.change_width(s, widths[s], update_pool_);
    if (!moves.leaving.empty()) {
      deferred_.put(s, last_slots(slice.deferred(), moves.leaving.size()), leaving,
                    flush != nullptr, update_pool_);
    }
  }
  settings_.topk_ratio = selection_.next_topk_ratio;
  deferred_.repack(widths, flush ? std::optional<int>(flush->parity) : std::nullopt);
  columns_.place_slots();
  rule_.set_deferred(elements_by_group(true));
}

std::vector<float> OffloadEngine::norms_of_all() {
  std::vector<float> norms(columns_of(ranked_), 0.0F);
  auto slice = layout_.slices.begin();
  for (const RankedMatrix& matrix : ranked_) {
    if (owners_[matrix.parameter] != communicator_.rank()) continue;
    while (slice->parameter != matrix.parameter) ++slice;
    const auto s = static_cast<std::size_t>(slice - layout_.slices.begin());
    float* const own = norms.data() + matrix.first;
    std::copy_n(column_norms(s).begin(), matrix.columns, own);
    for (const std::uint32_t column : columns_.slots(s).selected) own[column] = -own[column];
  }
  const Clock::time_point start = Clock::now();
  exchange_norms(communicator_, ranked_, owners_, type_, norms);
  const auto others = static_cast<std::size_t>(communicator_.size() - 1);
  if (others > 0) waits_.wait(WaitCause::kCollective, step_, start, Clock::now());
  gradient_bytes_ranked_ += bytes_per_element(type_) * elements_of(ranked_) * others;
  return norms;
}

std::vector<ColumnMoves> OffloadEngine::moves_of_all() {
  const std::vector<bool> selected = select_from_all(ranked_, norms_of_all(), settings_.norm);
  std::vector<ColumnMoves> moves(layout_.slices.size());
  auto matrix = ranked_.begin();
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    if (!layout_.slices[s].selectable) continue;
    while (matrix->parameter != layout_.slices[s].parameter) ++matrix;
    const auto first = selected.begin() + static_cast<std::ptrdiff_t>(matrix->first);
    moves[s] =
        moves_to({first, first + static_cast<std::ptrdiff_t>(matrix->columns)}, columns_.slots(s));
  }
  return moves;
}

std::size_t OffloadEngine::take_leaving(std::size_t s, const ColumnMoves& moves, std::size_t at) {
  const std::size_t before = layout_.slices[s].selected;
  if (!moves.leaving.empty()) {
    const ColumnState state = carrier_.take(*compute_, s, moves.leaving, step_);
    deferred_.change_width(s, {.added = state.columns}, update_pool_);
    deferred_.put(s, last_slots(deferred_.width(s), state.columns), state, false, update_pool_);
  }
  const ColumnCarrier::Place from{columns_.selected_first[s], before};
  const ColumnCarrier::Place to{at, before - moves.leaving.size()};
  if (from != to) {
    carrier_.move(*compute_, s, slots_left(before, moves.leaving), from, to, step_);
  }
  return to.width;
}

void OffloadEngine::give_entering(std::size_t s, const ColumnMoves& moves,
                                  const ColumnCarrier::Place& close, bool flushed) {
  const Slice& slice = layout_.slices[s];
  const ColumnCarrier::Place to{columns_.selected_first[s], slice.selected};
  if (close != to) carrier_.move(*compute_, s, counting(close.width), close, to, step_);
  if (moves.leaving.empty() && moves.entering.empty()) return;
  send_columns(s);
  if (!moves.entering.empty()) {
    const ColumnState state = deferred_.take(s, moves.entering, nullptr, update_pool_);
    deferred_.change_width(s, {.gone = moves.entering}, update_pool_);
    carrier_.give(*compute_, s, last_slots(slice.selected, state.columns), state, flushed, step_);
  }
  if (flushed) deferred_.rest_once(s, last_slots(slice.deferred(), moves.leaving.size()));
}

// Widths of all matrices change, so that what is selected changes place on the device. State that
// leaves goes to the host first, matrix by matrix, where every column has room; then what stays
// closes ranks; then it makes room for what enters, from the last matrix on.
void OffloadEngine::select_from_all_matrices(const DeferredUpdate* flush, StepResult& result) {
  const std::vector<ColumnMoves> moves = moves_of_all();
  std::vector<WidthChange> widths(layout_.slices.size());
  std::vector<ColumnCarrier::Place> close;
  std::size_t at = 0;
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const std::vector<std::uint32_t>& entering = moves[s].entering;
    if (flush != nullptr && !entering.empty()) {  // sums that belong to them
      deferred_.put(s, entering, deferred_.take(s, entering, flush, update_pool_), false,
                    update_pool_);
    }
    close.push_back({at, take_leaving(s, moves[s], at)});
    at += layout_.slices[s].rows * close.back().width;
  }
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    apply_moves(moves[s], columns_.slots(s));
    layout_.slices[s].selected = close[s].width + moves[s].entering.size();
    widths[s] = {.gone = moves[s].entering, .added = moves[s].leaving.size()};
    result.columns_exchanged += moves[s].entering.size();
  }
  columns_.place_slots();
  for (std::size_t s = layout_.slices.size(); s-- > 0;) {
    give_entering(s, moves[s], close[s], flush != nullptr);
  }
  deferred_.repack(widths, flush ? std::optional<int>(flush->parity) : std::nullopt);
  rule_.set_deferred(elements_by_group(true));
  selection_.from_all = true;
}

void OffloadEngine::select_anew(const DeferredUpdate* flush, StepResult& result) {
  compute_->record().wait();  // the norms are here
  const Clock::time_point start = Clock::now();
  if (!ranked_.empty()) {
    select_from_all_matrices(flush, result);
  } else if (ratio_changes()) {
    change_selected(flush, result);
  } else {
    exchange_columns(flush, result);
  }
  selection_.last_step = step_ + 1;
  result.selected_anew = true;
  window_.selection_seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

void OffloadEngine::refresh_selected() {
  for (std::size_t s = 0; s < layout_.slices.size(); ++s) {
    const Slice& slice = layout_.slices[s];
    if (slice.selected == 0 || !selection_.done) continue;
    const std::uint32_t* column = columns_.selected(s).column;
    if (slice.selected == slice.columns) column = nullptr;
    // This step's selected gradients have been used: their space holds the weights in passing.
    std::byte* passing = columns_.selected_gradient(s);
    device_.gather_columns(*compute_, type_, columns_.weight_slice(s), column, slice.selected,
                           passing, {Operation::kCarrySelected, step_});
    device_.scatter_columns(*compute_, type_, passing, column, slice.selected,
                            columns_.second_weight_slice(s), {Operation::kCarrySelected, step_});
  }
}

}  // namespace zenflow::runtime
