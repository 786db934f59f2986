#include "sim/calibrate/live_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/live_samples.h"
#include "sim/calibrate/profile_constants.h"
#include "sim/cost/gpu_cost.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

constexpr double kGiga = 1e9;
constexpr int kMostRepetitions = 50;

/// Rows of one fit.
struct Rows {
  std::vector<TimedWork> times;

  void add(std::vector<double> work, double seconds, double known = 0) {
    times.push_back({std::move(work), seconds, known});
  }
};

/// Amounts of one kind of work in the times that tell `unit` and are not damped: "0.4 to 6.4 MB".
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

/// A layer's pass; backward may contain the forward that it runs again.
struct ModelSample {
  std::vector<LayerWork> work;
  double seconds;
};

/// Samples of all recordings, as rows of each fit.
struct AllRows {
  std::vector<ModelSample> model;
  Rows device;  // bytes streamed, bytes of columns, kernels
  Rows down;    // bytes, copies
  Rows up;      // bytes, copies
  Rows update;  // bytes, bytes by threads
  Rows sum;     // bytes
  Rows gap;     // steps
  double update_cores = 1;
  double sum_cores = 1;
  std::set<std::int64_t> update_threads;  // that recordings say
};

const LayerWork& work_of(const ModelWork& model, std::size_t layer, std::size_t layers,
                         bool forward) {
  if (layer == 0) return forward ? model.embedding_forward : model.embedding_backward;
  if (layer + 1 == layers) return forward ? model.head_forward : model.head_backward;
  return forward ? model.block_forward : model.block_backward;
}

