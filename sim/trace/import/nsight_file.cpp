#include "sim/trace/import/nsight_file.h"

#include <algorithm>
#include <array>
#include <system_error>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/json_text.h"

namespace zenflow::sim {
namespace {

constexpr std::array<const std::string*, 7> kTimedTables = {
    &nsight::kKernels,     &nsight::kCopies, &nsight::kMemsets, &nsight::kCalls,
    &nsight::kDriverCalls, &nsight::kSyncs,  &nsight::kRanges};

}  // namespace

NsightFile::NsightFile(const std::filesystem::path& path, const ImportOptions& options)
    : name_(path.generic_string()),
      options_(options),
      database_(path),
      collector_(result_.timeline) {
  result_.format = TraceFormat::kNsight;
  check_is_nsight();
  check_is_whole(path);
  count_rows();
  read_strings();
  read_clock();
  find_processes();
}

void NsightFile::check_is_nsight() const {
  static const std::array<std::string, 5> kKnown = {
      nsight::kKernels, nsight::kCopies, nsight::kCalls, "StringIds", "META_DATA_EXPORT"};
  // Its tables have the same names, and other columns.
  const bool is_nvprof = database_.has_table("StringTable") && !database_.has_table("StringIds");
  if (is_nvprof) {
    throw Error(ErrorKind::kInput,
                name_ +
                    ": a database of nvprof, not of Nsight Systems: record with nsys and make "
                    "one with \"nsys export --type sqlite\"");
  }
  const bool is_nsight = std::any_of(kKnown.begin(), kKnown.end(), [&](const std::string& table) {
    return database_.has_table(table);
  });
  if (is_nsight) return;
  throw Error(ErrorKind::kInput,
              fmt::format("{}: a database, but none of Nsight Systems: no table {}, {}, StringIds "
                          "or META_DATA_EXPORT among its {}",
                          name_, nsight::kKernels, nsight::kCopies, database_.tables().size()));
}

/// A program that had the file open may not have put all of it in there.
void NsightFile::check_is_whole(const std::filesystem::path& path) {
  std::filesystem::path log = path;
  log += "-wal";
  std::error_code error;
  const auto size = std::filesystem::file_size(log, error);
  if (!error && size > 0) {
    problem("beside it is a log of changes (" + log.filename().generic_string() +
            "), which is not read: close the program that writes it, or export again");
  }
}

void NsightFile::count_rows() {
  for (const std::string* table : kTimedTables) {
    if (database_.has_table(*table)) total_ += database_.count(*table);
  }
}

void NsightFile::took_row() {
  constexpr std::uint64_t kEvery = 65'536;
  if (++result_.events % kEvery == 0 && options_.progress) {
    options_.progress(result_.events, total_);
  }
}

void NsightFile::read_strings() {
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

NameId NsightFile::string_in(const SqliteRows& rows, int column) {
  if (rows.is_null(column)) return kNoName;
  if (rows.is_number(column)) {
    const auto known = strings_.find(rows.integer(column));
    return known == strings_.end() ? kNoName : known->second;
  }
  return result_.timeline.names.intern(as_utf8(rows.text(column)));
}

/// A few of the file, of GPU work if there is any.
std::vector<std::int64_t> NsightFile::first_starts() const {
  constexpr std::size_t kEnough = 64;
  std::vector<std::int64_t> starts;
  for (const std::string* table : kTimedTables) {
    if (!database_.has_table(*table)) continue;
    SqliteRows rows = database_.rows(*table, {"start"});
    for (std::size_t i = 0; i < kEnough && rows.next(); ++i) {
      if (rows.is_number(0)) starts.push_back(rows.integer(0));
    }
    if (!starts.empty()) break;
  }
  return starts;
}

void NsightFile::read_clock() {
  origin_ = origin_of(first_starts());
  const std::string table = "TARGET_INFO_SESSION_START_TIME";
  if (!database_.has_table(table)) return;
  SqliteRows rows = database_.rows(table, {"utcEpochNs"});
  if (rows.next() && rows.is_number(0)) result_.timeline.origin_nanoseconds = rows.integer(0);
}

void NsightFile::find_processes() {
  std::map<std::int64_t, std::int64_t> first_of_device;
  std::optional<std::int64_t> first;
  for (const std::string* table : {&nsight::kKernels, &nsight::kCopies, &nsight::kMemsets}) {
    if (!database_.has_table(*table)) continue;
    SqliteRows rows = database_.rows(*table, {"deviceId", "globalPid"});
    while (rows.next()) {
      if (rows.is_null(1)) continue;
      const std::int64_t process = nsight::process_of(rows.integer(1));
      const auto [entry, is_new] = first_of_device.try_emplace(rows.integer(0), process);
      if (!is_new && entry->second != process) are_shared_ = true;
      if (process != first.value_or(process)) are_several_ = true;
      first = first.value_or(process);
      if (are_shared_) break;
    }
  }
  if (are_shared_) {
    problem("several processes use the same device number; their work is added up for it");
  }
}

std::optional<std::pair<Picoseconds, Picoseconds>> NsightFile::times(const SqliteRows& rows,
                                                                     const std::string& table) {
  const auto leave_out = [&](const char* what) {
    left_out_.add_unusable(fmt::format("{}: {}", table, what), {}, rows.number(), "row");
  };
  if (!rows.is_number(0) || !rows.is_number(1)) {
    leave_out("rows without a start or an end");
    return std::nullopt;
  }
  const auto start = since({rows.integer(0), 0}, origin_);
  const auto end = since({rows.integer(1), 0}, origin_);
  if (!start || !end) {
    leave_out("rows more than 26 days from most others");
    return std::nullopt;
  }
  if (*end < *start) {
    leave_out("rows that end before they start");
    return std::nullopt;
  }
  // CUPTI's word for it.
  if (rows.integer(0) == 0 && rows.integer(1) == 0) {
    leave_out("rows whose times could not be recorded (zeros)");
    return std::nullopt;
  }
  return std::pair{*start, *end};
}

void NsightFile::keep(const SqliteRows& rows, const std::string& table, const TimelineSpan& span) {
  if (collector_.add(span)) return;
  left_out_.add_unusable(fmt::format("{}: {}", table, TraceCollector::kBeyondSums),
                         span.end - span.start, rows.number(), "row");
}

void NsightFile::finish() {
  collector_.finish(true);
  if (origin_ == 0) return;
  // The epoch of a session whose times are not relative to it says nothing.
  if (__builtin_add_overflow(origin_, collector_.count_from_earliest(),
                             &result_.timeline.origin_nanoseconds)) {
    result_.timeline.origin_nanoseconds = 0;
  }
}

std::int64_t NsightFile::joined(std::int64_t process, std::int64_t correlation) const {
  if (!are_several_ || process <= 0 || correlation < 0 || correlation > 0xFFFFFFFF) {
    return correlation;
  }
  return ((process & 0xFFFFFF) << 32) | correlation;
}

std::map<std::int64_t, std::string> NsightFile::enumeration(
    const std::string& table, std::map<std::int64_t, std::string> fallback) const {
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

}  // namespace zenflow::sim
