/// How fast a long PyTorch trace is imported, and how much memory that takes:
/// trace_import_bench [MEGABYTES [FOLDER [OPERATORS [keep]]]], default 1000 MB in the folder for
/// temporary files, 4 operators for each launch; without operators (0) nearly everything is kept.
/// "kernels" for OPERATORS: short kernels and nothing else. "keep" leaves the file there.
///
/// Writes such a trace, reads its bytes and imports it, in turns, and prints both rates: the
/// machine's state is in both. The events are those of a training step (operators, launches,
/// kernels, arrows).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/trace/import/byte_source.h"
#include "sim/trace/import/import_trace.h"

namespace {

namespace fs = std::filesystem;
using namespace zenflow;

constexpr std::string_view kOperation =
    R"_({{"ph": "X", "cat": "cpu_op", "name": "aten::{}", "pid": 4515, "tid": 4515, "ts": {}, "dur": {}.125, )_"
    R"_("args": {{"External id": {}, "Input Dims": [[8, 1024], [1024, 4096], []], )_"
    R"_("Input type": ["float", "float", "Scalar"], "Sequence number": {}}}}},)_";
constexpr std::string_view kLaunch =
    R"_({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4515, "tid": 4515, )_"
    R"_("ts": {}, "dur": 3.5, "args": {{"External id": {}, "cbid": 211, "correlation": {}}}}},)_";
constexpr std::string_view kArrowStart =
    R"_({{"ph": "s", "id": {}, "pid": 4515, "tid": 4515, "ts": {}, "cat": "ac2g", "name": "ac2g"}},)_";
constexpr std::string_view kKernel =
    R"_({{"ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, )_"
    R"_(at::native::CUDAFunctor_add<float>, at::detail::Array<char*, {}> >(int, )_"
    R"_(at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)", "pid": 0, "tid": 7, "ts": {}, )_"
    R"_("dur": 12.25, "args": {{"External id": {}, "queued": 0, "device": 0, "context": 1, "stream": 7, )_"
    R"_("correlation": {}, "registers per thread": 20, "shared memory": 0, "blocks per SM": 1.5, )_"
    R"_("warps per SM": 12, "grid": [162, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 19}}}},)_";
constexpr std::string_view kArrowEnd =
    R"_({{"ph": "f", "id": {}, "pid": 0, "tid": 7, "ts": {}, "cat": "ac2g", "name": "ac2g", "bp": "e"}})_";

constexpr std::string_view kShortKernel =
    R"_({{"ph": "X", "cat": "kernel", "name": "k{}", "pid": 0, "tid": 7, "ts": {}, "dur": 1.250, "args": )_"
    R"_({{"External id": 2, "device": 0, "context": 1, "stream": 7, "correlation": {}, )_"
    R"_("registers per thread": 20, "shared memory": 0, "grid": [162, 1, 1], )_"
    R"_("block": [256, 1, 1]}}}})_";

std::string time_text(std::uint64_t number, std::uint64_t after) {
  return fmt::format("{}.{:03}", 1'712'195'495'000'000 + 20 * number + after, number % 1000);
}

/// One launch and what belongs to it, about as PyTorch 2 writes them.
void append_launch(std::string& out, std::uint64_t number, std::uint64_t operations) {
  const auto time = [&](std::uint64_t after) { return time_text(number, after); };
  for (std::uint64_t depth = 0; depth < operations; ++depth) {
    // The innermost is a product, whose shapes are kept.
    const std::string name =
        depth + 1 == operations ? "mm" : fmt::format("op_{}", (number + depth) % 200);
    out += fmt::format(kOperation, name, time(depth), 15 - depth, number, number);
    out += "\n";
  }
  out += fmt::format(kLaunch, time(5), number, number) + "\n";
  out += fmt::format(kArrowStart, number, time(5)) + "\n";
  out += fmt::format(kKernel, number % 300, time(9), number, number) + "\n";
  out += fmt::format(kArrowEnd, number, time(9));
}

struct Content {
  bool has_launches = true;      // else short kernels alone
  std::uint64_t operations = 4;  // of a launch
};

void write_trace(const fs::path& path, std::uint64_t bytes, const Content& content) {
  std::ofstream file(path, std::ios::binary);
  file << "{\"schemaVersion\": 1, \"traceEvents\": [\n";
  std::uint64_t written = 0;
  for (std::uint64_t number = 0; written < bytes; ++number) {
    std::string text = number == 0 ? "" : ",\n";
    if (content.has_launches) {
      append_launch(text, number, content.operations);
    } else {
      text += fmt::format(kShortKernel, number % 300, time_text(number, 0), number);
    }
    file << text;
    written += text.size();
  }
  file << "\n]}\n";
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

/// Peak resident memory of this process so far, in MB.
double peak_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024 / 1e6;  // "kB"
  }
  throw std::runtime_error("no VmHWM in /proc/self/status");
}

struct Took {
  double wall;
  double processor;
};

template <class Work>
Took time_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t used = std::clock();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC};
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t megabytes = argc > 1 ? std::stoull(argv[1]) : 1000;
  const fs::path folder = argc > 2 ? fs::path(argv[2]) : fs::temp_directory_path();
  Content content;
  content.has_launches = argc <= 3 || std::string_view(argv[3]) != "kernels";
  if (argc > 3 && content.has_launches) content.operations = std::stoull(argv[3]);
  const fs::path path = folder / "zenflow_trace_import_bench.json";
  write_trace(path, megabytes * 1'000'000, content);
  const double size = static_cast<double>(fs::file_size(path)) / 1e6;
  const auto print = [&](const char* what, const Took& took) {
    fmt::print("{}: {:.2f} s, {:.0f} MB/s; processor {:.2f} s, {:.0f} MB/s\n", what, took.wall,
               size / took.wall, took.processor, size / took.processor);
  };
  fmt::print("{:.0f} MB of JSON\n", size);
  for (int round = 0; round < 2; ++round) {
    print("read only", time_of([&] {
            const auto source = sim::open_bytes(path);
            std::vector<char> buffer(1U << 20);
            while (source->read(buffer) > 0) {
            }
          }));
    const double before = peak_megabytes();
    std::size_t spans = 0;
    print("import", time_of([&] { spans = sim::import_trace(path).timeline.spans.size(); }));
    fmt::print("{} spans kept; peak resident memory {:.0f} MB before, {:.0f} MB after\n", spans,
               before, peak_megabytes());
  }
  const bool is_kept = argc > 4 && std::string_view(argv[4]) == "keep";
  if (is_kept) {
    fmt::print("left as {}\n", path.string());
  } else {
    fs::remove(path);
  }
  return 0;
}
