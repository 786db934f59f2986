/// The columns with the largest norms.
///
/// A total order, so that every implementation selects the same columns: by norm, a NaN above
/// everything (whatever its bits, so that it is noticed rather than lost), -0 equal to 0; of equal
/// norms the lower index first.
///
/// Cost: linear in the number of norms on average, plus sorting the k that are selected. Columns
/// are thousands where elements are millions: one implementation is enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zenflow::kernels {

/// The indices, ascending, of the k largest of `norms`, an array of [n].
/// Throws: std::bad_alloc. Preconditions: k <= n <= 2^32.
[[nodiscard]] std::vector<std::uint32_t> top_k(const float* norms, std::size_t n, std::size_t k);

}  // namespace zenflow::kernels
