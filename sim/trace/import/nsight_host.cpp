#include "sim/trace/import/nsight_host.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/trace/import/json_text.h"

namespace zenflow::sim {

namespace {

constexpr std::int64_t kSyncThread = -2;

std::uint32_t thread_track(NsightFile& file, std::int64_t global) {
  const std::uint32_t track = file.collector().track(
      {RowKey::Row::kThread, nsight::process_of(global), -1, nsight::thread_of(global)});
  Track& made = file.timeline().tracks[track];
  if (made.name.empty()) made.name = fmt::format("thread {}", nsight::thread_of(global));
  return track;
}

void read_calls(NsightFile& file, const std::string& table) {
  if (!file.database().has_table(table)) return;
  SqliteRows rows =
      file.database().rows(table, {"start", "end", "globalTid", "correlationId", "nameId"});
  while (rows.next()) {
    file.took_row();
    const auto when = file.times(rows, table);
    if (!when) continue;
    const NameId name = file.string_in(rows, 4);
    const std::string& text = file.timeline().names[name];
    const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
    const bool launches = has("Launch") || has("Memcpy") || has("Memset") || has("MemPrefetch");
    if (!launches && !has("Synchronize") && !has("StreamWaitEvent")) {
      file.left_out().add(table + ": calls that neither launch nor wait",
                          when->second - when->first, rows.number(), "row");
      continue;
    }
    const std::int64_t global = rows.integer(2);
    TimelineSpan span{.track = thread_track(file, global),
                      .name = name,
                      .start = when->first,
                      .end = when->second,
                      .kind = launches ? SpanKind::kLaunch : SpanKind::kCall};
    if (rows.is_number(3))
      span.correlation = file.joined(nsight::process_of(global), rows.integer(3));
    file.keep(rows, table, span);
  }
}

void read_syncs(NsightFile& file) {
  if (!file.database().has_table(nsight::kSyncs)) return;
  const auto types = file.enumeration(
      "ENUM_CUPTI_SYNC_TYPE",
      {{1, "Event sync"}, {2, "Stream wait sync"}, {3, "Stream sync"}, {4, "Context sync"}});
  constexpr int kCorrelation = 4;
  constexpr int kProcess = 5;
  constexpr int kType = 6;
  SqliteRows rows = file.database().rows(
      nsight::kSyncs,
      {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "syncType"});
  while (rows.next()) {
    file.took_row();
    const auto when = file.times(rows, nsight::kSyncs);
    if (!when) continue;
    const auto known = types.find(rows.integer(kType));
    const std::string type = known == types.end() ? "" : known->second;
    const auto has = [&](std::string_view part) { return type.find(part) != type.npos; };
    std::string title = "Context Sync";
    if (has("Stream sync") || has("STREAM_SYNC")) title = "Stream Sync";
    if (has("Event sync") || has("EVENT_SYNC")) title = "Event Sync";
    if (has("Stream wait") || has("STREAM_WAIT")) title = "Stream Wait Event";
    const std::int64_t process =
        rows.is_null(kProcess) ? 0 : nsight::process_of(rows.integer(kProcess));
    TimelineSpan span{.name = file.timeline().names.intern(title),
                      .start = when->first,
                      .end = when->second,
                      .kind = SpanKind::kSync};
    if (rows.is_number(kCorrelation)) {
      span.correlation = file.joined(process, rows.integer(kCorrelation));
    }
    span.track = file.collector().track({RowKey::Row::kThread, process, -1, kSyncThread});
    file.timeline().tracks[span.track].name = "synchronization";
    file.timeline().tracks[span.track].number = -1;
    file.keep(rows, nsight::kSyncs, span);
  }
}

void read_ranges(NsightFile& file) {
  if (!file.database().has_table(nsight::kRanges)) return;
  // Ranges of the program, pushed or started; the same read from a text file.
  constexpr std::array<std::int64_t, 4> kRangeTypes = {59, 60, 70, 71};
  SqliteRows rows = file.database().rows(
      nsight::kRanges, {"start", "end", "globalTid", "eventType", "text", "textId"});
  while (rows.next()) {
    file.took_row();
    const bool is_range = rows.is_null(3) || std::find(kRangeTypes.begin(), kRangeTypes.end(),
                                                       rows.integer(3)) != kRangeTypes.end();
    if (!is_range) {
      file.left_out().add(nsight::kRanges + ": marks and names", {}, rows.number(), "row");
      continue;
    }
    if (rows.is_null(1)) {
      file.left_out().add(nsight::kRanges + ": ranges that were not ended", {}, rows.number(),
                          "row");
      continue;
    }
    const auto when = file.times(rows, nsight::kRanges);
    if (!when) continue;
    NameId name = file.string_in(rows, 4);
    if (name == kNoName) name = file.string_in(rows, 5);
    if (name == kNoName) {
      file.left_out().add(nsight::kRanges + ": ranges without a text", when->second - when->first,
                          rows.number(), "row");
      continue;
    }
    const std::uint32_t track = thread_track(file, rows.integer(2));
    file.keep(rows, nsight::kRanges,
              {.track = track,
               .name = name,
               .start = when->first,
               .end = when->second,
               .kind = SpanKind::kRange});
  }
}

}  // namespace

void read_host_events(NsightFile& file) {
  read_calls(file, nsight::kCalls);
  read_calls(file, nsight::kDriverCalls);
  read_syncs(file);
  read_ranges(file);
}

void name_threads(NsightFile& file) {
  Timeline& timeline = file.timeline();
  if (file.database().has_table("ThreadNames")) {
    std::map<std::pair<std::int64_t, std::int64_t>, NameId> names;
    SqliteRows rows = file.database().rows("ThreadNames", {"globalTid", "nameId"});
    while (rows.next()) {
      const std::int64_t global = rows.integer(0);
      names[{nsight::process_of(global), nsight::thread_of(global)}] = file.string_in(rows, 1);
    }
    for (Track& track : timeline.tracks) {
      const auto known = names.find({track.process, track.number});
      if (known == names.end() || known->second == kNoName) continue;
      track.name = fmt::format("thread {} {}", track.number, timeline.names[known->second]);
    }
  }
  if (!file.database().has_table("PROCESSES")) return;
  SqliteRows rows = file.database().rows("PROCESSES", {"pid", "name"});
  while (rows.next()) {
    const std::int64_t number = rows.integer(0);
    const bool has_track = std::any_of(timeline.tracks.begin(), timeline.tracks.end(),
                                       [&](const Track& one) { return one.process == number; });
    if (has_track) timeline.processes.push_back({number, as_utf8(rows.text(1))});
  }
}

}  // namespace zenflow::sim
