#include "runtime/offload/column_carrier.h"

#include <algorithm>

#include "kernels/cast/cast.h"

namespace zenflow::runtime {
namespace {

constexpr std::size_t kArrays = 3;                        // weights and two moments
constexpr std::string_view kPurpose = "column exchange";  // of memory

}  // namespace

ColumnCarrier::ColumnCarrier(DeviceColumns& columns, Device& device, std::size_t block_bytes)
    : columns_(columns), device_(device), block_bytes_(block_bytes) {
  std::size_t most_columns = 0;
  std::size_t most_elements = 0;
  for (std::size_t s = 0; s < columns.layout.slices.size(); ++s) {
    const std::size_t selected = columns.layout.slices[s].most_selected;
    if (selected == 0) continue;
    most_columns = std::max(most_columns, selected);
    // Fewer columns make blocks of more rows, up to as many elements.
    const std::size_t bound = std::max(selected, block_bytes / (kArrays * sizeof(float)));
    most_elements =
        std::max(most_elements, std::min(bound, columns.layout.slices[s].rows * selected));
  }
  slots_ = {device, most_columns, kPurpose};
  places_ = {device, most_columns, kPurpose};
  state_ = {device, kArrays * most_elements, kPurpose};
  weights_ = {device, most_elements * bytes_per_element(columns.type), kPurpose};
}

ColumnCarrier::Block ColumnCarrier::block(std::size_t slice, std::size_t columns,
                                          std::size_t first) const {
  const std::size_t row_bytes = kArrays * columns * sizeof(float);
  const std::size_t rows = std::max<std::size_t>(1, block_bytes_ / row_bytes);
  const std::size_t left = columns_.layout.slices[slice].rows - first;
  return {first, std::min(rows, left), std::min(rows, left) * columns};
}

DeviceMatrix ColumnCarrier::state_rows(std::size_t array, const Block& block,
                                       const Place& place) const {
  float* values = columns_.selected_state.at(array).as<float>() + place.first;
  return {values + block.first * place.width, block.rows, place.width};
}

template <class T>
void ColumnCarrier::send(Stream& stream, const Mirrored<T>& array, std::size_t count,
                         std::int64_t step) {
  device_.copy(stream, array.on_device(), array.on_host(), count * sizeof(T),
               CopyDirection::kHostToDevice, Traffic::kSelection,
               {Operation::kColumnExchange, step});
}

ColumnState ColumnCarrier::take(Stream& stream, std::size_t slice,
                                std::span<const std::uint32_t> slots, std::int64_t step) {
  const std::size_t rows = columns_.layout.slices[slice].rows;
  const std::size_t n = slots.size();
  ColumnState state{.columns = n};
  const std::array<std::vector<float>*, kArrays> arrays = {&state.weights, &state.first_moment,
                                                           &state.second_moment};
  for (std::vector<float>* array : arrays) array->resize(rows * n);
  std::copy(slots.begin(), slots.end(), slots_.on_host());
  send(stream, slots_, n, step);
  for (Block b = block(slice, n, 0); b.rows > 0; b = block(slice, n, b.first + b.rows)) {
    for (std::size_t i = 0; i < kArrays; ++i) {
      device_.gather_columns(stream, ElementType::kFloat32, state_rows(i, b, place(slice)),
                             slots_.on_device(), n, state_.on_device() + i * b.elements,
                             {Operation::kColumnExchange, step});
    }
    device_.copy(stream, state_.on_host(), state_.on_device(), kArrays * b.elements * sizeof(float),
                 CopyDirection::kDeviceToHost, Traffic::kSelection,
                 {Operation::kColumnExchange, step});
    stream.record().wait();
    for (std::size_t i = 0; i < kArrays; ++i) {
      std::copy_n(state_.on_host() + i * b.elements, b.elements, arrays[i]->data() + b.first * n);
    }
  }
  for (const std::uint32_t slot : slots) {
    state.updates.push_back(columns_.selected_updates[slice][slot]);
  }
  return state;
}

void ColumnCarrier::keep(Stream& stream, std::size_t slice, std::span<const std::uint32_t> kept,
                         std::size_t before, std::int64_t step) {
  move(stream, slice, kept, {columns_.selected_first[slice], before}, place(slice), step);
}

void ColumnCarrier::move(Stream& stream, std::size_t slice, std::span<const std::uint32_t> kept,
                         const Place& from, const Place& to, std::int64_t step) {
  const std::size_t n = kept.size();
  std::vector<std::uint32_t>& updates = columns_.selected_updates[slice];
  for (std::size_t i = 0; i < n; ++i) {
    slots_.on_host()[i] = kept[i];
    places_.on_host()[i] = static_cast<std::uint32_t>(i);
    updates[i] = updates[kept[i]];
  }
  updates.resize(to.width);
  if (n == 0) return;
  send(stream, slots_, n, step);
  send(stream, places_, n, step);
  std::vector<Block> blocks;
  for (Block b = block(slice, n, 0); b.rows > 0; b = block(slice, n, b.first + b.rows)) {
    blocks.push_back(b);
  }
  // In place: rows move to higher addresses from the last one on, to lower ones from the first.
  const bool up = to.first > from.first || to.width > from.width;
  if (up) std::reverse(blocks.begin(), blocks.end());
  for (std::size_t i = 0; i < kArrays; ++i) {
    for (const Block& b : blocks) {
      device_.gather_columns(stream, ElementType::kFloat32, state_rows(i, b, from),
                             slots_.on_device(), n, state_.on_device(),
                             {Operation::kColumnExchange, step});
      device_.scatter_columns(stream, ElementType::kFloat32, state_.on_device(),
                              places_.on_device(), n, state_rows(i, b, to),
                              {Operation::kColumnExchange, step});
    }
  }
  stream.record().wait();
}

void ColumnCarrier::give(Stream& stream, std::size_t slice, std::span<const std::uint32_t> slots,
                         const ColumnState& state, bool with_weights, std::int64_t step) {
  const std::size_t n = slots.size();
  const std::array<const std::vector<float>*, kArrays> arrays = {
      &state.weights, &state.first_moment, &state.second_moment};
  const ColumnSlots& now = columns_.slots(slice);
  for (std::size_t i = 0; i < n; ++i) {
    slots_.on_host()[i] = slots[i];
    if (with_weights) places_.on_host()[i] = now.selected[slots[i]];
    columns_.selected_updates[slice][slots[i]] = state.updates[i];
  }
  send(stream, slots_, n, step);
  if (with_weights) send(stream, places_, n, step);
  for (Block b = block(slice, n, 0); b.rows > 0; b = block(slice, n, b.first + b.rows)) {
    for (std::size_t i = 0; i < kArrays; ++i) {
      std::copy_n(arrays[i]->data() + b.first * n, b.elements, state_.on_host() + i * b.elements);
    }
    send(stream, state_, kArrays * b.elements, step);
    for (std::size_t i = 0; i < kArrays; ++i) {
      device_.scatter_columns(stream, ElementType::kFloat32, state_.on_device() + i * b.elements,
                              slots_.on_device(), n, state_rows(i, b, place(slice)),
                              {Operation::kColumnExchange, step});
    }
    if (with_weights) {
      write_weights(stream, slice, n, b, state.weights.data() + b.first * n, step);
    }
    stream.record().wait();  // the buffers are free again
  }
}

void ColumnCarrier::write_weights(Stream& stream, std::size_t slice, std::size_t n,
                                  const Block& block, const float* weights, std::int64_t step) {
  const std::size_t element = bytes_per_element(columns_.type);
  if (columns_.type == ElementType::kFloat32) {
    std::copy_n(weights, block.elements, weights_.host.as<float>());
  } else {
    kernels::to_bf16(weights, block.elements, weights_.host.as<kernels::Bf16>());
  }
  send(stream, weights_, block.elements * element, step);
  const DeviceMatrix whole = columns_.weight_slice(slice);
  std::byte* rows = static_cast<std::byte*>(whole.values) + block.first * whole.columns * element;
  device_.scatter_columns(stream, columns_.type, weights_.on_device(), places_.on_device(), n,
                          {rows, block.rows, whole.columns}, {Operation::kColumnExchange, step});
}

}  // namespace zenflow::runtime
