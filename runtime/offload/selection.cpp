#include "runtime/offload/selection.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/top_k/top_k.h"

namespace zenflow::runtime {

void sum_column_norms(Communicator& communicator, NormKind kind, std::span<float> norms) {
  if (communicator.size() == 1) return;
  if (kind == NormKind::kL1) return communicator.sum(norms);
  std::vector<double> squares(norms.size());  // in which no fp32 norm's square overflows
  std::transform(norms.begin(), norms.end(), squares.begin(),
                 [](float norm) { return static_cast<double>(norm) * norm; });
  communicator.sum(std::span(squares));
  std::transform(squares.begin(), squares.end(), norms.begin(),
                 [](double square) { return static_cast<float>(std::sqrt(square)); });
}

ColumnSlots first_selection(std::span<const float> norms, std::size_t count) {
  ColumnSlots slots;
  slots.selected = kernels::top_k(norms.data(), norms.size(), count);
  auto next = slots.selected.begin();
  for (std::uint32_t column = 0; column < norms.size(); ++column) {
    if (next != slots.selected.end() && *next == column) {
      ++next;
    } else {
      slots.deferred.push_back(column);
    }
  }
  return slots;
}

ColumnExchange plan_exchange(std::span<const float> norms, const ColumnSlots& slots) {
  const std::size_t count = slots.selected.size();
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

  std::vector<std::pair<std::uint32_t, std::uint32_t>> leaving;  // column, slot
  std::vector<std::pair<std::uint32_t, std::uint32_t>> entering;
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    if (!wanted[slots.selected[slot]]) leaving.emplace_back(slots.selected[slot], slot);
  }
  for (std::uint32_t slot = 0; slot < slots.deferred.size(); ++slot) {
    if (wanted[slots.deferred[slot]]) entering.emplace_back(slots.deferred[slot], slot);
  }
  std::sort(leaving.begin(), leaving.end());
  std::sort(entering.begin(), entering.end());
  ColumnExchange exchange;
  for (std::size_t i = 0; i < leaving.size(); ++i) {
    exchange.selected_slot.push_back(leaving[i].second);
    exchange.deferred_slot.push_back(entering[i].second);
  }
  return exchange;
}

void apply_exchange(const ColumnExchange& exchange, ColumnSlots& slots) {
  for (std::size_t i = 0; i < exchange.selected_slot.size(); ++i) {
    std::swap(slots.selected[exchange.selected_slot[i]], slots.deferred[exchange.deferred_slot[i]]);
  }
}

}  // namespace zenflow::runtime
