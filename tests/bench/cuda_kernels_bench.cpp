/// How close do the CUDA kernels come to a copy from device memory to device memory?
///
///   zenflow-cuda-bench [--require=SHARE] [--fetch-granularity=BYTES]
/// Every kernel takes turns with a cudaMemcpyAsync that moves as many bytes, half of them read and
/// half written. Printed are the bytes that the kernel cannot avoid moving, medians, and the share
/// of the copy's bandwidth with its quartiles. With --require, exit code 4 says that the median
/// share of column norms, gather, scatter or selective AdamW is lower. --fetch-granularity asks the
/// device to fetch that many bytes at once from its memory (cudaLimitMaxL2FetchGranularity: a hint,
/// which holds for all kernels); the first line says what it fetches then.
///
/// Where single columns are read, the bytes are those of whole fetches. Gathers of 819 random
/// columns of 8,192 from 16,384 rows on an H200 (2026-11-26, driver 580.159.04), where a copy moved
/// 4,040 to 4,140 GB/s:
///
///   fetches of               32 bytes     64    128
///   fp32, us                     94.4  117.6  133.9
///     GB/s by such fetches      3,784  4,237  4,301
///     GB/s by 32 bytes          3,784  3,037  2,668
///   bf16, us                     63.0   70.6   72.2
///     GB/s by such fetches      3,955  4,078  4,090
///     GB/s by 32 bytes          3,955  3,528  3,450
///
/// The memory's counters (ncu) agree to 0.1 %. Without the option times are those of 64. Where
/// single columns are written, sectors of 32 bytes count, twice, since memory reads what is written
/// in parts: that is what the counters say, whatever the size of fetches.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <cuda_runtime_api.h>

#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/adamw/adamw_cuda.h"
#include "kernels/cast/cast_cuda.h"
#include "kernels/column_norm/column_norm_cuda.h"
#include "kernels/columns/columns_cuda.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/square_sum/square_sum_cuda.h"
#include "kernels/top_k/top_k_cuda.h"
#include "sim/base/error.h"
#include "tests/bench/share_option.h"

