#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/phases.h"
#include "sim/trace/import/sqlite_reader.h"
#include "sim/trace/import/steps.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kMostDevices = 4096;

const std::string kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
const std::string kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
const std::string kMemsets = "CUPTI_ACTIVITY_KIND_MEMSET";
const std::string kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
const std::string kDriverCalls = "CUPTI_ACTIVITY_KIND_DRIVER";
const std::string kSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
const std::string kRanges = "NVTX_EVENTS";

/// Serialized ids of Nsight: bits 24 to 47 are the process, the lower ones the thread.
std::int64_t process_of(std::int64_t global) {
  return (global >> 24) & 0xFFFFFF;
}
std::int64_t thread_of(std::int64_t global) {
  return global & 0xFFFFFF;
}

/// As Kineto writes them.
std::string copy_title(const std::string& direction, const std::string& from,
                       const std::string& to) {
  return fmt::format("Memcpy {} ({} -> {})", direction, from, to);
}

class NsightImporter {
 public:
  NsightImporter(const std::filesystem::path& path, const ImportOptions& options)
      : name_(path.generic_string()),
        options_(options),
        database_(path),
        collector_(result_.timeline) {
    result_.format = TraceFormat::kNsight;
  }

  ImportedTrace import() {
    check_is_nsight();
    count_rows();
    read_strings();
    read_clock();
    find_processes();
    read_kernels();
    read_copies();
    read_memsets();
    read_calls(kCalls);
    read_calls(kDriverCalls);
    read_syncs();
    read_ranges();
    count_others();
    finish();
    return std::move(result_);
  }

