// Ten million events, which nobody holds in memory: a gzip file whose members repeat.
#include <cstdint>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/report/trace_analysis.h"
#include "sim/trace/import/import_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using testing::event;
using testing::gzip;
using ::testing::IsEmpty;
using testing::kernel;
using testing::launch;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kMembers = 100;  // a tenth: sanitizers are slow, and their memory is theirs
constexpr bool kMeasuresMemory = false;
#else
constexpr std::uint64_t kMembers = 1000;
constexpr bool kMeasuresMemory = true;
#endif
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

/// What is kept (two million spans) takes 40 bytes each; nothing else may grow with the file, and
/// the analysis has the rest of the 200 MB.
TEST(LongTrace, OfTenMillionEventsNeedsMemoryForWhatIsKept) {
  testing::TemporaryFolder folder;
  {
    std::ofstream file(folder / "long.json.gz", std::ios::binary);
    file << gzip("{\"schemaVersion\": 1, \"traceEvents\": [\n");
    const std::string member = gzip(member_text());
    for (std::uint64_t i = 0; i < kMembers; ++i) file << member;
    file << gzip("{}]}\n");
    ASSERT_TRUE(file.flush());
  }
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
  if (kMeasuresMemory) {
    RecordProperty("peak", std::to_string(peak_memory()));
    EXPECT_LE(peak_memory(), 200'000'000U);
  }
}

}  // namespace
}  // namespace zenflow::sim
