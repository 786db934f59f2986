/// The events of a trace that the PyTorch profiler wrote, or another that uses its terms, into a
/// Timeline; what chrome_trace.h wrote is own_trace.h's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/trace/import/chrome_header.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/host_operations.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/import/kineto_event.h"

namespace zenflow::sim {

class ProfilerTraceReader {
 public:
  using Fields = std::vector<std::pair<std::string, std::string>>;

  /// All must outlive the reader.
  ProfilerTraceReader(Timeline& timeline, TraceCollector& collector, LeftOutCounter& left_out,
                      const ImportOptions& options);

  /// ImportedTrace::operators.
  [[nodiscard]] std::vector<OperatorTime> operators() const {
    constexpr std::size_t kMost = 200;
    return operations_.longest(kMost);
  }
  /// What all times count from; from then on events can be taken.
  void set_origin(std::int64_t nanoseconds) { origin_ = nanoseconds; }
  [[nodiscard]] bool has_origin() const { return origin_.has_value(); }
  /// How many of the spans so far are taken for instants.
  [[nodiscard]] std::uint64_t without_duration() const { return without_duration_; }

  /// `offset` is the event's place in the text.
  void take(const KinetoEvent& event, const Fields& fields, std::uint64_t offset);
  /// Whether the trace is of JAX (XLA's profiler): its processes are called "/device:GPU:0", and
  /// its events have no category to go by.
  [[nodiscard]] bool is_of_xla() const;
  /// Rows, devices and processes get their names. Before the collector fills in the spans.
  void name_rows(const ChromeHeader& header);
  /// Absolute times count from the earliest span, others from where the trace says. After the
  /// collector has filled in the spans. False if that place in time is beyond 292 years; then it is
  /// not known.
  [[nodiscard]] bool settle_origin(const ChromeHeader& header);

 private:
  /// An event, with what its text says beside it.
  struct Placed {
    const KinetoEvent& event;
    const Fields& fields;
    std::uint64_t offset;
  };
  struct Times {
    Picoseconds start;
    Picoseconds end;
  };

  void take_metadata(const KinetoEvent& event);
  void take_span(const Placed& placed);
  void take_gpu_work(const Placed& placed, EventClass is);
  void take_call(const Placed& placed);
  void take_host(const Placed& placed, SpanKind kind);
  void take_gpu_range(const Placed& placed);
  void take_operation(const Placed& placed);
  void take_shape(const Placed& placed);
  [[nodiscard]] std::optional<Times> times(const Placed& placed);
  /// The same, without a word where there are none.
  [[nodiscard]] std::optional<Times> times_if_usable(const KinetoEvent& event) const;
  [[nodiscard]] std::optional<Times> times_between(const Placed& placed, const DecimalTime& start);
  [[nodiscard]] TimelineSpan span(const Placed& placed, const Times& when, SpanKind kind);
  [[nodiscard]] TimelineSpan span_of_host(const Placed& placed, const Times& when, SpanKind kind);
  [[nodiscard]] std::int32_t detail(const Placed& placed, SpanKind kind);
  [[nodiscard]] std::int32_t shared_detail(SpanDetail made);
  void leave_out(const Placed& placed, std::string_view what, Picoseconds time = {});
  void cannot_use(const Placed& placed, std::string_view what, Picoseconds time = {});
  void keep(const Placed& placed, const TimelineSpan& made);
  [[nodiscard]] std::int64_t number(std::string_view text);
  [[nodiscard]] std::string text_of(std::int64_t number) const;
  [[nodiscard]] std::int64_t thread_number(const KinetoEvent& event);
  [[nodiscard]] std::int64_t device_of_process(const KinetoEvent& event);
  [[nodiscard]] RowKey thread_key(const KinetoEvent& event);
  [[nodiscard]] std::uint32_t thread_track(const KinetoEvent& event);
  void name_devices(const ChromeHeader& header);

  Timeline* timeline_;
  TraceCollector* collector_;
  LeftOutCounter* left_out_;
  HostOperations operations_;
  NameTable identities_;  // of processes and threads that are not numbered
  std::map<std::int64_t, std::string> process_names_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> thread_names_;
  std::map<SpanDetail, std::int32_t> details_;
  std::optional<std::int64_t> origin_;  // nanoseconds
  std::uint64_t without_duration_ = 0;
};

}  // namespace zenflow::sim
