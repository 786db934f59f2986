#include "sim/page/page_timeline.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/text.h"

namespace zenflow::sim {
namespace {

constexpr std::uint32_t kNotShown = std::numeric_limits<std::uint32_t>::max();
constexpr Picoseconds kForever{std::numeric_limits<std::int64_t>::max()};

/// Nanoseconds, to the nearest.
std::int64_t nanoseconds(Picoseconds time) {
  constexpr std::int64_t kPerNanosecond = 1000;
  return (time.count + kPerNanosecond / 2) / kPerNanosecond;
}

/// What a span is to a reader, who tells it by its colour. The script has a colour for each.
const char* group_of(const Timeline& timeline, const TimelineSpan& span) {
  const Operation operation = span.operation;
  if (is_d2h(operation)) return "copy down";
  if (is_h2d(operation)) return "copy up";
  if (is_collective(operation)) return "between ranks";
  switch (operation) {
    case Operation::kForward:
      return "forward";
    case Operation::kBackward:
      return "backward";
    case Operation::kCpuUpdate:
    case Operation::kCpuScale:
    case Operation::kCpuCast:
    case Operation::kAccumulate:
      return "CPU update";
    case Operation::kGpuUpdate:
    case Operation::kUpdateSelected:
      return "GPU update";
    case Operation::kNvmeRead:
    case Operation::kNvmeWrite:
      return "NVMe";
    case Operation::kSelect:
    case Operation::kColumnNorms:
    case Operation::kColumnIndices:
    case Operation::kColumnExchange:
      return "selection";
    default:
      break;
  }
  switch (span.phase) {
    case SpanPhase::kForward:
      return "forward";
    case SpanPhase::kBackward:
      return "backward";
    case SpanPhase::kOptimizer:
      return timeline.tracks[span.track].kind == TrackKind::kHost ? "CPU update" : "GPU update";
    case SpanPhase::kCollective:
      return "between ranks";
    default:
      break;
  }
  switch (kind_of(timeline, span)) {
    case SpanKind::kCollective:
      return "between ranks";
    case SpanKind::kCopy:
      return timeline.name_of(span).find("HtoD") != std::string::npos ? "copy up" : "copy down";
    case SpanKind::kSync:
      return "wait";
    default:
      return "other";
  }
}

/// A simulated GPU is never short of launches; what stands for them is there for analysers of
/// traces.
bool stands_for_nothing(const Timeline& timeline, const TimelineSpan& span) {
  const Track& track = timeline.tracks[span.track];
  return track.kind == TrackKind::kRuntime && track.process < 0 && track.number < 0;
}

std::vector<std::uint32_t> shown_spans(const Timeline& timeline) {
  std::vector<std::uint32_t> shown;
  for (std::uint32_t i = 0; i < timeline.spans.size(); ++i) {
    if (!stands_for_nothing(timeline, timeline.spans[i])) shown.push_back(i);
  }
  return shown;
}

/// Numbers of a column, with commas between.
class Column {
 public:
  void add(std::int64_t number) {
    fmt::format_to(std::back_inserter(text_), "{}{}", text_.empty() ? "" : ",", number);
  }
  [[nodiscard]] std::string take(const char* name) const {
    return fmt::format(",\"{}\":[{}]", name, text_);
  }

 private:
  std::string text_;
};

class TimelineWriter {
 public:
  TimelineWriter(const Timeline& timeline, std::size_t most)
      : timeline_(timeline), from_(first_start(timeline)), until_(shown_until(timeline, most)) {}

  std::string write() {
    order_spans();
    out_ = fmt::format("\"name\":{},\"spans_in_all\":{},\"end\":{}", json_quoted(timeline_.name),
                       spans_in_all_, since_start(end()));
    add_tracks();
    add_spans();
    add_flows();
    add_steps();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::int64_t since_start(Picoseconds time) const {
    return nanoseconds(time - from_);
  }
  [[nodiscard]] const TimelineSpan& span(std::uint32_t index) const {
    return timeline_.spans[index];
  }

  void order_spans() {
    order_ = shown_spans(timeline_);
    spans_in_all_ = order_.size();
    std::erase_if(order_, [this](std::uint32_t i) { return span(i).start >= until_; });
    std::sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
      const auto key = [this](std::uint32_t i) {
        return std::tuple(span(i).track, span(i).start.count, -span(i).end.count, i);
      };
      return key(a) < key(b);
    });
  }

  [[nodiscard]] Picoseconds end() const {
    Picoseconds last = from_;
    for (const std::uint32_t i : order_) last = std::max(last, span(i).end);
    return last;
  }

  void add_tracks() {
    std::vector<std::size_t> spans(timeline_.tracks.size());
    for (const std::uint32_t i : order_) ++spans[span(i).track];
    out_ += ",\"tracks\":[";
    const char* comma = "";
    for (std::size_t i = 0; i < timeline_.tracks.size(); ++i) {
      if (spans[i] == 0) continue;
      out_ += fmt::format("{}{{\"name\":{},\"of\":{},\"spans\":{}}}", std::exchange(comma, ","),
                          json_quoted(timeline_.tracks[i].name),
                          json_quoted(owner(timeline_.tracks[i])), spans[i]);
    }
    out_ += "]";
  }

