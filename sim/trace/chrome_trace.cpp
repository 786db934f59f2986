#include "sim/trace/chrome_trace.h"

#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace zenflow::sim {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

/// Integer picoseconds as decimal microseconds: no floating-point value is involved.
std::string microseconds(Picoseconds time) {
  constexpr std::int64_t kPerMicrosecond = 1'000'000;
  return fmt::format("{}.{:06}", time.count / kPerMicrosecond, time.count % kPerMicrosecond);
}

const char* category(const TimelineSpan& span, const Track& track) {
  switch (track.kind) {
    case TrackKind::kGpuKernels:
      return "kernel";
    case TrackKind::kGpuCopies:
      return span.bytes > 0 ? "gpu_memcpy" : "kernel";
    case TrackKind::kHost:
      return "cpu_op";
    case TrackKind::kRuntime:
      return "cuda_runtime";
  }
  return "cpu_op";
}

class Writer {
 public:
  explicit Writer(const Timeline& timeline) : timeline_(timeline) {}

  std::string write() {
    append(
        "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":0,"
        "\"traceName\":{},\"deviceProperties\":[",
        quoted(timeline_.name));
    for (std::size_t i = 0; i < timeline_.devices.size(); ++i) {
      append("{}{{\"id\":{},\"name\":{}}}", i == 0 ? "" : ",", i, quoted(timeline_.devices[i]));
    }
    append("],\"traceEvents\":[\n");
    metadata();
    for (const TimelineStep& step : timeline_.steps) annotate(step);
    for (std::size_t i = 0; i < timeline_.spans.size(); ++i) slice(i);
    for (std::size_t i = 0; i < timeline_.flows.size(); ++i) arrow(i);
    for (const TimelineCounter& counter : timeline_.counters) count(counter);
    append("\n]}}\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void next_event() {
    if (!first_) out_ += ",\n";
    first_ = false;
  }

  /// Thread numbers: 0 holds the steps, tracks follow.
  static std::size_t thread(std::size_t track) { return track + 1; }

  void metadata() {
    for (std::size_t i = 0; i < timeline_.devices.size(); ++i) {
      next_event();
      append(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})", i,
             quoted(timeline_.devices[i]));
      next_event();
      append(R"({{"ph":"M","name":"thread_name","pid":{},"tid":0,"args":{{"name":"steps"}}}})", i);
    }
    for (std::size_t i = 0; i < timeline_.tracks.size(); ++i) {
      const Track& track = timeline_.tracks[i];
      next_event();
      append(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
             track.device, thread(i), quoted(track.name));
      next_event();
      append(
          R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
          track.device, thread(i), i);
    }
  }

  void annotate(const TimelineStep& step) {
    next_event();
    append(R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":0,"tid":0,)"
           R"("ts":{},"dur":{},"args":{{}}}})",
           step.number, microseconds(step.start), microseconds(step.end - step.start));
  }

  void slice(std::size_t index) {
    const TimelineSpan& span = timeline_.spans[index];
    const Track& track = timeline_.tracks[span.track];
    next_event();
    append(R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{)",
           category(span, track), quoted(span.name), track.device, thread(span.track),
           microseconds(span.start), microseconds(span.end - span.start));
    append(R"("step":{})", span.step);
    if (track.kind == TrackKind::kGpuKernels || track.kind == TrackKind::kGpuCopies) {
      append(R"(,"device":{},"stream":{})", track.device, thread(span.track));
    }
    if (span.correlation >= 0) append(R"(,"correlation":{})", span.correlation);
    if (span.bytes > 0) {
      const auto bytes = static_cast<std::int64_t>(span.bytes + 0.5);
      append(R"(,"bytes":{})", bytes);
      if (span.end > span.start) {
        append(R"_(,"memory bandwidth (GB/s)":{:.3f})_",
               span.bytes / (to_seconds(span.end - span.start).value() * 1e9));
      }
    }
    if (span.stalled.count > 0) {
      append(R"(,"stalled_us":{},"cause":{})", microseconds(span.stalled), quoted(span.cause));
    }
    append("}}}}");
  }

  void arrow(std::size_t index) {
    const TimelineFlow& flow = timeline_.flows[index];
    const TimelineSpan& from = timeline_.spans[flow.from];
    const TimelineSpan& to = timeline_.spans[flow.to];
    next_event();
    append(
        R"({{"ph":"s","cat":"dependency","name":"dependency","id":{},"pid":{},"tid":{},"ts":{}}})",
        index, timeline_.tracks[from.track].device, thread(from.track), microseconds(from.start));
    next_event();
    append(R"({{"ph":"f","bp":"e","cat":"dependency","name":"dependency","id":{},"pid":{},)"
           R"("tid":{},"ts":{}}})",
           index, timeline_.tracks[to.track].device, thread(to.track), microseconds(to.start));
  }

  void count(const TimelineCounter& counter) {
    for (const auto& [time, values] : counter.samples) {
      next_event();
      append(R"({{"ph":"C","name":{},"pid":{},"tid":0,"ts":{},"args":{{)", quoted(counter.name),
             counter.device, microseconds(time));
      for (std::size_t i = 0; i < values.size(); ++i) {
        append("{}{}:{}", i == 0 ? "" : ",", quoted(counter.series[i]),
               nlohmann::json(values[i]).dump());
      }
      append("}}}}");
    }
  }

  const Timeline& timeline_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
  return Writer(timeline).write();
}

}  // namespace zenflow::sim
