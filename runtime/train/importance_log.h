/// How unevenly gradients fall on columns, and how long the same ones matter: a CSV row for every
/// matrix and step.
///
/// `top_1_percent` ... : share of the squared gradient norm in that share of the columns with the
/// largest norms (at least one column). `same_as_before`: of the top `topk_ratio` of columns, the
/// share that was in the top of the step before. `selected`: share of the squared norm in the
/// columns that are selected.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "sim/base/output_file.h"

namespace zenflow::runtime {

struct ColumnShares {
  double top_1_percent = 0;
  double top_5_percent = 0;
  double top_10_percent = 0;
};
/// `norms`: L2 norms of columns. All shares are 0 if the gradient is.
[[nodiscard]] ColumnShares column_shares(std::span<const float> norms);

class ImportanceLog {
 public:
  /// `topk_ratio`: of the columns that `same_as_before` speaks of. The file appears when `close` is
  /// called. Throws Error(kInput) if it exists and `overwrite` is false.
  ImportanceLog(std::filesystem::path path, double topk_ratio, bool overwrite);

  void add(std::int64_t step, std::size_t matrix, const std::string& name,
           std::span<const float> norms, double selected_share);
  void close();

 private:
  std::filesystem::path path_;
  double topk_ratio_;
  bool overwrite_;
  std::string text_;
  std::vector<std::vector<std::uint32_t>> top_before_;  // by matrix
};

}  // namespace zenflow::runtime
