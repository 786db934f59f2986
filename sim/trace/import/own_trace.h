/// The events of a trace that chrome_trace.h wrote, back into the Timeline that they were.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/trace/import/chrome_header.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/import/kineto_event.h"

namespace zenflow::sim {

/// Everything is kept: writing the timeline again gives the same bytes.
class OwnTraceReader {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  OwnTraceReader(Timeline& timeline, TraceCollector& collector, const ChromeHeader& header);

  void take(const KinetoEvent& event, const Fields& fields, LeftOutCounter& left_out,
            std::uint64_t offset);
  /// After the collector has filled in the spans, in the order of the file.
  void finish();

 private:
  struct Arrow {
    FlowKind kind;
    std::uint32_t from_track;
    std::uint32_t to_track;
    Picoseconds from;
    Picoseconds to;
    bool is_whole;
  };

  bool take_metadata(const KinetoEvent& event);
  /// Why it is left out; empty: it is taken.
  std::string_view take_span(const KinetoEvent& event, const Fields& fields);
  bool take_arrow(const KinetoEvent& event);
  bool take_counter(const KinetoEvent& event, const Fields& fields);
  [[nodiscard]] bool is_device(std::int64_t process) const;
  void settle_tracks();
  void settle_flows();

  Timeline* timeline_;
  TraceCollector* collector_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> tracks_;  // by process, thread
  std::map<SpanDetail, std::int32_t> details_;
  std::vector<Arrow> arrows_;
  std::vector<bool> has_stream_;  // by track: its spans name one
};

}  // namespace zenflow::sim
