#include "sim/tune/live_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/cost/transfer_cost.h"
#include "sim/schedule/cluster.h"

namespace zenflow::sim {
namespace {

/// As the schedule rounds a task's duration.
double rounded(Seconds time) {
  return static_cast<double>(to_picoseconds(time).count);
}

/// Durations of one layer's tasks.
struct LayerTimes {
  double forward = 0;
  double backward = 0;
  double packed = 0;  ///< on the device, after backward
  double norms = 0;   ///< of columns, in steps that select
  double down = 0;
  double sum_first = 0;  ///< of a window's first step
  double sum = 0;        ///< of the others
  double update = 0;
  double up = 0;
};

class LiveBound {
 public:
  LiveBound(const Job& job, LiveKind kind)
      : job_(job),
        live_(live_settings(kind, job)),
        work_(job, live_),
        gap_(rounded(job.scenario.hardware.host.step_gap)) {
    const std::vector<LiveLayer> cut = live_layers(job.scenario.model, live_.topk_ratio);
    const StepPlan plan = live_plan(job);
    DeviceWork selected;
    DeviceWork carried;
    for (std::size_t l = 0; l < cut.size(); ++l) {
      layers_.push_back(times_of(cut[l], plan.layers[l]));
      selected += work_.update_selected(cut[l]);
      carried += work_.carry_selected(cut[l]);
    }
    if (live_.topk_ratio > 0) {
      selected_ = device(selected);
      if (live_.overlap && live_.offloads()) carried_ = device(carried);
    }
    steps_ = static_cast<double>(job.scenario.run.steps);
    windows_ = steps_ / static_cast<double>(live_.interval);
    before_last_ = static_cast<double>(live_.micro_batches - 1) *
                   sum_of([](const LayerTimes& t) { return t.forward + t.backward; });
    step_ = before_last_ +
            sum_of([](const LayerTimes& t) { return t.forward + t.backward + t.packed; }) + gap_ +
            selected_;
  }

  [[nodiscard]] double step() const {
    const Lanes lanes = sure_work();
    double bound =
        std::max({lanes.device + steps_ * gap_, lanes.down, lanes.up, lanes.sums, lanes.updates});
    if (live_.offloads() && !live_.overlap) bound = std::max(bound, chained());
    if (job_.scenario.hardware.gpu.runs_on_host()) bound = std::max(bound, on_cores(lanes));
    return bound / steps_;
  }

 private:
  /// Of the whole run.
  struct Lanes {
    double device = 0;
    double down = 0;
    double up = 0;
    double sums = 0;
    double updates = 0;
  };

  [[nodiscard]] double device(const DeviceWork& work) const {
    return rounded(device_time(job_.scenario.hardware.gpu, work));
  }
  [[nodiscard]] double copied(Direction way, double elements) const {
    return rounded(copy_time(job_.scenario.hardware.host_link, way, job_.deepspeed.pin_memory,
                             Bytes(work_.width() * elements)));
  }

  [[nodiscard]] LayerTimes times_of(const LiveLayer& cut, const PlannedLayer& planned) const {
    LayerTimes times;
    times.forward = static_cast<double>(planned.forward.count);
    times.backward = static_cast<double>(planned.backward.count);
    times.packed = device(work_.after_backward(cut));
    times.norms = device(work_.column_norms(cut));
    const double deferred = cut.deferred_elements();
    if (deferred == 0) return times;
    times.down = copied(Direction::kD2H, deferred);
    if (!live_.reads_staging()) {
      times.sum_first = rounded(deferred * work_.sum(true).time);
      times.sum = rounded(deferred * work_.sum(false).time);
    }
    times.update = rounded(work_.update().call(deferred));
    times.up = copied(Direction::kH2D, deferred) + device(work_.place_upload(cut));
    return times;
  }

  template <class Part>
  [[nodiscard]] double sum_of(Part part) const {
    double sum = 0;
    for (const LayerTimes& one : layers_) sum += part(one);
    return sum;
  }

  /// Windows that rank columns, at least.
  [[nodiscard]] double selections() const {
    if (live_.select_interval == 0 || live_.topk_ratio == 0 || !live_.offloads()) return 0;
    const auto interval = static_cast<double>(live_.interval);
    const double apart =
        std::ceil(static_cast<double>(live_.select_interval) / interval) * interval;
    return std::floor(steps_ / apart);
  }

