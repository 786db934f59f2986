#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"
#include "sim/trace/import/chrome_document.h"
#include "sim/trace/import/clocks.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/import/kineto_event.h"
#include "sim/trace/import/open_spans.h"
#include "sim/trace/import/operation_shapes.h"
#include "sim/trace/import/own_trace.h"
#include "sim/trace/import/phases.h"
#include "sim/trace/import/profiler_trace.h"
#include "sim/trace/import/steps.h"
#include "sim/trace/launches.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// A span's text, kept for later.
struct Held {
  std::string text;
  std::uint64_t offset = 0;
  std::int64_t start = 0;  // nanoseconds
};
constexpr std::size_t kHeldEvents = 64;
constexpr std::size_t kHeldBytes = 1U << 20;

class ChromeImporter {
 public:
  ChromeImporter(ByteSource& source, const std::string& name, const ImportOptions& options)
      : source_(source),
        name_(name),
        options_(options),
        document_(source, name, result_.problems, left_out_),
        collector_(result_.timeline),
        profiler_(result_.timeline, collector_, left_out_, options) {
    result_.format = TraceFormat::kChrome;
  }

  ImportedTrace import() {
    document_.read([this] { begin_events(); },
                   [this](const JsonStream::Value& value) {
                     take_event(value);
                     report_progress();
                   });
    if (!source_.damage().empty()) result_.problems.push_back(name_ + ": " + source_.damage());
    finish();
    return std::move(result_);
  }

 private:
  /// A text may have several lists; ours go on where the one before ended.
  void begin_events() {
    may_be_ours_ = !own_ && result_.events == 0 && document_.header().is_ours();
    parser_.keep_fields(may_be_ours_ || own_ || options_.keep_fields);
  }

  /// The header of a filtered trace may look like ours. Our first event names a row and, unlike a
  /// profiler's, has no time.
  void settle_whose(const JsonStream::Value& first) {
    may_be_ours_ = false;
    const bool is_ours = first.status == JsonStream::Status::kWhole && first.text.front() == '{' &&
                         parser_.parse(first.text, event_) && event_.phase == 'M' &&
                         event_.start.empty();
    if (is_ours) own_.emplace(result_.timeline, collector_, document_.header());
    parser_.keep_fields(is_ours || options_.keep_fields);
  }

  void report_progress() {
    constexpr std::uint64_t kEvery = 16'384;
    if (result_.events % kEvery == 0 && options_.progress) {
      options_.progress(source_.position(), source_.size());
    }
  }

  /// The first spans are held back until it is known what time most of them have.
  void take_event(const JsonStream::Value& value) {
    if (may_be_ours_) settle_whose(value);
    ++result_.events;
    if (profiler_.has_origin() || own_ || value.status != JsonStream::Status::kWhole) {
      return use_event(value);
    }
    const bool is_span = value.text.front() == '{' && parser_.parse(value.text, event_) &&
                         (event_.phase == 'X' || event_.phase == 'B' || event_.phase == 'E');
    const auto start = is_span ? parse_microseconds(event_.start) : std::nullopt;
    if (!start) return use_event(value);
    Held& held = held_.emplace_back();
    held.text.reserve(value.text.size() + JsonStream::kPadding);
    held.text = value.text;
    held.offset = value.offset;
    held.start = start->nanoseconds;
    held_bytes_ += held.text.size();
    if (held_.size() == kHeldEvents || held_bytes_ > kHeldBytes) use_held();
  }

  void use_held() {
    if (!profiler_.has_origin()) {
      std::vector<std::int64_t> starts;
      for (const Held& held : held_) starts.push_back(held.start);
      profiler_.set_origin(origin_of(std::move(starts)));
    }
    for (const Held& held : held_) use_event({JsonStream::Status::kWhole, held.offset, held.text});
    held_ = {};
  }

  void use_event(const JsonStream::Value& value) {
    const auto leave_out = [&](std::string_view what) {
      left_out_.add_unusable(what, {}, value.offset, "byte");
    };
    if (value.status == JsonStream::Status::kTooLong)
      return leave_out("events of more than 32 MiB");
    if (value.text.front() != '{') return leave_out("elements that are no events");
    if (!parser_.parse(value.text, event_)) {
      return leave_out(fmt::format("events that are not well-formed ({})", parser_.problem()));
    }
    if (parser_.had_bad_utf8()) ++bad_utf8_;
    has_kinds_ = has_kinds_ || event_.phase != '\0';
    if (own_) {
      own_->take(event_, parser_.fields(), left_out_, value.offset);
    } else if (event_.phase == 'B') {
      open_.begin(event_, value.text, value.offset, left_out_);
    } else if (event_.phase == 'E') {
      end_span(value.offset);
    } else {
      profiler_.take(event_, parser_.fields(), value.offset);
    }
  }

