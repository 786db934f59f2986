/// What the live runtime selects and defers of each layer, to the element, by the rule that it has
/// in common with its prediction (sim/offload/column_split.h).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/column_cost.h"
#include "sim/offload/column_split.h"
#include "sim/schedule/job.h"

namespace zenflow::sim {

using LiveTensor = ColumnSplit;

struct LiveLayer {
  std::vector<LiveTensor> tensors;

  [[nodiscard]] double elements() const;
  [[nodiscard]] double selected_elements() const;
  [[nodiscard]] double deferred_elements() const { return elements() - selected_elements(); }
};

/// One of several ranks.
struct RankPlace {
  int rank = 0;
  int ranks = 1;
};

/// Embedding, blocks, head, in forward order: the groups in which the runtime moves gradients and
/// weights. `topk_ratio` 1 or more: everything is selected. Of several ranks, what this one owns
/// of each, which may be nothing.
[[nodiscard]] std::vector<LiveLayer> live_layers(const ModelSpec& model, double topk_ratio,
                                                 RankPlace place = {});

/// Those of `ranks` ranks that own a parameter, ascending.
[[nodiscard]] std::vector<int> owning_ranks(const ModelSpec& model, int ranks);

/// Bytes that are held in pinned host memory beside what crosses the link in bulk.
struct LiveStaging {
  /// On the device too: index and norm of every column, two bias corrections of every selected one,
  /// two sums of squares of every tensor. 8 C + 8 S + 16 T bytes.
  double control = 0;
  /// On the device too: state and weights of columns that change place, a block of rows at a time,
  /// with slots and columns of the widest selection. 8 max S + (12 + b) max E bytes, where E is a
  /// tensor's selected elements, or kExchangeBytes / 12, at least a row, where those are fewer.
  double exchange = 0;
  /// The largest tensor, for weights that are loaded or written.
  double tensor = 0;
};
/// `width`: bytes of a weight.
[[nodiscard]] LiveStaging live_staging(const std::vector<LiveLayer>& layers, double width);

}  // namespace zenflow::sim
