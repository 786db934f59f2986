/// Between which shares of selected columns a run may change.
#pragma once

namespace zenflow::runtime {

/// Smaller ones select no fewer columns: one of every matrix, of up to a million.
inline constexpr double kLeastTopkRatio = 1e-6;

/// kLeastTopkRatio <= low <= high < 1: with these a matrix of more than one column always has
/// columns of both kinds.
struct TopkRange {
  double low = 0;
  double high = 0;

  [[nodiscard]] bool has(double topk_ratio) const {
    return low <= topk_ratio && topk_ratio <= high;
  }
};

}  // namespace zenflow::runtime
