#include "runtime/offload/device_columns.h"

#include <algorithm>
#include <utility>

namespace zenflow::runtime {
namespace {

// Vector loads of any width may begin at a parameter.
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t parameter_bytes(const Parameter& parameter, ElementType type) {
  return aligned(static_cast<std::size_t>(parameter.elements()) * bytes_per_element(type));
}

/// By parameter, whether its gradient keeps its place: always in a group that shares parameters
/// with another, through the whole pass.
std::vector<bool> parameters_that_keep(const ParameterTable& table, const Layout& layout,
                                       const TrainableModel& model, KeptGradients kept) {
  std::vector<bool> keeps(table.parameters.size(), kept == KeptGradients::kAll);
  for (const ParameterGroup& group : table.groups) {
    bool shares = false;
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      shares = shares || model.shared(i);
    }
    if (shares)
      std::fill_n(keeps.begin() + static_cast<std::ptrdiff_t>(group.first), group.count, true);
  }
  if (kept == KeptGradients::kOwned) {
    for (const Slice& slice : layout.slices) keeps[slice.parameter] = true;
  }
  return keeps;
}

/// The others take turns in one space behind them, group by group, as the stream orders their uses.
std::vector<std::size_t> gradient_places(const ParameterTable& table, ElementType type,
                                         const std::vector<bool>& keeps, std::size_t& bytes) {
  std::vector<std::size_t> place(table.parameters.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (keeps[i]) place[i] = std::exchange(kept, kept + parameter_bytes(table.parameters[i], type));
  }
  bytes = kept;
  for (const ParameterGroup& group : table.groups) {
    std::size_t at = kept;
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      if (!keeps[i]) place[i] = std::exchange(at, at + parameter_bytes(table.parameters[i], type));
    }
    bytes = std::max(bytes, at);
  }
  return place;
}

}  // namespace

DeviceColumns::DeviceColumns(const ParameterTable& table_in, const Layout& layout_in,
                             ElementType type_in, Device& device, const TrainableModel& model,
                             DeviceColumnsOptions options)
    : table(table_in), layout(layout_in), type(type_in) {
  const std::size_t element = bytes_per_element(type);
  std::size_t weight_bytes = 0;
  for (const Parameter& p : table.parameters) weight_bytes += parameter_bytes(p, type);
  for (int set = 0; set < (options.second_weights ? 2 : 1); ++set) {
    weight_arena_.at(static_cast<std::size_t>(set)) =
        device.allocate(MemoryKind::kDevice, weight_bytes, set == 0 ? "weights" : "second weights");
  }
  std::size_t gradient_bytes = 0;
  const auto places = gradient_places(
      table, type, parameters_that_keep(table, layout, model, options.kept_gradients),
      gradient_bytes);
  gradient_arena_ = device.allocate(MemoryKind::kDevice, gradient_bytes, "gradients");
  std::size_t at = 0;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    front_.push_back(weight_arena_[0].data() + at);
    back_.push_back(options.second_weights ? weight_arena_[1].data() + at : front_.back());
    gradients_.push_back(gradient_arena_.data() + places[i]);
    at += parameter_bytes(table.parameters[i], type);
  }

  const std::size_t selected_elements = layout.most_selected_elements;
  std::size_t columns_all = 0;
  std::size_t slots_all = 0;
  for (const Slice& slice : layout.slices) {
    column_first.push_back(columns_all);
    columns_all += slice.columns;
    slots_all += slice.most_selected;
    selected_updates.emplace_back(slice.selected, 0U);
    slots_.emplace_back();
  }
  place_slots();
  std::size_t largest_group = 0;
  std::size_t all_deferred = 0;
  for (const GroupRange& group : layout.groups) {
    std::size_t deferred = 0;
    for (std::size_t s = group.first_slice; s < group.first_slice + group.slices; ++s) {
      const Slice& slice = layout.slices[s];
      deferred += slice.rows * (options.warm_up ? slice.columns : slice.most_deferred());
    }
    largest_group = std::max(largest_group, deferred);
    all_deferred += deferred;
  }
  if (options.whole_step_gradients) {
    packed[0] = device.allocate(MemoryKind::kDevice, all_deferred * element, "packed gradients");
  } else {
    for (Buffer& buffer : packed) {
      buffer = device.allocate(MemoryKind::kDevice, largest_group * element, "packed gradients");
    }
  }
  if (options.device_sums) {
    sums = device.allocate(MemoryKind::kDevice, all_deferred * sizeof(float), "gradient sums");
  }
  arrived = device.allocate(MemoryKind::kDevice, largest_group * element, "arriving weights");
  for (Buffer& array : selected_state) {
    array =
        device.allocate(MemoryKind::kDevice, selected_elements * sizeof(float), "selected state");
  }
  selected_gradients =
      device.allocate(MemoryKind::kDevice, selected_elements * element, "selected gradients");
  columns = {device, columns_all, "column indices"};
  step_sizes = {device, slots_all, "bias corrections"};
  second_corrections = {device, slots_all, "bias corrections"};
  square_sums = {device, 2 * layout.slices.size(), "gradient norms"};
  norms = {device, columns_all, "column norms"};
}

DeviceMatrix DeviceColumns::slice_of(std::size_t slice, void* parameter) const {
  const Slice& s = layout.slices[slice];
  return {static_cast<std::byte*>(parameter), s.rows, s.columns};
}
DeviceMatrix DeviceColumns::weight_slice(std::size_t slice) const {
  return slice_of(slice, front_[layout.slices[slice].parameter]);
}
DeviceMatrix DeviceColumns::second_weight_slice(std::size_t slice) const {
  return slice_of(slice, back_[layout.slices[slice].parameter]);
}
DeviceMatrix DeviceColumns::gradient_slice(std::size_t slice) const {
  return slice_of(slice, gradients_[layout.slices[slice].parameter]);
}
void DeviceColumns::place_slots() {
  slot_first.clear();
  selected_first.clear();
  std::size_t slots = 0;
  std::size_t elements = 0;
  for (const Slice& slice : layout.slices) {
    slot_first.push_back(slots);
    selected_first.push_back(elements);
    slots += slice.selected;
    elements += slice.rows * (layout.widths_vary ? slice.selected : slice.most_selected);
  }
}
void DeviceColumns::swap_weights() {
  front_.swap(back_);
}

SelectedColumns DeviceColumns::selected(std::size_t slice) const {
  const std::size_t first = selected_first[slice];
  return {columns.on_device() + column_first[slice],
          layout.slices[slice].selected,
          {selected_state[0].as<float>() + first, selected_state[1].as<float>() + first,
           selected_state[2].as<float>() + first}};
}
std::byte* DeviceColumns::selected_gradient(std::size_t slice) const {
  return selected_gradients.data() + selected_first[slice] * bytes_per_element(type);
}

}  // namespace zenflow::runtime