namespace zenflow::kernels {
namespace {

constexpr int kTurns = 15;
constexpr int kRunsPerTurn = 10;
constexpr std::size_t kRows = 16384;
constexpr std::size_t kColumns = 8192;
constexpr std::size_t kCount = kRows * kColumns;
constexpr std::size_t kSelected = kColumns / 10;
/// The least that device memory reads or writes.
constexpr std::size_t kSector = 32;

template <class T>
class DeviceArray {
 public:
  /// Small positive numbers in any type: nothing overflows or becomes denormal.
  explicit DeviceArray(std::size_t count) : count_(count) {
    void* memory = nullptr;
    cuda_check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
    memory_.reset(memory);
    cuda_check(cudaMemset(memory, 0x3C, count * sizeof(T)), "cudaMemset");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cuda_check(cudaMemcpy(get(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  [[nodiscard]] T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
  };
  std::size_t count_;
  std::unique_ptr<void, Free> memory_;
};

class Event {
 public:
  Event() {
    cudaEvent_t event = nullptr;
    cuda_check(cudaEventCreate(&event), "cudaEventCreate");
    handle_.reset(event);
  }
  void record() const { cuda_check(cudaEventRecord(handle_.get(), nullptr), "cudaEventRecord"); }
  [[nodiscard]] double seconds_to(const Event& end) const {
    cuda_check(cudaEventSynchronize(end.handle_.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, handle_.get(), end.handle_.get()),
               "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1000.0;
  }

 private:
  struct Destroy {
    using pointer = cudaEvent_t;
    void operator()(cudaEvent_t event) const noexcept {
      static_cast<void>(cudaEventDestroy(event));
    }
  };
  std::unique_ptr<cudaEvent_t, Destroy> handle_;
};

/// The mean seconds of one run, from kRunsPerTurn that follow each other.
double seconds_of(const std::function<void()>& run) {
  const Event start;
  const Event end;
  start.record();
  for (int i = 0; i < kRunsPerTurn; ++i) run();
  end.record();
  return start.seconds_to(end) / kRunsPerTurn;
}

double quantile(std::vector<double> values, double at) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(at * static_cast<double>(values.size() - 1) + 0.5)];
}

/// Runs the contestants in turns, prints a line and returns the median share of the copy's speed.
double measure(std::string_view name, std::size_t bytes, const std::function<void()>& run) {
  const DeviceArray<std::byte> from(bytes / 2);
  const DeviceArray<std::byte> to(bytes / 2);
  const auto copy = [&] {
    cuda_check(cudaMemcpyAsync(to.get(), from.get(), bytes / 2, cudaMemcpyDeviceToDevice, nullptr),
               "cudaMemcpyAsync");
  };
  seconds_of(run);
  seconds_of(copy);
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> shares;
  for (int turn = 0; turn < kTurns; ++turn) {
    ours.push_back(seconds_of(run));
    theirs.push_back(seconds_of(copy));
    shares.push_back(theirs.back() / ours.back());
  }
  const double share = quantile(shares, 0.5);
  const auto rate = [&](const std::vector<double>& seconds) {
    return static_cast<double>(bytes) / quantile(seconds, 0.5) / 1e9;
  };
  fmt::print("{:<34} {:>10.1f} {:>9.3f} {:>8.0f} {:>8.0f} {:>7.3f} {:>7.3f} {:>7.3f}\n", name,
             static_cast<double>(bytes) / 1e6, quantile(ours, 0.5) * 1e3, rate(ours), rate(theirs),
             share, quantile(shares, 0.25), quantile(shares, 0.75));
  std::fflush(stdout);
  return share;
}

/// A tenth of the columns, ascending.
std::vector<std::uint32_t> selected_columns() {
  std::vector<std::uint32_t> all(kColumns);
  std::iota(all.begin(), all.end(), 0U);
  std::mt19937 random(1);
  for (std::size_t i = 0; i < kSelected; ++i) std::swap(all[i], all[i + random() % (kColumns - i)]);
  all.resize(kSelected);
  std::sort(all.begin(), all.end());
  return all;
}

/// What device memory reads at once for a kernel that needs any of it.
std::size_t fetch_bytes() {
  std::size_t bytes = 0;
  cuda_check(cudaDeviceGetLimit(&bytes, cudaLimitMaxL2FetchGranularity), "cudaDeviceGetLimit");
  return std::max(bytes, kSector);
}

/// Bytes of the units, of `unit` bytes each, of a row that hold a selected column.
std::size_t touched_bytes(const std::vector<std::uint32_t>& column, std::size_t element_bytes,
                          std::size_t unit) {
  std::size_t units = 0;
  std::size_t last = kColumns * element_bytes;  // of no column
  for (const std::uint32_t c : column) {
    const std::size_t own = c * element_bytes / unit;
    if (own != last) ++units;
    last = own;
  }
  return units * unit;
}

template <class Element>
constexpr std::string_view kType = sizeof(Element) == 4 ? "fp32" : "bf16";

template <class Element>
std::string named(std::string_view kernel) {
  return fmt::format("{}, {}", kernel, kType<Element>);
}

template <class Element>
double norms() {
  const DeviceArray<Element> matrix(kCount);
  const DeviceArray<float> l1(kColumns);
  const DeviceArray<float> l2(kColumns);
  const DeviceArray<std::byte> workspace(column_norm_workspace(kRows, kColumns));
  return measure(named<Element>("column norms"), sizeof(Element) * kCount + 8 * kColumns, [&] {
    column_norms_cuda(MatrixView<Element>{matrix.get(), kRows, kColumns, kColumns},
                      {l1.get(), l2.get()}, workspace.get(), nullptr);
  });
}

template <class Element>
double gather() {
  const std::vector<std::uint32_t> selected = selected_columns();
  const DeviceArray<Element> matrix(kCount);
  const DeviceArray<Element> out(kRows * kSelected);
  const DeviceArray<std::uint32_t> column(selected);
  const std::size_t bytes = kRows * touched_bytes(selected, sizeof(Element), fetch_bytes()) +
                            kRows * kSelected * sizeof(Element) + 4 * kSelected;
  return measure(named<Element>("gather of a tenth"), bytes, [&] {
    gather_columns_cuda(MatrixView<Element>{matrix.get(), kRows, kColumns, kColumns}, column.get(),
                        kSelected, out.get(), nullptr);
  });
}

template <class Element>
double scatter() {
  const std::vector<std::uint32_t> selected = selected_columns();
  const DeviceArray<Element> matrix(kCount);
  const DeviceArray<Element> values(kRows * kSelected);
  const DeviceArray<std::uint32_t> column(selected);
  // Sectors are written in parts, and so read before.
  const std::size_t bytes = 2 * kRows * touched_bytes(selected, sizeof(Element), kSector) +
                            kRows * kSelected * sizeof(Element) + 4 * kSelected;
  return measure(named<Element>("scatter of a tenth"), bytes, [&] {
    scatter_columns_cuda(static_cast<const Element*>(values.get()), kRows, kSelected, column.get(),
                         matrix.get(), kColumns, nullptr);
  });
}

template <class Element>
double selective_adamw() {
  const std::vector<std::uint32_t> selected = selected_columns();
  constexpr std::size_t kElements = kRows * kSelected;
  constexpr AdamWSettings kSettings{.learning_rate = 1e-3F,
                                    .beta1 = 0.9F,
                                    .beta2 = 0.999F,
                                    .epsilon = 1e-8F,
                                    .weight_decay = 0.1F};
  const DeviceArray<float> p(kElements);
  const DeviceArray<float> m(kElements);
  const DeviceArray<float> v(kElements);
  const DeviceArray<Element> gradient(kElements);
  const DeviceArray<Element> weights(kCount);
  const DeviceArray<float> step_size(kSelected);
  const DeviceArray<float> inverse(kSelected);
  const DeviceArray<std::uint32_t> column(selected);
  const std::size_t bytes = (24 + sizeof(Element)) * kElements +
                            2 * kRows * touched_bytes(selected, sizeof(Element), kSector) +
                            12 * kSelected;
  return measure(named<Element>("selective AdamW on a tenth"), bytes, [&] {
    adamw_columns_cuda(kSettings, {step_size.get(), inverse.get()}, 0.5F, kRows, kSelected,
                       AdamWState<float, float>{p.get(), m.get(), v.get()},
                       static_cast<const Element*>(gradient.get()),
                       ColumnScatter<Element>{weights.get(), kColumns, column.get()}, nullptr);
  });
}

template <class Element>
void others() {
  const DeviceArray<Element> values(kCount);
  const DeviceArray<float> sum(kCount);
  const DeviceArray<double> total(1);
  const DeviceArray<std::byte> workspace(square_sums_workspace(kCount, 1));
  const Element* from = values.get();
  const SquareSumOf<Element> all[] = {{from, kCount, total.get()}};
  measure(named<Element>("square sum"), sizeof(Element) * kCount,
          [&] { square_sums_cuda<Element>(all, workspace.get(), nullptr); });
  measure(named<Element>("accumulate"), (8 + sizeof(Element)) * kCount,
          [&] { accumulate_cuda(sum.get(), from, 0.5F, kCount, nullptr); });
  measure(named<Element>("accumulate, first"), (4 + sizeof(Element)) * kCount,
          [&] { accumulate_first_cuda(sum.get(), from, 0.5F, kCount, nullptr); });
}

void casts() {
  const DeviceArray<float> wide(kCount);
  const DeviceArray<Bf16> narrow(kCount);
  measure("fp32 to bf16", 6 * kCount,
          [&] { to_bf16_cuda(wide.get(), kCount, narrow.get(), nullptr); });
  measure("bf16 to fp32", 6 * kCount,
          [&] { to_float_cuda(narrow.get(), kCount, wide.get(), nullptr); });
}

/// Sorting a few thousand norms is a matter of latency: look at the time, not at the share.
void selection() {
  std::vector<float> norms(kColumns);
  std::mt19937 random(2);
  for (float& norm : norms) norm = static_cast<float>(random() % 100000);
  const DeviceArray<float> on_device(norms);
  const DeviceArray<std::uint32_t> columns(kSelected);
  const DeviceArray<std::byte> workspace(top_k_workspace(kColumns, kSelected));
  measure("top tenth of 8,192 columns", 4 * (kColumns + kSelected), [&] {
    top_k_cuda(on_device.get(), kColumns, kSelected, columns.get(), workspace.get(), nullptr);
  });
}

struct Options {
  double required = 0;
  std::optional<std::size_t> fetch_granularity;
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (const auto share = bench::number_after<double>(bench::kRequire, argv[i])) {
      options.required = *share;
    } else if (const auto bytes =
                   bench::number_after<std::size_t>("--fetch-granularity=", argv[i])) {
      options.fetch_granularity = bytes;
    } else {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected --require=SHARE, e.g. --require=0.85, or "
                              "--fetch-granularity=BYTES, e.g. --fetch-granularity=32",
                              argv[i]));
    }
  }
  return options;
}

int run(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  cudaDeviceProp device{};
  cuda_check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  if (options.fetch_granularity) {
    cuda_check(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, *options.fetch_granularity),
               "cudaDeviceSetLimit");
  }
  fmt::print(
      "{}, fetches of {} bytes, matrix of {} x {}, {} columns selected, {} turns of {} runs\n",
      device.name, fetch_bytes(), kRows, kColumns, kSelected, kTurns, kRunsPerTurn);
  fmt::print("{:<34} {:>10} {:>9} {:>8} {:>8} {:>7} {:>7} {:>7}\n", "kernel", "MB", "ms", "GB/s",
             "copy", "share", "25 %", "75 %");
  const double lowest =
      std::min({norms<float>(), norms<Bf16>(), gather<float>(), gather<Bf16>(), scatter<float>(),
                scatter<Bf16>(), selective_adamw<float>(), selective_adamw<Bf16>()});
  others<float>();
  others<Bf16>();
  casts();
  selection();
  if (lowest >= options.required) return 0;
  fmt::print(stderr, "the lowest share, {:.3f}, is below {:.3f}\n", lowest, options.required);
  return static_cast<int>(ErrorKind::kTolerance);
}

}  // namespace
}  // namespace zenflow::kernels

int main(int argc, char** argv) {
  try {
    return zenflow::kernels::run(argc, argv);
  } catch (const zenflow::Error& error) {
    fmt::print(stderr, "zenflow-cuda-bench: {}\n", error.what());
    return static_cast<int>(error.kind());
  }
}
