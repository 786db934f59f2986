#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/trace/import/chrome_header.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/import/json_stream.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/kineto_event.h"
#include "sim/trace/import/operation_shapes.h"
#include "sim/trace/import/own_trace.h"
#include "sim/trace/import/phases.h"
#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/import/steps.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kMostDevices = 4096;
/// Times further from zero than this are absolute ones; those relative to baseTimeNanoseconds,
/// which moves every few months, are nearer.
constexpr std::int64_t kFarFromZero = std::int64_t{100} * 86'400 * 1'000'000'000;  // 100 days

/// A span's text, kept for later.
struct Held {
  std::string text;
  std::uint64_t offset = 0;
  std::int64_t start = 0;  // nanoseconds
};
constexpr std::size_t kHeldEvents = 64;

struct Times {
  Picoseconds start;
  Picoseconds end;
};

/// What a name is, decided once.
struct NameFacts {
  bool is_known = false;
  bool is_range = false;  ///< kept as a range though it is an operation
  int rule = -1;          ///< of the phase rules, by operation
};

std::int64_t element_size(std::string_view type) {
  static constexpr std::pair<std::string_view, std::int64_t> kSizes[] = {
      {"Byte", 1},     {"Char", 1},   {"Bool", 1},          {"Half", 2},
      {"BFloat16", 2}, {"Short", 2},  {"Int", 4},           {"Float", 4},
      {"Long", 8},     {"Double", 8}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};
  for (const auto& [name, size] : kSizes) {
    if (name == type) return size;
  }
  return 0;
}

class ChromeImporter {
 public:
  ChromeImporter(ByteSource& source, const std::string& name, const ImportOptions& options)
      : source_(source),
        name_(name),
        options_(options),
        stream_(source, name),
        collector_(result_.timeline),
        pattern_({options.steps}),
        operations_(operation_patterns(options.rules)) {
    result_.format = TraceFormat::kChrome;
  }

  ImportedTrace import() {
    const char first = stream_.peek();
    if (first == '[') {
      // The array format: events and nothing else; Chrome lets the closing bracket be missing.
      read_events();
    } else if (first == '{') {
      read_top_level();
    } else {
      stream_.fail(stream_.offset(), "expected \"{\" or \"[\", the start of a Chrome trace");
    }
    if (!source_.damage().empty()) result_.problems.push_back(name_ + ": " + source_.damage());
    finish();
    return std::move(result_);
  }

 private:
  static std::vector<std::string> operation_patterns(const TraceRules& rules) {
    std::vector<std::string> patterns;
    for (const PhaseRule& rule : rules.phases) patterns.push_back(rule.operation);
    return patterns;
  }

  void cut(std::uint64_t offset, const char* inside) {
    is_cut_ = true;
    result_.problems.push_back(
        fmt::format("{}: byte {}: the text ends inside {}: what would follow is missing", name_,
                    offset, inside));
  }

  void read_top_level() {
    stream_.take();
    for (;;) {
      const char next = stream_.peek();
      if (next == '}') {
        stream_.take();
        break;
      }
      if (next == '\0') return cut(stream_.offset(), "the trace's outermost object");
      if (next != '"') stream_.fail(stream_.offset(), "expected a key");
      const JsonStream::Value key_value = stream_.value();
      if (key_value.status != JsonStream::Status::kWhole) {
        return cut(key_value.offset, "a key");
      }
      const std::string key = as_utf8(unescape(bare(key_value.text)));
      if (const char colon = stream_.peek(); colon != ':') {
        if (colon == '\0') return cut(stream_.offset(), "the trace's outermost object");
        stream_.fail(stream_.offset(), "expected \":\" behind a key");
      }
      stream_.take();
      if (key == "traceEvents" && stream_.peek() == '[') {
        header_.keys.push_back(key);
        read_events();
        if (is_cut_) return;
      } else if (!read_entry(key)) {
        return;
      }
      const char behind = stream_.peek();
      if (behind == ',') stream_.take();
      if (behind == ',' || behind == '}') continue;
      if (behind == '\0') return cut(stream_.offset(), "the trace's outermost object");
      stream_.fail(stream_.offset(), fmt::format("expected \",\" or \"}}\" behind \"{}\"", key));
    }
    if (stream_.peek() != '\0') {
      result_.problems.push_back(fmt::format(
          "{}: byte {}: what follows the end of the trace was ignored", name_, stream_.offset()));
    }
  }