 private:
  void check_is_nsight() {
    static const std::array<std::string, 5> kKnown = {kKernels, kCopies, kCalls, "StringIds",
                                                      "META_DATA_EXPORT"};
    const bool is_nsight = std::any_of(kKnown.begin(), kKnown.end(), [&](const std::string& table) {
      return database_.has_table(table);
    });
    if (is_nsight) return;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: a database, but none of Nsight Systems: no table {}, {}, StringIds or "
                    "META_DATA_EXPORT among its {}",
                    name_, kKernels, kCopies, database_.tables().size()));
  }

  void problem(const std::string& what) { result_.problems.push_back(name_ + ": " + what); }

  void count_rows() {
    for (const std::string* table :
         {&kKernels, &kCopies, &kMemsets, &kCalls, &kDriverCalls, &kSyncs, &kRanges}) {
      if (database_.has_table(*table)) total_ += database_.count(*table);
    }
  }

  void took_row() {
    constexpr std::uint64_t kEvery = 65'536;
    if (++result_.events % kEvery == 0 && options_.progress)
      options_.progress(result_.events, total_);
  }

  void read_strings() {
    if (!database_.has_table("StringIds")) {
      problem("no table StringIds: names are missing");
      return;
    }
    SqliteRows rows = database_.rows("StringIds", {"id", "value"});
    while (rows.next()) {
      const std::string_view text = rows.text(1);
      NameTable& names = result_.timeline.names;
      const NameId id = is_utf8(text) ? names.intern(text) : names.intern(as_utf8(text));
      strings_[rows.integer(0)] = id;
    }
  }

  /// The text of a column that is a number into StringIds or, in some exports, the text itself.
  NameId string_in(const SqliteRows& rows, int column) {
    if (rows.is_null(column)) return kNoName;
    if (rows.is_number(column)) {
      const auto known = strings_.find(rows.integer(column));
      return known == strings_.end() ? kNoName : known->second;
    }
    return result_.timeline.names.intern(as_utf8(rows.text(column)));
  }

  void read_clock() {
    const std::string table = "TARGET_INFO_SESSION_START_TIME";
    if (!database_.has_table(table)) return;
    SqliteRows rows = database_.rows(table, {"utcEpochNs"});
    if (rows.next() && rows.is_number(0)) result_.timeline.origin_nanoseconds = rows.integer(0);
  }

  /// Whether several processes have work on the same device number, whose streams are then kept
  /// apart.
  void find_processes() {
    std::map<std::int64_t, std::int64_t> first_of_device;
    for (const std::string* table : {&kKernels, &kCopies, &kMemsets}) {
      if (!database_.has_table(*table)) continue;
      SqliteRows rows = database_.rows(*table, {"deviceId", "globalPid"});
      while (rows.next()) {
        if (rows.is_null(1)) continue;
        const std::int64_t process = process_of(rows.integer(1));
        const auto [entry, is_new] = first_of_device.try_emplace(rows.integer(0), process);
        if (!is_new && entry->second != process) are_shared_ = true;
        if (process != first_of_device.begin()->second) are_several_ = true;
        if (are_shared_) break;
      }
    }
    if (are_shared_) {
      problem("several processes use the same device number; their work is added up for it");
    }
  }

  /// Start and end on the timeline's clock; if they cannot be, says why.
  std::optional<std::pair<Picoseconds, Picoseconds>> times(const SqliteRows& rows,
                                                           const std::string& table) {
    const auto leave_out = [&](const char* what, Picoseconds time = {}) {
      left_out_.add(fmt::format("{}: {}", table, what), time, rows.number(), "row");
    };
    if (!rows.is_number(0) || !rows.is_number(1)) {
      leave_out("rows without a start or an end");
      return std::nullopt;
    }
    const auto start = since({rows.integer(0), 0}, 0);
    const auto end = since({rows.integer(1), 0}, 0);
    if (!start || !end) {
      leave_out("rows more than 100 days from the session's start");
      return std::nullopt;
    }
    if (*end < *start) {
      leave_out("rows that end before they start");
      return std::nullopt;
    }
    return std::pair{*start, *end};
  }

  struct Work {
    TimelineSpan span;
    std::int64_t process = -1;
  };

  static constexpr int kDevice = 2;
  static constexpr int kStream = 3;
  static constexpr int kCorrelation = 4;
  static constexpr int kProcess = 5;
  static std::vector<std::string> work_columns(std::initializer_list<const char*> more) {
    std::vector<std::string> columns = {"start",    "end",           "deviceId",
                                        "streamId", "correlationId", "globalPid"};
    columns.insert(columns.end(), more.begin(), more.end());
    return columns;
  }

  /// The columns that all work on a GPU has.
  bool add_work(const SqliteRows& rows, const std::string& table, TimelineSpan span) {
    took_row();
    const auto when = times(rows, table);
    if (!when) return false;
    const std::int64_t device = rows.integer(kDevice);
    if (device < 0 || device >= kMostDevices) {
      left_out_.add(table + ": rows of a device that is no number below 4096",
                    when->second - when->first, rows.number(), "row");
      return false;
    }
    const std::int64_t process = rows.is_null(kProcess) ? -1 : process_of(rows.integer(kProcess));
    span.start = when->first;
    span.end = when->second;
    if (rows.is_number(kCorrelation))
      span.correlation = joined(process, rows.integer(kCorrelation));
    const std::int64_t stream = rows.integer(kStream);
    span.track =
        collector_.track({RowKey::Row::kStream, device, are_shared_ ? process : -1, stream});
    Track& track = result_.timeline.tracks[span.track];
    if (track.name.empty()) {
      track.name = are_shared_ ? fmt::format("stream {} of process {}", stream, process)
                               : fmt::format("stream {}", stream);
      if (are_shared_) track.number = -1;
    }
    devices_ = std::max(devices_, device + 1);
    collector_.add(span);
    return true;
  }

  /// Correlation numbers count in each process.
  [[nodiscard]] std::int64_t joined(std::int64_t process, std::int64_t correlation) const {
    if (!are_several_ || process <= 0 || correlation < 0 || correlation > 0xFFFFFFFF)
      return correlation;
    return ((process & 0xFFFFFF) << 32) | correlation;
  }

  void read_kernels() {
    if (!database_.has_table(kKernels)) {
      problem("no table " + kKernels + ": no kernel was traced");
      return;
    }
    SqliteRows rows = database_.rows(
        kKernels, work_columns({"demangledName", "shortName", "mangledName", "name"}));
    while (rows.next()) {
      TimelineSpan span{.kind = SpanKind::kKernel};
      constexpr int kFirstName = kProcess + 1;
      for (int column = kFirstName; column < kFirstName + 4 && span.name == kNoName; ++column) {
        span.name = string_in(rows, column);
      }
      if (span.name == kNoName) span.name = unnamed_kernel();
      if (is_collective(result_.timeline.names[span.name])) span.kind = SpanKind::kCollective;
      add_work(rows, kKernels, span);
    }
    if (result_.events == 0) problem("table " + kKernels + " is empty: no kernel was traced");
  }

  NameId unnamed_kernel() {
    ++unnamed_;
    return result_.timeline.names.intern("kernel without a name");
  }

  /// An enumeration's texts; those of releases that did not export it otherwise.
  std::map<std::int64_t, std::string> enumeration(const std::string& table,
                                                  std::map<std::int64_t, std::string> fallback) {
    if (!database_.has_table(table)) return fallback;
    std::map<std::int64_t, std::string> found;
    SqliteRows rows = database_.rows(table, {"id", "name", "label"});
    while (rows.next()) {
      const std::string_view name = rows.text(1);
      const std::string_view label = rows.text(2);
      found[rows.integer(0)] = fmt::format("{} {}", as_utf8(name), as_utf8(label));
    }
    return found.empty() ? fallback : found;
  }

  static std::string direction_of(const std::string& operation) {
    struct Row {
      std::string_view part;
      const char* is;
    };
    static constexpr std::array<Row, 10> kRows{{{"HTOD", "HtoD"},
                                                {"DTOH", "DtoH"},
                                                {"DTOD", "DtoD"},
                                                {"HTOH", "HtoH"},
                                                {"PTOP", "PtoP"},
                                                {"HTOA", "HtoA"},
                                                {"ATOH", "AtoH"},
                                                {"ATOD", "AtoD"},
                                                {"DTOA", "DtoA"},
                                                {"ATOA", "AtoA"}}};
    for (const Row& row : kRows) {
      if (operation.find(row.part) != operation.npos) return row.is;
    }
    const CopyName named = copy_name(operation);
    return to_string(named.direction);
  }

  static std::string memory_of(const std::string& kind) {
    struct Row {
      std::string_view part;
      const char* is;
    };
    static constexpr std::array<Row, 11> kRows{{{"PAGEABLE", "Pageable"},
                                                {"Pageable", "Pageable"},
                                                {"PINNED", "Pinned"},
                                                {"Pinned", "Pinned"},
                                                {"MANAGED", "Managed"},
                                                {"Managed", "Managed"},
                                                {"DEVICE", "Device"},
                                                {"Device", "Device"},
                                                {"ARRAY", "Array"},
                                                {"Array", "Array"},
                                                {"UNKNOWN", "Unknown"}}};
    for (const Row& row : kRows) {
      if (kind.find(row.part) != kind.npos) return row.is;
    }
    return "Unknown";
  }

  void read_copies() {
    if (!database_.has_table(kCopies)) return;
    // CUPTI's numbers (cupti_activity.h), and Nsight's own of memory kinds, which start at pageable
    // 0.
    const auto operations = enumeration("ENUM_CUDA_MEMCPY_OPER", {{1, "HTOD"},
                                                                  {2, "DTOH"},
                                                                  {3, "HTOA"},
                                                                  {4, "ATOH"},
                                                                  {5, "ATOA"},
                                                                  {6, "ATOD"},
                                                                  {7, "DTOA"},
                                                                  {8, "DTOD"},
                                                                  {9, "HTOH"},
                                                                  {10, "PTOP"},
                                                                  {11, "HTOD"},
                                                                  {12, "DTOH"},
                                                                  {13, "DTOD"}});
    const auto kinds = enumeration("ENUM_CUDA_MEM_KIND", {{0, "Pageable"},
                                                          {1, "Pinned"},
                                                          {2, "Device"},
                                                          {3, "Array"},
                                                          {4, "Managed"},
                                                          {5, "Device"},
                                                          {6, "Managed"}});
    const auto text_of = [](const auto& texts, const SqliteRows& rows, int column) -> std::string {
      if (!rows.is_number(column)) return std::string(rows.text(column));
      const auto known = texts.find(rows.integer(column));
      return known == texts.end() ? "" : known->second;
    };
    constexpr int kBytes = kProcess + 1;
    SqliteRows rows =
        database_.rows(kCopies, work_columns({"bytes", "copyKind", "srcKind", "dstKind"}));
    while (rows.next()) {
      const std::string title = copy_title(direction_of(text_of(operations, rows, kBytes + 1)),
                                           memory_of(text_of(kinds, rows, kBytes + 2)),
                                           memory_of(text_of(kinds, rows, kBytes + 3)));
      TimelineSpan span{.name = result_.timeline.names.intern(title), .kind = SpanKind::kCopy};
      span.bytes = rows.is_number(kBytes) ? static_cast<double>(rows.integer(kBytes)) : -1;
      add_work(rows, kCopies, span);
    }
  }

  void read_memsets() {
    if (!database_.has_table(kMemsets)) return;
    constexpr int kBytes = kProcess + 1;
    SqliteRows rows = database_.rows(kMemsets, work_columns({"bytes"}));
    const NameId title = result_.timeline.names.intern("Memset (Device)");
    while (rows.next()) {
      TimelineSpan span{.name = title, .kind = SpanKind::kMemset};
      span.bytes = rows.is_number(kBytes) ? static_cast<double>(rows.integer(kBytes)) : -1;
      add_work(rows, kMemsets, span);
    }
  }

  std::uint32_t thread_track(std::int64_t global) {
    const std::uint32_t track =
        collector_.track({RowKey::Row::kThread, process_of(global), -1, thread_of(global)});
    Track& made = result_.timeline.tracks[track];
    if (made.name.empty()) made.name = fmt::format("thread {}", thread_of(global));
    return track;
  }

  void read_calls(const std::string& table) {
    if (!database_.has_table(table)) return;
    SqliteRows rows =
        database_.rows(table, {"start", "end", "globalTid", "correlationId", "nameId"});
    while (rows.next()) {
      took_row();
      const auto when = times(rows, table);
      if (!when) continue;
      const NameId name = string_in(rows, 4);
      const std::string& text = result_.timeline.names[name];
      const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
      const bool launches = has("Launch") || has("Memcpy") || has("Memset") || has("MemPrefetch");
      if (!launches && !has("Synchronize") && !has("StreamWaitEvent")) {
        left_out_.add(table + ": calls that neither launch nor wait", when->second - when->first,
                      rows.number(), "row");
        continue;
      }
      const std::int64_t global = rows.integer(2);
      TimelineSpan span{.track = thread_track(global),
                        .name = name,
                        .start = when->first,
                        .end = when->second,
                        .kind = launches ? SpanKind::kLaunch : SpanKind::kCall};
      if (rows.is_number(3)) span.correlation = joined(process_of(global), rows.integer(3));
      collector_.add(span);
    }
  }

  void read_syncs() {
    if (!database_.has_table(kSyncs)) return;
    const auto types = enumeration(
        "ENUM_CUPTI_SYNC_TYPE",
        {{1, "Event sync"}, {2, "Stream wait sync"}, {3, "Stream sync"}, {4, "Context sync"}});
    SqliteRows rows = database_.rows(
        kSyncs, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType"});
    while (rows.next()) {
      took_row();
      const auto when = times(rows, kSyncs);
      if (!when) continue;
      const auto known = types.find(rows.integer(6));
      const std::string type = known == types.end() ? "" : known->second;
      const auto has = [&](std::string_view part) { return type.find(part) != type.npos; };
      std::string title = "Context Sync";
      if (has("Stream sync") || has("STREAM_SYNC")) title = "Stream Sync";
      if (has("Event sync") || has("EVENT_SYNC")) title = "Event Sync";
      if (has("Stream wait") || has("STREAM_WAIT")) title = "Stream Wait Event";
      const std::int64_t process = rows.is_null(kProcess) ? 0 : process_of(rows.integer(kProcess));
      TimelineSpan span{.name = result_.timeline.names.intern(title),
                        .start = when->first,
                        .end = when->second,
                        .kind = SpanKind::kSync};
      if (rows.is_number(kCorrelation))
        span.correlation = joined(process, rows.integer(kCorrelation));
      span.track = collector_.track({RowKey::Row::kThread, process, -1, kSyncThread});
      result_.timeline.tracks[span.track].name = "synchronization";
      result_.timeline.tracks[span.track].number = -1;
      collector_.add(span);
    }
  }

  void read_ranges() {
    if (!database_.has_table(kRanges)) return;
    constexpr std::int64_t kPushPop = 59;
    constexpr std::int64_t kStartEnd = 60;
    SqliteRows rows =
        database_.rows(kRanges, {"start", "end", "globalTid", "eventType", "text", "textId"});
    while (rows.next()) {
      took_row();
      const bool is_range =
          rows.is_null(3) || rows.integer(3) == kPushPop || rows.integer(3) == kStartEnd;
      if (!is_range) {
        left_out_.add(kRanges + ": marks and names", {}, rows.number(), "row");
        continue;
      }
      if (rows.is_null(1)) {
        left_out_.add(kRanges + ": ranges that were not ended", {}, rows.number(), "row");
        continue;
      }
      const auto when = times(rows, kRanges);
      if (!when) continue;
      NameId name = string_in(rows, 4);
      if (name == kNoName) name = string_in(rows, 5);
      if (name == kNoName) {
        left_out_.add(kRanges + ": ranges without a text", when->second - when->first,
                      rows.number(), "row");
        continue;
      }
      const std::uint32_t track = thread_track(rows.integer(2));
      collector_.add({.track = track,
                      .name = name,
                      .start = when->first,
                      .end = when->second,
                      .kind = SpanKind::kRange});
    }
  }

  /// Traced things that have a table of their own.
  void count_others() {
    for (const std::string& table : database_.tables()) {
      const bool is_read = table == kKernels || table == kCopies || table == kMemsets ||
                           table == kCalls || table == kDriverCalls || table == kSyncs ||
                           table == kRanges;
      const bool is_traced = table.starts_with("CUPTI_ACTIVITY_KIND_") || table == "OSRT_API" ||
                             table == "CUDA_UM_CPU_PAGE_FAULT_EVENTS" || table == "CUDNN_EVENTS" ||
                             table == "CUBLAS_EVENTS" || table == "GPU_METRICS" ||
                             table == "COMPOSITE_EVENTS" || table == "SCHED_EVENTS";
      if (is_read || !is_traced) continue;
      if (table == "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" && database_.count(table) > 0) {
        problem(
            fmt::format("{} CUDA graphs were traced as a whole: what ran in them is not in the "
                        "file and counts as "
                        "idle (record with --cuda-graph-trace=node)",
                        database_.count(table)));
      }
      const bool has_times =
          database_.has_column(table, "start") && database_.has_column(table, "end");
      SqliteRows rows = database_.rows(table, {"start", "end"});
      while (rows.next()) {
        const auto when = has_times && rows.is_number(0) && rows.is_number(1)
                              ? since({rows.integer(1), 0}, rows.integer(0))
                              : std::nullopt;
        const bool is_duration = when && when->count > 0;
        left_out_.add(table, is_duration ? *when : Picoseconds{}, rows.number(), "row");
      }
    }
  }

  void name_devices() {
    Timeline& timeline = result_.timeline;
    for (std::int64_t i = 0; i < devices_; ++i)
      timeline.devices.push_back(fmt::format("GPU {}", i));
    const std::string table = "TARGET_INFO_GPU";
    if (!database_.has_table(table)) return;
    SqliteRows rows = database_.rows(table, {"cuDevice", "id", "name"});
    while (rows.next()) {
      const std::int64_t number = rows.is_number(0) ? rows.integer(0) : -1;
      const bool is_ours = number >= 0 && number < devices_ && !rows.text(2).empty();
      if (is_ours) timeline.devices[static_cast<std::size_t>(number)] = as_utf8(rows.text(2));
    }
  }

  void name_threads() {
    Timeline& timeline = result_.timeline;
    if (database_.has_table("ThreadNames")) {
      std::map<std::pair<std::int64_t, std::int64_t>, NameId> names;
      SqliteRows rows = database_.rows("ThreadNames", {"globalTid", "nameId"});
      while (rows.next()) {
        const std::int64_t global = rows.integer(0);
        names[{process_of(global), thread_of(global)}] = string_in(rows, 1);
      }
      for (Track& track : timeline.tracks) {
        const auto known = names.find({track.process, track.number});
        if (known == names.end() || known->second == kNoName) continue;
        track.name = fmt::format("thread {} {}", track.number, timeline.names[known->second]);
      }
    }
    if (!database_.has_table("PROCESSES")) return;
    SqliteRows rows = database_.rows("PROCESSES", {"pid", "name"});
    while (rows.next()) {
      const std::int64_t number = rows.integer(0);
      const bool has_track = std::any_of(timeline.tracks.begin(), timeline.tracks.end(),
                                         [&](const Track& one) { return one.process == number; });
      if (has_track) timeline.processes.push_back({number, as_utf8(rows.text(1))});
    }
  }

  void read_metadata() {
    const std::string table = "META_DATA_EXPORT";
    if (!database_.has_table(table)) return;
    SqliteRows rows = database_.rows(table, {"name", "value"});
    while (rows.next()) {
      if (rows.text(0) != "EXPORT_PRODUCT_VERSION" && rows.text(0) != "EXPORT_SCHEMA_VERSION")
        continue;
      result_.timeline.metadata.emplace_back(as_utf8(rows.text(0)),
                                             nlohmann::json(as_utf8(rows.text(1))).dump());
    }
  }

  void finish() {
    name_devices();
    name_threads();
    read_metadata();
    if (unnamed_ > 0) problem(fmt::format("{} kernels have no name in the file", unnamed_));
    Timeline& timeline = result_.timeline;
    timeline.name = std::filesystem::path(name_).filename().string();
    collector_.finish(true);
    const std::vector<std::uint32_t> launch = launch_of_spans(timeline);
    assign_phases(timeline, launch, collector_.intervals(), options_.rules);
    result_.step_source = find_steps(timeline, launch, options_.rules, options_.steps);
    result_.left_out = left_out_.take();
  }

  static constexpr std::int64_t kSyncThread = -2;

  std::string name_;
  const ImportOptions& options_;
  SqliteDatabase database_;
  ImportedTrace result_;
  TraceCollector collector_;
  LeftOutCounter left_out_;
  std::unordered_map<std::int64_t, NameId> strings_;
  std::int64_t devices_ = 0;
  std::uint64_t unnamed_ = 0;
  std::uint64_t total_ = 0;
  bool are_shared_ = false;   // a device by several processes
  bool are_several_ = false;  // processes with GPU work
};

}  // namespace

ImportedTrace import_nsight(const std::filesystem::path& path, const ImportOptions& options) {
  return NsightImporter(path, options).import();
}

}  // namespace zenflow::sim
