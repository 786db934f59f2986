/// Carries the fp32 state of columns between host and device when they change place.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/device/device.h"
#include "runtime/offload/deferred_columns.h"
#include "runtime/offload/device_columns.h"

namespace zenflow::runtime {

/// Buffers are allocated once, for blocks of rows, and used again for every matrix: allocating on a
/// device waits for everything that it does. All methods return when what they enqueue has ended.
class ColumnCarrier {
 public:
  /// `block_bytes`: of state under way at once; one row of the widest selection at least.
  /// Throws Error(kInfeasible) if memory is short.
  ColumnCarrier(DeviceColumns& columns, Device& device, std::size_t block_bytes);

  /// State of selected slots of a slice.
  [[nodiscard]] ColumnState take(Stream& stream, std::size_t slice,
                                 std::span<const std::uint32_t> slots, std::int64_t step);
  /// Where state of a slice's selected slots lies in the arrays.
  struct Place {
    std::size_t first;  ///< element
    std::size_t width;  ///< slots

    friend bool operator==(const Place&, const Place&) = default;
  };
  /// The slice has had `before` selected slots; of these `kept` (ascending) close ranks, and the
  /// state of others is lost. For a layout that has just changed: slots past them have none yet.
  void keep(Stream& stream, std::size_t slice, std::span<const std::uint32_t> kept,
            std::size_t before, std::int64_t step);
  /// The same from one place to another, which may overlap: of first element and width both grow
  /// or neither does.
  void move(Stream& stream, std::size_t slice, std::span<const std::uint32_t> kept,
            const Place& from, const Place& to, std::int64_t step);
  /// Overwrites selected slots with [rows, slots.size()] of state; with `write_weights` the working
  /// weights of the columns that now have these slots too.
  void give(Stream& stream, std::size_t slice, std::span<const std::uint32_t> slots,
            const ColumnState& state, bool write_weights, std::int64_t step);

 private:
  /// Rows of a slice that are under way at once, with `columns` columns.
  struct Block {
    std::size_t first;
    std::size_t rows;
    std::size_t elements;  ///< rows * columns, of each of the three arrays
  };
  [[nodiscard]] Block block(std::size_t slice, std::size_t columns, std::size_t first) const;
  /// The block's rows of weights (0) or moments (1, 2) of all slots of a place.
  [[nodiscard]] DeviceMatrix state_rows(std::size_t array, const Block& block,
                                        const Place& place) const;
  [[nodiscard]] Place place(std::size_t slice) const {
    return {columns_.selected_first[slice], selected(slice)};
  }
  [[nodiscard]] std::size_t selected(std::size_t slice) const {
    return columns_.layout.slices[slice].selected;
  }
  template <class T>
  void send(Stream& stream, const Mirrored<T>& array, std::size_t count, std::int64_t step);
  void write_weights(Stream& stream, std::size_t slice, std::size_t columns, const Block& block,
                     const float* weights, std::int64_t step);

  DeviceColumns& columns_;
  Device& device_;
  std::size_t block_bytes_;
  Mirrored<std::uint32_t> slots_;
  Mirrored<std::uint32_t> places_;  ///< columns of the matrix
  Mirrored<float> state_;           ///< weights, first and second moments of a block
  Mirrored<std::byte> weights_;     ///< in working precision
};

}  // namespace zenflow::runtime
