#include "runtime/model/gemm.h"

#include <algorithm>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include "sim/base/error.h"

// The OpenMP runtime that oneDNN was built for has these. They read and set the number of threads
// for parallel regions that the calling thread starts, and no other thread's.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

namespace zenflow::runtime {
namespace {

static_assert(DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP,
              "a oneDNN built for OpenMP is expected, as Debian's is");

/// oneDNN stays on the calling thread: a product split over OpenMP's threads waits for all of
/// them, which on a machine with other work took up to a hundred times as long.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

char letter(Transposed transposed) {
  return transposed == Transposed::kYes ? 'T' : 'N';
}

/// The elements of `matrix`, as the product uses it, from (row, column) on.
const float* from(const ConstMatrix& matrix, std::int64_t row, std::int64_t column) {
  return matrix.transposed == Transposed::kYes ? matrix.values + column * matrix.stride + row
                                               : matrix.values + row * matrix.stride + column;
}

constexpr std::int64_t kColumnsPerTile = 1024;
/// Measured on one core: tiles of 128 rows reach 0.93 of the rate of the whole product at
/// 1024 x 768 x 256, and tiles of 256 rows 0.91 at 1024 x 4096 x 1024.
constexpr std::int64_t rows_per_tile(std::int64_t rows) {
  return rows <= 1024 ? 128 : 256;
}

}  // namespace

void gemm(GemmShape shape, ConstMatrix a, ConstMatrix b, Matrix c, bool accumulate) {
  if (shape.m == 0 || shape.n == 0) return;
  const OneThread one_thread;
  const dnnl_status_t status = dnnl_sgemm(letter(a.transposed), letter(b.transposed), shape.m,
                                          shape.n, shape.k, 1.0F, a.values, a.stride, b.values,
                                          b.stride, accumulate ? 1.0F : 0.0F, c.values, c.stride);
  if (status != dnnl_success) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("oneDNN: a product of [{}, {}] and [{}, {}] failed with status {}",
                            shape.m, shape.k, shape.k, shape.n, static_cast<int>(status)));
  }
}

void gemm(ThreadPool& pool, GemmShape shape, ConstMatrix a, ConstMatrix b, Matrix c,
          bool accumulate) {
  const std::int64_t tile_rows = rows_per_tile(shape.m);
  const std::int64_t down = (shape.m + tile_rows - 1) / tile_rows;
  const std::int64_t across = (shape.n + kColumnsPerTile - 1) / kColumnsPerTile;
  pool.run(static_cast<std::size_t>(down * across), [&](std::size_t number) {
    const auto tile = static_cast<std::int64_t>(number);
    const std::int64_t row = tile / across * tile_rows;
    const std::int64_t column = tile % across * kColumnsPerTile;
    const GemmShape part = {std::min(tile_rows, shape.m - row),
                            std::min(kColumnsPerTile, shape.n - column), shape.k};
    gemm(part, {from(a, row, 0), a.stride, a.transposed},
         {from(b, 0, column), b.stride, b.transposed},
         {c.values + row * c.stride + column, c.stride}, accumulate);
  });
}

}  // namespace zenflow::runtime
