/// The device's part: weights (two sets, if updates overlap), gradients on their way, and the fp32
/// state of the selected columns.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/offload/deferred_columns.h"
#include "runtime/offload/layout.h"
#include "runtime/offload/selection.h"
#include "runtime/offload/trainable.h"

namespace zenflow::runtime {

/// A device array and the pinned host array it is copied from or to.
template <class T>
struct Mirrored {
  Buffer host;
  Buffer device;

  Mirrored() = default;
  Mirrored(Device& owner, std::size_t count, std::string_view purpose)
      : host(owner.allocate(MemoryKind::kPinnedHost, count * sizeof(T), purpose)),
        device(owner.allocate(MemoryKind::kDevice, count * sizeof(T), purpose)) {}

  [[nodiscard]] T* on_host() const { return host.as<T>(); }
  [[nodiscard]] T* on_device() const { return device.as<T>(); }
};

/// Whose gradients keep a place of their own from one group's backward to the next; those of other
/// groups take turns in one space.
enum class KeptGradients : std::uint8_t {
  kNone,   ///< each group's are used up before the next one's come
  kOwned,  ///< micro-batches add to what the rank owns
  kAll,    ///< to all
};

struct DeviceColumnsOptions {
  KeptGradients kept_gradients = KeptGradients::kNone;
  bool second_weights = false;        ///< uploads land beside the weights in use
  bool whole_step_gradients = false;  ///< a place for every group's deferred gradients
  bool device_sums = false;           ///< they are summed on the device
  bool warm_up = false;               ///< everything is deferred at first
};

/// Device memory and where things lie in it. Nothing here enqueues work but what is named so.
/// Memory is for every topk_ratio that the layout may have: of selected columns for the largest,
/// of deferred ones for the smallest.
class DeviceColumns {
 public:
  DeviceColumns(const ParameterTable& table, const Layout& layout, ElementType type, Device& device,
                const TrainableModel& model, DeviceColumnsOptions options);

  [[nodiscard]] std::span<const void* const> weights() const {
    return {const_cast<const void* const*>(front_.data()), front_.size()};
  }
  [[nodiscard]] std::span<void* const> gradients() const { return gradients_; }
  /// Among the weights in use.
  [[nodiscard]] void* parameter(std::size_t index) const { return front_[index]; }
  /// The rank's rows of a parameter, in the weights in use, in the second set, in its gradient.
  [[nodiscard]] DeviceMatrix weight_slice(std::size_t slice) const;
  [[nodiscard]] DeviceMatrix second_weight_slice(std::size_t slice) const;
  [[nodiscard]] DeviceMatrix gradient_slice(std::size_t slice) const;
  void swap_weights();

  /// Where corrections begin, and where widths vary what is selected, from the layout: after
  /// another topk_ratio, and after a selection from all matrices.
  void place_slots();

  [[nodiscard]] ColumnSlots& slots(std::size_t slice) { return slots_[slice]; }
  [[nodiscard]] SelectedColumns selected(std::size_t slice) const;
  [[nodiscard]] std::byte* selected_gradient(std::size_t slice) const;

  const ParameterTable& table;
  const Layout& layout;
  ElementType type;

  /// Deferred gradients before they leave: of the whole step in the first, or of two groups.
  std::array<Buffer, 2> packed;
  Buffer arrived;  ///< updated weights of a group, before they are scattered
  Buffer sums;     ///< fp32, of deferred gradients, if they are summed here
  std::vector<std::size_t> selected_first;  ///< by slice, in elements of the selected arrays
  std::vector<std::size_t> column_first;    ///< by slice, in entries of the index arrays
  std::vector<std::size_t> slot_first;      ///< by slice, in entries of the corrections
  std::array<Buffer, 3> selected_state;     ///< weights and moments, fp32
  Buffer selected_gradients;
  std::vector<std::vector<std::uint32_t>> selected_updates;  ///< by slice and slot
  Mirrored<std::uint32_t> columns;  ///< by slice: selected slots, then deferred ones
  Mirrored<float> step_sizes;       ///< of selected slots
  Mirrored<float> second_corrections;
  Mirrored<double> square_sums;  ///< by slice: the gradient's, then that of its selected part
  Mirrored<float> norms;         ///< of columns, by slice

 private:
  [[nodiscard]] DeviceMatrix slice_of(std::size_t slice, void* parameter) const;

  std::vector<ColumnSlots> slots_;
  std::array<Buffer, 2> weight_arena_;
  std::vector<void*> front_;
  std::vector<void*> back_;
  Buffer gradient_arena_;
  std::vector<void*> gradients_;
};

}  // namespace zenflow::runtime
