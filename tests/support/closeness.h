/// How far two tensors are apart, where sums were taken in different orders.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/bf16/bf16.h"

namespace zenflow::kernels::testing {

struct Bounds {
  double norm;     ///< of |found - expected| / |expected|
  double element;  ///< of max |found - expected| / max |expected|
};

/// Bounds for values that are rounded once and then once more to bfloat16, whose rounding errs by
/// at most 2^-8 of an element: few fall to the other side of a boundary, so that the norm is
/// stricter.
template <class Element>
constexpr Bounds stored_bounds() {
  return sizeof(Element) == 2 ? Bounds{0x1p-9, 0x1p-7} : Bounds{1e-6, 4e-6};
}

template <class Found, class Expected>
void expect_close(const std::vector<Found>& found, const std::vector<Expected>& expected,
                  Bounds bounds, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double squares = 0.0;
  double reference = 0.0;
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double e = static_cast<double>(to_float(expected[i]));
    const double d = std::fabs(static_cast<double>(to_float(found[i])) - e);
    if (std::isnan(d)) worst = std::numeric_limits<double>::infinity();
    squares += d * d;
    reference += e * e;
    worst = std::max(worst, d);
    largest = std::max(largest, std::fabs(e));
  }
  EXPECT_LE(std::sqrt(squares), bounds.norm * std::sqrt(reference)) << what;
  EXPECT_LE(worst, bounds.element * largest) << what;
}

}  // namespace zenflow::kernels::testing
