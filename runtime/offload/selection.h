/// Which columns of a matrix are selected, and which change place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"

namespace zenflow::runtime {

/// Selected and deferred columns live in slots; a column that enters the selection takes the slot
/// of one that leaves, so nothing else moves.
struct ColumnSlots {
  std::vector<std::uint32_t> selected;  ///< slot -> column
  std::vector<std::uint32_t> deferred;
};

/// Norms of whole columns from those of every rank's rows, on every rank: L1 norms add up, of L2
/// norms the squares do. One rank's norms keep their bits.
void sum_column_norms(Communicator& communicator, NormKind kind, std::span<float> norms);

/// All of a matrix's columns by the `count` largest norms; both lists ascending.
[[nodiscard]] ColumnSlots first_selection(std::span<const float> norms, std::size_t count);

/// `selected[selected_slot]` leaves for `deferred[deferred_slot]`, which enters.
struct ColumnExchange {
  std::vector<std::uint32_t> selected_slot;
  std::vector<std::uint32_t> deferred_slot;
};

/// The exchanges that make the `slots.selected.size()` largest norms the selected ones; leaving and
/// entering columns are paired in ascending order. Ties keep who is selected, then the lower index.
[[nodiscard]] ColumnExchange plan_exchange(std::span<const float> norms, const ColumnSlots& slots);
/// Carries it out on the lists.
void apply_exchange(const ColumnExchange& exchange, ColumnSlots& slots);

}  // namespace zenflow::runtime