class RowCollector {
 public:
  RowCollector(const LiveRecording& recording, AllRows& rows)
      : job_(*recording.job),
        gpu_(job_.scenario.hardware.gpu),
        live_(live_settings(kind_of(recording), job_)),
        layers_(live_layers(job_.scenario.model, live_.topk_ratio)),
        work_(job_, live_),
        model_(model_work(job_.scenario.model, job_.scenario.training)),
        rows_(rows) {
    if (live_.warm_up > recording.first_step) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: steps from {} on were to be used, but the warm-up lasts {}",
                              recording.schedule, recording.first_step, live_.warm_up));
    }
    for (const LiveLayer& layer : layers_) deferred_ += layer.deferred_elements();
    rows_.update_cores = live_.optimizer_cores;
    rows_.sum_cores = live_.sum_cores;
    if (const auto run = recorded_run(*recording.timeline)) {
      threads_ = run->optimizer_threads;
      rows_.update_threads.insert(threads_);
    }
    for (const LiveSample& sample :
         live_samples(*recording.timeline, layers_, live_, recording.first_step)) {
      add(sample);
    }
  }

 private:
  static LiveKind kind_of(const LiveRecording& recording) {
    if (const auto kind = live_kind(recording.schedule)) return *kind;
    throw Error(
        ErrorKind::kInput,
        fmt::format("schedule \"{}\": expected one of the live-* schedules", recording.schedule));
  }

  void add(const LiveSample& sample) {
    const std::size_t l = sample.layer;
    switch (sample.operation) {
      case LiveOperation::kForward:
        rows_.model.push_back({{work_of(model_, l, layers_.size(), true)}, sample.seconds});
        return;
      case LiveOperation::kBackward:
        return add_backward(l, sample.seconds);
      case LiveOperation::kAfterBackward:
        return add_device(work_.after_backward(layers_[l]), sample.seconds);
      case LiveOperation::kUpdateSelected:
        return add_device(all_layers(&LiveWork::update_selected), sample.seconds);
      case LiveOperation::kCarrySelected:
        return add_device(all_layers(&LiveWork::carry_selected), sample.seconds);
      case LiveOperation::kPlaceUpload:
        return add_device(work_.place_upload(layers_[l]), sample.seconds);
      case LiveOperation::kGradientsDown:
        check_bytes(sample, &LiveWork::bytes_down);
        return rows_.down.add({sample.bytes, 1}, sample.seconds);
      case LiveOperation::kWeightsUp:
        check_bytes(sample, &LiveWork::bytes_up);
        return rows_.up.add({sample.bytes, 1}, sample.seconds);
      case LiveOperation::kStepGap:
        return rows_.gap.add({1}, sample.seconds);
      case LiveOperation::kUpdate:
        return add_update(work_.update_bytes() * layers_[l].deferred_elements(), sample.seconds);
      case LiveOperation::kSum:
        return add_sum(work_.sum_bytes(sample.first) * layers_[l].deferred_elements(),
                       sample.seconds);
      case LiveOperation::kSumOnDevice:
        return add_sum_on_device(work_.sum_bytes(sample.first) * deferred_, sample.seconds);
    }
  }
  /// Only the bytes tell a recording of another k or precision.
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
    std::vector<LayerWork> work = {work_of(model_, layer, layers_.size(), false)};
    if (runs_forward_again(job_.scenario.training, layer, layers_.size())) {
      work.push_back(work_of(model_, layer, layers_.size(), true));
    }
    rows_.model.push_back({std::move(work), seconds});
  }
  void add_device(const DeviceWork& work, double seconds) {
    rows_.device.add({work.streamed, work.columns, work.kernels}, seconds);
  }
  void add_update(double bytes, double seconds) {
    if (bytes > 0) rows_.update.add({bytes, bytes / static_cast<double>(threads_)}, seconds);
  }
  void add_sum(double bytes, double seconds) {
    if (bytes > 0) rows_.sum.add({bytes}, seconds);
  }
  /// A stream of the device; where that is the host, the pass on one of the cores that sums on the
  /// CPU would have.
  void add_sum_on_device(double bytes, double seconds) {
    if (gpu_.runs_on_host()) return add_sum(bytes, seconds / live_.sum_cores);
    add_device(DeviceWork{bytes, 0, 1}, seconds);
  }
  [[nodiscard]] DeviceWork all_layers(DeviceWork (LiveWork::*work)(const LiveLayer&) const) const {
    DeviceWork sum;
    for (const LiveLayer& layer : layers_) sum += (work_.*work)(layer);
    return sum;
  }

  const Job& job_;
  const GpuProfile& gpu_;
  LiveSettings live_;
  std::vector<LiveLayer> layers_;
  LiveWork work_;
  ModelWork model_;
  AllRows& rows_;
  double deferred_ = 0;       // elements of all layers
  std::int64_t threads_ = 1;  // of the optimizer
};

class Fitter {
 public:
  Fitter(HardwareProfile base, DType dtype, const AllRows& rows)
      : dtype_(dtype), rows_(rows), fit_{std::move(base), {}} {}

  LiveFit take() {
    device();
    model();
    copies("host_link.d2h", rows_.down, fit_.profile.host_link.pinned.d2h);
    copies("host_link.h2d", rows_.up, fit_.profile.host_link.pinned.h2d);
    latency();
    processor();
    step_gap();
    return std::move(fit_);
  }

 private:
  /// `rate` is of one unit of work, from seconds a unit.
  void note(const std::string& path, const UnitTime& unit, double value, const char* name,
            const TimeFit& fit, std::string range) {
    const double relative = unit.determined ? unit.standard_error / unit.value : 0;
    fit_.numbers.push_back({path, value, name, unit.determined, false, value * relative,
                            unit.samples, fit.residual, std::move(range), "", unit.damped, 0});
  }

  /// A number that follows from others.
  void adjust(const std::string& path, double value, const char* name) {
    fit_.numbers.push_back({path, value, name, false, true, 0, 0, 0, ""});
  }
  /// A share of something that has become `scale` times as large.
  void note_share(const std::string& path, const UnitTime& unit, double value, double scale,
                  const TimeFit& fit, std::string range) {
    if (!unit.determined && scale != 1) return adjust(path, value, "");
    note(path, unit, value, "", fit, std::move(range));
  }