  bool read_entry(const std::string& key) {
    constexpr std::size_t kLongestEntry = 1U << 20;
    const JsonStream::Value value = stream_.value(kLongestEntry);
    if (value.status == JsonStream::Status::kCut) {
      cut(value.offset, "a value of the outermost object");
      return false;
    }
    if (value.status == JsonStream::Status::kTooLong) {
      left_out_.add("top-level entry \"" + key + "\" of more than 1 MiB", {}, value.offset, "byte");
      header_.keys.push_back(key);
    } else {
      header_.take(key, value.text);
    }
    return true;
  }

  void read_events() {
    has_events_ = true;
    own_ = header_.is_ours();
    if (own_) {
      parser_.keep_fields(true);
      reader_.emplace(result_.timeline, collector_, header_);
    } else {
      parser_.keep_fields(options_.keep_fields);
    }
    stream_.take();
    for (;;) {
      const char next = stream_.peek();
      if (next == ']') {
        stream_.take();
        return;
      }
      if (next == '\0') return cut(stream_.offset(), "the list of events");
      if (next == ',') {
        stream_.take();
        continue;
      }
      const JsonStream::Value value = stream_.value();
      if (value.status == JsonStream::Status::kCut) return cut(value.offset, "an event");
      take_event(value);
      const char behind = stream_.peek();
      if (behind != ',' && behind != ']' && behind != '\0') {
        stream_.fail(stream_.offset(), "expected \",\" or \"]\" behind an event");
      }
      report_progress();
    }
  }

  void report_progress() {
    constexpr std::uint64_t kEvery = 16'384;
    if (result_.events % kEvery == 0 && options_.progress) {
      options_.progress(source_.position(), source_.size());
    }
  }

  void leave_out(std::string_view what, Picoseconds time = {}) {
    left_out_.add(what, time, offset_, "byte");
  }

  /// The first spans are held back until it is known what time most of them have.
  void take_event(const JsonStream::Value& value) {
    ++result_.events;
    if (origin_ || reader_ || value.status != JsonStream::Status::kWhole) return use_event(value);
    const bool is_span =
        value.text.front() == '{' && parser_.parse(value.text, event_) && event_.phase == 'X';
    const auto start = is_span ? parse_microseconds(event_.start) : std::nullopt;
    if (!start) return use_event(value);
    Held& held = held_.emplace_back();
    held.text.reserve(value.text.size() + JsonStream::kPadding);
    held.text = value.text;
    held.offset = value.offset;
    held.start = start->nanoseconds;
    if (held_.size() == kHeldEvents) use_held();
  }

  void use_held() {
    if (!origin_) {
      std::vector<std::int64_t> starts;
      for (const Held& held : held_) starts.push_back(held.start);
      std::sort(starts.begin(), starts.end());
      const std::int64_t middle = starts.empty() ? 0 : starts[starts.size() / 2];
      origin_ = std::abs(middle / 2) > kFarFromZero / 2 ? middle : 0;
    }
    for (const Held& held : held_) use_event({JsonStream::Status::kWhole, held.offset, held.text});
    held_ = {};
  }

  void use_event(const JsonStream::Value& value) {
    offset_ = value.offset;
    if (value.status == JsonStream::Status::kTooLong)
      return leave_out("events of more than 32 MiB");
    if (value.text.front() != '{') return leave_out("elements that are no events");
    if (!parser_.parse(value.text, event_)) {
      return leave_out(fmt::format("events that are not well-formed ({})", parser_.problem()));
    }
    if (parser_.had_bad_utf8()) ++bad_utf8_;
    if (reader_) {
      reader_->take(event_, parser_.fields(), left_out_, offset_);
      return;
    }
    if (event_.phase == 'X') return take_span();
    if (event_.phase == 'M') return take_metadata();
    // Arrows repeat what the correlation numbers say.
    const bool is_arrow = event_.phase == 's' || event_.phase == 'f' || event_.phase == 't';
    if (is_arrow) return leave_out("arrows");
    leave_out(fmt::format("events of Chrome's kind \"{}\"", event_.phase));
  }

  void take_metadata() {
    if (event_.name != "thread_name" && event_.name != "process_name") return;
    const auto label = std::string(event_.label);
    const std::int64_t process = process_number();
    if (event_.name == "process_name") {
      process_names_[process] = label;
    } else {
      thread_names_[{process, thread_number()}] = label;
    }
  }

  /// Numbers as they are; other names get numbers of their own below -1.
  std::int64_t number(std::string_view text) {
    if (const auto value = whole_number(text)) return *value;
    return -2 - static_cast<std::int64_t>(identities_.intern(text));
  }
  std::int64_t process_number() { return number(event_.process); }
  std::int64_t thread_number() {
    // Until PyTorch 1.11 a stream's row was "stream 7".
    constexpr std::string_view kStream = "stream ";
    const std::string_view text = event_.thread;
    return number(text.starts_with(kStream) ? text.substr(kStream.size()) : text);
  }