  [[nodiscard]] Lanes sure_work() const {
    Lanes lanes;
    lanes.device = steps_ * (step_ - gap_) + windows_ * carried_ +
                   selections() * sum_of([](const LayerTimes& t) { return t.norms; });
    if (!live_.offloads()) return lanes;
    const double first = sum_of([](const LayerTimes& t) { return t.sum_first; });
    const double later = sum_of([](const LayerTimes& t) { return t.sum; });
    lanes.down = (steps_ - 1) * sum_of([](const LayerTimes& t) { return t.down; });
    lanes.sums = std::max(0.0, windows_ * first + (steps_ - windows_ - 2) * later);
    lanes.updates = (windows_ - 1) * sum_of([](const LayerTimes& t) { return t.update; });
    lanes.up = (windows_ - 1) * sum_of([](const LayerTimes& t) { return t.up; });
    return lanes;
  }

  /// When each layer's weights are there, after the norm of a window's last step is known.
  [[nodiscard]] std::vector<double> arrivals() const {
    const std::size_t count = layers_.size();
    // Backwards from the norm: packing of the embedding has just ended.
    std::vector<double> packed(count, 0.0);
    for (std::size_t l = 0; l + 1 < count; ++l) {
      packed[l + 1] = packed[l] - layers_[l].packed - layers_[l].backward;
    }
    std::vector<double> ready(count, 0.0);
    double link = -std::numeric_limits<double>::infinity();
    double sums = 0;
    for (std::size_t l = count; l-- > 0;) {
      const LayerTimes& one = layers_[l];
      if (one.update == 0) continue;
      link = std::max(link, packed[l]) + one.down;
      ready[l] = sums = std::max({sums, link, 0.0}) + one.sum;
    }
    std::vector<double> there(count, 0.0);
    double updates = 0;
    // Uploads wait for the last compute that reads the weights: without selected columns the
    // packing.
    double uploads = live_.topk_ratio > 0 ? gap_ + selected_ : 0;
    for (std::size_t l = 0; l < count; ++l) {
      const LayerTimes& one = layers_[l];
      if (one.update == 0) continue;
      updates = std::max(updates, ready[l]) + one.update;
      there[l] = uploads = std::max(uploads, updates) + one.up;
    }
    return there;
  }

  /// Without overlap, from the norm of a window's last step to that of the next one's; the run ends
  /// with what is left of it.
  [[nodiscard]] double chained() const {
    const std::vector<double> there = arrivals();
    const double rest = gap_ + selected_;
    double now = rest;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      now = std::max(now, there[l]) + layers_[l].forward;
    }
    now += before_last_ + sum_of([](const LayerTimes& t) { return t.backward + t.packed; });
    const double window = now + static_cast<double>(live_.interval - 1) * step_;
    return (windows_ - 1) * window + static_cast<double>(live_.interval) * step_ - rest +
           std::max(rest, there.front());
  }

  /// All threads' work, each on the cores that it takes alone, over the cores there are.
  [[nodiscard]] double on_cores(const Lanes& lanes) const {
    const HardwareProfile& hardware = job_.scenario.hardware;
    const auto copying = [&](Direction way) {
      return copying_cores(hardware.host, copy_rate(hardware.host_link, way, true));
    };
    return (static_cast<double>(hardware.gpu.host_cores) * lanes.device +
            copying(Direction::kD2H) * lanes.down + copying(Direction::kH2D) * lanes.up +
            live_.optimizer_cores * lanes.updates + live_.sum_cores * lanes.sums) /
           static_cast<double>(hardware.host.cores);
  }

  const Job& job_;
  LiveSettings live_;
  LiveWork work_;
  std::vector<LayerTimes> layers_;
  double gap_;           ///< from the norm until the device has work again
  double selected_ = 0;  ///< a step
  double carried_ = 0;   ///< a window
  double before_last_ =
      0;             ///< passes of a step's micro-batches but the last, which packs and sends
  double step_ = 0;  ///< the device's work of a step, and the gap
  double steps_ = 0;
  double windows_ = 0;
};

}  // namespace

double live_step_bound(const Job& job, LiveKind kind) {
  return LiveBound(job, kind).step();
}

}  // namespace zenflow::sim
