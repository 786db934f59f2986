#include "sim/trace/import/profiler_trace.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/operation_shapes.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kMostDevices = 4096;
/// Beyond all processes, threads and streams that are numbered.
constexpr std::int64_t kUnnumbered = std::int64_t{1} << 48;

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

/// Before Kineto (PyTorch 1.7), torch.autograd's profiler had two processes and no categories; a
/// kernel's thread was its device.
constexpr std::string_view kOldKernels = "CUDA functions";

EventClass class_without_category(const KinetoEvent& event) {
  if (event.process == kOldKernels) return EventClass::kKernel;
  if (event.process == "CPU functions") return EventClass::kHostOperation;
  return EventClass::kUnknown;
}

SpanKind kind_of_work(EventClass is, std::string_view name) {
  if (is == EventClass::kCopy) return SpanKind::kCopy;
  if (is == EventClass::kMemset) return SpanKind::kMemset;
  return is_collective(name) ? SpanKind::kCollective : SpanKind::kKernel;
}

double bytes_of(const KinetoEvent& event, SpanKind kind) {
  if (kind == SpanKind::kKernel) return 0;
  if (kind == SpanKind::kCollective) {
    return static_cast<double>(event.message_elements.value_or(0)) *
           static_cast<double>(element_size(event.element_type));
  }
  const bool is_said = event.bytes && *event.bytes >= 0;
  return is_said ? static_cast<double>(*event.bytes) : -1;
}

/// Zero if the event does not say.
Picoseconds duration_of(const KinetoEvent& event) {
  if (event.duration.empty()) return {};
  const auto time = parse_microseconds(event.duration);
  const auto counted = time ? since(*time, 0) : std::nullopt;
  return counted && counted->count > 0 ? *counted : Picoseconds{};
}

}  // namespace

ProfilerTraceReader::ProfilerTraceReader(Timeline& timeline, TraceCollector& collector,
                                         LeftOutCounter& left_out, const ImportOptions& options)
    : timeline_(&timeline), collector_(&collector), left_out_(&left_out), operations_(options) {}

void ProfilerTraceReader::leave_out(const Placed& placed, std::string_view what, Picoseconds time) {
  left_out_->add(what, time, placed.offset, "byte");
}

void ProfilerTraceReader::cannot_use(const Placed& placed, std::string_view what,
                                     Picoseconds time) {
  left_out_->add_unusable(what, time, placed.offset, "byte");
}

void ProfilerTraceReader::keep(const Placed& placed, const TimelineSpan& made) {
  if (!collector_->add(made)) {
    cannot_use(placed, TraceCollector::kBeyondSums, made.end - made.start);
  }
}

void ProfilerTraceReader::take(const KinetoEvent& event, const Fields& fields,
                               std::uint64_t offset) {
  const Placed placed{event, fields, offset};
  if (event.phase == 'X') return take_span(placed);
  if (event.phase == 'M') return take_metadata(event);
  // Arrows repeat what the correlation numbers say.
  const bool is_arrow = event.phase == 's' || event.phase == 'f' || event.phase == 't';
  if (is_arrow) return leave_out(placed, "arrows");
  // Writers end lists with an empty object, so that every event has a comma behind it.
  if (event.phase == '\0') return leave_out(placed, "objects that are no events");
  leave_out(placed, fmt::format("events of Chrome's kind \"{}\"", event.phase));
}

void ProfilerTraceReader::take_metadata(const KinetoEvent& event) {
  if (event.name != "thread_name" && event.name != "process_name") return;
  const std::int64_t process = number(event.process);
  if (event.name == "process_name") {
    process_names_[process] = std::string(event.label);
  } else {
    thread_names_[{process, thread_number(event)}] = std::string(event.label);
  }
}

/// Numbers as they are; other names get numbers of their own from kUnnumbered on.
std::int64_t ProfilerTraceReader::number(std::string_view text) {
  if (const auto value = whole_number(text)) return *value;
  return kUnnumbered + static_cast<std::int64_t>(identities_.intern(text));
}

std::int64_t ProfilerTraceReader::thread_number(const KinetoEvent& event) {
  // Until PyTorch 1.11 a stream's row was "stream 7".
  constexpr std::string_view kStream = "stream ";
  const std::string_view text = event.thread;
  return number(text.starts_with(kStream) ? text.substr(kStream.size()) : text);
}