  Picoseconds duration() {
    if (event_.duration.empty()) return {};
    const auto time = parse_microseconds(event_.duration);
    const auto counted = time ? since(*time, 0) : std::nullopt;
    return counted && counted->count > 0 ? *counted : Picoseconds{};
  }

  /// The event's times on the timeline's clock; if they cannot be, says why.
  std::optional<Times> times() {
    const auto start = parse_microseconds(event_.start);
    if (!start) {
      leave_out("events without a time", duration());
      return std::nullopt;
    }
    const auto length = event_.duration.empty() ? std::optional(DecimalTime{})
                                                : parse_microseconds(event_.duration);
    if (!length) {
      leave_out("events whose duration is no number");
      return std::nullopt;
    }
    if (length->nanoseconds < 0) {
      leave_out("events with a negative duration");
      return std::nullopt;
    }
    const auto from = since(*start, *origin_);
    const auto takes = since(*length, 0);
    Picoseconds to{};
    const bool fits =
        from && takes && !__builtin_add_overflow(from->count, takes->count, &to.count);
    if (!fits) {
      leave_out("events more than 100 days away from the others", takes.value_or(Picoseconds{}));
      return std::nullopt;
    }
    return Times{*from, to};
  }

  void take_span() {
    const EventClass is =
        event_.category.empty() ? class_without_category() : class_of(event_.category);
    switch (is) {
      case EventClass::kKernel:
      case EventClass::kCopy:
      case EventClass::kMemset:
        return take_gpu_work(is);
      case EventClass::kCall:
        return take_call();
      case EventClass::kSync:
        return take_host(SpanKind::kSync);
      case EventClass::kRange:
        return take_host(SpanKind::kRange);
      case EventClass::kGpuRange:
        return take_gpu_range();
      case EventClass::kHostOperation:
        return take_operation();
      case EventClass::kUnknown:
        leave_out(event_.category.empty() ? std::string("events without a category")
                                          : fmt::format("category \"{}\"", event_.category),
                  duration());
    }
  }

  /// Before Kineto (PyTorch 1.7), torch.autograd's profiler had two processes and no categories.
  [[nodiscard]] EventClass class_without_category() const {
    if (event_.process == "CUDA functions") return EventClass::kKernel;
    if (event_.process == "CPU functions") return EventClass::kHostOperation;
    return EventClass::kUnknown;
  }

  TimelineSpan span(const Times& when, SpanKind kind) {
    return {.name = result_.timeline.names.intern(event_.name),
            .start = when.start,
            .end = when.end,
            .correlation = event_.correlation.value_or(-1),
            .detail = detail(kind),
            .kind = kind};
  }

  std::int32_t detail(SpanKind kind) {
    const bool is_implied =
        kind != SpanKind::kCall && kind != SpanKind::kLaunch && kind != SpanKind::kRange;
    const bool is_plain =
        is_implied || event_.category == "cuda_runtime" || event_.category == "user_annotation";
    if (is_plain && parser_.fields().empty()) return -1;
    return shared_detail(
        {.category = is_plain ? "" : std::string(event_.category), .fields = parser_.fields()});
  }

  /// The number of an equal detail, a new one at first.
  std::int32_t shared_detail(SpanDetail made) {
    const auto next = static_cast<std::int32_t>(result_.timeline.details.size());
    const auto [entry, is_new] = details_.try_emplace(made, next);
    if (is_new) result_.timeline.details.push_back(std::move(made));
    return entry->second;
  }

  void take_gpu_work(EventClass is) {
    const std::int64_t device =
        event_.device.value_or(event_.process == "CUDA functions" ? 0 : process_number());
    if (device < 0 || device >= kMostDevices) {
      return leave_out("GPU work of a device that is no number below 4096", duration());
    }
    const auto when = times();
    if (!when) return;
    SpanKind kind = SpanKind::kKernel;
    if (is == EventClass::kCopy) kind = SpanKind::kCopy;
    if (is == EventClass::kMemset) kind = SpanKind::kMemset;
    if (is == EventClass::kKernel && is_collective(event_.name)) kind = SpanKind::kCollective;
    TimelineSpan work = span(*when, kind);
    work.bytes = bytes_of(kind);
    if (kind == SpanKind::kCollective && work.detail < 0 && event_.group_size) {
      work.detail = shared_detail(
          {.category = "",
           .fields = {{std::string(kGroupSizeField), std::to_string(*event_.group_size)}}});
    }
    const std::int64_t stream = event_.stream.value_or(thread_number());
    work.track = collector_.track({RowKey::Row::kStream, device, -1, stream});
    if (result_.timeline.tracks[work.track].name.empty()) {
      result_.timeline.tracks[work.track].name = fmt::format("stream {}", stream);
    }
    collector_.add(work);
  }

