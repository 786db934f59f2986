/// A matrix somewhere in memory, as kernels read it.
#pragma once

#include <cstddef>

namespace zenflow::kernels {

/// Elements of [rows, columns], row-major; row r starts at values + r * row_stride.
template <class Element>
struct MatrixView {
  const Element* values;
  std::size_t rows;
  std::size_t columns;
  std::size_t row_stride;  ///< in elements, at least `columns`
};

}  // namespace zenflow::kernels
