#include "runtime/train/importance_log.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include <fmt/format.h>

#include "kernels/top_k/top_k.h"
#include "runtime/offload/layout.h"

namespace zenflow::runtime {

ColumnShares column_shares(std::span<const float> norms) {
  std::vector<double> squares;
  for (const float norm : norms) squares.push_back(static_cast<double>(norm) * norm);
  std::sort(squares.begin(), squares.end(), std::greater<>());
  double total = 0;
  for (const double square : squares) total += square;
  if (total <= 0) return {};
  const auto top = [&](std::size_t percent) {
    const std::size_t count = std::max<std::size_t>(1, squares.size() * percent / 100);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += squares[i];
    return sum / total;
  };
  return {top(1), top(5), top(10)};
}

ImportanceLog::ImportanceLog(std::filesystem::path path, double topk_ratio, bool overwrite)
    : path_(std::move(path)), topk_ratio_(topk_ratio), overwrite_(overwrite) {
  check_output(path_, overwrite);
  text_ =
      "step,parameter,columns,top_1_percent,top_5_percent,top_10_percent,same_as_before,"
      "selected\n";
}

void ImportanceLog::add(std::int64_t step, std::size_t matrix, const std::string& name,
                        std::span<const float> norms, double selected_share) {
  if (top_before_.size() <= matrix) top_before_.resize(matrix + 1);
  std::vector<std::uint32_t> top =
      kernels::top_k(norms.data(), norms.size(), selected_columns(topk_ratio_, norms.size()));
  std::vector<std::uint32_t>& before = top_before_[matrix];
  std::string same;  // empty in the first step
  if (!before.empty() && !top.empty()) {
    std::vector<std::uint32_t> both;
    std::set_intersection(before.begin(), before.end(), top.begin(), top.end(),
                          std::back_inserter(both));
    same =
        fmt::format("{:.4f}", static_cast<double>(both.size()) / static_cast<double>(top.size()));
  }
  before = std::move(top);
  const ColumnShares shares = column_shares(norms);
  text_ += fmt::format("{},{},{},{:.4f},{:.4f},{:.4f},{},{:.4f}\n", step, name, norms.size(),
                       shares.top_1_percent, shares.top_5_percent, shares.top_10_percent, same,
                       selected_share);
}

void ImportanceLog::close() {
  write_output(path_, text_, overwrite_);
}

}  // namespace zenflow::runtime
