/// Memory traffic of kernels that work on single columns of a matrix, in device memory.
///
/// Symbols: r rows, C columns, c of them chosen, b bytes of an element, q bytes of a sector (what
/// memory moves at least: 32 on a GPU, 64 where the device is the host).
///
///   sectors touched   r C b (1 - (1 - c/C)^(q/b))     c columns in random places; all if c = C
///   gather            sectors touched + r c b
///   scatter           r c b + sectors touched, twice where a sector is written in part
///
/// Source: bytes counted from the arrays touched; that columns lie apart at random is an assumption
/// (selected input features have no reason to be neighbours).
#pragma once

#include <cstdint>

#include "sim/base/units.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

/// `chosen` of `columns` columns of a [rows, columns] matrix.
struct ColumnChoice {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t chosen = 0;
};

[[nodiscard]] Bytes gather_traffic(const GpuProfile& gpu, DType dtype, const ColumnChoice& choice);
[[nodiscard]] Bytes scatter_traffic(const GpuProfile& gpu, DType dtype, const ColumnChoice& choice);

}  // namespace zenflow::sim