/// Work of a GPU without its number is in a process of that number, or of a name such as "GPU 1".
std::int64_t ProfilerTraceReader::device_of_process(const KinetoEvent& event) {
  static constexpr std::array<std::string_view, 5> kWords = {"GPU ", "GPU",
                                                             "cuda:", "hip:", "xpu:"};
  for (const std::string_view word : kWords) {
    if (!event.process.starts_with(word)) continue;
    if (const auto named = whole_number(event.process.substr(word.size()))) return *named;
  }
  return number(event.process);
}

RowKey ProfilerTraceReader::thread_key(const KinetoEvent& event) {
  const std::int64_t process = number(event.process);
  return {RowKey::Row::kThread, process, -1, thread_number(event)};
}

std::uint32_t ProfilerTraceReader::thread_track(const KinetoEvent& event) {
  return collector_->track(thread_key(event));
}

/// What the file called it.
std::string ProfilerTraceReader::text_of(std::int64_t number) const {
  const auto place = static_cast<std::uint64_t>(number - kUnnumbered);
  const bool is_name = number >= kUnnumbered && place < identities_.size();
  return is_name ? identities_[static_cast<NameId>(place)] : std::to_string(number);
}

/// The event's times on the timeline's clock; if they cannot be, says why.
std::optional<ProfilerTraceReader::Times> ProfilerTraceReader::times(const Placed& placed) {
  const KinetoEvent& event = placed.event;
  const auto start = parse_microseconds(event.start);
  if (!start) {
    cannot_use(placed, "events without a time", duration_of(event));
    return std::nullopt;
  }
  if (!event.end.empty()) return times_between(placed, *start);
  if (event.duration.empty()) ++without_duration_;
  const auto length =
      event.duration.empty() ? std::optional(DecimalTime{}) : parse_microseconds(event.duration);
  if (!length) {
    cannot_use(placed, "events whose duration is no number");
    return std::nullopt;
  }
  if (length->nanoseconds < 0) {
    cannot_use(placed, "events with a negative duration");
    return std::nullopt;
  }
  const auto from = since(*start, *origin_);
  const auto takes = since(*length, 0);
  if (!from || !takes) {
    cannot_use(placed, "events more than 26 days away from the others",
               takes.value_or(Picoseconds{}));
    return std::nullopt;
  }
  return Times{*from, *from + *takes};
}

std::optional<ProfilerTraceReader::Times> ProfilerTraceReader::times_if_usable(
    const KinetoEvent& event) const {
  const bool has_end = !event.end.empty();
  const auto start = parse_microseconds(event.start);
  const auto last = parse_microseconds(has_end ? event.end : event.duration);
  if (!start || !last) return std::nullopt;
  const auto from = since(*start, *origin_);
  const auto behind = since(*last, has_end ? *origin_ : 0);
  if (!from || !behind) return std::nullopt;
  const Times when{*from, has_end ? *behind : *from + *behind};
  return when.end < when.start ? std::nullopt : std::optional(when);
}

/// The times of a span whose end has an event of its own.
std::optional<ProfilerTraceReader::Times> ProfilerTraceReader::times_between(
    const Placed& placed, const DecimalTime& start) {
  const auto end = parse_microseconds(placed.event.end);
  const auto from = since(start, *origin_);
  const auto until = end ? since(*end, *origin_) : std::nullopt;
  if (!end) {
    cannot_use(placed, "events without a time");
  } else if (!from || !until) {
    cannot_use(placed, "events more than 26 days away from the others");
  } else if (*until < *from) {
    cannot_use(placed, "events with a negative duration");
  } else {
    return Times{*from, *until};
  }
  return std::nullopt;
}

void ProfilerTraceReader::take_span(const Placed& placed) {
  const KinetoEvent& event = placed.event;
  const EventClass is =
      event.category.empty() ? class_without_category(event) : class_of(event.category);
  switch (is) {
    case EventClass::kKernel:
    case EventClass::kCopy:
    case EventClass::kMemset:
      return take_gpu_work(placed, is);
    case EventClass::kCall:
      return take_call(placed);
    case EventClass::kSync:
      return take_host(placed, SpanKind::kSync);
    case EventClass::kRange:
      return take_host(placed, SpanKind::kRange);
    case EventClass::kGpuRange:
      return take_gpu_range(placed);
    case EventClass::kHostOperation:
      return take_operation(placed);
    case EventClass::kUnknown:
      leave_out(placed,
                event.category.empty() ? std::string("events without a category")
                                       : fmt::format("category \"{}\"", event.category),
                duration_of(event));
  }
}

