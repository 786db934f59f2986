#include "runtime/train/deferred_shares.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "runtime/offload/layout.h"

namespace zenflow::runtime {

std::vector<double> deferred_squares(const OffloadEngine& engine,
                                     const std::vector<double>& topk_ratios) {
  std::vector<double> deferred(topk_ratios.size(), 0.0);
  double total = 0;
  const Layout& layout = engine.layout();
  for (std::size_t s = 0; s < layout.slices.size(); ++s) {
    if (!layout.slices[s].selectable) continue;
    const std::span<const float> norms = engine.column_norms(s);
    std::vector<double> squares;
    for (const float norm : norms) squares.push_back(static_cast<double>(norm) * norm);
    std::sort(squares.begin(), squares.end(), std::greater<>());
    total += std::accumulate(squares.begin(), squares.end(), 0.0);
    for (std::size_t i = 0; i < topk_ratios.size(); ++i) {
      const auto first =
          static_cast<std::ptrdiff_t>(selected_columns(topk_ratios[i], squares.size()));
      deferred[i] += std::accumulate(squares.begin() + first, squares.end(), 0.0);
    }
  }
  deferred.push_back(total);
  return deferred;
}

}  // namespace zenflow::runtime
