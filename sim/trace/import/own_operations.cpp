#include "sim/trace/import/own_operations.h"

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace zenflow::sim {
namespace {

struct OwnTrack {
  std::optional<LaneKind> lane;
  bool after_backward = false;
  Operation after_step = Operation::kUpdateSelected;
};

/// "cpu_update bucket 7" without "cpu_update".
std::int32_t bucket_of(std::string_view name) {
  constexpr std::string_view kWord = " bucket ";
  const std::size_t word = name.find(kWord);
  std::int32_t bucket = -1;
  if (word == name.npos) return bucket;
  const std::string_view number = name.substr(word + kWord.size());
  std::from_chars(number.data(), number.data() + number.size(), bucket);
  return bucket;
}

Operation simulated_update(OwnTrack& track) {
  if (std::exchange(track.after_backward, false)) {
    track.after_step = Operation::kUpdateSelected;
    return Operation::kPackGradients;
  }
  return std::exchange(track.after_step, Operation::kCarrySelected);
}

Operation simulated_operation(OwnTrack& track, std::string_view name, double bytes) {
  const auto is = [name](Operation one) { return name.starts_with(simulated_name(one)); };
  switch (*track.lane) {
    case LaneKind::kCompute:
      if (is(Operation::kGpuUpdate)) return simulated_update(track);
      for (const Operation one : {Operation::kForward, Operation::kBackward,
                                  Operation::kGpuAccumulate, Operation::kSelect}) {
        if (is(one)) return one;
      }
      return Operation::kUnknown;
    case LaneKind::kD2H:
      return name.starts_with("Memcpy DtoH") ? Operation::kD2H : Operation::kUnknown;
    case LaneKind::kH2D:
      if (!name.starts_with("Memcpy HtoD")) return Operation::kUnknown;
      return bytes > 0 ? Operation::kWeightsUp : Operation::kPlaceWeights;
    case LaneKind::kCpuUpdate:
      return is(Operation::kCpuUpdate) ? Operation::kCpuUpdate : Operation::kUnknown;
    case LaneKind::kCpuAccumulate:
      return is(Operation::kAccumulate) ? Operation::kAccumulate : Operation::kUnknown;
    default:
      return Operation::kUnknown;
  }
}

}  // namespace

void find_operations(Timeline& timeline) {
  std::vector<OwnTrack> tracks;
  for (const Track& track : timeline.tracks) tracks.push_back({lane_of_track(track.name)});
  for (TimelineSpan& span : timeline.spans) {
    OwnTrack& track = tracks[span.track];
    if (!track.lane || span.kind == SpanKind::kSync) continue;
    const std::string_view name = operation_name(timeline, span);
    span.operation = recorded_operation(name);
    if (span.operation == Operation::kUnknown) {
      span.operation = simulated_operation(track, name, timeline.extra_of(span).bytes);
    } else if (span.operation == Operation::kAccumulate && *track.lane == LaneKind::kCompute) {
      span.operation = Operation::kGpuAccumulate;
    }
    if (span.operation == Operation::kBackward) track.after_backward = true;
    const std::int32_t bucket = bucket_of(name);
    if (bucket < 0) continue;
    SpanExtra extra = timeline.extra_of(span);
    extra.index = bucket;
    span.extra = timeline.extras.intern(extra);
  }
}

}  // namespace zenflow::sim