TimelineSpan ProfilerTraceReader::span(const Placed& placed, const Times& when, SpanKind kind) {
  return {.name = timeline_->names.intern(placed.event.name),
          .start = when.start,
          .end = when.end,
          .correlation = placed.event.correlation.value_or(-1),
          .kind = kind};
}

TimelineSpan ProfilerTraceReader::span_of_host(const Placed& placed, const Times& when,
                                               SpanKind kind) {
  TimelineSpan made = span(placed, when, kind);
  made.extra = timeline_->extras.intern({.detail = detail(placed, kind)});
  return made;
}

std::int32_t ProfilerTraceReader::detail(const Placed& placed, SpanKind kind) {
  const std::string_view category = placed.event.category;
  const bool is_implied =
      kind != SpanKind::kCall && kind != SpanKind::kLaunch && kind != SpanKind::kRange;
  const bool is_plain = is_implied || category == "cuda_runtime" || category == "user_annotation";
  if (is_plain && placed.fields.empty()) return -1;
  return shared_detail(
      {.category = is_plain ? "" : std::string(category), .fields = placed.fields});
}

/// The number of an equal detail, a new one at first.
std::int32_t ProfilerTraceReader::shared_detail(SpanDetail made) {
  const auto next = static_cast<std::int32_t>(timeline_->details.size());
  const auto [entry, is_new] = details_.try_emplace(made, next);
  if (is_new) timeline_->details.push_back(std::move(made));
  return entry->second;
}

void ProfilerTraceReader::take_gpu_work(const Placed& placed, EventClass is) {
  const KinetoEvent& event = placed.event;
  const bool is_old = event.process == kOldKernels;
  const std::int64_t device =
      event.device.value_or(is_old ? thread_number(event) : device_of_process(event));
  if (device < 0 || device >= kMostDevices) {
    return cannot_use(placed, "GPU work of a device that is no number below 4096",
                      duration_of(event));
  }
  const auto when = times(placed);
  if (!when) return;
  const SpanKind kind = kind_of_work(is, event.name);
  TimelineSpan work = span(placed, *when, kind);
  SpanExtra extra{.bytes = bytes_of(event, kind), .detail = detail(placed, kind)};
  if (kind == SpanKind::kCollective && extra.detail < 0 && event.group_size) {
    extra.detail = shared_detail(
        {.category = "",
         .fields = {{std::string(kGroupSizeField), std::to_string(*event.group_size)}}});
  }
  work.extra = timeline_->extras.intern(extra);
  const std::int64_t stream = event.stream.value_or(is_old ? 0 : thread_number(event));
  work.track = collector_->track({RowKey::Row::kStream, device, -1, stream});
  if (timeline_->tracks[work.track].name.empty()) {
    timeline_->tracks[work.track].name = fmt::format("stream {}", text_of(stream));
  }
  keep(placed, work);
}

void ProfilerTraceReader::take_call(const Placed& placed) {
  const std::string_view name = placed.event.name;
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  // CUDA and HIP; SYCL; Level Zero; Cambricon; MTIA.
  const bool launches = has("Launch") || has("Memcpy") || has("Memset") || has("MemPrefetch") ||
                        has("Enqueue") || has("enqueue") || has("AppendMemory") ||
                        has("InvokeKernel") || has("submit_for_execution");
  if (launches) return take_host(placed, SpanKind::kLaunch);
  if (has("Synchronize") || has("synchronize") || has("StreamWaitEvent")) {
    return take_host(placed, SpanKind::kCall);
  }
  leave_out(placed, "calls that neither launch nor wait", duration_of(placed.event));
}

void ProfilerTraceReader::take_host(const Placed& placed, SpanKind kind) {
  const auto when = times(placed);
  if (!when) return;
  TimelineSpan made = span_of_host(placed, *when, kind);
  made.track = thread_track(placed.event);
  keep(placed, made);
}

void ProfilerTraceReader::take_gpu_range(const Placed& placed) {
  const KinetoEvent& event = placed.event;
  const auto when = times(placed);
  const std::int64_t device = event.device.value_or(device_of_process(event));
  if (!when) return;
  if (device < 0 || device >= kMostDevices) {
    return cannot_use(placed, "GPU annotations of a device that is no number below 4096",
                      duration_of(event));
  }
  TimelineSpan made = span_of_host(placed, *when, SpanKind::kRange);
  const std::int64_t stream = event.stream.value_or(thread_number(event));
  made.track = collector_->track({RowKey::Row::kGpuRanges, device, -1, stream});
  timeline_->tracks[made.track].name = fmt::format("stream {} annotations", text_of(stream));
  keep(placed, made);
}

