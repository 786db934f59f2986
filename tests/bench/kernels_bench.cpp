/// How fast are the kernels for the host, on one thread, next to loops that only move memory?
///
/// Contestants take turns on the same arrays, so that a slow moment of the machine hits all alike,
/// and are timed by the processor time of the thread, so that other programs count only as far as
/// they take memory bandwidth. Ratios are medians over the turns; _q1 and _q3 are quartiles.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <benchmark/benchmark.h>
#include <time.h>

#include "kernels/accumulate/accumulate.h"
#include "kernels/adamw/adamw.h"
#include "kernels/cast/cast.h"
#include "kernels/column_norm/column_norm.h"
#include "kernels/columns/columns.h"
#include "kernels/square_sum/square_sum.h"
#include "tests/bench/streaming.h"

namespace zenflow::kernels::testing {
namespace {

constexpr AdamWSettings kSettings{.learning_rate = 1e-3F,
                                  .beta1 = 0.9F,
                                  .beta2 = 0.999F,
                                  .epsilon = 1e-8F,
                                  .weight_decay = 0.01F};

/// Far beyond caches: 256 MiB an fp32 array.
constexpr std::size_t kCount = std::size_t{64} << 20U;
constexpr int kTurns = 15;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Run>
double seconds(const Run& run) {
  const double start = thread_seconds();
  run();
  return thread_seconds() - start;
}

double quantile(std::vector<double> values, double q) {
  const auto rank = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

/// A loop to be compared with, and the name of the ratio: how much faster we are than it.
struct Rival {
  const char* ratio;
  std::function<void()> run;
};

/// Times `ours`, which moves so many bytes, with the rivals taking turns.
template <class Run>
void take_turns(benchmark::State& state, std::size_t bytes, const Run& ours,
                const std::vector<Rival>& rivals = {}) {
  std::vector<double> own;
  std::vector<std::vector<double>> ratios(rivals.size());
  for (auto _ : state) {
    own.push_back(seconds(ours));
    for (std::size_t i = 0; i < rivals.size(); ++i) {
      ratios[i].push_back(seconds(rivals[i].run) / own.back());
    }
    state.SetIterationTime(own.back());
  }
  state.counters["GB_per_s"] = 1e-9 * static_cast<double>(bytes) / quantile(own, 0.5);
  for (std::size_t i = 0; i < rivals.size(); ++i) {
    const std::string name = rivals[i].ratio;
    state.counters[name] = quantile(ratios[i], 0.5);
    state.counters[name + "_q1"] = quantile(ratios[i], 0.25);
    state.counters[name + "_q3"] = quantile(ratios[i], 0.75);
  }
}

/// Numbers around 1e-3, none of which lets a moment sink into denormals.
template <class Element>
std::vector<Element> numbers(std::size_t n) {
  std::vector<Element> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float value = 1e-3F * static_cast<float>(static_cast<int>(i % 31) - 15) + 3e-4F;
    if constexpr (std::is_same_v<Element, Bf16>) {
      values[i] = round_to_bf16(value);
    } else {
      values[i] = value;
    }
  }
  return values;
}

template <class Element>
std::vector<Element> squares(std::size_t n) {
  std::vector<Element> values = numbers<Element>(n);
  for (Element& value : values) {
    const float square = to_float(value) * to_float(value);
    if constexpr (std::is_same_v<Element, Bf16>) {
      value = round_to_bf16(square);
    } else {
      value = square;
    }
  }
  return values;
}

struct Fp32Arrays {
  std::vector<float> p = numbers<float>(kCount);
  std::vector<float> m = numbers<float>(kCount);
  std::vector<float> v = squares<float>(kCount);
  std::vector<float> g = numbers<float>(kCount);

