#include "sim/calibrate/live_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/isolated_rates.h"
#include "sim/calibrate/live_rows.h"
#include "sim/calibrate/live_sharing.h"
#include "sim/calibrate/profile_constants.h"
#include "sim/calibrate/rank_collectives.h"
#include "sim/cost/gpu_cost.h"
#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {
namespace {

constexpr double kGiga = 1e9;
constexpr int kMostRepetitions = 50;
constexpr double kLargestError = 0.25;  // of a number that is identifiable

class Fitter {
 public:
  Fitter(const HardwareProfile& base, DType dtype, const std::vector<LiveRun>& runs,
         const LiveRows& rows, const std::vector<CollectiveSample>& collectives)
      : base_(base),
        dtype_(dtype),
        runs_(runs),
        rows_(rows),
        collectives_(collectives),
        fit_{base, {}} {}

  LiveFit take() {
    device();
    model();
    copies("host_link.d2h", rows_.down, fit_.profile.host_link.pinned.d2h);
    copies("host_link.h2d", rows_.up, fit_.profile.host_link.pinned.h2d);
    latency();
    processor();
    shared();
    step_gap();
    between_ranks();
    keep_consistent();
    return std::move(fit_);
  }

 private:
  /// `rate` is of one unit of work, from seconds a unit.
  void note(const std::string& path, const UnitTime& unit, double value, const char* name,
            const TimeFit& fit, std::string range) {
    const double relative = unit.identifiable ? unit.standard_error / unit.value : 0;
    fit_.numbers.push_back({path, value, name, unit.identifiable, false, value * relative,
                            unit.samples, fit.residual, std::move(range), "", unit.damped, 0});
  }

  /// A number that follows from others.
  void adjust(const std::string& path, double value, const char* name) {
    put({path, value, name, false, true});
  }
  /// A share of something that has become `scale` times as large.
  void note_share(const std::string& path, const UnitTime& unit, double value, double scale,
                  const TimeFit& fit, std::string range) {
    if (!unit.identifiable && scale != 1) return adjust(path, value, "");
    note(path, unit, value, "", fit, std::move(range));
  }
  /// Of work of the model.
  void note_model_share(const std::string& path, const UnitTime& unit, double value, double scale,
                        const TimeFit& fit, std::string range) {
    if (unit.identifiable || unit.samples == 0 || slower_ == 1) {
      return note_share(path, unit, value, scale, fit, std::move(range));
    }
    FittedNumber number{path, value, "", false, true};
    number.reason = fmt::format(
        "the base's rate divided by {:.3g}, as all passes take so many times as long as it says",
        slower_);
    put(std::move(number));
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
    if (fit.units[2].identifiable) gpu.kernel_launch = Seconds(fit.units[2].value);
    note("gpu.kernel_launch", fit.units[2], gpu.kernel_launch.value() * 1e6, "us", fit,
         range_text(rows_.device, fit, 2, 2, 1, "kernels"));
  }

