/// What reading any table of a Nsight Systems export needs: its clock, texts and processes, and the
/// timeline that is being made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/trace/import/collector.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/import/sqlite_reader.h"

namespace zenflow::sim {

namespace nsight {
inline const std::string kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
inline const std::string kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
inline const std::string kMemsets = "CUPTI_ACTIVITY_KIND_MEMSET";
inline const std::string kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
inline const std::string kDriverCalls = "CUPTI_ACTIVITY_KIND_DRIVER";
inline const std::string kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
inline const std::string kRanges = "NVTX_EVENTS";

/// Serialized ids: bits 24 to 47 are the process, the lower ones the thread.
[[nodiscard]] constexpr std::int64_t process_of(std::int64_t global) {
  return (global >> 24) & 0xFFFFFF;
}
[[nodiscard]] constexpr std::int64_t thread_of(std::int64_t global) {
  return global & 0xFFFFFF;
}
}  // namespace nsight

class NsightFile {
 public:
  /// Throws Error(kInput) if `path` is no database of Nsight Systems. `options` must outlive it.
  NsightFile(const std::filesystem::path& path, const ImportOptions& options);
  NsightFile(const NsightFile&) = delete;
  NsightFile& operator=(const NsightFile&) = delete;

  [[nodiscard]] const SqliteDatabase& database() const { return database_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] ImportedTrace& result() { return result_; }
  [[nodiscard]] Timeline& timeline() { return result_.timeline; }
  [[nodiscard]] TraceCollector& collector() { return collector_; }
  [[nodiscard]] LeftOutCounter& left_out() { return left_out_; }

  void problem(const std::string& what) { result_.problems.push_back(name_ + ": " + what); }
  /// Counts a row that is read, and reports progress now and then.
  void took_row();
  /// Whether several processes have work on the same device number, whose streams are then kept
  /// apart.
  [[nodiscard]] bool are_devices_shared() const { return are_shared_; }

  /// The text of a column that is a number into StringIds or, in some exports, the text itself.
  [[nodiscard]] NameId string_in(const SqliteRows& rows, int column);
  /// After the last row: the timeline has all spans and begins with the first of them if the file's
  /// times are absolute.
  void finish();
  /// Columns 0 and 1, start and end, on the timeline's clock; if they cannot be, says why.
  [[nodiscard]] std::optional<std::pair<Picoseconds, Picoseconds>> times(const SqliteRows& rows,
                                                                         const std::string& table);
  /// A span of the row that `rows` stands at, onto the timeline; if it cannot be, says why.
  void keep(const SqliteRows& rows, const std::string& table, const TimelineSpan& span);
  /// Correlation numbers count in each process.
  [[nodiscard]] std::int64_t joined(std::int64_t process, std::int64_t correlation) const;
  /// An enumeration's texts; `fallback` for releases that did not export it.
  [[nodiscard]] std::map<std::int64_t, std::string> enumeration(
      const std::string& table, std::map<std::int64_t, std::string> fallback) const;

 private:
  void check_is_nsight() const;
  void check_is_whole(const std::filesystem::path& path);
  void count_rows();
  void read_strings();
  void read_clock();
  [[nodiscard]] std::vector<std::int64_t> first_starts() const;
  void find_processes();

  std::string name_;
  const ImportOptions& options_;
  SqliteDatabase database_;
  ImportedTrace result_;
  TraceCollector collector_;
  LeftOutCounter left_out_;
  std::unordered_map<std::int64_t, NameId> strings_;
  std::int64_t origin_ = 0;   // of the file's clock, where the timeline's is zero
  std::uint64_t total_ = 0;   // rows that will be read
  bool are_shared_ = false;   // a device by several processes
  bool are_several_ = false;  // processes with GPU work
};

}  // namespace zenflow::sim