  void device() {
    GpuProfile& gpu = fit_.profile.gpu;
    const double bandwidth = gpu.memory_bandwidth.value();
    const TimeFit fit =
        fit_times(rows_.device.times, std::vector{1 / (gpu.streaming_efficiency * bandwidth),
                                                  1 / (gpu.column_share_of_bandwidth() * bandwidth),
                                                  gpu.kernel_launch.value()});
    streamed_ = fit.units[0];
    columns_ = fit.units[1];
    device_fit_ = fit;
    if (fit.units[2].determined) gpu.kernel_launch = Seconds(fit.units[2].value);
    note("gpu.kernel_launch", fit.units[2], gpu.kernel_launch.value() * 1e6, "us", fit,
         range_text(rows_.device, fit, 2, 2, 1, "kernels"));
  }

  void model() {
    GpuProfile& gpu = fit_.profile.gpu;
    const double peak = gpu.peak.at(dtype_).value();
    const double streamed = streamed_.value;
    const std::vector<double> given = {
        1 / (gpu.gemm_efficiency * peak), 1 / (gpu.attention_efficiency * peak),
        1 / (gpu.elementwise_efficiency * gpu.memory_bandwidth.value())};
    // What memory bounds takes its time from the streams' rate. Which kernels those are depends on
    // the rates that are sought: start from the profile's, repeat until none changes sides.
    TimeFit fit;
    std::vector<double> unit = given;
    Rows rows;
    for (int i = 0; i < kMostRepetitions; ++i) {
      rows = {};
      for (const ModelSample& sample : rows_.model) {
        double known = 0;
        std::vector<double> amounts(3);
        const auto add = [&](std::size_t kind, double flops, Bytes traffic) {
          if (flops * unit[kind] >= traffic.value() * streamed) {
            amounts[kind] += flops;
          } else {
            known += traffic.value() * streamed;
          }
        };
        for (const LayerWork& work : sample.work) {
          known += work.kernels * gpu.kernel_launch.value();
          amounts[2] += work.chains.value();
          for (const BoundedWork& one : work.products) {
            add(0, (one.flops + gpu.gemm_half_size).value(), one.traffic);
          }
          add(1, work.attention.flops.value(), work.attention.traffic);
        }
        // Relative to the whole span: taking the known part off must not make it weigh more.
        rows.add(std::move(amounts), sample.seconds, known);
      }
      fit = fit_times(rows.times, given);
      std::vector<double> next;
      for (const UnitTime& one : fit.units) next.push_back(one.value);
      if (next == unit) break;
      unit = next;
    }
    const double product_rate = 1 / fit.units[0].value;
    const double attention_rate = 1 / fit.units[1].value;
    const double new_peak = std::max({peak, product_rate, attention_rate});
    const double scale = new_peak / peak;
    for (auto& [dtype, rate] : gpu.peak) {
      rate = scale * rate;  // the efficiencies are those of all types
      if (scale != 1) adjust("gpu.peak." + to_string(dtype), rate.value() / kGiga, "GFLOPS");
    }
    gpu.gemm_efficiency = product_rate / new_peak;
    gpu.attention_efficiency = attention_rate / new_peak;
    note_share("gpu.gemm_efficiency", fit.units[0], gpu.gemm_efficiency, scale, fit,
               range_text(rows, fit, 0, 0, kGiga, "GFLOP of products"));
    note_share("gpu.attention_efficiency", fit.units[1], gpu.attention_efficiency, scale, fit,
               range_text(rows, fit, 1, 1, kGiga, "GFLOP of attention"));

    const double rates[] = {1 / streamed_.value, 1 / columns_.value, 1 / fit.units[2].value};
    const double old = gpu.memory_bandwidth.value();
    const double bandwidth = std::max({old, rates[0], rates[1], rates[2]});
    gpu.memory_bandwidth = BytesPerSecond(bandwidth);
    gpu.streaming_efficiency = rates[0] / bandwidth;
    gpu.column_efficiency = rates[1] / bandwidth;
    gpu.elementwise_efficiency = rates[2] / bandwidth;
    const double wider = bandwidth / old;
    if (wider != 1) adjust("gpu.memory_bandwidth", bandwidth / kGiga, "GB/s");
    note_share("gpu.streaming_efficiency", streamed_, gpu.streaming_efficiency, wider, device_fit_,
               range_text(rows_.device, device_fit_, 0, 0, 1e6, "MB streamed"));
    note_share("gpu.column_efficiency", columns_, *gpu.column_efficiency, wider, device_fit_,
               range_text(rows_.device, device_fit_, 1, 1, 1e6, "MB of columns"));
    note_share("gpu.elementwise_efficiency", fit.units[2], gpu.elementwise_efficiency, wider, fit,
               range_text(rows, fit, 2, 2, 1e6, "MB of element-wise chains"));
  }

