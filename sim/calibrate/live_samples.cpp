#include "sim/calibrate/live_samples.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

/// Collects samples of one timeline; those that start outside [begin, end) are seen but not kept.
class Sampler {
 public:
  Sampler(const Timeline& timeline, const std::vector<LiveLayer>& layers, const LiveSettings& live,
          Picoseconds begin, Picoseconds end)
      : timeline_(timeline), layers_(layers), live_(live), begin_(begin), end_(end) {}

  std::vector<LiveSample> take() {
    for (std::uint32_t track = 0; track < timeline_.tracks.size(); ++track) {
      switch (lane_of_track(timeline_.tracks[track].name).value_or(LaneKind::kTraining)) {
        case LaneKind::kCompute:
          compute(track);
          break;
        case LaneKind::kD2H:
          gradients_down(track);
          break;
        case LaneKind::kH2D:
          weights_up(track);
          break;
        case LaneKind::kCpuUpdate:
          updates(track);
          break;
        case LaneKind::kCpuAccumulate:
          sums(track);
          break;
        default:
          break;
      }
    }
    return std::move(samples_);
  }

 private:
  template <class Visit>
  void each_span(std::uint32_t track, Visit visit) const {
    for (const TimelineSpan& span : timeline_.spans) {
      if (span.track == track) visit(span);
    }
  }
  [[noreturn]] void fail(const TimelineSpan& span, std::string_view expected) const {
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: track \"{}\" at {:.6f} ms: expected {}, found \"{}\"; is this a "
                    "recording of the schedule and model given?",
                    timeline_.name, timeline_.tracks[span.track].name, to_milliseconds(span.start),
                    expected, operation_name(timeline_, span)));
  }
  void keep(const TimelineSpan& span, LiveSample sample) {
    if (span.start < begin_ || span.start >= end_ || sample.seconds <= 0) return;
    sample.start = span.start;
    samples_.push_back(sample);
  }
  void close() {
    if (open_) keep(open_from_, *std::exchange(open_, std::nullopt));
    open_.reset();
  }
  /// Spans of one operation follow one another: their times add up.
  void add(Operation operation, std::size_t layer, const TimelineSpan& span) {
    if (!open_ || open_->operation != operation || open_->layer != layer) {
      close();
      open_ = LiveSample{operation, layer};
      open_from_ = span;
    }
    open_->seconds += seconds_of(span);
  }

  void compute(std::uint32_t track);
  void compute_span(const TimelineSpan& span);
  void know_norm(const TimelineSpan& span);
  void step_gap(const TimelineSpan& forward);
  void gradients_down(std::uint32_t track);
  void weights_up(std::uint32_t track);
  void updates(std::uint32_t track);
  void sums(std::uint32_t track);
  /// Simulated tasks have their bucket, which counts from the head. The runtime's spans come in
  /// order, one for every layer.
  [[nodiscard]] std::optional<std::size_t> layer_of(const TimelineSpan& span,
                                                    std::size_t in_order) const;
  [[nodiscard]] bool is_first_of_window(std::int64_t step) const {
    return (step - live_.full_warm_up_rounds) % live_.update_interval == 0;
  }
  /// Layers of which something is deferred, embedding first.
  [[nodiscard]] std::vector<std::size_t> crossing() const {
    std::vector<std::size_t> which;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      if (layers_[l].deferred_elements() > 0) which.push_back(l);
    }
    return which;
  }

  const Timeline& timeline_;
  const std::vector<LiveLayer>& layers_;
  const LiveSettings& live_;
  Picoseconds begin_;
  Picoseconds end_;
  std::vector<LiveSample> samples_;
  std::optional<LiveSample> open_;
  TimelineSpan open_from_{};
  std::size_t forwards_ = 0;  ///< of the step, so far
  std::size_t backwards_ = 0;
  std::optional<Picoseconds> norm_known_;
  std::int64_t norm_step_ = -1;  ///< whose norm that is; -1: the trace does not say
  Picoseconds busy_since_norm_{};
};

void Sampler::compute(std::uint32_t track) {
  forwards_ = backwards_ = 0;
  bool begun = false;
  each_span(track, [&](const TimelineSpan& span) {
    begun = begun || span.operation == Operation::kForward;
    if (!begun) return;
    compute_span(span);
    const bool tells_norm = span.operation == Operation::kGradientNorms;
    if (!tells_norm && span.start >= norm_known_.value_or(span.end)) {
      busy_since_norm_ += span.end - span.start;
    }
  });
  close();
}

/// What the device idled since the norm was known. Where the forward waits for uploads, without
/// overlap always, with overlap in a window's first step, or a sum for the link, that is no gap of
/// the training thread.
void Sampler::step_gap(const TimelineSpan& forward) {
  const bool after_window =
      norm_step_ >= 0 && (norm_step_ + 1 - live_.full_warm_up_rounds) % live_.update_interval == 0;
  const bool waits_for_uploads = live_.offloads() && (!live_.overlap_step || after_window);
  // A window's first sum on the device may wait for the sums before it to go down.
  const bool waits_for_link = live_.sums_on_device() && is_first_of_window(norm_step_);
  if (norm_known_ && !waits_for_uploads && !waits_for_link) {
    keep(forward, {Operation::kEnqueue, 0, false, 0,
                   to_seconds(forward.start - *norm_known_ - busy_since_norm_).value()});
  }
  norm_known_.reset();
}

