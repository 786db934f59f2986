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
  double packed = 0;     ///< on the device, after backward
  double norms = 0;      ///< of columns, in steps that select
  double down = 0;       ///< a step's gradients; where sums are on the device, a window's
  double sum_first = 0;  ///< on the CPU, of a window's first step
  double sum = 0;        ///< of the others
  double update = 0;
  double up = 0;      ///< copied
  double placed = 0;  ///< then, on the same lane
};

class LiveBound {
 public:
  LiveBound(const Job& job, OffloadSchedule kind)
      : job_(job),
        live_(live_settings(kind, job)),
        work_(job, live_),
        gap_(rounded(job.scenario.hardware.host.step_gap)) {
    const std::vector<LiveLayer> cut = live_layers(job.scenario.model, live_.topk_ratio,
                                                   {0, static_cast<int>(job.scenario.ranks())});
    const StepPlan plan = live_plan(job);
    DeviceWork selected;
    DeviceWork carried;
    double deferred = 0;
    for (std::size_t l = 0; l < cut.size(); ++l) {
      layers_.push_back(times_of(cut[l], plan.layers[l]));
      selected += work_.update_selected(cut[l]);
      carried += work_.carry_selected(cut[l]);
      deferred += cut[l].deferred_elements();
    }
    if (live_.topk_ratio > 0) {
      selected_ = device(selected);
      if (live_.overlap_step && live_.offloads()) carried_ = device(carried);
    }
    if (live_.sums_on_device()) {
      device_sum_first_ = rounded(work_.sum_on_device(deferred, true));
      device_sum_ = rounded(work_.sum_on_device(deferred, false));
    }
    const auto interval = static_cast<double>(live_.update_interval);
    steps_ = static_cast<double>(job.scenario.run.steps);
    windows_ = steps_ / interval;
    before_last_ = static_cast<double>(live_.gradient_accumulation_steps - 1) *
                   sum_of([](const LayerTimes& t) { return t.forward + t.backward; });
    step_ = before_last_ +
            sum_of([](const LayerTimes& t) { return t.forward + t.backward + t.packed; }) + gap_ +
            selected_;
    window_ = interval * step_ + device_sum_first_ + (interval - 1) * device_sum_;
  }

  [[nodiscard]] double step() const {
    const Lanes lanes = sure_work();
    double bound = std::max({lanes.device + steps_ * gap_, lanes.down, lanes.up + lanes.placed,
                             lanes.sums, lanes.updates});
    if (live_.offloads() && !live_.overlap_step) bound = std::max(bound, chained());
    if (live_.sums_on_device() && live_.overlap_step) bound = std::max(bound, linked());
    if (job_.scenario.hardware.gpu.runs_on_host()) bound = std::max(bound, on_cores(lanes));
    return bound / steps_;
  }

 private:
  /// Picoseconds of work on each lane in the whole run.
  struct Lanes {
    double device = 0;
    double down = 0;
    double up = 0;
    double placed = 0;  ///< on the lane of `up`
    double sums = 0;
    double updates = 0;
  };

  [[nodiscard]] double device(const DeviceWork& work) const {
    return rounded(device_time(job_.scenario.hardware.gpu, work));
  }
  [[nodiscard]] double copied(Direction way, double bytes) const {
    return rounded(
        copy_time(job_.scenario.hardware.host_link, way, job_.deepspeed.pin_memory, Bytes(bytes)));
  }

  [[nodiscard]] LayerTimes times_of(const LiveLayer& cut, const PlannedLayer& planned) const {
    LayerTimes times;
    times.forward = static_cast<double>(planned.forward.count);
    times.backward = static_cast<double>(planned.backward.count);
    times.packed = device(work_.after_backward(cut));
    times.norms = device(work_.column_norms(cut));
    const double deferred = cut.deferred_elements();
    if (deferred == 0) return times;
    times.down = copied(Direction::kD2H, work_.bytes_down(cut));
    if (!live_.reads_staging() && !live_.sums_on_device()) {
      times.sum_first = rounded(deferred * work_.sum(true).time);
      times.sum = rounded(deferred * work_.sum(false).time);
    }
    times.update = rounded(work_.update().call(deferred));
    times.up = copied(Direction::kH2D, work_.bytes_up(cut));
    times.placed = device(work_.place_upload(cut));
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
    const auto interval = static_cast<double>(live_.update_interval);
    const double apart =
        std::ceil(static_cast<double>(live_.select_interval) / interval) * interval;
    return std::floor(steps_ / apart);
  }