  void copies(const std::string& path, const Rows& rows, BytesPerSecond& rate) {
    const TimeFit fit = fit_times(
        rows.times, std::vector{1 / rate.value(), fit_.profile.host_link.latency.value()});
    if (fit.units[0].determined) rate = BytesPerSecond(1 / fit.units[0].value);
    note(path, fit.units[0], rate.value() / kGiga, "GB/s", fit,
         range_text(rows, fit, 0, 0, 1e6, "MB"));
    if (fit.units[1].determined) {
      latency_range_ = range_text(rows, fit, 1, 0, 1e6, "MB");
      latencies_.push_back(fit.units[1]);
      latency_fit_ = fit;
    }
  }

  /// Of both directions: the mean of what was found.
  void latency() {
    Seconds& latency = fit_.profile.host_link.latency;
    UnitTime mean{latency.value(), 0, !latencies_.empty()};
    if (mean.determined) {
      double sum = 0;
      for (const UnitTime& one : latencies_) {
        sum += one.value / static_cast<double>(latencies_.size());
        mean.standard_error = std::max(mean.standard_error, one.standard_error);
        mean.samples += one.samples;
        mean.damped += one.damped;
      }
      mean.value = sum;
      latency = Seconds(sum);
    }
    note("host_link.latency", mean, latency.value() * 1e6, "us", latency_fit_, latency_range_);
    HostPath& path = fit_.profile.host_link.pinned;
    path.bidirectional =
        std::clamp(path.bidirectional, std::max(path.h2d, path.d2h), path.h2d + path.d2h);
  }

  /// Rates are at the cores that the runs used; the profile's are of all of them.
  void processor() {
    if (rows_.update_threads.size() > 1) {
      adam_by_threads();
    } else {
      adam();
    }
    HostProfile& host = fit_.profile.host;
    const double pass = pass_rate(host, rows_.sum_cores).value();
    const TimeFit sums = fit_times(rows_.sum.times, std::vector{1 / pass});
    const BytesPerSecond found(1 / sums.units[0].value);
    const bool faster = sums.units[0].determined && found > host.elementwise_bandwidth;
    if (sums.units[0].determined) host.core_bandwidth = found / rows_.sum_cores;
    if (faster) host.elementwise_bandwidth = found;
    const BytesPerSecond most =
        std::max({host.dram_bandwidth, host.adam_bandwidth, host.elementwise_bandwidth});
    if (most > host.dram_bandwidth) {
      host.dram_bandwidth = most;
      adjust("host.dram_bandwidth", most.value() / kGiga, "GB/s");
    }
    note("host.core_bandwidth", sums.units[0], host.core_bandwidth.value() / kGiga, "GB/s", sums,
         range_text(rows_.sum, sums, 0, 0, 1e6, "MB of traffic"));
    if (faster) {
      adjust("host.elementwise_bandwidth", host.elementwise_bandwidth.value() / kGiga, "GB/s");
    }
  }

