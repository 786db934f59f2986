/// Matrix products in fp32, from oneDNN.
#pragma once

#include <cstdint>

#include "sim/base/thread_pool.h"

namespace zenflow::runtime {

enum class Transposed : std::uint8_t { kNo, kYes };

/// A row-major matrix; element (r, c) is at values[r * stride + c].
struct ConstMatrix {
  const float* values;
  std::int64_t stride;
  Transposed transposed = Transposed::kNo;  ///< the product uses the transpose of what is stored
};
struct Matrix {
  float* values;
  std::int64_t stride;
};

/// c[m, n] = a[m, k] * b[k, n] + (accumulate ? c : 0), on the calling thread alone.
/// Throws Error(kRuntime) if oneDNN fails.
struct GemmShape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
void gemm(GemmShape shape, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate);

/// The same on a pool. The product is cut into tiles by its shape alone, and each tile is computed
/// by one thread: the bits of the result do not depend on the number of threads.
void gemm(ThreadPool& pool, GemmShape shape, ConstMatrix a, ConstMatrix b, Matrix c,
          bool accumulate);

}  // namespace zenflow::runtime
