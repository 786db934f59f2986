#include "sim/calibrate/live_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

const LayerWork& work_of(const ModelWork& work, const ModelSpec& model, std::size_t layer,
                         bool forward) {
  const std::size_t blocks = model.order.size();
  const LayerPasses& passes = layer == 0 ? work.embedding
                              : layer <= blocks
                                  ? work.kinds[static_cast<std::size_t>(model.order[layer - 1])]
                                  : work.head;
  return forward ? passes.forward : passes.backward;
}

DeviceWork of_all(const LiveWork& work, const std::vector<LiveLayer>& layers,
                  DeviceWork (LiveWork::*of)(const LiveLayer&) const) {
  DeviceWork sum;
  for (const LiveLayer& layer : layers) sum += (work.*of)(layer);
  return sum;
}

class RowCollector {
 public:
  RowCollector(const LiveRun& run, LiveRows& rows)
      : job_(*run.job),
        live_(run.live),
        layers_(run.layers),
        work_(job_, live_),
        model_(model_work(job_.scenario.hardware.gpu, job_.scenario.model, live_training(job_))),
        rows_(rows) {
    for (const LiveLayer& layer : layers_) deferred_ += layer.deferred_elements();
    rows_.sum_cores = std::max(rows_.sum_cores, live_.sum_cores);
  }

  void add(const LiveSample& sample) {
    const double seconds = sample.seconds;
    const std::size_t l = sample.layer;
    switch (sample.operation) {
      case Operation::kForward:
        rows_.model.push_back({{work_of(model_, job_.scenario.model, l, true)}, seconds});
        return;
      case Operation::kBackward:
        return add_backward(l, seconds);
      case Operation::kPackGradients:
      case Operation::kUpdateSelected:
      case Operation::kCarrySelected:
      case Operation::kPlaceWeights:
        return add_device(*device_work(work_, layers_, sample), seconds);
      case Operation::kGradientsDown:
        check_bytes(sample, &LiveWork::bytes_down);
        return rows_.down.add({sample.bytes, 1}, seconds);
      case Operation::kWeightsUp:
        check_bytes(sample, &LiveWork::bytes_up);
        return rows_.up.add({sample.bytes, 1}, seconds);
      case Operation::kEnqueue:
        return rows_.gap.add({1}, seconds);
      case Operation::kCpuUpdate:
        return add_update(work_.update_bytes() * layers_[l].deferred_elements(), seconds);
      case Operation::kAccumulate:
        return add_sum(work_.sum_bytes(sample.first) * layers_[l].deferred_elements(), seconds);
      case Operation::kGpuAccumulate:
        return add_sum_on_device(work_.sum_bytes(sample.first) * deferred_, seconds);
      default:
        return;
    }
  }

 private:
  /// Only the bytes show that a recording has another k or precision.
  void check_bytes(const LiveSample& copy,
                   double (LiveWork::*expected)(const LiveLayer&) const) const {
    for (const LiveLayer& layer : layers_) {
      // Traces may round simulated copies.
      if (std::abs((work_.*expected)(layer)-copy.bytes) < 1) return;
    }
    throw Error(ErrorKind::kInput,
                fmt::format("a copy of {:.0f} bytes was recorded, which no layer of {} makes with "
                            "topk_ratio {:g} and {}{}: is this the setting that was recorded?",
                            copy.bytes, job_.scenario.model.name, live_.topk_ratio,
                            to_string(job_.scenario.training.dtype),
                            live_.sums_on_device() ? " and sums on the device" : ""));
  }
  void add_backward(std::size_t layer, double seconds) {
    std::vector<LayerWork> work = {work_of(model_, job_.scenario.model, layer, false)};
    if (runs_forward_again(job_.scenario.training, layer, layers_.size())) {
      work.push_back(work_of(model_, job_.scenario.model, layer, true));
    }
    rows_.model.push_back({std::move(work), seconds});
  }
  void add_device(const DeviceWork& work, double seconds) {
    rows_.device.add({work.streamed, work.columns, work.kernels}, seconds);
  }
  void add_update(double bytes, double seconds) {
    if (bytes <= 0) return;
    rows_.update.add({bytes, 1}, seconds);
    rows_.update_cores.push_back(live_.optimizer_cores);
    rows_.all_update_cores.insert(live_.optimizer_cores);
  }
  void add_sum(double bytes, double seconds) {
    if (bytes > 0) rows_.sum.add({bytes / live_.sum_cores}, seconds);
  }
  /// A stream of the device; where that is the host, the CPU's pass on one core.
  void add_sum_on_device(double bytes, double seconds) {
    if (!job_.scenario.hardware.gpu.runs_on_host()) return add_device({bytes, 0, 1}, seconds);
    if (bytes > 0) rows_.sum.add({bytes}, seconds);
  }

  const Job& job_;
  const LiveSettings& live_;
  const std::vector<LiveLayer>& layers_;
  LiveWork work_;
  ModelWork model_;
  LiveRows& rows_;
  double deferred_ = 0;  // elements of all layers
};

}  // namespace

std::optional<DeviceWork> device_work(const LiveWork& work, const std::vector<LiveLayer>& layers,
                                      const LiveSample& sample) {
  switch (sample.operation) {
    case Operation::kPackGradients:
      return work.after_backward(layers[sample.layer]);
    case Operation::kUpdateSelected:
      return of_all(work, layers, &LiveWork::update_selected);
    case Operation::kCarrySelected:
      return of_all(work, layers, &LiveWork::carry_selected);
    case Operation::kPlaceWeights:
      return work.place_upload(layers[sample.layer]);
    default:
      return std::nullopt;
  }
}

/// Amounts of one kind of work in the times that identify `unit` and are not damped: "0.4 to 6.4
/// MB".
std::string range_text(const Rows& rows, const TimeFit& fit, std::size_t unit, std::size_t amount,
                       double scale, const char* name) {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < rows.times.size(); ++i) {
    const TimedWork& one = rows.times[i];
    if (one.work[unit] == 0 || fit.weights[i] < kDampedWeight) continue;
    smallest = std::min(smallest, one.work[amount]);
    largest = std::max(largest, one.work[amount]);
  }
  if (smallest > largest) return "";
  return fmt::format("{:.4g} to {:.4g} {}", smallest / scale, largest / scale, name);
}

void add_rows(const LiveRun& run, LiveRows& rows) {
  RowCollector collector(run, rows);
  for (const LiveSample& sample : run.samples) collector.add(sample);
}

}  // namespace zenflow::sim