  [[nodiscard]] double bytes_of(SpanKind kind) const {
    if (kind == SpanKind::kKernel) return 0;
    if (kind == SpanKind::kCollective) {
      return static_cast<double>(event_.message_elements.value_or(0)) *
             static_cast<double>(element_size(event_.element_type));
    }
    const bool is_said = event_.bytes && *event_.bytes >= 0;
    return is_said ? static_cast<double>(*event_.bytes) : -1;
  }

  void take_call() {
    const auto has = [&](std::string_view part) {
      return event_.name.find(part) != event_.name.npos;
    };
    const bool launches = has("Launch") || has("Memcpy") || has("Memset") || has("Enqueue") ||
                          has("enqueue") || has("MemPrefetch");
    if (launches) return take_host(SpanKind::kLaunch);
    if (has("Synchronize") || has("synchronize") || has("StreamWaitEvent")) {
      return take_host(SpanKind::kCall);
    }
    leave_out("calls that neither launch nor wait", duration());
  }

  void take_host(SpanKind kind) {
    const auto when = times();
    if (!when) return;
    TimelineSpan made = span(*when, kind);
    made.track = collector_.track({RowKey::Row::kThread, process_number(), -1, thread_number()});
    collector_.add(made);
  }

  void take_gpu_range() {
    const auto when = times();
    const std::int64_t device = event_.device.value_or(process_number());
    if (!when) return;
    if (device < 0 || device >= kMostDevices) {
      return leave_out("GPU annotations of a device that is no number below 4096", duration());
    }
    TimelineSpan made = span(*when, SpanKind::kRange);
    const std::int64_t stream = event_.stream.value_or(thread_number());
    made.track = collector_.track({RowKey::Row::kGpuRanges, device, -1, stream});
    result_.timeline.tracks[made.track].name = fmt::format("stream {} annotations", stream);
    collector_.add(made);
  }

  /// Operations are not kept; some are steps, optimizers or tell which pass a launch belongs to.
  void take_operation() {
    const NameFacts& facts = facts_of(event_.name);
    if (facts.is_range) return take_host(SpanKind::kRange);
    if (facts.rule >= 0) {
      if (const auto when = times()) {
        const std::uint32_t track =
            collector_.track({RowKey::Row::kThread, process_number(), -1, thread_number()});
        collector_.add_interval(
            {track, static_cast<std::uint32_t>(facts.rule), when->start, when->end});
      }
    }
    if (!event_.input_dims.empty() && has_wanted_shape(event_.name)) take_shape();
    leave_out(event_.category.empty() ? std::string_view("host operations") : event_.category,
              duration());
  }

  /// Which shapes the operation had: for the kernels that it launches.
  void take_shape() {
    const auto when = times();
    if (!when) return;
    const std::uint32_t track =
        collector_.track({RowKey::Row::kThread, process_number(), -1, thread_number()});
    const std::int32_t detail = shared_detail(
        shape_detail(event_.name, event_.input_dims, event_.input_types, event_.concrete_inputs));
    collector_.add_shaped({track, static_cast<std::uint32_t>(detail), when->start, when->end});
  }

  const NameFacts& facts_of(std::string_view name) {
    constexpr std::size_t kMostNames = 1'000'000;
    if (operation_names_.size() > kMostNames) {
      operation_names_ = {};
      facts_.clear();
    }
    const NameId id = operation_names_.intern(name);
    if (id >= facts_.size()) facts_.resize(operation_names_.size());
    NameFacts& facts = facts_[id];
    if (facts.is_known) return facts;
    facts.is_known = true;
    const bool is_function = event_.category == "python_function";
    facts.is_range = pattern_.first_match(name) >= 0 || name.starts_with("ProfilerStep") ||
                     name.starts_with("Optimizer.step#") ||
                     name.starts_with("Optimizer.zero_grad#");
    facts.rule = is_function ? -1 : operations_.first_match(name);
    return facts;
  }

