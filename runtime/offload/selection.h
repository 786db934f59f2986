/// Which columns of a matrix are selected, and which change place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/device.h"

namespace zenflow::runtime {

/// Selected and deferred columns live in slots; a column that enters the selection takes the slot
/// of one that leaves, so nothing else moves.
struct ColumnSlots {
  std::vector<std::uint32_t> selected;  ///< slot -> column
  std::vector<std::uint32_t> deferred;
};

/// All of a matrix's columns by the `count` largest norms; both lists ascending.
[[nodiscard]] ColumnSlots first_selection(std::span<const float> norms, std::size_t count);

/// Slots, ascending.
struct ColumnMoves {
  std::vector<std::uint32_t> leaving;   ///< selected slots
  std::vector<std::uint32_t> entering;  ///< deferred slots
};

/// What makes the `count` largest norms the selected ones. Ties keep who is selected, then the
/// lower index. Precondition: count <= norms.size().
[[nodiscard]] ColumnMoves plan_moves(std::span<const float> norms, const ColumnSlots& slots,
                                     std::size_t count);
/// What makes the columns that are `wanted` the selected ones.
[[nodiscard]] ColumnMoves moves_to(const std::vector<bool>& wanted, const ColumnSlots& slots);
/// Carries them out on the lists: those who stay close ranks, those who come are last.
void apply_moves(const ColumnMoves& moves, ColumnSlots& slots);
/// Slots [0, count) without `gone` (ascending).
[[nodiscard]] std::vector<std::uint32_t> slots_left(std::size_t count,
                                                    std::span<const std::uint32_t> gone);

/// `selected[selected_slot]` leaves for `deferred[deferred_slot]`, which enters.
struct ColumnExchange {
  std::vector<std::uint32_t> selected_slot;
  std::vector<std::uint32_t> deferred_slot;
};

/// The exchanges that make the `slots.selected.size()` largest norms the selected ones; leaving and
/// entering columns are paired in ascending order. Ties as above.
[[nodiscard]] ColumnExchange plan_exchange(std::span<const float> norms, const ColumnSlots& slots);
/// Carries it out on the lists.
void apply_exchange(const ColumnExchange& exchange, ColumnSlots& slots);

}  // namespace zenflow::runtime