  /// The device or process that a track is shown below.
  [[nodiscard]] std::string owner(const Track& track) const {
    if (track.process >= 0) {
      for (const TimelineProcess& one : timeline_.processes) {
        if (one.number == track.process) return one.name;
      }
      return fmt::format("process {}", track.process);
    }
    const auto device = static_cast<std::size_t>(std::max(track.device, 0));
    return device < timeline_.devices.size() ? timeline_.devices[device] : "";
  }

  void add_spans() {
    place_.assign(timeline_.spans.size(), kNotShown);
    Column names;
    Column gaps;
    Column lengths;
    Column extras;
    Column steps;
    std::uint32_t track = kNotShown;
    std::int64_t previous = 0;
    std::int64_t step = 0;
    for (std::uint32_t at = 0; at < order_.size(); ++at) {
      const TimelineSpan& one = span(order_[at]);
      place_[order_[at]] = at;
      if (std::exchange(track, one.track) != one.track) previous = 0;
      const std::int64_t start = since_start(one.start);
      const std::int64_t end = since_start(one.end);
      names.add(name_number(one));
      gaps.add(start - previous);
      lengths.add(end - start);
      extras.add(extra_number(one.extra));
      const std::int64_t step_number = timeline_.extras[one.extra].step;
      steps.add(step_number - std::exchange(step, step_number));
      previous = end;
    }
    out_ += fmt::format(",\"names\":[{}],\"extras\":[{}]", names_text_, extras_text_);
    out_ += names.take("name") + gaps.take("gap") + lengths.take("length") + extras.take("extra") +
            steps.take("step");
  }

  /// A name's number among those that are shown, which are pairs of name and group.
  std::int64_t name_number(const TimelineSpan& one) {
    const auto key = std::pair(one.name, std::string_view(group_of(timeline_, one)));
    const auto [found, is_new] = names_.try_emplace(key, static_cast<std::int64_t>(names_.size()));
    if (is_new) {
      names_text_ += fmt::format("{}[{},\"{}\"]", names_text_.empty() ? "" : ",",
                                 json_quoted(timeline_.names[one.name]), key.second);
    }
    return found->second;
  }

  /// Likewise: bytes, nanoseconds that the track had waited, what for. Without the step, which
  /// would make an entry of each.
  std::int64_t extra_number(ExtraId id) {
    const SpanExtra& extra = timeline_.extras[id];
    const std::tuple key(std::max(extra.bytes, 0.0), nanoseconds(extra.stalled), extra.cause);
    const auto [found, is_new] =
        extras_.try_emplace(key, static_cast<std::int64_t>(extras_.size()));
    if (is_new) {
      extras_text_ +=
          fmt::format("{}[{:.0f},{},{}]", extras_text_.empty() ? "" : ",", std::get<0>(key),
                      std::get<1>(key), json_quoted(name_of(extra.cause)));
    }
    return found->second;
  }

  /// Dependencies, by what waits; `from` is counted back from it. The script finds the others, of
  /// spans on one track, by their order.
  void add_flows() {
    std::vector<std::pair<std::int64_t, std::int64_t>> flows;  // to, from
    for (const TimelineFlow& flow : timeline_.flows) {
      if (place_[flow.from] == kNotShown || place_[flow.to] == kNotShown) continue;
      flows.emplace_back(place_[flow.to], place_[flow.from]);
    }
    std::sort(flows.begin(), flows.end());
    Column to;
    Column from;
    std::int64_t previous = 0;
    for (const auto& [after, before] : flows) {
      to.add(after - std::exchange(previous, after));
      from.add(after - before);
    }
    out_ += to.take("flow_to") + from.take("flow_from");
  }

  void add_steps() {
    out_ += ",\"steps\":[";
    const char* comma = "";
    for (const TimelineStep& step : timeline_.steps) {
      if (step.start >= until_) break;
      out_ += fmt::format("{}[{},{},{}]", std::exchange(comma, ","), step.number,
                          since_start(step.start), since_start(step.end));
    }
    out_ += "]";
  }

  const Timeline& timeline_;
  Picoseconds from_;
  Picoseconds until_;
  std::size_t spans_in_all_ = 0;
  std::vector<std::uint32_t> order_;  // of the spans that are shown
  std::vector<std::uint32_t> place_;  // in `order_`, by span
  std::map<std::pair<NameId, std::string_view>, std::int64_t> names_;
  std::map<std::tuple<double, std::int64_t, WaitCause>, std::int64_t> extras_;
  std::string names_text_;
  std::string extras_text_;
  std::string out_;
};

}  // namespace

Picoseconds first_start(const Timeline& timeline) {
  Picoseconds first = kForever;
  for (const TimelineSpan& span : timeline.spans) first = std::min(first, span.start);
  return timeline.spans.empty() ? Picoseconds{} : first;
}

Picoseconds shown_until(const Timeline& timeline, std::size_t most) {
  std::vector<std::uint32_t> shown = shown_spans(timeline);
  if (shown.size() <= most) return kForever;
  const auto last = shown.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(shown.begin(), last, shown.end(), [&](std::uint32_t a, std::uint32_t b) {
    return timeline.spans[a].start < timeline.spans[b].start;
  });
  Picoseconds until = timeline.spans[*last].start;
  Picoseconds step_end{};
  for (const TimelineStep& step : timeline.steps) {
    if (step.end <= until) step_end = std::max(step_end, step.end);
  }
  return step_end.count > 0 ? step_end : until;
}

std::string timeline_fields(const Timeline& timeline, std::size_t most) {
  return TimelineWriter(timeline, most).write();
}

}  // namespace zenflow::sim