  /// The event that was parsed last ends a span: both together are one of kind "X".
  void end_span(std::uint64_t offset) {
    const auto beginning = open_.end(event_);
    if (!beginning) {
      left_out_.add_unusable("ends of spans that did not begin", {}, offset, "byte");
      return;
    }
    const std::string end(event_.start);
    static_cast<void>(parser_.parse(beginning->text, event_));  // as it was when it began
    event_.phase = 'X';
    event_.end = end.empty() ? "none" : std::string_view(end);
    profiler_.take(event_, parser_.fields(), beginning->offset);
  }

  void finish() {
    use_held();
    open_.finish(left_out_);
    check_has_events();
    Timeline& timeline = result_.timeline;
    timeline.name = document_.header().name;
    timeline.metadata = document_.header().others;
    check_recorded_run(timeline, name_);
    if (!own_ && collector_.size() == 0 && profiler_.is_of_xla()) {
      throw Error(ErrorKind::kInput,
                  name_ +
                      ": is a trace of JAX (XLA's profiler), which is not read: its events have no "
                      "categories. Record the GPU with Nsight Systems, or the run with PyTorch's "
                      "profiler");
    }
    if (!own_) profiler_.name_rows(document_.header());
    throw_if_stopped();
    collector_.finish(!own_);
    if (own_) {
      own_->finish();
      timeline.origin_nanoseconds = document_.header().base_nanoseconds.value_or(0);
    } else if (!profiler_.settle_origin(document_.header())) {
      result_.problems.push_back(name_ +
                                 ": baseTimeNanoseconds and the times of the events add up to more "
                                 "than 292 years: when the trace was recorded is not known");
    }
    if (bad_utf8_ > 0) {
      result_.problems.push_back(
          fmt::format("{}: {} events had bytes that are not UTF-8; they are shown as U+FFFD", name_,
                      bad_utf8_));
    }
    if (profiler_.without_duration() > 0) {
      result_.problems.push_back(
          fmt::format("{}: {} events have no duration; they count as instants", name_,
                      profiler_.without_duration()));
    }
    throw_if_stopped();
    const SpanLaunches launch = launch_of_spans(timeline);
    // In our own traces simulated launches stand in a row at their step's beginning.
    if (!own_) note_clock_differences(name_, launch, result_);
    throw_if_stopped();
    assign_phases(timeline, launch, collector_.intervals(), options_.rules);
    throw_if_stopped();
    result_.activity = collector_.take_activity();
    result_.operators = profiler_.operators();
    attach_shapes(timeline, launch, collector_.take_shaped());
    throw_if_stopped();
    if (timeline.steps.empty()) {
      result_.step_source =
          find_steps(timeline, launch, collector_.intervals(), options_.rules, options_.steps);
    } else {
      result_.step_source = StepSource::kAnnotation;
    }
    result_.left_out = left_out_.take();
    note_unusable(name_, result_);
  }

  void check_has_events() const {
    const std::vector<std::string>& keys = document_.header().keys;
    const bool is_named = std::find(keys.begin(), keys.end(), "traceEvents") != keys.end();
    if (!document_.has_events() && is_named && !document_.is_cut()) {
      throw Error(ErrorKind::kInput, name_ + ": \"traceEvents\" is no list of events");
    }
    if (!document_.has_events() && !document_.is_cut()) {
      throw Error(ErrorKind::kInput,
                  name_ + ": no \"traceEvents\": not a Chrome trace (keys: " + key_list() + ")");
    }
    if (document_.is_cut() && result_.events == 0) {
      throw Error(ErrorKind::kInput, result_.problems.back());
    }
    if (result_.events > 0 && !has_kinds_) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: not a Chrome trace: of {} elements none says what kind of event "
                              "it is (\"ph\")",
                              name_, result_.events));
    }
  }

  [[nodiscard]] std::string key_list() const {
    constexpr std::size_t kMost = 10;
    const std::vector<std::string>& keys = document_.header().keys;
    std::string list;
    for (std::size_t i = 0; i < std::min(kMost, keys.size()); ++i) {
      list += (i == 0 ? "" : ", ") + keys[i];
    }
    return list.empty() ? "none" : list;
  }

  ByteSource& source_;
  std::string name_;
  const ImportOptions& options_;
  ImportedTrace result_;
  LeftOutCounter left_out_;
  ChromeDocument document_;
  TraceCollector collector_;
  ProfilerTraceReader profiler_;
  std::optional<OwnTraceReader> own_;
  bool may_be_ours_ = false;  // until the first event says
  KinetoEventParser parser_;
  KinetoEvent event_;
  OpenSpans open_;
  std::vector<Held> held_;
  std::size_t held_bytes_ = 0;
  std::uint64_t bad_utf8_ = 0;
  bool has_kinds_ = false;  // an event that could be read says what it is
};

}  // namespace

ImportedTrace import_chrome(ByteSource& source, const std::string& name,
                            const ImportOptions& options) {
  return ChromeImporter(source, name, options).import();
}

}  // namespace zenflow::sim