  /// Passes of layers: FLOP of products and of attention, bytes of element-wise chains. What memory
  /// bounds takes its time from the streams' rate; which kernels those are depends on what the
  /// three take, `unit`.
  [[nodiscard]] Rows model_rows(std::span<const double> unit) const {
    const GpuProfile& gpu = fit_.profile.gpu;
    const double streamed = streamed_.value;
    Rows rows;
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
          known += one.besides.value();
        }
        for (const BoundedWork& one : work.attention) add(1, one.flops.value(), one.traffic);
      }
      // Relative to the whole span: taking the known part off must not make it weigh more.
      rows.add(std::move(amounts), sample.seconds, known);
    }
    return rows;
  }

  /// How many times as long as the base says all three take together. Passes of one shape hardly
  /// tell them apart: a rate that is not identifiable would else be the base's, and the others
  /// take all that its machine differs by.
  [[nodiscard]] double slower_than_base(const std::vector<double>& given) const {
    double slower = 1;
    for (int i = 0; i < kMostRepetitions; ++i) {  // until no kernel changes sides
      std::vector<double> unit = given;
      for (double& one : unit) one *= slower;
      Rows together;
      for (const TimedWork& one : model_rows(unit).times) {
        const double all = std::inner_product(given.begin(), given.end(), one.work.begin(), 0.0);
        together.add({all}, one.seconds, one.known);
      }
      const double next = fit_times(together.times, std::vector{1.0}).units.front().value;
      if (std::exchange(slower, next) == next) break;
    }
    return slower;
  }

  void model() {
    GpuProfile& gpu = fit_.profile.gpu;
    const double peak = gpu.peak.at(dtype_).value();
    std::vector<double> given = {1 / (gpu.gemm_efficiency * peak),
                                 1 / (gpu.attention_efficiency * peak),
                                 1 / (gpu.elementwise_efficiency * gpu.memory_bandwidth.value())};
    slower_ = slower_than_base(given);
    for (double& one : given) one *= slower_;
    // Start from these, repeat until no kernel changes sides.
    TimeFit fit;
    std::vector<double> unit = given;
    Rows rows;
    for (int i = 0; i < kMostRepetitions; ++i) {
      rows = model_rows(unit);
      fit = fit_times(rows.times, given, Misses::kByKind);
      std::vector<double> next;
      for (const UnitTime& one : fit.units) next.push_back(one.value);
      if (next == unit) break;
      unit = next;
    }
    for (UnitTime& one : fit.units) {
      if (one.samples == 0) one.value /= slower_;
      one.standard_error = std::max(one.standard_error, one.error_by_kind);
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
    note_model_share("gpu.gemm_efficiency", fit.units[0], gpu.gemm_efficiency, scale, fit,
                     range_text(rows, fit, 0, 0, kGiga, "GFLOP of products"));
    note_model_share("gpu.attention_efficiency", fit.units[1], gpu.attention_efficiency, scale, fit,
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
    note_model_share("gpu.elementwise_efficiency", fit.units[2], gpu.elementwise_efficiency, wider,
                     fit, range_text(rows, fit, 2, 2, 1e6, "MB of element-wise chains"));
  }

  void copies(const std::string& path, const Rows& rows, BytesPerSecond& rate) {
    const TimeFit fit = fit_times(
        rows.times, std::vector{1 / rate.value(), fit_.profile.host_link.latency.value()});
    if (fit.units[0].identifiable) rate = BytesPerSecond(1 / fit.units[0].value);
    note(path, fit.units[0], rate.value() / kGiga, "GB/s", fit,
         range_text(rows, fit, 0, 0, 1e6, "MB"));
    if (fit.units[1].identifiable) {
      latency_range_ = range_text(rows, fit, 1, 0, 1e6, "MB");
      latencies_.push_back(fit.units[1]);
      latency_fit_ = fit;
    }
  }

  /// One latency for both directions: the mean of those found.
  void latency() {
    Seconds& latency = fit_.profile.host_link.latency;
    UnitTime mean{latency.value(), 0, !latencies_.empty()};
    if (mean.identifiable) {
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
  }

  void processor() {
    adam();
    HostProfile& host = fit_.profile.host;
    const TimeFit sums = fit_times(rows_.sum.times, std::vector{1 / host.core_bandwidth.value()});
    if (sums.units[0].identifiable) {
      set_core_bandwidth(host, rows_.sum_cores, 1 / sums.units[0].value);
    }
    note("host.core_bandwidth", sums.units[0], host.core_bandwidth.value() / kGiga, "GB/s", sums,
         range_text(rows_.sum, sums, 0, 0, 1e6, "MB of traffic a core"));
  }

  /// Rates are at the cores that the runs used; the profile's are of all of them.
  void adam() {
    if (rows_.all_update_cores.size() > 1 && adam_by_cores()) return;
    note_adam(adam_at(fit_.profile.host.adam_half_cores));
  }

  /// Updates as they are fitted: what a byte takes on all cores, what more it takes on fewer, and a
  /// call. Times of few sizes meet a rate and a call whatever they are: unless the sizes agree on
  /// it, a call takes what the base says.
  template <class Row>
  [[nodiscard]] TimeFit fit_updates(Row row, std::vector<double> given) const {
    const double launch = fit_.profile.host.adam_launch.value();
    Rows rows;
    for (std::size_t i = 0; i < rows_.update.times.size(); ++i) {
      const TimedWork& one = rows_.update.times[i];
      std::vector<double> work = row(one.work[0], rows_.update_cores[i]);
      work.push_back(one.work[1]);
      rows.add(std::move(work), one.seconds);
    }
    given.push_back(launch);
    TimeFit fit = fit_times(rows.times, given);
    const UnitTime call = fit.units.back();
    if (!call.identifiable || call.error_by_kind <= kLargestError * call.value) return fit;
    for (TimedWork& one : rows.times) one.known = launch * std::exchange(one.work.back(), 0);
    fit = fit_times(rows.times, given);
    fit.units.back().samples = call.samples;
    return fit;
  }

  /// With the rate growing with the cores as `half` says.
  [[nodiscard]] TimeFit adam_at(double half) const {
    HostProfile host = fit_.profile.host;
    host.adam_half_cores = half;
    const BytesPerSecond whole = adam_rate(host, static_cast<double>(host.cores));
    return fit_updates(
        [&](double bytes, double cores) {
          return std::vector{bytes * (whole / adam_rate(host, cores))};
        },
        {1 / whole.value()});
  }

  void note_adam(const TimeFit& fit) {
    HostProfile& host = fit_.profile.host;
    UnitTime byte = fit.units.front();
    UnitTime call = fit.units.back();
    if (byte.identifiable) host.adam_bandwidth = BytesPerSecond(1 / byte.value);
    if (call.identifiable) host.adam_launch = Seconds(call.value);
    for (UnitTime* one : {&byte, &call}) {
      one->standard_error = std::max(one->standard_error, one->error_by_kind);
    }
    note("host.adam_bandwidth", byte, host.adam_bandwidth.value() / kGiga, "GB/s", fit,
         range_text(rows_.update, fit, 0, 0, 1e6, "MB of traffic"));
    note("host.adam_launch", call, host.adam_launch.value() * 1e6, "us", fit,
         range_text(rows_.update, fit, 1, 0, 1e6, "MB of traffic"));
    if (!call.identifiable) {
      fit_.numbers.back().reason = "calls of several sizes do not agree on it, or are all alike";
    }
  }

  /// cpu_cost.h's rate with half and limit unknown, time = bytes (1 + half / cores) / limit, as
  /// bytes (whole + waiting (1 / cores - 1 / all)): `whole` is of all cores, and what is known of
  /// it does not hang on the other. False: the times do not show how the rate grows, and the base's
  /// half agrees with them as well as any.
  bool adam_by_cores() {
    HostProfile& host = fit_.profile.host;
    const auto all = static_cast<double>(host.cores);
    const double limit = host.adam_bandwidth.value() * (all + host.adam_half_cores) / all;
    const TimeFit fit = fit_updates(
        [&](double bytes, double cores) {
          return std::vector{bytes, bytes * (1 / cores - 1 / all)};
        },
        {1 / host.adam_bandwidth.value(), host.adam_half_cores / limit});
    const UnitTime& whole = fit.units[0];
    const UnitTime& waiting = fit.units[1];
    const double unlimited = whole.value - waiting.value / all;  // of ever more cores
    const bool is_identifiable = whole.identifiable && waiting.identifiable && unlimited > 0;
    UnitTime half = waiting;
    if (is_identifiable) {
      half.value = waiting.value / unlimited;
      // The two errors are not independent: at worst they add up.
      half.standard_error =
          (whole.value * waiting.standard_error + waiting.value * whole.standard_error) /
          (unlimited * unlimited);
    }
    if (!is_identifiable || half.standard_error > kLargestError * half.value) {
      return adam_by_some_half(is_identifiable ? half.value : host.adam_half_cores);
    }
    host.adam_half_cores = half.value;
    note_adam(fit);
    note("host.adam_half_cores", half, half.value, "", fit, threads_text());
    return true;
  }

  /// How far off a limit is does not show where it is far, and how near not where it is near. But
  /// the rates on these threads are known: of what might be the one that agrees with them.
  bool adam_by_some_half(double found) {
    constexpr double kFar = 100;    // times the most cores: the rate grows with them
    constexpr double kNear = 0.01;  // of a core: it does not
    constexpr double kNotable = 0.98;
    HostProfile& host = fit_.profile.host;
    double best = host.adam_half_cores;
    double least = adam_at(best).residual;
    for (const double half : {found, kFar * *rows_.all_update_cores.rbegin(), kNear}) {
      const double residual = adam_at(half).residual;
      if (residual >= kNotable * least) continue;
      least = residual;
      best = half;
    }
    if (best == host.adam_half_cores) {
      FittedNumber number{"host.adam_half_cores", best, ""};
      number.reason = threads_text() + " do not tell it";
      put(std::move(number));
      return false;
    }
    note_adam(adam_at(best));
    host.adam_half_cores = best;
    adjust("host.adam_half_cores", best, "");
    return true;
  }

  [[nodiscard]] std::string threads_text() const {
    return fmt::format("{:g} to {:g} optimizer threads", *rows_.all_update_cores.begin(),
                       *rows_.all_update_cores.rbegin());
  }

  /// Copies and passes of the CPU that ran concurrently slow each other down: their isolated rates,
  /// and what DRAM and the link carry. (Not of the host device, see LiveRun::concurrent.)
  void shared() {
    if (!overlap(runs_)) return;
    free_capacities(fit_.profile);
    const std::vector<TimedGroup> groups = shared_times(runs_);
    std::vector<ProfileConstant> constants =
        shared_constants(fit_.profile, rows_.sum_cores, is_known("host.adam_half_cores"));
    // What is not identifiable stays as the base has it, and the others are fitted to that.
    while (!constants.empty()) {
      const ConstantFit found = fit_constants(fit_.profile, constants, groups);
      std::vector<ProfileConstant> identifiable;
      for (std::size_t c = 0; c < constants.size(); ++c) {
        note_shared(constants[c], found.estimates[c]);
        if (found.estimates[c].identifiable) {
          identifiable.push_back(constants[c]);
        } else if (constants[c].path == "host.adam_half_cores") {
          // The rates on these threads were known without what was concurrent.
          adjust(constants[c].path, fit_.profile.host.adam_half_cores, "");
        } else if (!constants[c].is_capacity) {
          constants[c].set(fit_.profile, constants[c].get(base_));
        }
      }
      const bool is_settled = identifiable.size() == constants.size();
      if (is_settled) fit_.profile = found.profile;
      constants = is_settled ? std::vector<ProfileConstant>() : std::move(identifiable);
    }
    for (const ProfileConstant& one : shared_constants(base_, rows_.sum_cores, false)) {
      if (one.is_capacity && !is_known(one.path)) one.set(fit_.profile, one.get(base_));
    }
  }

  /// Links that carry all that comes, and as much again: no slower one is near.
  void free_capacities(HardwareProfile& profile) const {
    constexpr double kRoom = 2;
    HostPath& path = profile.host_link.pinned;
    HostProfile& host = profile.host;
    const BytesPerSecond copies = path.h2d + path.d2h;
    const BytesPerSecond passes = host.adam_bandwidth + pass_rate(host, rows_.sum_cores);
    path.bidirectional = kRoom * copies;
    host.dram_bandwidth = std::max(host.dram_bandwidth, kRoom * (copies + passes));
  }

  void note_shared(const ProfileConstant& constant, const ConstantEstimate& one) {
    const double value = one.identifiable ? one.value : constant.get(base_);
    FittedNumber number{constant.path, value / constant.scale, constant.unit, one.identifiable};
    number.standard_error = one.identifiable ? number.value * one.relative_error : 0;
    number.samples = one.samples;
    number.residual = one.residual;
    number.range = one.range;
    number.reason = one.reason;
    number.damped = one.damped;
    number.set_aside = one.set_aside;
    put(std::move(number));
  }

  [[nodiscard]] bool is_known(const std::string& path) const {
    return std::any_of(fit_.numbers.begin(), fit_.numbers.end(),
                       [&](const FittedNumber& one) { return one.path == path && one.fitted; });
  }
  /// In the place of what was found before.
  void put(FittedNumber number) {
    for (FittedNumber& one : fit_.numbers) {
      if (one.path != number.path) continue;
      one = std::move(number);
      return;
    }
    fit_.numbers.push_back(std::move(number));
  }

  /// Rates within those that bound them, as a profile has to have them.
  void keep_consistent() {
    bound_links(fit_.profile.host_link.pinned);
    bound_memory(fit_.profile.host, is_known("host.dram_bandwidth"));
    const auto note_moved = [&](const char* path, BytesPerSecond value, BytesPerSecond before) {
      for (FittedNumber& one : fit_.numbers) {
        if (one.path != path || !one.fitted) continue;
        one.value = value.value() / kGiga;
        return;
      }
      if (value != before) put({path, value.value() / kGiga, "GB/s", false, true});
    };
    const HostProfile& host = fit_.profile.host;
    note_moved("host_link.bidirectional", fit_.profile.host_link.pinned.bidirectional,
               base_.host_link.pinned.bidirectional);
    note_moved("host.elementwise_bandwidth", host.elementwise_bandwidth,
               base_.host.elementwise_bandwidth);
    if (host.worker_adam_bandwidth) {
      note_moved("host.worker_adam_bandwidth", *host.worker_adam_bandwidth,
                 *base_.host.worker_adam_bandwidth);
    }
    note_moved("host.dram_bandwidth", host.dram_bandwidth, base_.host.dram_bandwidth);
  }

  /// Both directions together carry at least what one does, and no more than each alone.
  static void bound_links(HostPath& path) {
    path.bidirectional =
        std::clamp(path.bidirectional, std::max(path.h2d, path.d2h), path.h2d + path.d2h);
  }

  /// Where DRAM is known it bounds what is not; else it has room for what is.
  void bound_memory(HostProfile& host, bool dram_is_known) const {
    BytesPerSecond least = host.adam_bandwidth;
    if (!dram_is_known) {
      least = std::max(least, host.elementwise_bandwidth);
    } else if (is_known("host.core_bandwidth")) {
      least = std::max(least, pass_rate(host, rows_.sum_cores));
    }
    host.dram_bandwidth = std::max(host.dram_bandwidth, least);
    host.elementwise_bandwidth = std::min(host.elementwise_bandwidth, host.dram_bandwidth);
    if (auto& worker = host.worker_adam_bandwidth) worker = std::min(*worker, host.dram_bandwidth);
  }

  void step_gap() {
    Seconds& gap = fit_.profile.host.step_gap;
    const TimeFit fit = fit_times(rows_.gap.times, std::vector{gap.value()});
    gap = Seconds(fit.units[0].value);
    note("host.step_gap", fit.units[0], gap.value() * 1e6, "us", fit, "");
  }

  /// transfer_cost.h's times of a gradient to its owner, and of a weight from there.
  void between_ranks() {
    if (collectives_.empty()) return;
    GpuLinkProfile& link = *fit_.profile.gpu_link;
    Rows rows;
    for (const CollectiveSample& one : collectives_) {
      // Seconds of a byte and of a message are what is sought: with units of them.
      const auto time = [&](double per_byte, double per_message) {
        const Communicator group{one.ranks, BytesPerSecond(1 / per_byte), Seconds(per_message)};
        return (one.operation == Operation::kAllGather
                    ? broadcast_time(group, Bytes(one.bytes), one.tensors)
                    : reduce_to_owner_time(group, fit_.profile.host, Bytes(one.bytes), one.tensors))
            .value();
      };
      const double known = time(0, 0);
      rows.add({time(1, 0) - known, time(0, 1) - known}, one.seconds, known);
    }
    const TimeFit fit =
        fit_times(rows.times, std::vector{1 / link.bandwidth.value(), link.latency.value()});
    if (fit.units[0].identifiable) link.bandwidth = BytesPerSecond(1 / fit.units[0].value);
    if (fit.units[1].identifiable) link.latency = Seconds(fit.units[1].value);
    note("gpu_link.bandwidth", fit.units[0], link.bandwidth.value() / kGiga, "GB/s", fit,
         range_text(rows, fit, 0, 0, 1e6, "MB"));
    note("gpu_link.latency", fit.units[1], link.latency.value() * 1e6, "us", fit, "");
  }

  const HardwareProfile& base_;
  DType dtype_;
  const std::vector<LiveRun>& runs_;
  const LiveRows& rows_;
  const std::vector<CollectiveSample>& collectives_;
  LiveFit fit_;
  UnitTime streamed_;
  UnitTime columns_;
  double slower_ = 1;  ///< slower_than_base
  TimeFit device_fit_;
  std::vector<UnitTime> latencies_;
  TimeFit latency_fit_;
  std::string latency_range_;
};

const char* why_unidentified(const HardwareProfile& base, std::string_view path) {
  if (path == "host.adam_half_cores") return "all recordings have one number of optimizer threads";
  if (path != "host.dram_bandwidth" && path != "host_link.bidirectional") {
    return "recordings of zenflow-train do not show it";
  }
  return base.gpu.runs_on_host()
             ? "where the device is the host, copies and updates share its cores"
             : "no copy and no update ran beside another";
}

}  // namespace

void add_unidentified(const HardwareProfile& base, std::vector<FittedNumber>& numbers) {
  for (const ProfileConstant& one : profile_constants(base)) {
    const bool is_there =
        std::any_of(numbers.begin(), numbers.end(),
                    [&](const FittedNumber& known) { return known.path == one.path; });
    if (is_there) continue;
    numbers.push_back({one.path, one.get(base) / one.scale, one.unit, false, false, 0, 0, 0, "",
                       why_unidentified(base, one.path)});
  }
}

LiveFit fit_as_recorded(const std::vector<LiveRecording>& recordings) {
  if (recordings.empty()) {
    throw Error(ErrorKind::kInput, "nothing to fit to: expected at least one recording");
  }
  std::vector<LiveRun> runs;
  for (const LiveRecording& recording : recordings) runs.push_back(read_live_run(recording));
  const Scenario& scenario = recordings.front().job->scenario;
  LiveRows rows;
  for (const LiveRun& run : runs) add_rows(run, rows);
  const std::vector<CollectiveSample> collectives = collective_samples(recordings);
  return Fitter(scenario.hardware, scenario.training.dtype, runs, rows, collectives).take();
}

LiveFit fit_live(const std::vector<LiveRecording>& recordings) {
  LiveFit fit = fit_as_recorded(recordings);
  return fit.profile.gpu.runs_on_host() ? isolated_rates(recordings, fit) : fit;
}

}  // namespace zenflow::sim
