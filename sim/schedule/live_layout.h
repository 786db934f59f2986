/// What the live runtime selects and defers of each layer, to the element.
///
/// Of a matrix with C columns, int(k C) are selected, at least one if k > 0; vectors are selected
/// whole if k > 0 (runtime/offload/layout.h). The published schedules take the share k of
/// everything instead.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/column_cost.h"
#include "sim/schedule/job.h"

namespace zenflow::sim {

/// Columns selected of a matrix with `columns`: the integer part of the share, but one at least
/// where the share is not 0, as DeepSpeed has it since #8274. The runtime asks here too.
[[nodiscard]] std::int64_t selected_columns(double topk_ratio, std::int64_t columns);

/// One matrix, or one vector as a column of its own.
struct LiveTensor {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t selected = 0;  ///< columns

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  [[nodiscard]] std::int64_t deferred() const { return columns - selected; }
  /// Whether columns are chosen: there are some of both kinds.
  [[nodiscard]] bool selectable() const { return selected > 0 && selected < columns; }
};

struct LiveLayer {
  std::vector<LiveTensor> tensors;

  [[nodiscard]] double elements() const;
  [[nodiscard]] double selected_elements() const;
  [[nodiscard]] double deferred_elements() const { return elements() - selected_elements(); }
};

/// Embedding, blocks, head, in forward order: the groups in which the runtime moves gradients and
/// weights. `topk_ratio` 1 or more: everything is selected.
[[nodiscard]] std::vector<LiveLayer> live_layers(const ModelSpec& model, double topk_ratio);

/// Bytes that are held in pinned host memory beside what crosses the link in bulk.
struct LiveStaging {
  /// On the device too: index and norm of every column, two bias corrections of every selected one,
  /// two sums of squares of every tensor. 8 C + 8 S + 16 T bytes.
  double control = 0;
  /// On the device too: state and weights of columns that change place, a block of rows at a time,
  /// with slots and columns of the widest selection. 8 max S + (12 + b) max E bytes, where E is a
  /// tensor's selected elements, or kLiveExchangeBytes / 12, at least a row, where those are fewer.
  double exchange = 0;
  /// The largest tensor, for weights that are loaded or written.
  double tensor = 0;
};
/// Of state under way at once while columns change place. (OffloadSettings::exchange_bytes.)
inline constexpr std::int64_t kLiveExchangeBytes = std::int64_t{16} << 20;
/// `width`: bytes of a weight.
[[nodiscard]] LiveStaging live_staging(const std::vector<LiveLayer>& layers, double width);

}  // namespace zenflow::sim