void Sampler::know_norm(const TimelineSpan& span) {
  norm_known_ = span.end;
  norm_step_ = timeline_.extra_of(span).step;
  busy_since_norm_ = {};
}

void Sampler::compute_span(const TimelineSpan& span) {
  const std::size_t layers = layers_.size();
  switch (span.operation) {
    case Operation::kForward:
      close();
      step_gap(span);
      if (backwards_ == layers) forwards_ = backwards_ = 0;
      if (forwards_ == layers || backwards_ > 0) fail(span, "backward");
      return keep(span, {Operation::kForward, forwards_++, false, 0, seconds_of(span)});
    case Operation::kBackward:
      close();
      // A validation is a forward pass alone.
      if (forwards_ != layers || backwards_ == layers) fail(span, "forward");
      return keep(span, {Operation::kBackward, layers - ++backwards_, false, 0, seconds_of(span)});
    case Operation::kGradientNorm:
    case Operation::kGatherSelected:
    case Operation::kGatherDeferred:
      if (backwards_ == 0) fail(span, "backward");
      return add(Operation::kPackGradients, layers - backwards_, span);
    case Operation::kPackGradients:
      if (backwards_ == 0) fail(span, "backward");
      close();
      know_norm(span);  // after the last layer's
      return keep(span,
                  {Operation::kPackGradients, layers - backwards_, false, 0, seconds_of(span)});
    case Operation::kGradientNorms:
      return know_norm(span);
    case Operation::kGpuAccumulate:
      close();
      if (!live_.sums_on_device()) fail(span, "sums on the host (accumulate_on host)");
      return keep(span, {Operation::kGpuAccumulate, 0,
                         is_first_of_window(timeline_.extra_of(span).step), 0, seconds_of(span)});
    case Operation::kUpdateSelected:
    case Operation::kCarrySelected:
      return add(span.operation, 0, span);
    default:
      return;
  }
}

void Sampler::gradients_down(std::uint32_t track) {
  each_span(track, [&](const TimelineSpan& span) {
    if (!is_d2h(span.operation)) return;
    // In the warm-up every step's come down.
    const SpanExtra& extra = timeline_.extra_of(span);
    const bool is_regular = extra.step >= live_.full_warm_up_rounds;
    if (live_.sums_on_device() && span.operation == Operation::kGradientsDown && is_regular) {
      fail(span, "gradient sums down (accumulate_on device)");
    }
    if (!live_.sums_on_device() && span.operation == Operation::kGradientSumsDown) {
      fail(span, "gradients down (accumulate_on host)");
    }
    keep(span, {Operation::kGradientsDown, 0, false, extra.bytes, seconds_of(span)});
  });
}

void Sampler::weights_up(std::uint32_t track) {
  const std::vector<std::size_t> which = crossing();
  std::size_t copies = 0;
  each_span(track, [&](const TimelineSpan& span) {
    if (span.operation == Operation::kWeightsUp) {
      close();
      if (which.empty()) fail(span, "no upload");
      ++copies;
      keep(span, {Operation::kWeightsUp, which[(copies - 1) % which.size()], false,
                  timeline_.extra_of(span).bytes, seconds_of(span)});
    } else if (span.operation == Operation::kPlaceWeights) {
      if (copies == 0) fail(span, "an upload");
      add(Operation::kPlaceWeights, which[(copies - 1) % which.size()], span);
    }
  });
  close();
}

std::optional<std::size_t> Sampler::layer_of(const TimelineSpan& span, std::size_t in_order) const {
  const auto bucket = static_cast<std::int64_t>(timeline_.extra_of(span).index);
  if (bucket < 0) return in_order;
  const std::int64_t layer = std::ssize(layers_) - 1 - bucket;
  return layer >= 0 ? std::optional(static_cast<std::size_t>(layer)) : std::nullopt;
}

void Sampler::updates(std::uint32_t track) {
  std::size_t count = 0;
  each_span(track, [&](const TimelineSpan& span) {
    if (span.operation != Operation::kCpuUpdate) return;
    const auto layer = layer_of(span, count++ % layers_.size());
    if (layer) keep(span, {Operation::kCpuUpdate, *layer, false, 0, seconds_of(span)});
  });
}

void Sampler::sums(std::uint32_t track) {
  std::size_t count = 0;
  each_span(track, [&](const TimelineSpan& span) {
    if (span.operation != Operation::kAccumulate) return;
    const auto layer = layer_of(span, layers_.size() - 1 - count++ % layers_.size());
    if (!layer) return;
    if (live_.sums_on_device()) fail(span, "sums on the device (accumulate_on device)");
    keep(span, {Operation::kAccumulate, *layer, is_first_of_window(timeline_.extra_of(span).step),
                0, seconds_of(span)});
  });
}

}  // namespace

std::vector<LiveSample> live_samples(const Timeline& timeline, const std::vector<LiveLayer>& layers,
                                     const LiveSettings& live, std::int64_t first_step) {
  Picoseconds begin{};
  Picoseconds end{};
  for (const TimelineStep& step : timeline.steps) {
    if (step.number == first_step) begin = step.start;
    end = std::max(end, step.end);
  }
  if (end <= begin) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: no step after step {} was recorded", timeline.name, first_step));
  }
  return Sampler(timeline, layers, live, begin, end).take();
}

}  // namespace zenflow::sim