  void note_adam(const UnitTime& unit, const TimeFit& fit) {
    note("host.adam_bandwidth", unit, fit_.profile.host.adam_bandwidth.value() / kGiga, "GB/s", fit,
         range_text(rows_.update, fit, 0, 0, 1e6, "MB of traffic"));
  }

  void adam() {
    HostProfile& host = fit_.profile.host;
    Rows rows;
    for (const TimedWork& one : rows_.update.times) rows.add({one.work.front()}, one.seconds);
    const double adam = adam_rate(host, rows_.update_cores).value();
    const TimeFit fit = fit_times(rows.times, std::vector{1 / adam});
    host.adam_bandwidth = (1 / fit.units[0].value / adam) * host.adam_bandwidth;
    note_adam(fit.units[0], fit);
  }

  /// time = bytes (1 + half / threads) / limit, cpu_cost.h's rate with half and limit unknown.
  void adam_by_threads() {
    HostProfile& host = fit_.profile.host;
    const auto all = static_cast<double>(host.cores);
    const double half = host.adam_half_cores;
    const double limit = host.adam_bandwidth.value() * (all + half) / all;
    const TimeFit fit = fit_times(rows_.update.times, std::vector{1 / limit, half / limit});
    const UnitTime& alone = fit.units[0];
    const UnitTime& waiting = fit.units[1];
    const double whole = alone.value + waiting.value / all;
    UnitTime rate{whole, alone.standard_error + waiting.standard_error / all,
                  alone.determined && waiting.determined, alone.samples, alone.damped};
    host.adam_bandwidth = BytesPerSecond(1 / whole);
    host.adam_half_cores = waiting.value / alone.value;
    note_adam(rate, fit);
    // The two errors are not independent: at worst they add up.
    rate.value = host.adam_half_cores;
    rate.standard_error =
        rate.value * (alone.standard_error / alone.value + waiting.standard_error / waiting.value);
    note("host.adam_half_cores", rate, host.adam_half_cores, "", fit,
         fmt::format("{} to {} threads", *rows_.update_threads.begin(),
                     *rows_.update_threads.rbegin()));
  }

  void step_gap() {
    Seconds& gap = fit_.profile.host.step_gap;
    const TimeFit fit = fit_times(rows_.gap.times, std::vector{gap.value()});
    gap = Seconds(fit.units[0].value);
    note("host.step_gap", fit.units[0], gap.value() * 1e6, "us", fit, "");
  }

  DType dtype_;
  const AllRows& rows_;
  LiveFit fit_;
  UnitTime streamed_;
  UnitTime columns_;
  TimeFit device_fit_;
  std::vector<UnitTime> latencies_;
  TimeFit latency_fit_;
  std::string latency_range_;
};

}  // namespace

void add_untold(const HardwareProfile& base, std::vector<FittedNumber>& numbers) {
  for (const ProfileConstant& one : profile_constants(base)) {
    const bool is_there =
        std::any_of(numbers.begin(), numbers.end(),
                    [&](const FittedNumber& known) { return known.path == one.path; });
    if (is_there) continue;
    const bool is_half = one.path == "host.adam_half_cores";
    numbers.push_back({one.path, one.get(base) / one.scale, one.unit, false, false, 0, 0, 0, "",
                       is_half ? "all recordings have one number of optimizer threads"
                               : "recordings of zenflow-train do not show it"});
  }
}

LiveFit fit_live(const std::vector<LiveRecording>& recordings) {
  if (recordings.empty()) {
    throw Error(ErrorKind::kInput, "nothing to fit to: expected at least one recording");
  }
  AllRows rows;
  for (const LiveRecording& recording : recordings) RowCollector(recording, rows);
  const Job& first = *recordings.front().job;
  return Fitter(first.scenario.hardware, first.scenario.training.dtype, rows).take();
}

}  // namespace zenflow::sim
