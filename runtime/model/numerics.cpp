#include "runtime/model/numerics.h"

#include "kernels/bf16/stored.h"

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kPerBlock = 16384;

void grow(std::vector<float>& scratch, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  if (scratch.size() < size) scratch.resize(size);
}

bool is_computed_in_place(const Execution& run, bool adds) {
  return run.type == ElementType::kFloat32 && !adds;
}

template <class Element>
void store(const Execution& run, const float* values, std::int64_t count, bool adds, Element* out) {
  for_ranges(run.pool, count, kPerBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      out[i] =
          kernels::as_element<Element>(adds ? kernels::to_float(out[i]) + values[i] : values[i]);
    }
  });
}

}  // namespace

const float* as_float(const Execution& run, const void* values, std::int64_t count,
                      std::vector<float>& scratch) {
  if (run.type == ElementType::kFloat32) return static_cast<const float*>(values);
  grow(scratch, count);
  const auto* narrow = static_cast<const kernels::Bf16*>(values);
  float* const wide = scratch.data();
  for_ranges(run.pool, count, kPerBlock, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) wide[i] = kernels::to_float(narrow[i]);
  });
  return wide;
}

float* gradient_in_float(const Execution& run, void* gradient, std::int64_t count, bool adds,
                         std::vector<float>& scratch) {
  if (is_computed_in_place(run, adds)) return static_cast<float*>(gradient);
  grow(scratch, count);
  return scratch.data();
}

void store_gradient(const Execution& run, const float* values, std::int64_t count, bool adds,
                    void* gradient) {
  if (is_computed_in_place(run, adds)) return;
  if (run.type == ElementType::kFloat32) {
    store(run, values, count, adds, static_cast<float*>(gradient));
  } else {
    store(run, values, count, adds, static_cast<kernels::Bf16*>(gradient));
  }
}

void round_in_place(const Execution& run, float* x, std::int64_t rows, std::int64_t columns,
                    std::int64_t stride) {
  if (run.type == ElementType::kFloat32) return;
  const Rounding rounded = run.rounding();
  for_ranges(run.pool, rows, rows_per_block(columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) x[r * stride + c] = rounded(x[r * stride + c]);
    }
  });
}

}  // namespace zenflow::runtime