  void finish() {
    use_held();
    if (!has_events_ && !is_cut_) {
      throw Error(ErrorKind::kInput,
                  name_ + ": no \"traceEvents\": not a Chrome trace (keys: " + key_list() + ")");
    }
    if (is_cut_ && result_.events == 0) {
      throw Error(ErrorKind::kInput, result_.problems.back());
    }
    Timeline& timeline = result_.timeline;
    timeline.name = header_.name;
    timeline.metadata = header_.others;
    name_rows();
    collector_.finish(!reader_);
    if (reader_) {
      reader_->finish();
      timeline.origin_nanoseconds = header_.base_nanoseconds.value_or(0);
    } else {
      shift_origin();
    }
    if (bad_utf8_ > 0) {
      result_.problems.push_back(
          fmt::format("{}: {} events had bytes that are not UTF-8; they are shown as U+FFFD", name_,
                      bad_utf8_));
    }
    const std::vector<std::uint32_t> launch = launch_of_spans(timeline);
    assign_phases(timeline, launch, collector_.intervals(), options_.rules);
    attach_shapes(timeline, launch, collector_.take_shaped());
    if (timeline.steps.empty()) {
      result_.step_source = find_steps(timeline, launch, options_.rules, options_.steps);
    } else {
      result_.step_source = StepSource::kAnnotation;
    }
    result_.left_out = left_out_.take();
  }

  [[nodiscard]] std::string key_list() const {
    constexpr std::size_t kMost = 10;
    std::string list;
    for (std::size_t i = 0; i < std::min(kMost, header_.keys.size()); ++i) {
      list += (i == 0 ? "" : ", ") + header_.keys[i];
    }
    return list.empty() ? "none" : list;
  }

  /// Absolute times count from the earliest span, others from where the trace says.
  void shift_origin() {
    Timeline& timeline = result_.timeline;
    timeline.origin_nanoseconds = header_.base_nanoseconds.value_or(0);
    if (!origin_ || *origin_ == 0 || timeline.spans.empty()) return;
    constexpr std::int64_t kPerNanosecond = 1000;
    std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
    for (const TimelineSpan& span : timeline.spans) {
      earliest = std::min(earliest, span.start.count);
    }
    const std::int64_t whole =
        (earliest >= 0 ? earliest : earliest - (kPerNanosecond - 1)) / kPerNanosecond;
    const Picoseconds shift{whole * kPerNanosecond};
    for (TimelineSpan& span : timeline.spans) {
      span.start = span.start - shift;
      span.end = span.end - shift;
    }
    collector_.shift_intervals(shift);
    timeline.origin_nanoseconds += *origin_ + whole;
  }

  void name_rows() {
    Timeline& timeline = result_.timeline;
    if (reader_) return;
    for (Track& track : timeline.tracks) {
      if (track.process < 0 && track.kind != TrackKind::kRuntime) continue;
      if (!track.name.empty()) continue;
      const auto known = thread_names_.find({track.process, track.number});
      track.name =
          known != thread_names_.end() ? known->second : fmt::format("thread {}", track.number);
    }
    std::int64_t devices = 0;
    for (const Track& track : timeline.tracks) {
      if (track.process < 0) devices = std::max<std::int64_t>(devices, track.device + 1);
    }
    for (std::int64_t i = 0; i < devices; ++i) timeline.devices.push_back(fmt::format("GPU {}", i));
    for (const auto& [number, device] : header_.devices) {
      if (number < 0 || number >= devices) continue;
      timeline.devices[static_cast<std::size_t>(number)] = device;
    }
    for (const auto& [number, process] : process_names_) {
      const bool has_track =
          std::any_of(timeline.tracks.begin(), timeline.tracks.end(),
                      [n = number](const Track& track) { return track.process == n; });
      if (has_track) timeline.processes.push_back({number, process});
    }
  }

  ByteSource& source_;
  std::string name_;
  const ImportOptions& options_;
  JsonStream stream_;
  ImportedTrace result_;
  TraceCollector collector_;
  KinetoEventParser parser_;
  KinetoEvent event_;
  ChromeHeader header_;
  std::optional<OwnTraceReader> reader_;
  LeftOutCounter left_out_;
  NamePatterns pattern_;
  NamePatterns operations_;
  NameTable operation_names_;
  std::vector<NameFacts> facts_;
  NameTable identities_;  // of processes and threads that are not numbered
  std::map<std::int64_t, std::string> process_names_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> thread_names_;
  std::map<SpanDetail, std::int32_t> details_;
  std::vector<Held> held_;
  std::optional<std::int64_t> origin_;  // nanoseconds; known once the first events have been seen
  std::uint64_t offset_ = 0;
  std::uint64_t bad_utf8_ = 0;
  bool has_events_ = false;
  bool is_cut_ = false;
  bool own_ = false;
};

}  // namespace

ImportedTrace import_chrome(ByteSource& source, const std::string& name,
                            const ImportOptions& options) {
  return ChromeImporter(source, name, options).import();
}

}  // namespace zenflow::sim