/// Operations are not kept; some are steps, optimizers or tell which pass a launch belongs to.
void ProfilerTraceReader::take_operation(const Placed& placed) {
  const KinetoEvent& event = placed.event;
  const HostOperations::Facts& facts =
      operations_.facts_of(event.name, event.category == "python_function");
  if (facts.is_range) return take_host(placed, SpanKind::kRange);
  // Of operations that no rule asks for nothing is said to be missing.
  const auto when = facts.rule >= 0 ? times(placed) : times_if_usable(event);
  if (when) {
    if (facts.rule >= 0) {
      const std::uint32_t track = thread_track(event);
      collector_->add_interval(
          {track, static_cast<std::uint32_t>(facts.rule), when->start, when->end});
    }
    collector_->add_activity(thread_key(event), when->start, when->end);
    if (event.category == "cpu_op" || event.category == "Operator") {
      operations_.add_time(when->end - when->start);
    }
  }
  if (!event.input_dims.empty() && has_wanted_shape(event.name)) take_shape(placed);
  leave_out(placed, event.category.empty() ? std::string_view("host operations") : event.category,
            duration_of(event));
}

/// Which shapes the operation had: for the kernels that it launches.
void ProfilerTraceReader::take_shape(const Placed& placed) {
  const KinetoEvent& event = placed.event;
  const auto when = times(placed);
  if (!when) return;
  const std::int32_t detail = shared_detail(
      shape_detail(event.name, event.input_dims, event.input_types, event.concrete_inputs));
  collector_->add_shaped(
      {thread_track(event), static_cast<std::uint32_t>(detail), when->start, when->end});
}

bool ProfilerTraceReader::settle_origin(const ChromeHeader& header) {
  Timeline& timeline = *timeline_;
  timeline.origin_nanoseconds = header.base_nanoseconds.value_or(0);
  if (!origin_ || *origin_ == 0 || timeline.spans.empty()) return true;
  std::int64_t from = 0;
  const bool is_known =
      !__builtin_add_overflow(*origin_, collector_->count_from_earliest(), &from) &&
      !__builtin_add_overflow(timeline.origin_nanoseconds, from, &timeline.origin_nanoseconds);
  if (!is_known) timeline.origin_nanoseconds = 0;
  return is_known;
}

bool ProfilerTraceReader::is_of_xla() const {
  return std::any_of(process_names_.begin(), process_names_.end(), [](const auto& one) {
    return one.second.starts_with("/device:") || one.second.starts_with("/host:CPU");
  });
}

void ProfilerTraceReader::name_rows(const ChromeHeader& header) {
  Timeline& timeline = *timeline_;
  for (Track& track : timeline.tracks) {
    if (track.process < 0 && track.kind != TrackKind::kRuntime) continue;
    if (!track.name.empty()) continue;
    const auto known = thread_names_.find({track.process, track.number});
    track.name = known != thread_names_.end() ? known->second
                                              : fmt::format("thread {}", text_of(track.number));
  }
  name_devices(header);
  for (const auto& [number, process] : process_names_) {
    const bool has_track =
        std::any_of(timeline.tracks.begin(), timeline.tracks.end(),
                    [n = number](const Track& track) { return track.process == n; });
    if (has_track) timeline.processes.push_back({number, process});
  }
}

void ProfilerTraceReader::name_devices(const ChromeHeader& header) {
  Timeline& timeline = *timeline_;
  std::int64_t devices = 0;
  for (const Track& track : timeline.tracks) {
    if (track.process < 0) devices = std::max<std::int64_t>(devices, track.device + 1);
  }
  for (std::int64_t i = 0; i < devices; ++i) timeline.devices.push_back(fmt::format("GPU {}", i));
  timeline.device_memory.resize(timeline.devices.size());
  for (const ChromeDevice& device : header.devices) {
    if (device.number < 0 || device.number >= devices) continue;
    timeline.devices[static_cast<std::size_t>(device.number)] = device.name;
    timeline.device_memory[static_cast<std::size_t>(device.number)] = device.memory;
  }
}

}  // namespace zenflow::sim
