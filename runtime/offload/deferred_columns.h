/// The host's part of the optimizer: fp32 weights and moments of the deferred columns, the sums of
/// their gradients, and the pinned buffers through which both cross the link.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/offload/layout.h"
#include "runtime/offload/settings.h"
#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

/// State of some columns of a slice on its way between host and device: [rows, columns] each.
struct ColumnState {
  std::size_t columns = 0;
  std::vector<float> weights{};
  std::vector<float> first_moment{};
  std::vector<float> second_moment{};
  std::vector<std::uint32_t> updates{};  ///< [columns]
};

/// Where the gradients of an update come from.
enum class GradientSource : std::uint8_t {
  kStaging,  ///< one step's, as they came over the link
  kSums,     ///< a window's, in fp32
};

struct DeferredUpdate {
  kernels::AdamWSettings adamw;  ///< of one step
  DeferredScaling scaling = DeferredScaling::kNone;
  std::int64_t steps = 1;  ///< that the update stands for
  GradientSource source = GradientSource::kStaging;
  int parity = 0;   ///< which of the two sums
  float scale = 1;  ///< of the gradients: clipping, and 1/S of a sum
};

/// A slice loses the slots `gone` (ascending); those left close ranks, and `added` columns of
/// zeros follow.
struct WidthChange {
  std::vector<std::uint32_t> gone{};
  std::size_t added = 0;
};

/// Slices are [rows, width] with one column a slot. Before the first selection every column is
/// deferred (`warm up`), then `narrow` gives a slice its width. Master weights and moments
/// stay where the slice lies in the partition; what crosses the link is packed, group by group.
/// Methods on different groups may run at the same time; the caller orders the rest.
class DeferredColumns {
 public:
  /// `double_sums`: two sets, for an update beside the next window's sums. `with_sums`: any at all.
  DeferredColumns(const Layout& layout, ElementType type, Device& device, bool with_sums,
                  bool double_sums, bool warm_up);

  /// Ends the warm-up: offsets of what crosses the link become those of the layout's widths.
  void end_warm_up();
  /// Moves `columns` (ascending) out of a slice that has all of them, and closes the gaps.
  [[nodiscard]] ColumnState narrow(std::size_t slice, std::span<const std::uint32_t> columns,
                                   ThreadPool& pool);

  /// A slice's part in following another topk_ratio of the layout. What crosses the link keeps its
  /// place until `repack`.
  void change_width(std::size_t slice, const WidthChange& change, ThreadPool& pool);
  /// Ends it: [layout.slices] of changes have made the widths those of the layout. Sums of `summed`
  /// (a parity), if any, move along. Nothing may be crossing the link.
  void repack(std::span<const WidthChange> changes, std::optional<int> summed);
  /// Offsets of what crosses the link, from the layout. Part of the above; else before any column
  /// has been selected.
  void pack();

  /// Gives the state's memory back if no slice has a column left.
  void release_if_empty();

  [[nodiscard]] std::size_t width(std::size_t slice) const { return widths_[slice]; }
  /// In elements, within staging, upload and sums.
  [[nodiscard]] std::size_t offset(std::size_t slice) const;
  [[nodiscard]] std::size_t group_offset(std::size_t group) const;
  [[nodiscard]] std::size_t group_elements(std::size_t group) const;

  [[nodiscard]] std::byte* staging(std::size_t group) const;
  [[nodiscard]] const std::byte* upload(std::size_t group) const;
  [[nodiscard]] float* sums(int parity) {
    return sums_.at(static_cast<std::size_t>(parity)).as<float>();
  }
  [[nodiscard]] std::span<float> weights(std::size_t slice);
  [[nodiscard]] std::span<float> first_moment(std::size_t slice);
  [[nodiscard]] std::span<float> second_moment(std::size_t slice);
  /// How many updates each column has seen, by slot.
  [[nodiscard]] std::vector<std::uint32_t>& updates(std::size_t slice) { return updates_[slice]; }

  /// sums (+)= scale * staging, over a group.
  void accumulate(std::size_t group, int parity, bool first, float scale, ThreadPool& pool);
  /// AdamW over a group, but for slots that rest, which do from then on no longer; the weights in
  /// working precision go to `upload`.
  void update(std::size_t group, const DeferredUpdate& update, ThreadPool& pool);
  /// Weights in working precision to `upload`, as after an update.
  void refresh_upload(std::size_t group);

  /// State of some slots, and with `update` their sums applied first.
  [[nodiscard]] ColumnState take(std::size_t slice, std::span<const std::uint32_t> slots,
                                 const DeferredUpdate* update, ThreadPool& pool);
  /// Overwrites slots. With `rest` they sit the next update out, which has no sums of theirs.
  /// `upload` follows with the next update.
  void put(std::size_t slice, std::span<const std::uint32_t> slots, const ColumnState& state,
           bool rest, ThreadPool& pool);
  /// Slots sit the next update out.
  void rest_once(std::size_t slice, std::span<const std::uint32_t> slots) {
    resting_[slice].assign(slots.begin(), slots.end());
  }

 private:
  struct Chunk {
    std::size_t slice;
    std::size_t first_row;
    std::size_t rows;
  };
  [[nodiscard]] std::array<std::vector<float>*, 3> arrays() {
    return {&weights_, &first_moment_, &second_moment_};
  }
  void move_columns(std::size_t slice, const WidthChange& change, std::vector<float>& array);
  void set_width(std::size_t slice, const WidthChange& change);
  void move_sums(std::span<const WidthChange> changes, std::span<const std::size_t> packed_before,
                 float* sums);
  [[nodiscard]] std::span<float> of_slice(std::vector<float>& array, std::size_t slice);
  [[nodiscard]] std::vector<Chunk> chunks(std::size_t group) const;
  /// Weights and both moments of a chunk's slots that rest: [rows, resting] each.
  using Resting = std::array<std::vector<float>, 3>;
  [[nodiscard]] Resting before_update(const Chunk& chunk);
  void put_back(const Chunk& chunk, const Resting& state);
  void prepare_corrections(std::size_t slice, const DeferredUpdate& update);
  template <class Grad, class Out>
  void update_chunk(const Chunk& chunk, const DeferredUpdate& update, const Grad* gradients);
  void store_upload(std::size_t slice, std::size_t first, std::size_t n);

  const Layout& layout_;
  ElementType type_;
  bool warm_up_;
  std::vector<std::size_t> widths_;
  std::vector<std::size_t> packed_;  ///< offsets at the layout's widths; one more than slices
  std::vector<std::vector<std::uint32_t>> updates_;
  std::vector<std::vector<std::uint32_t>> resting_;  ///< slots, by slice
  std::vector<float> weights_;
  std::vector<float> first_moment_;
  std::vector<float> second_moment_;
  std::array<Buffer, 2> sums_;
  Buffer staging_;
  Buffer upload_;
  /// Bias corrections by slot, one row a slice, filled before an update's chunks run.
  std::vector<std::vector<float>> step_sizes_;
  std::vector<std::vector<float>> second_corrections_;
};

}  // namespace zenflow::runtime
