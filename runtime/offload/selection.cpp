#include "runtime/offload/selection.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/top_k/top_k.h"

namespace zenflow::runtime {

ColumnSlots first_selection(std::span<const float> norms, std::size_t count) {
  ColumnSlots slots;
  slots.selected = kernels::top_k(norms.data(), norms.size(), count);
  slots.deferred = slots_left(norms.size(), slots.selected);
  return slots;
}

ColumnMoves plan_moves(std::span<const float> norms, const ColumnSlots& slots, std::size_t count) {
  std::vector<bool> is_selected(norms.size(), false);
  for (const std::uint32_t column : slots.selected) is_selected[column] = true;
  std::vector<std::uint32_t> order(norms.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto ahead = [&](std::uint32_t a, std::uint32_t b) {
    if (norms[a] != norms[b]) return norms[a] > norms[b];
    if (is_selected[a] != is_selected[b]) return static_cast<bool>(is_selected[a]);
    return a < b;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                   ahead);
  std::vector<bool> wanted(norms.size(), false);
  for (std::size_t i = 0; i < count; ++i) wanted[order[i]] = true;
  return moves_to(wanted, slots);
}

ColumnMoves moves_to(const std::vector<bool>& wanted, const ColumnSlots& slots) {
  ColumnMoves moves;
  for (std::uint32_t slot = 0; slot < slots.selected.size(); ++slot) {
    if (!wanted[slots.selected[slot]]) moves.leaving.push_back(slot);
  }
  for (std::uint32_t slot = 0; slot < slots.deferred.size(); ++slot) {
    if (wanted[slots.deferred[slot]]) moves.entering.push_back(slot);
  }
  return moves;
}

std::vector<std::uint32_t> slots_left(std::size_t count, std::span<const std::uint32_t> gone) {
  std::vector<std::uint32_t> left;
  auto next = gone.begin();
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    if (next != gone.end() && *next == slot) {
      ++next;
    } else {
      left.push_back(slot);
    }
  }
  return left;
}

void apply_moves(const ColumnMoves& moves, ColumnSlots& slots) {
  const ColumnSlots before = std::exchange(slots, {});
  const auto fill = [](std::vector<std::uint32_t>& list, const std::vector<std::uint32_t>& own,
                       std::span<const std::uint32_t> gone, const std::vector<std::uint32_t>& other,
                       std::span<const std::uint32_t> come) {
    for (const std::uint32_t slot : slots_left(own.size(), gone)) list.push_back(own[slot]);
    for (const std::uint32_t slot : come) list.push_back(other[slot]);
  };
  fill(slots.selected, before.selected, moves.leaving, before.deferred, moves.entering);
  fill(slots.deferred, before.deferred, moves.entering, before.selected, moves.leaving);
}

ColumnExchange plan_exchange(std::span<const float> norms, const ColumnSlots& slots) {
  ColumnMoves moves = plan_moves(norms, slots, slots.selected.size());
  const auto by_column = [](const std::vector<std::uint32_t>& column) {
    return [&column](std::uint32_t a, std::uint32_t b) { return column[a] < column[b]; };
  };
  std::sort(moves.leaving.begin(), moves.leaving.end(), by_column(slots.selected));
  std::sort(moves.entering.begin(), moves.entering.end(), by_column(slots.deferred));
  return {std::move(moves.leaving), std::move(moves.entering)};
}

void apply_exchange(const ColumnExchange& exchange, ColumnSlots& slots) {
  for (std::size_t i = 0; i < exchange.selected_slot.size(); ++i) {
    std::swap(slots.selected[exchange.selected_slot[i]], slots.deferred[exchange.deferred_slot[i]]);
  }
}

}  // namespace zenflow::runtime
