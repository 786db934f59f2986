// Ten million events, which nobody holds in memory: a gzip file whose members repeat.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/import/import_trace.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using testing::event;
using testing::gzip;
using ::testing::IsEmpty;
using testing::kernel;
using testing::launch;

// A hundredth of them with sanitizers, which need memory of their own that is not measured.
constexpr std::uint64_t kMembers = testing::kSanitized ? 10 : 1000;
constexpr std::uint64_t kKernelMembers = testing::kSanitized ? 4 : 340;
constexpr std::uint64_t kEvents = 10'000;  // of a member
constexpr std::uint64_t kOfALaunch = 10;   // eight operators, the call and the kernel

/// Peak resident memory of this process so far, in bytes.
std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  ADD_FAILURE() << "no VmHWM in /proc/self/status";
  return 0;
}

std::string member_text() {
  std::string text;
  for (std::uint64_t number = 0; number < kEvents / kOfALaunch; ++number) {
    const auto at = [&](std::uint64_t after) { return std::to_string(20 * number + after) + ".5"; };
    for (std::uint64_t depth = 0; depth + 2 < kOfALaunch; ++depth) {
      text += event("cpu_op", "aten::add", "100", "100", at(0), "9") + ",\n";
    }
    text += launch("cudaLaunchKernel", at(1), "2", static_cast<int>(number)) + ",\n";
    text +=
        kernel("k" + std::to_string(number % 300), at(4), "10", static_cast<int>(number)) + ",\n";
  }
  return text;
}

std::string kernels_text() {
  std::string text;
  for (std::uint64_t number = 0; number < kEvents; ++number) {
    text += kernel("k" + std::to_string(number % 300), std::to_string(20 * number) + ".125", "1.5",
                   static_cast<int>(number)) +
            ",\n";
  }
  return text;
}

/// A gzip file with a member as often as that.
void write_long(const std::filesystem::path& path, const std::string& text, std::uint64_t times) {
  std::ofstream file(path, std::ios::binary);
  file << gzip("{\"schemaVersion\": 1, \"traceEvents\": [\n");
  const std::string member = gzip(text);
  for (std::uint64_t i = 0; i < times; ++i) file << member;
  file << gzip("{}]}\n");
  ASSERT_TRUE(file.flush());
}

void expect_little_memory() {
  if (testing::kSanitized) return;
  ::testing::Test::RecordProperty("peak", std::to_string(peak_memory()));
  EXPECT_LE(peak_memory(), 200'000'000U);
}

/// What is kept (two million spans) takes 40 bytes each; nothing else may grow with the file, and
/// the analysis has the rest of the 200 MB.
TEST(LongTrace, OfTenMillionEventsNeedsMemoryForWhatIsKept) {
  testing::TemporaryFolder folder;
  write_long(folder / "long.json.gz", member_text(), kMembers);
  const ImportedTrace trace = import_trace(folder / "long.json.gz");
  EXPECT_THAT(trace.problems, IsEmpty());
  EXPECT_EQ(trace.events, kMembers * kEvents + 1);
  EXPECT_EQ(trace.timeline.spans.size(), 2 * kMembers * kEvents / kOfALaunch);
  std::uint64_t operators = 0;
  for (const LeftOut& one : trace.left_out) {
    if (one.what == "cpu_op") operators = one.count;
  }
  EXPECT_EQ(operators, 8 * kMembers * kEvents / kOfALaunch);
  const TraceAnalysis analysis = analyze(trace, default_rules());
  ASSERT_EQ(analysis.devices.size(), 1U);
  EXPECT_EQ(analysis.devices[0].kernels, kMembers * kEvents / kOfALaunch);
  expect_little_memory();
}

/// As many kernels as 1 GB of JSON has if they are short and nothing else is there: every event is
/// kept, and every span is work of the GPU.
TEST(LongTrace, OfShortKernelsAloneNeedsNoMore) {
  testing::TemporaryFolder folder;
  write_long(folder / "kernels.json.gz", kernels_text(), kKernelMembers);
  const ImportedTrace trace = import_trace(folder / "kernels.json.gz");
  EXPECT_THAT(trace.problems, IsEmpty());
  EXPECT_EQ(trace.timeline.spans.size(), kKernelMembers * kEvents);
  const TraceAnalysis analysis = analyze(trace, default_rules());
  ASSERT_EQ(analysis.devices.size(), 1U);
  EXPECT_EQ(analysis.devices[0].kernels, kKernelMembers * kEvents);
  expect_little_memory();
}

}  // namespace
}  // namespace zenflow::sim
