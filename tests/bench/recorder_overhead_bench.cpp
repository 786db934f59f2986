/// What does recording GPU activity cost the program that is recorded?
///
///   zenflow-recorder-bench [--require=SHARE]
/// A program's step (kernels, copies both ways in a stream of their own, events, waits) runs
/// untraced, with the recorder in its low-overhead mode and in its full mode, by turns. Printed is
/// by how much a recorded step takes longer than an untraced one of the same turn: median and
/// quartiles. The loops:
///
///   layers    kernels of some 50 microseconds, as a model's layers have; --require is about this
///   one launches  kernels of a few microseconds, one after the other: the worst case, bound by
///   launches
///
/// CUPTI stays in a process once it was used. Steps before its first use are printed too: the
/// difference is what an idle recorder costs. Starting and ending a recording is not part of a
/// step. With --require, exit code 4 says that an overhead in "layers" is higher.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <cuda_runtime_api.h>

#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/cuda/cuda_check.h"
#include "runtime/gpu/libraries.h"
#include "runtime/trace/cupti/cupti_session.h"
#include "sim/base/error.h"
#include "tests/bench/share_option.h"
#include "tests/bench/turns.h"

namespace zenflow::bench {
namespace {

using kernels::cuda_check;

constexpr int kTurns = 21;
constexpr std::size_t kCopied = std::size_t{4} << 20;  // bytes a copy

struct Loop {
  const char* name;
  std::size_t elements;  // of a kernel: 12 bytes each
  int kernels;           // in a step
  int between_copies;
};
// 16 Mi elements are 200 MB: some 50 microseconds on a GPU of 4 TB/s, 100 on one of 2 TB/s.
constexpr Loop kLayers{"layers", std::size_t{16} << 20, 2000, 10};
constexpr Loop kLaunches{"launches", 1024, 20000, 100};

struct DeviceFree {
  void operator()(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
};
struct HostFree {
  void operator()(void* memory) const noexcept { static_cast<void>(cudaFreeHost(memory)); }
};

void* device_memory(std::size_t bytes) {
  void* memory = nullptr;
  cuda_check(cudaMalloc(&memory, bytes), "cudaMalloc");
  cuda_check(cudaMemset(memory, 0, bytes), "cudaMemset");
  return memory;
}
void* pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  cuda_check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
  return memory;
}

/// Streams, events and arrays of the recorded program; they live as long as the process.
class Program {
 public:
  Program() {
    for (cudaStream_t* stream : {&compute_, &copies_}) {
      cuda_check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    cuda_check(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "cudaEventCreate");
  }
  /// Seconds that a step takes, until the GPU is idle.
  double step(const Loop& loop) const {
    const auto start = std::chrono::steady_clock::now();
    auto* sum = static_cast<float*>(sum_.get());
    const auto* gradient = static_cast<const float*>(gradient_.get());
    for (int i = 0; i < loop.kernels; ++i) {
      kernels::accumulate_cuda(sum, gradient, 0.5F, loop.elements, compute_);
      if (i % loop.between_copies == 0) copy_both_ways();
    }
    cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  /// As an offload engine does: a gradient leaves once it is there, weights come.
  void copy_both_ways() const {
    cuda_check(cudaEventRecord(ready_, compute_), "cudaEventRecord");
    cuda_check(cudaStreamWaitEvent(copies_, ready_, 0), "cudaStreamWaitEvent");
    cuda_check(cudaMemcpyAsync(host_.get(), sum_.get(), kCopied, cudaMemcpyDeviceToHost, copies_),
               "cudaMemcpyAsync");
    cuda_check(
        cudaMemcpyAsync(weights_.get(), host_.get(), kCopied, cudaMemcpyHostToDevice, copies_),
        "cudaMemcpyAsync");
  }

  cudaStream_t compute_ = nullptr;
  cudaStream_t copies_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::unique_ptr<void, DeviceFree> sum_{device_memory(kLayers.elements * sizeof(float))};
  std::unique_ptr<void, DeviceFree> gradient_{device_memory(kLayers.elements * sizeof(float))};
  std::unique_ptr<void, DeviceFree> weights_{device_memory(kCopied)};
  std::unique_ptr<void, HostFree> host_{pinned_memory(kCopied)};
};

/// CUPTI is never detached: nor is its library closed.
const runtime::CuptiApi& cupti() {
  static const runtime::DynamicLibrary library = [] {
    runtime::LibraryFolders folders;
    if (const char* folder = std::getenv("ZENFLOW_CUDA_LIB_DIR")) folders.own_folder = folder;
    if (const char* folder = std::getenv("CUDA_HOME")) folders.cuda_home = folder;
    if (const char* folder = std::getenv("VIRTUAL_ENV")) folders.virtual_env = folder;
    const int major = runtime::built_cuda_version() / 1000;
    return runtime::DynamicLibrary::open(runtime::cupti_library(major), folders);
  }();
  static const runtime::CuptiApi api = runtime::resolve_cupti(
      [](const char* name) { return library.has(name) ? library.symbol<void*>(name) : nullptr; });
  return api;
}

struct Recorded {
  std::uint64_t activities = 0;
  std::uint64_t dropped = 0;
};

/// Seconds of one step that is recorded, the second in its recording: the first warms up.
double recorded_step(const Program& program, const Loop& loop, bool low_overhead,
                     Recorded& recorded) {
  runtime::CuptiOptions options;
  options.low_overhead = low_overhead;
  options.synchronize = [] { cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); };
  // Written by the parser's thread; read after the session's end.
  const auto count = [&recorded](const auto&, auto activities, const auto&) {
    recorded.activities += activities.size();
  };
  auto started = runtime::CuptiSession::start(cupti(), std::move(options), count);
  if (!started.session) throw Error(ErrorKind::kDevice, "not recorded: " + started.untraced);
  program.step(loop);
  const double seconds = program.step(loop);
  recorded.dropped += started.session->stop().losses.dropped_by_cupti;
  return seconds;
}

void print_row(const char* loop, const char* mode, const std::vector<double>& seconds,
               const std::vector<double>& untraced, const Recorded& recorded) {
  const Quartiles share = overhead(seconds, untraced);
  fmt::print("{:<9} {:<14} {:>9.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>10} {:>8}\n", loop, mode,
             quartiles(seconds).median * 1e3, share.median * 100, share.low * 100, share.high * 100,
             recorded.activities, recorded.dropped);
}

/// Prints the loop's rows and returns the higher of the two modes' median overheads.
double measure(const Program& program, const Loop& loop, const std::vector<double>& before) {
  Recorded none;
  Recorded low;
  Recorded full;
  const auto seconds = take_turns({[&] {
                                     program.step(loop);
                                     return program.step(loop);
                                   },
                                   [&] { return recorded_step(program, loop, true, low); },
                                   [&] { return recorded_step(program, loop, false, full); }},
                                  kTurns);
  fmt::print("{:<9} {:<14} {:>9.2f}\n", loop.name, "never traced", quartiles(before).median * 1e3);
  print_row(loop.name, "untraced", seconds[0], seconds[0], none);
  print_row(loop.name, "low overhead", seconds[1], seconds[0], low);
  print_row(loop.name, "full", seconds[2], seconds[0], full);
  std::fflush(stdout);
  if (low.activities == 0 || full.activities == 0) {
    throw Error(ErrorKind::kDevice, "nothing was recorded: these overheads mean nothing");
  }
  return std::max(overhead(seconds[1], seconds[0]).median, overhead(seconds[2], seconds[0]).median);
}

/// Before CUPTI is opened; the first step is not counted.
std::vector<double> untraced_steps(const Program& program, const Loop& loop) {
  std::vector<double> seconds;
  program.step(loop);
  for (int turn = 0; turn < kTurns; ++turn) seconds.push_back(program.step(loop));
  return seconds;
}

constexpr double kNoLimit = 1e9;  // a share no overhead reaches

int run(int argc, char** argv) {
  const double allowed = share_option(argc, argv, kNoLimit, "0.02");
  cudaDeviceProp device{};
  cuda_check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  const Program program;
  const auto before_layers = untraced_steps(program, kLayers);
  const auto before_launches = untraced_steps(program, kLaunches);
  fmt::print("{}, {} turns; overhead in percent of the untraced step of the same turn\n",
             device.name, kTurns);
  fmt::print("{:<9} {:<14} {:>9} {:>8} {:>8} {:>8} {:>10} {:>8}\n", "loop", "recorder", "ms a step",
             "overhead", "25 %", "75 %", "records", "dropped");
  const double highest = measure(program, kLayers, before_layers);
  static_cast<void>(measure(program, kLaunches, before_launches));
  if (highest <= allowed) return 0;
  fmt::print(stderr, "an overhead of {:.2f} % is above {:.2f} %\n", highest * 100, allowed * 100);
  return static_cast<int>(ErrorKind::kTolerance);
}

}  // namespace
}  // namespace zenflow::bench

int main(int argc, char** argv) {
  try {
    return zenflow::bench::run(argc, argv);
  } catch (const zenflow::Error& error) {
    fmt::print(stderr, "zenflow-recorder-bench: {}\n", error.what());
    return static_cast<int>(error.kind());
  }
}
