#include "sim/trace/chrome_trace.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

/// Integer picoseconds as decimal microseconds: no floating-point value is involved.
std::string microseconds(Picoseconds time) {
  constexpr std::int64_t kPerMicrosecond = 1'000'000;
  const char* sign = time.count < 0 ? "-" : "";
  const std::int64_t size = time.count < 0 ? -time.count : time.count;
  return fmt::format("{}{}.{:06}", sign, size / kPerMicrosecond, size % kPerMicrosecond);
}

class Writer {
 public:
  explicit Writer(const Timeline& timeline) : timeline_(timeline) { number_threads(); }

  std::string write() {
    append(
        "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":{},"
        "\"traceName\":{},",
        timeline_.origin_nanoseconds, json_quoted(timeline_.name));
    for (const auto& [name, value] : timeline_.metadata) append("{}:{},", json_quoted(name), value);
    append("\"deviceProperties\":[");
    for (std::size_t i = 0; i < timeline_.devices.size(); ++i) {
      append("{}{{\"id\":{},\"name\":{}}}", i == 0 ? "" : ",", i,
             json_quoted(timeline_.devices[i]));
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

  /// A track without a number of its own gets its place, 0 holding the steps; if another track of
  /// the process has that number, the first above all.
  void number_threads() {
    std::set<std::pair<std::int64_t, std::int64_t>> taken;  // process, thread
    std::int64_t next = std::ssize(timeline_.tracks) + 1;
    for (std::size_t i = 0; i < timeline_.tracks.size(); ++i) {
      const std::int64_t own = timeline_.tracks[i].number;
      threads_.push_back(own);
      if (own >= 0) taken.emplace(process(i), own);
      next = std::max(next, own + 1);
    }
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      if (threads_[i] >= 0) continue;
      const auto place = static_cast<std::int64_t>(i) + 1;
      threads_[i] = taken.contains({process(i), place}) ? next++ : place;
    }
  }
  [[nodiscard]] std::int64_t thread(std::size_t track) const { return threads_[track]; }

  [[nodiscard]] std::int64_t process(std::size_t track) const {
    const Track& of = timeline_.tracks[track];
    return of.process >= 0 ? of.process : of.device;
  }

  void metadata() {
    for (std::size_t i = 0; i < timeline_.devices.size(); ++i) {
      next_event();
      append(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})", i,
             json_quoted(timeline_.devices[i]));
      next_event();
      append(R"({{"ph":"M","name":"thread_name","pid":{},"tid":0,"args":{{"name":"steps"}}}})", i);
    }
    for (const TimelineProcess& one : timeline_.processes) {
      next_event();
      append(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}})",
             one.number, json_quoted(one.name));
    }
    for (std::size_t i = 0; i < timeline_.tracks.size(); ++i) {
      const Track& track = timeline_.tracks[i];
      next_event();
      append(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
             process(i), thread(i), json_quoted(track.name));
      next_event();
      append(
          R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
          process(i), thread(i), i);
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
    const SpanExtra& extra = timeline_.extra_of(span);
    next_event();
    append(R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{)",
           category_of(timeline_, span), json_quoted(timeline_.name_of(span)), process(span.track),
           thread(span.track), microseconds(span.start), microseconds(span.end - span.start));
    const std::size_t arguments = out_.size();
    if (extra.step >= 0) append(R"(,"step":{})", extra.step);
    if (track.kind == TrackKind::kGpuKernels || track.kind == TrackKind::kGpuCopies) {
      append(R"(,"device":{},"stream":{})", track.device, thread(span.track));
    }
    if (const SpanDetail* detail = timeline_.detail_of(span)) {
      for (const auto& [name, value] : detail->fields) append(",{}:{}", json_quoted(name), value);
    }
    if (span.correlation >= 0) append(R"(,"correlation":{})", span.correlation);
    if (extra.bytes > 0) {
      const auto bytes = static_cast<std::int64_t>(extra.bytes + 0.5);
      append(R"(,"bytes":{})", bytes);
      if (span.end > span.start) {
        append(R"_(,"memory bandwidth (GB/s)":{:.3f})_", extra.bytes / (seconds_of(span) * 1e9));
      }
    }
    if (extra.stalled.count > 0) {
      append(R"(,"stalled_us":{},"cause":{})", microseconds(extra.stalled),
             json_quoted(name_of(extra.cause)));
    } else if (span.kind == SpanKind::kSync && extra.cause != WaitCause::kNone) {
      append(R"(,"cause":{})", json_quoted(name_of(extra.cause)));
    }
    if (out_.size() > arguments) out_.erase(arguments, 1);  // the first comma
    append("}}}}");
  }

  void arrow(std::size_t index) {
    const TimelineFlow& flow = timeline_.flows[index];
    const TimelineSpan& from = timeline_.spans[flow.from];
    const TimelineSpan& to = timeline_.spans[flow.to];
    // "ac2g", asynchronous CPU to GPU, is what the PyTorch profiler calls a launch.
    const char* kind = flow.kind == FlowKind::kLaunch ? "ac2g" : "dependency";
    next_event();
    append(R"({{"ph":"s","cat":"{0}","name":"{0}","id":{1},"pid":{2},"tid":{3},"ts":{4}}})", kind,
           index, process(from.track), thread(from.track), microseconds(from.start));
    next_event();
    append(
        R"({{"ph":"f","bp":"e","cat":"{0}","name":"{0}","id":{1},"pid":{2},"tid":{3},"ts":{4}}})",
        kind, index, process(to.track), thread(to.track), microseconds(to.start));
  }

  void count(const TimelineCounter& counter) {
    for (const auto& [time, values] : counter.samples) {
      next_event();
      append(R"({{"ph":"C","name":{},"pid":{},"tid":0,"ts":{},"args":{{)",
             json_quoted(counter.name), counter.device, microseconds(time));
      for (std::size_t i = 0; i < values.size(); ++i) {
        append("{}{}:{}", i == 0 ? "" : ",", json_quoted(counter.series[i]),
               nlohmann::json(values[i]).dump());
      }
      append("}}}}");
    }
  }

  const Timeline& timeline_;
  std::vector<std::int64_t> threads_;  // by track
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string chrome_trace(const Timeline& timeline) {
  return Writer(timeline).write();
}

}  // namespace zenflow::sim
