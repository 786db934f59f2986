/// Damaged and odd Nsight exports. The input says what is done to a good one: its first byte which
/// table or column is dropped, then triples of two bytes of position and one to write there.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "sim/base/error.h"
#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/analysis/trace_report.h"
#include "sim/trace/import/import_trace.h"
#include "tests/fuzz/check_timeline.h"
#include "tests/support/nsight_file.h"

namespace {

/// A file of this process, removed with it. SQLite takes paths only.
class ScratchFile {
 public:
  ScratchFile()
      : path_(std::filesystem::temp_directory_path() /
              ("zenflow_fuzz_nsight_" + std::to_string(::getpid()))) {}
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void write(const std::string& bytes) const {
    std::ofstream stream(path_, std::ios::binary | std::ios::trunc);
    if (!(stream << bytes)) throw std::runtime_error("cannot write " + path_.string());
  }

 private:
  std::filesystem::path path_;
};

constexpr const char* kChanges[] = {
    "SELECT 1",
    "DROP TABLE StringIds",
    "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
    "DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET",
    "DROP TABLE ENUM_CUDA_MEMCPY_OPER",
    "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN streamId",
    "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN start",
    "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN copyKind",
    "ALTER TABLE NVTX_EVENTS DROP COLUMN text",
    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9223372036854775807",
    "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET deviceId = -1, bytes = 'x'",
    "UPDATE NVTX_EVENTS SET globalTid = NULL, eventType = 60",
    "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId",
    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0, end = 0",
    "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 1e15, end = 1.5e300, bytes = 7.0",
};

/// The bytes of a good export after one of the changes.
std::string image(std::size_t change) {
  zenflow::testing::NsightFile database(":memory:");
  database.fill();
  database.run(kChanges[change]);
  return database.bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  constexpr std::size_t kCount = std::size(kChanges);
  static const std::vector<std::string> kImages = [] {
    std::vector<std::string> images;
    for (std::size_t i = 0; i < kCount; ++i) images.push_back(image(i));
    return images;
  }();
  std::string bytes = kImages[size == 0 ? 0 : data[0] % kCount];
  for (std::size_t i = 1; i + 2 < size; i += 3) {
    const std::size_t at = (static_cast<std::size_t>(data[i]) << 8U) | data[i + 1];
    bytes[at % bytes.size()] = static_cast<char>(data[i + 2]);
  }
  // An odd length cuts the file.
  if (size % 4 == 3) bytes.resize(bytes.size() * data[size - 1] / 256 + 1);
  const ScratchFile file;
  file.write(bytes);
  try {
    sim::ImportOptions options;
    options.rules = fuzz::rules_for(size);
    const sim::ImportedTrace trace = sim::import_nsight(file.path(), options);
    fuzz::check_timeline(trace);
    const sim::TraceAnalysis analysis = sim::analyze(trace, options.rules);
    fuzz::check_analysis(analysis);
    static_cast<void>(sim::trace_json(trace, analysis, "fuzz.sqlite"));
    static_cast<void>(sim::trace_text(trace, analysis, "fuzz.sqlite", false));
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kInput, "bad bytes are bad input");
  }
  return 0;
}
