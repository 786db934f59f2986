#include "kernels/top_k/top_k.h"

#include <algorithm>
#include <cassert>

#include "kernels/top_k/norm_rank.h"

namespace zenflow::kernels {
namespace {

/// Ascends from the first in the order of selection to the last; no two are alike.
std::uint64_t key_of(float norm, std::size_t column) {
  return (std::uint64_t{~norm_rank(norm)} << 32U) | column;
}

}  // namespace

std::vector<std::uint32_t> top_k(const float* norms, std::size_t n, std::size_t k) {
  assert(k <= n && n <= (std::uint64_t{1} << 32U));
  std::vector<std::uint64_t> keys(n);
  for (std::size_t i = 0; i < n; ++i) keys[i] = key_of(norms[i], i);
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(k);
  if (k < n) std::nth_element(keys.begin(), end, keys.end());
  std::vector<std::uint32_t> columns(k);
  std::transform(keys.begin(), end, columns.begin(),
                 [](std::uint64_t key) { return static_cast<std::uint32_t>(key); });
  std::sort(columns.begin(), columns.end());
  return columns;
}

}  // namespace zenflow::kernels