  [[nodiscard]] Lanes sure_work() const {
    Lanes lanes;
    lanes.device = windows_ * (window_ + carried_) - steps_ * gap_ +
                   selections() * sum_of([](const LayerTimes& t) { return t.norms; });
    if (!live_.offloads()) return lanes;
    const double first = sum_of([](const LayerTimes& t) { return t.sum_first; });
    const double later = sum_of([](const LayerTimes& t) { return t.sum; });
    lanes.down = (live_.sums_on_device() ? windows_ - 1 : steps_ - 1) *
                 sum_of([](const LayerTimes& t) { return t.down; });
    lanes.sums = std::max(0.0, windows_ * first + (steps_ - windows_ - 2) * later);
    lanes.updates = (windows_ - 1) * sum_of([](const LayerTimes& t) { return t.update; });
    lanes.up = (windows_ - 1) * sum_of([](const LayerTimes& t) { return t.up; });
    lanes.placed = (windows_ - 1) * sum_of([](const LayerTimes& t) { return t.placed; });
    return lanes;
  }

  /// From the norm of a window's last step until the device has done what is left of the step.
  /// Precondition: no overlap, so a window that sums has more than one step.
  [[nodiscard]] double rest() const { return gap_ + device_sum_ + selected_; }

  /// When each layer's sums are complete on the host, after the norm of a window's last step is
  /// known: added up there.
  [[nodiscard]] std::vector<double> summed_on_host() const {
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
    return ready;
  }
  /// Likewise: copied, once the device's last compute of the window is done.
  [[nodiscard]] std::vector<double> summed_on_device() const {
    std::vector<double> ready(layers_.size(), 0.0);
    double link = rest();
    for (std::size_t l = 0; l < layers_.size(); ++l) ready[l] = link += layers_[l].down;
    return ready;
  }

  /// When each layer's weights are there, after the norm of a window's last step is known.
  [[nodiscard]] std::vector<double> arrivals() const {
    const std::size_t count = layers_.size();
    const std::vector<double> ready =
        live_.sums_on_device() ? summed_on_device() : summed_on_host();
    std::vector<double> there(count, 0.0);
    double updates = 0;
    // Uploads wait for the last compute that reads the weights: without selected columns the
    // packing.
    double uploads = live_.topk_ratio > 0 ? gap_ + selected_ : 0;
    for (std::size_t l = 0; l < count; ++l) {
      const LayerTimes& one = layers_[l];
      if (one.update == 0) continue;
      updates = std::max(updates, ready[l]) + one.update;
      there[l] = uploads = std::max(uploads, updates) + one.up + one.placed;
    }
    return there;
  }

  /// Without overlap, from the norm of a window's last step to that of the next one's; the run ends
  /// with what is left of it.
  [[nodiscard]] double chained() const {
    const std::vector<double> there = arrivals();
    double now = rest();
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      now = std::max(now, there[l]) + layers_[l].forward;
    }
    now += before_last_ + sum_of([](const LayerTimes& t) { return t.backward + t.packed; });
    // The window's other norms are a step and its sum apart; the last sum is in `rest`.
    const double window = now + window_ - step_ - device_sum_;
    return (windows_ - 1) * window + window_ - rest() + std::max(rest(), there.front());
  }

  /// With overlap and sums on the device: from the end of a window's last step to that of the next
  /// one's all sums go down, the device adds to them anew, and the window's other steps follow.
  [[nodiscard]] double linked() const {
    const double down = sum_of([](const LayerTimes& t) { return t.down; });
    const double without_first_passes = window_ - (step_ - selected_);
    const double window = std::max(carried_ + window_, down + without_first_passes);
    return window_ + (windows_ - 1) * window + carried_;
  }

  /// All threads' work, each on the cores that it takes alone, over the cores there are.
  [[nodiscard]] double on_cores(const Lanes& lanes) const {
    const HardwareProfile& hardware = job_.scenario.hardware;
    const auto copying = [&](Direction way) {
      return copying_cores(hardware.host, copy_rate(hardware.host_link, way, true));
    };
    return (static_cast<double>(hardware.gpu.host_cores) * lanes.device + lanes.placed +
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
  double step_ = 0;  ///< the device's work of a step but for sums, and the gap
  double device_sum_first_ = 0;  ///< in a window's first step
  double device_sum_ = 0;        ///< in the others
  double window_ = 0;            ///< the device's work of all steps, and the gaps
  double steps_ = 0;
  double windows_ = 0;
};

}  // namespace

double live_step_bound(const Job& job, OffloadSchedule kind) {
  return LiveBound(job, kind).step();
}

}  // namespace zenflow::sim