  [[nodiscard]] AdamWState<float, float> state() { return {p.data(), m.data(), v.data()}; }
};

void stream(Fp32Arrays& arrays, Prefetching prefetching) {
  const auto loop = best_isa() == Isa::kAvx512 ? stream_avx512 : stream_avx2;
  loop(kCount, arrays.state(), arrays.g.data(), 0.0F, prefetching);
}

void adamw_fp32_bench(benchmark::State& state) {
  if (best_isa() == Isa::kScalar) return state.SkipWithError("neither AVX2 nor AVX-512 here");
  Fp32Arrays arrays;
  const BiasCorrection correction = bias_correction(kSettings, 10);
  take_turns(state, 28 * kCount,
             [&] { adamw(kSettings, correction, 0.5F, kCount, arrays.state(), arrays.g.data()); },
             {{"to_streaming", [&] { stream(arrays, Prefetching::kNo); }},
              {"to_prefetching_streaming", [&] { stream(arrays, Prefetching::kYes); }},
              {"to_avx2", [&] {
                 adamw(kSettings, correction, 0.5F, kCount, arrays.state(), arrays.g.data(),
                       Isa::kAvx2);
               }}});
}

void adamw_with_copy_bench(benchmark::State& state) {
  Fp32Arrays arrays;
  std::vector<Bf16> copy(kCount);
  const BiasCorrection correction = bias_correction(kSettings, 10);
  take_turns(state, 30 * kCount, [&] {
    adamw(kSettings, correction, 0.5F, kCount, arrays.state(), arrays.g.data(), copy.data());
  });
}

template <class Moment>
void adamw_bf16_bench(benchmark::State& state) {
  std::vector<Bf16> p = numbers<Bf16>(kCount);
  std::vector<Moment> m = numbers<Moment>(kCount);
  std::vector<Moment> v = squares<Moment>(kCount);
  const std::vector<Bf16> g = numbers<Bf16>(kCount);
  const BiasCorrection correction = bias_correction(kSettings, 10);
  take_turns(state, (6 + 4 * sizeof(Moment)) * kCount, [&] {
    adamw(kSettings, correction, 0.5F, kCount,
          AdamWState<Bf16, Moment>{p.data(), m.data(), v.data()}, g.data());
  });
}

/// A tenth of the columns of [4096, 4096], results into bfloat16 weights.
void selective_adamw_bench(benchmark::State& state) {
  constexpr std::size_t kRows = 4096;
  constexpr std::size_t kWide = 4096;
  constexpr std::size_t kSelected = 409;
  std::vector<float> p = numbers<float>(kRows * kSelected);
  std::vector<float> m = p;
  std::vector<float> v = squares<float>(kRows * kSelected);
  const std::vector<Bf16> g = numbers<Bf16>(kRows * kSelected);
  std::vector<Bf16> weights(kRows * kWide);
  std::vector<std::uint32_t> column(kSelected);
  for (std::uint32_t j = 0; j < kSelected; ++j) column[j] = 10 * j;
  const BiasCorrection correction = bias_correction(kSettings, 10);
  const std::vector<float> step_size(kSelected, correction.step_size);
  const std::vector<float> inverse(kSelected, correction.inverse_sqrt_correction2);
  take_turns(state, 28 * kRows * kSelected, [&] {
    adamw_columns(kSettings, {step_size.data(), inverse.data()}, 0.5F, kRows, kSelected,
                  AdamWState<float, float>{p.data(), m.data(), v.data()}, g.data(),
                  ColumnScatter<Bf16>{weights.data(), kWide, column.data()});
  });
}

template <class Element>
void column_norms_bench(benchmark::State& state) {
  const std::size_t columns = 8192;
  const std::vector<Element> values = numbers<Element>(kCount);
  std::vector<float> l1(columns);
  std::vector<float> l2(columns);
  take_turns(state, sizeof(Element) * kCount, [&] {
    column_norms(MatrixView<Element>{values.data(), kCount / columns, columns, columns},
                 {l1.data(), l2.data()});
  });
}

template <class Element>
void square_sum_bench(benchmark::State& state) {
  const std::vector<Element> values = numbers<Element>(kCount);
  take_turns(state, sizeof(Element) * kCount,
             [&] { benchmark::DoNotOptimize(square_sum(values.data(), kCount)); });
}

template <class Grad>
void accumulate_bench(benchmark::State& state) {
  const std::vector<Grad> g = numbers<Grad>(kCount);
  std::vector<float> sum(kCount);
  take_turns(state, (8 + sizeof(Grad)) * kCount,
             [&] { accumulate(sum.data(), g.data(), 0.5F, kCount); });
}

void to_bf16_bench(benchmark::State& state) {
  const std::vector<float> values = numbers<float>(kCount);
  std::vector<Bf16> rounded(kCount);
  take_turns(state, 6 * kCount, [&] { to_bf16(values.data(), kCount, rounded.data()); });
}

/// A tenth of the columns; bytes are those of the elements, not of their cache lines.
void gather_columns_bench(benchmark::State& state) {
  constexpr std::size_t kWide = 8192;
  constexpr std::size_t kSelected = kWide / 10;
  const std::vector<float> values = numbers<float>(kCount);
  std::vector<std::uint32_t> column(kSelected);
  for (std::uint32_t j = 0; j < kSelected; ++j) column[j] = 10 * j;
  std::vector<float> out(kCount / kWide * kSelected);
  take_turns(state, 2 * sizeof(float) * out.size(), [&] {
    gather_columns(MatrixView<float>{values.data(), kCount / kWide, kWide, kWide}, column.data(),
                   kSelected, out.data());
  });
}

void add(const char* name, void (*run)(benchmark::State&)) {
  benchmark::RegisterBenchmark(name, run)->UseManualTime()->Iterations(kTurns)->Unit(
      benchmark::kMillisecond);
}

const bool kAdded = [] {
  add("AdamW/fp32", adamw_fp32_bench);
  add("AdamW/fp32_with_bf16_copy", adamw_with_copy_bench);
  add("AdamW/bf16_parameters", adamw_bf16_bench<float>);
  add("AdamW/all_bf16", adamw_bf16_bench<Bf16>);
  add("AdamW/selected_columns", selective_adamw_bench);
  add("ColumnNorms/fp32", column_norms_bench<float>);
  add("ColumnNorms/bf16", column_norms_bench<Bf16>);
  add("SquareSum/fp32", square_sum_bench<float>);
  add("SquareSum/bf16", square_sum_bench<Bf16>);
  add("Accumulate/fp32", accumulate_bench<float>);
  add("Accumulate/bf16", accumulate_bench<Bf16>);
  add("ToBf16", to_bf16_bench);
  add("GatherColumns", gather_columns_bench);
  return true;
}();

}  // namespace
}  // namespace zenflow::kernels::testing
