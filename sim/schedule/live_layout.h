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

}  // namespace zenflow::sim
