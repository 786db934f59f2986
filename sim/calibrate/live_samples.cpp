#include "sim/calibrate/live_samples.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

double seconds_of(const TimelineSpan& span) {
  return to_seconds(span.end - span.start).value();
}

/// Collects samples of one timeline; those that start outside [begin, end) are seen but not kept.
class Sampler {
 public:
  Sampler(const Timeline& timeline, const std::vector<LiveLayer>& layers, const LiveSettings& live,
          Picoseconds begin, Picoseconds end)
      : timeline_(timeline), layers_(layers), live_(live), begin_(begin), end_(end) {}

  std::vector<LiveSample> take() {
    for (std::uint32_t track = 0; track < timeline_.tracks.size(); ++track) {
      const std::string& name = timeline_.tracks[track].name;
      if (name == "compute") {
        compute(track);
      } else if (name == "d2h") {
        gradients_down(track);
      } else if (name == "h2d") {
        weights_up(track);
      } else if (name == "cpu optimizer" || name == "cpu_update") {
        updates(track);
      } else if (name == "cpu sums" || name == "cpu_accumulate") {
        sums(track);
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
  /// Recorded copies by what they carry. (Until 0.1's first recordings that was their name.)
  [[nodiscard]] std::string_view name_of(const TimelineSpan& span) const {
    return operation_name(timeline_, span);
  }
  [[noreturn]] void fail(const TimelineSpan& span, std::string_view expected) const {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: track \"{}\" at {:.6f} ms: expected {}, found \"{}\"; is this a "
                            "recording of the schedule and model given?",
                            timeline_.name, timeline_.tracks[span.track].name,
                            to_milliseconds(span.start), expected, name_of(span)));
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
  void add(LiveOperation operation, std::size_t layer, const TimelineSpan& span) {
    if (!open_ || open_->operation != operation || open_->layer != layer) {
      close();
      open_ = LiveSample{operation, layer};
      open_from_ = span;
    }
    open_->seconds += seconds_of(span);
  }

  void compute(std::uint32_t track);
  void compute_span(const TimelineSpan& span);
  void step_gap(const TimelineSpan& forward);
  void gradients_down(std::uint32_t track);
  void weights_up(std::uint32_t track);
  void updates(std::uint32_t track);
  void sums(std::uint32_t track);
  [[nodiscard]] bool is_first_of_window(std::int64_t step) const {
    return (step - live_.warm_up) % live_.interval == 0;
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
  bool after_backward_ = false;  ///< simulated: the next update packs the layer's gradients
  LiveOperation after_step_ = LiveOperation::kUpdateSelected;
};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void Sampler::compute(std::uint32_t track) {
  forwards_ = backwards_ = 0;
  bool begun = false;
  each_span(track, [&](const TimelineSpan& span) {
    begun = begun || name_of(span).starts_with("forward");
    if (!begun) return;
    compute_span(span);
    if (name_of(span) != "gradient norms" && span.start >= norm_known_.value_or(span.end)) {
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
      norm_step_ >= 0 && (norm_step_ + 1 - live_.warm_up) % live_.interval == 0;
  const bool waits_for_uploads = live_.offloads() && (!live_.overlap || after_window);
  // A window's first sum on the device may wait for the sums before it to go down.
  const bool waits_for_link = live_.sums_on_device() && is_first_of_window(norm_step_);
  if (norm_known_ && !waits_for_uploads && !waits_for_link) {
    keep(forward, {LiveOperation::kStepGap, 0, false, 0,
                   to_seconds(forward.start - *norm_known_ - busy_since_norm_).value()});
  }
  norm_known_.reset();
}

void Sampler::compute_span(const TimelineSpan& span) {
  const std::size_t layers = layers_.size();
  if (name_of(span).starts_with("forward")) {
    close();
    step_gap(span);
    if (backwards_ == layers) forwards_ = backwards_ = 0;
    if (forwards_ == layers || backwards_ > 0) fail(span, "backward");
    keep(span, {LiveOperation::kForward, forwards_++, false, 0, seconds_of(span)});
  } else if (name_of(span).starts_with("backward")) {
    close();
    // A validation is a forward pass alone.
    if (forwards_ != layers || backwards_ == layers) fail(span, "forward");
    keep(span, {LiveOperation::kBackward, layers - ++backwards_, false, 0, seconds_of(span)});
    after_backward_ = true;
  } else if (is_one_of(name_of(span), {"gradient norm", "gather selected", "gather deferred"})) {
    add(LiveOperation::kAfterBackward, layers - backwards_, span);
  } else if (name_of(span) == "gradient norms") {
    norm_known_ = span.end;  // copied to the host
    norm_step_ = timeline_.extra_of(span).step;
    busy_since_norm_ = {};
    return;
  } else if (is_one_of(name_of(span), {"sum gradients", "gpu_accumulate"})) {
    close();
    if (!live_.sums_on_device()) fail(span, "sums on the host (accumulate_on host)");
    keep(span, {LiveOperation::kSumOnDevice, 0, is_first_of_window(timeline_.extra_of(span).step),
                0, seconds_of(span)});
  } else if (name_of(span) == "update selected") {
    add(LiveOperation::kUpdateSelected, 0, span);
  } else if (name_of(span) == "carry selected") {
    add(LiveOperation::kCarrySelected, 0, span);
  } else if (name_of(span) == "gpu_update") {
    // Simulated: one task for what the runtime does in several operations.
    close();
    if (std::exchange(after_backward_, false)) {
      norm_known_ = span.end;
      norm_step_ = timeline_.extra_of(span).step;
      busy_since_norm_ = {};
      keep(span, {LiveOperation::kAfterBackward, layers - backwards_, false, 0, seconds_of(span)});
      after_step_ = LiveOperation::kUpdateSelected;
    } else {
      keep(span, {after_step_, 0, false, 0, seconds_of(span)});
      after_step_ = LiveOperation::kCarrySelected;
    }
  }
}

void Sampler::gradients_down(std::uint32_t track) {
  each_span(track, [&](const TimelineSpan& span) {
    const bool steps = name_of(span) == "gradients down";
    const bool sums = name_of(span) == "gradient sums down";
    if (!steps && !sums && !name_of(span).starts_with("Memcpy DtoH")) return;
    // In the warm-up every step's come down.
    const SpanExtra& extra = timeline_.extra_of(span);
    const bool is_regular = extra.step >= live_.warm_up;
    if (live_.sums_on_device() && steps && is_regular) {
      fail(span, "gradient sums down (accumulate_on device)");
    }
    if (!live_.sums_on_device() && sums) fail(span, "gradients down (accumulate_on host)");
    keep(span, {LiveOperation::kGradientsDown, 0, false, extra.bytes, seconds_of(span)});
  });
}

void Sampler::weights_up(std::uint32_t track) {
  const std::vector<std::size_t> which = crossing();
  std::size_t copies = 0;
  each_span(track, [&](const TimelineSpan& span) {
    const bool simulated = name_of(span).starts_with("Memcpy HtoD");
    const double bytes = timeline_.extra_of(span).bytes;
    if (name_of(span) == "weights up" || (simulated && bytes > 0)) {
      close();
      if (which.empty()) fail(span, "no upload");
      ++copies;
      keep(span, {LiveOperation::kWeightsUp, which[(copies - 1) % which.size()], false, bytes,
                  seconds_of(span)});
    } else if (name_of(span) == "scatter weights" || simulated) {
      if (copies == 0) fail(span, "an upload");
      add(LiveOperation::kPlaceUpload, which[(copies - 1) % which.size()], span);
      if (simulated) close();
    }
  });
  close();
}

/// Simulated tasks name the bucket; buckets count from the head. The runtime's spans come in order,
/// one for every layer.
std::optional<std::size_t> bucket_layer(std::string_view name, std::string_view what,
                                        std::size_t layers) {
  const std::string prefix = fmt::format("{} bucket ", what);
  if (!name.starts_with(prefix)) return std::nullopt;
  std::size_t bucket = 0;
  for (const char digit : name.substr(prefix.size())) {
    bucket = 10 * bucket + static_cast<std::size_t>(digit - '0');
  }
  return bucket < layers ? std::optional(layers - 1 - bucket) : std::nullopt;
}

void Sampler::updates(std::uint32_t track) {
  std::size_t count = 0;
  each_span(track, [&](const TimelineSpan& span) {
    std::optional<std::size_t> layer = bucket_layer(name_of(span), "cpu_update", layers_.size());
    if (name_of(span) == "update") layer = count++ % layers_.size();
    if (!layer) return;
    keep(span, {LiveOperation::kUpdate, *layer, false, 0, seconds_of(span)});
  });
}

void Sampler::sums(std::uint32_t track) {
  std::size_t count = 0;
  each_span(track, [&](const TimelineSpan& span) {
    std::optional<std::size_t> layer = bucket_layer(name_of(span), "accumulate", layers_.size());
    if (name_of(span) == "sum gradients") layer = layers_.size() - 1 - count++ % layers_.size();
    if (!layer) return;
    if (live_.sums_on_device()) fail(span, "sums on the device (accumulate_on device)");
    keep(span, {LiveOperation::kSum, *layer, is_first_of_window(timeline_.extra_of(span).step), 0,
                seconds_of(span)});
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
