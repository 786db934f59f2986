#include "sim/calibrate/isolated_rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "sim/base/median.h"
#include "sim/calibrate/live_operation_times.h"
#include "sim/calibrate/profile_constants.h"
#include "sim/schedule/live_work.h"
#include "sim/schedule/schedule.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/simulate/simulation.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

constexpr int kMostRounds = 10;
constexpr double kClose = 0.005;
constexpr double kDamping = 0.5;   // kinds of work compete for the same time: no overshooting
constexpr double kMostAtOnce = 2;  // by which a rate changes in a round
constexpr double kMostOthers = 4;  // threads a core
// With n threads beside t of ours on full cores, others use a share of n / (n + t): it grows as a
// power of n, 1 where there is room and t / (n + t) where there is none. For powers from 1 to 1/3
// this exponent leaves 5/9 and less of what is missing after a round.
constexpr double kOthersExponent = 4.0 / 3;
constexpr double kAlike = 0.02;           // of uses
constexpr std::int64_t kFirstWindow = 2;  // of the simulated recording
constexpr std::int64_t kWindows = 5;

/// Seconds of one unit of each kind of work; the first are forward's and backward's.
constexpr std::size_t kModelUnits = 3;
constexpr std::size_t kStepGap = 11;
/// Where LiveUnit's are.
constexpr std::array<std::size_t, kLiveUnits> kPlaces = {3, 4, 5, 6, 7, 8, 9, 12, 10};
constexpr std::size_t kUnits = 13;
using Units = std::array<double, kUnits>;

Units units_of(const HardwareProfile& machine, DType dtype) {
  const GpuProfile& gpu = machine.gpu;
  const double peak = gpu.peak.at(dtype).value();
  const double bandwidth = gpu.memory_bandwidth.value();
  return {1 / (gpu.gemm_efficiency * peak),
          1 / (gpu.attention_efficiency * peak),
          1 / (gpu.elementwise_efficiency * bandwidth),
          1 / (gpu.streaming_efficiency * bandwidth),
          1 / (gpu.column_share_of_bandwidth() * bandwidth),
          gpu.kernel_launch.value(),
          1 / machine.host_link.pinned.h2d.value(),
          1 / machine.host_link.pinned.d2h.value(),
          machine.host_link.latency.value(),
          1 / machine.host.adam_bandwidth.value(),
          1 / machine.host.core_bandwidth.value(),
          machine.host.step_gap.value(),
          machine.host.adam_launch.value()};
}

/// `machine` with these units. Peaks and bandwidths that rates are shares of, or that bound them,
/// rise where they have to.
HardwareProfile with_units(HardwareProfile machine, const Units& units, DType dtype) {
  GpuProfile& gpu = machine.gpu;
  const double before = gpu.peak.at(dtype).value();
  const double peak = std::max({before, 1 / units[0], 1 / units[1]});
  for (auto& [type, rate] : gpu.peak) rate = peak / before * rate;
  gpu.gemm_efficiency = 1 / units[0] / peak;
  gpu.attention_efficiency = 1 / units[1] / peak;
  const double bandwidth =
      std::max({gpu.memory_bandwidth.value(), 1 / units[2], 1 / units[3], 1 / units[4]});
  gpu.memory_bandwidth = BytesPerSecond(bandwidth);
  gpu.elementwise_efficiency = 1 / units[2] / bandwidth;
  gpu.streaming_efficiency = 1 / units[3] / bandwidth;
  gpu.column_efficiency = 1 / units[4] / bandwidth;
  gpu.kernel_launch = Seconds(units[5]);
  HostPath& path = machine.host_link.pinned;
  path.h2d = BytesPerSecond(1 / units[6]);
  path.d2h = BytesPerSecond(1 / units[7]);
  path.bidirectional = path.h2d + path.d2h;
  machine.host_link.latency = Seconds(units[8]);
  HostProfile& host = machine.host;
  host.adam_bandwidth = BytesPerSecond(1 / units[9]);
  host.core_bandwidth = BytesPerSecond(1 / units[10]);
  host.elementwise_bandwidth =
      std::max(host.elementwise_bandwidth, static_cast<double>(host.cores) * host.core_bandwidth);
  host.dram_bandwidth =
      std::max({host.dram_bandwidth, host.adam_bandwidth, host.elementwise_bandwidth});
  host.step_gap = Seconds(units[11]);
  host.adam_launch = Seconds(units[12]);
  return machine;
}

/// Forward and backward in steps from `first_step` on.
struct ModelTimes {
  double seconds = 0;  ///< a step: the mean over a window's places of the median at each
  /// A window: by how much its steps together take longer than if all were as those of its second
  /// half. May be negative.
  double uneven = 0;
  double uneven_error = 0;  ///< standard error of that, by what steps of one place differ by
};

/// Standard deviation of a step's time around that of its place, times by how much its window as a
/// whole is longer than others. Infinite where there are not two whole windows of two steps.
double spread(const std::map<std::int64_t, double>& by_step, std::int64_t first_step,
              std::int64_t interval) {
  std::map<std::int64_t, std::vector<double>> windows;
  for (const auto& [step, seconds] : by_step) {
    windows[(step - first_step) / interval].push_back(seconds);
  }
  std::erase_if(windows, [interval](const auto& one) {
    return static_cast<std::int64_t>(one.second.size()) != interval;
  });
  if (windows.size() < 2 || interval < 2) return INFINITY;
  const auto count = static_cast<double>(windows.size());
  const auto places = static_cast<double>(interval);
  std::vector<double> usual(static_cast<std::size_t>(interval), 0);
  for (const auto& [window, times] : windows) {
    for (std::size_t i = 0; i < usual.size(); ++i) usual[i] += times[i] / count;
  }
  const double whole = std::accumulate(usual.begin(), usual.end(), 0.0);
  double squares = 0;
  for (const auto& [window, times] : windows) {
    const double longer = std::accumulate(times.begin(), times.end(), 0.0) / whole;
    for (std::size_t i = 0; i < usual.size(); ++i) {
      squares += std::pow(times[i] - longer * usual[i], 2);
    }
  }
  return std::sqrt(squares / ((count - 1) * (places - 1)));
}

ModelTimes model_times(const Timeline& timeline, std::int64_t first_step, std::int64_t interval) {
  std::map<std::int64_t, double> by_step;  // seconds
  std::size_t at = 0;
  const auto& steps = timeline.steps;
  for (const TimelineSpan& span : timeline.spans) {
    const bool is_pass =
        span.operation == Operation::kForward || span.operation == Operation::kBackward;
    if (!is_pass) continue;
    while (at > 0 && span.start < steps[at].start) --at;
    while (at + 1 < steps.size() && span.start >= steps[at + 1].start) ++at;
    // A recording may end within a step that it does not have.
    if (at >= steps.size() || span.start >= steps[at].end) continue;
    if (steps[at].number < first_step) continue;
    by_step[steps[at].number] += seconds_of(span);
  }
  std::map<std::int64_t, std::vector<double>> by_place;
  for (const auto& [step, seconds] : by_step) {
    by_place[(step - first_step) % interval].push_back(seconds);
  }
  if (by_place.empty()) return {};
  const double deviation = spread(by_step, first_step, interval);
  // An update begins with its window: in most settings it is over in the second half.
  const std::size_t first = (by_place.size() + 1) / 2;
  double halves[2] = {0, 0};
  double variances[2] = {0, 0};
  std::size_t at_place = 0;
  for (auto& [place, seconds] : by_place) {
    const std::size_t half = at_place++ < first ? 0 : 1;
    variances[half] += deviation * deviation / static_cast<double>(seconds.size());
    halves[half] += median(std::move(seconds));
  }
  const double sum = halves[0] + halves[1];
  const auto places = static_cast<double>(by_place.size());
  if (by_place.size() < 2) return {sum / places, 0, 0};
  // How many places of the window the first half has for each of the second.
  const double to_second = static_cast<double>(first) / (places - static_cast<double>(first));
  return {sum / places, halves[0] - to_second * halves[1],
          std::sqrt(variances[0] + to_second * to_second * variances[1])};
}

/// What was found in recorded runs, or in simulated ones in the same order.
struct Found {
  double model = 0;                     ///< seconds of forward and backward, in all together
  std::vector<double> uneven{};         ///< ModelTimes', by run
  std::vector<double> uneven_error{};   ///< likewise
  std::vector<double> gaps{};           ///< seconds, of all
  std::vector<OperationTimes> times{};  ///< by run
  std::vector<double> other_cores{};    ///< that others used, by run

  /// `cores`: that others used. Of `host` only how much slower fewer cores update.
  void add(const LiveRecording& recording, const HostProfile& host, double cores) {
    const LiveRun run = read_live_run(recording);
    const ModelTimes both =
        model_times(*recording.timeline, recording.first_step, run.live.update_interval);
    model += both.seconds;
    uneven.push_back(both.uneven);
    uneven_error.push_back(both.uneven_error);
    times.push_back(operation_times(run, *recording.timeline, recording.first_step, host));
    for (const LiveSample& sample : run.samples) {
      if (sample.operation == Operation::kEnqueue) gaps.push_back(sample.seconds);
    }
    other_cores.push_back(cores);
  }
};

/// A machine, and what shared it with each recording.
struct Environment {
  HardwareProfile machine;
  std::vector<double> other_threads;      ///< by recording
  std::vector<double> update_slowdown{};  ///< LiveFit's
};

/// What stands for the rank in a simulated run: its own class, or that of all who own nothing.
int class_of(const Program& program, const RankPlace& place) {
  const auto own =
      std::find_if(program.classes.begin(), program.classes.end(),
                   [&place](const RankClass& one) { return one.first_rank == place.rank; });
  const auto last = std::prev(program.classes.end());
  return static_cast<int>((own != program.classes.end() ? own : last) - program.classes.begin());
}

class IsolatedRates {
 public:
  IsolatedRates(const std::vector<LiveRecording>& recordings, const LiveFit& fitted)
      : recordings_(recordings),
        fitted_(fitted),
        dtype_(recordings.front().job->scenario.training.dtype) {}

  [[nodiscard]] Environment find() const {
    const Found wanted = of_recorded();
    // Nobody uses more than he wants.
    Environment now{fitted_.profile, wanted.other_cores};
    settle(wanted, now, std::vector<bool>(recordings_.size(), false));
    std::vector<bool> given(recordings_.size(), false);
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
      given[i] = prefer_whole_threads(wanted, i, given, now);
    }
    return now;
  }

 private:
  static double at_once(double ratio) { return std::clamp(ratio, 1 / kMostAtOnce, kMostAtOnce); }

  /// Changes rates, and threads of the recordings that have none `given`, until what is simulated
  /// is as what was recorded. Returns the last simulation.
  Found settle(const Found& wanted, Environment& now, const std::vector<bool>& given) const {
    const PerUnit<double> as_given = live_units(recordings_.front().job->scenario.hardware);
    Units units = units_of(now.machine, dtype_);
    Found found;
    for (int round = 0; round < kMostRounds; ++round) {
      found = of_simulated(now);
      now.update_slowdown = unexplained(wanted, found);
      const double damping = round == 0 ? 1 : kDamping;
      double worst = 0;
      const auto approach = [&](std::size_t unit, double ratio) {
        units.at(unit) *= std::pow(ratio, damping);
        worst = std::max(worst, std::abs(std::log(ratio)));
      };
      const PerUnit<UnitTime> isolated =
          isolated_units(wanted.times, found.times, live_units(now.machine), as_given);
      for (std::size_t i = 0; i < kLiveUnits; ++i) {
        // Calls may take no time at all.
        double& unit = units.at(kPlaces[i]);
        const double next = isolated[i].value;
        if (unit > 0 && next > 0) {
          approach(kPlaces[i], next / unit);
        } else {
          unit = next;
        }
      }
      if (wanted.model > 0) {
        const double ratio = at_once(wanted.model / found.model);
        for (std::size_t i = 0; i < kModelUnits; ++i) approach(i, ratio);
      }
      if (!wanted.gaps.empty() && !found.gaps.empty()) {
        approach(kStepGap, at_once(upper_median(wanted.gaps) / upper_median(found.gaps)));
      }
      now.machine = with_units(fitted_.profile, units, dtype_);
      worst = std::max(worst, adjust_others(wanted, found, given, now.other_threads));
      if (worst < kClose) break;
    }
    return found;
  }

  [[nodiscard]] Found of_recorded() const {
    Found wanted;
    for (const LiveRecording& one : recordings_) {
      wanted.add(one, fitted_.profile.host, one.other_cores);
    }
    return wanted;
  }

  /// LiveFit's update_slowdown: what is certain by a standard error, since less than nothing, which
  /// noise shows as often as more, it cannot be.
  [[nodiscard]] static std::vector<double> unexplained(const Found& wanted, const Found& found) {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < wanted.uneven.size(); ++i) {
      seconds.push_back(std::max(0.0, wanted.uneven[i] - wanted.uneven_error[i] - found.uneven[i]));
    }
    return seconds;
  }

  /// Returns how far the uses of those that can still be changed are off, as a logarithm.
  [[nodiscard]] double adjust_others(const Found& wanted, const Found& found,
                                     const std::vector<bool>& given,
                                     std::vector<double>& threads) const {
    const double most = kMostOthers * static_cast<double>(fitted_.profile.host.cores);
    double worst = 0;
    for (std::size_t i = 0; i < threads.size(); ++i) {
      if (wanted.other_cores[i] <= 0 || given[i]) continue;
      const double ratio = at_once(wanted.other_cores[i] / found.other_cores[i]);
      const double before = threads[i];
      threads[i] = std::min(most, before * std::pow(ratio, kOthersExponent));
      if (threads[i] != before) worst = std::max(worst, std::abs(std::log(ratio)));
    }
    return worst;
  }

  /// A thread that wants more than an equal share gets no more, whatever it wants. Among the
  /// numbers that explain the use of recording `i` alike, a whole one is likelier than the least.
  /// Returns whether one does.
  bool prefer_whole_threads(const Found& wanted, std::size_t i, std::vector<bool> given,
                            Environment& now) const {
    Environment whole = now;
    double& threads = whole.other_threads[i];
    threads = std::ceil(threads);
    if (threads == now.other_threads[i]) return false;
    given[i] = true;
    const Found found = settle(wanted, whole, given);
    if (std::abs(std::log(found.other_cores[i] / wanted.other_cores[i])) > kAlike) return false;
    now = whole;
    return true;
  }

  /// Simulated runs of the same settings.
  [[nodiscard]] Found of_simulated(const Environment& environment) const {
    Found found;
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
      const LiveRecording& one = recordings_[i];
      Job job = *one.job;
      // Regular windows do not depend on the warm-up before them, which of a recording in the
      // middle of a training is all that there was.
      if (job.deepspeed.zenflow) job.deepspeed.zenflow->full_warm_up_rounds = 0;
      job.scenario.hardware = environment.machine;
      job.scenario.other_threads = environment.other_threads[i];
      if (const auto ran = recorded_run(*one.timeline)) {
        job.scenario.offload.optimizer_threads = ran->optimizer_threads;
        job.scenario.offload.sum_threads = ran->sum_threads;
      }
      const LiveSettings live = live_settings(*live_kind(one.schedule), job);
      const std::int64_t first = live.full_warm_up_rounds + kFirstWindow * live.update_interval;
      job.scenario.run = {.warmup_steps = first,
                          .steps = (kWindows - kFirstWindow) * live.update_interval};
      const FullRun run = simulate_fully(job, find_schedule(one.schedule));
      const Timeline timeline =
          of_device(simulated_timeline(job, one.schedule, run), class_of(run.program, one.place));
      found.add({&job, one.schedule, &timeline, first, 0, one.place}, fitted_.profile.host,
                background_rate(run).value());
    }
    return found;
  }

  const std::vector<LiveRecording>& recordings_;
  const LiveFit& fitted_;
  DType dtype_;
};

/// The numbers of `fit` as its profile has them now; errors stay what they are relatively. Numbers
/// that moved with others say so.
void restate(LiveFit& fit, const HardwareProfile& before) {
  const auto state = [&](const std::string& path, const std::string& unit, double value,
                         double old) {
    if (value == old) return;
    for (FittedNumber& one : fit.numbers) {
      if (one.path != path) continue;
      one.standard_error *= one.value > 0 ? value / one.value : 1;
      one.value = value;
      one.adjusted = one.adjusted || !one.fitted;
      return;
    }
    fit.numbers.push_back({path, value, unit, false, true});
  };
  const std::vector<ProfileConstant> old = profile_constants(before);
  for (const ProfileConstant& one : profile_constants(fit.profile)) {
    const auto same = std::find_if(old.begin(), old.end(),
                                   [&](const auto& other) { return other.path == one.path; });
    const double was = same == old.end() ? 0 : same->get(before);
    state(one.path, one.unit, one.get(fit.profile) / one.scale, was / one.scale);
  }
  constexpr double kGiga = 1e9;
  state("gpu.memory_bandwidth", "GB/s", fit.profile.gpu.memory_bandwidth.value() / kGiga,
        before.gpu.memory_bandwidth.value() / kGiga);
  for (const auto& [dtype, rate] : fit.profile.gpu.peak) {
    state("gpu.peak." + to_string(dtype), "GFLOPS", rate.value() / kGiga,
          before.gpu.peak.at(dtype).value() / kGiga);
  }
}

}  // namespace

LiveFit isolated_rates(const std::vector<LiveRecording>& recordings, const LiveFit& fitted) {
  LiveFit fit = fitted;
  Environment found = IsolatedRates(recordings, fitted).find();
  fit.profile = std::move(found.machine);
  fit.other_threads = std::move(found.other_threads);
  fit.update_slowdown = std::move(found.update_slowdown);
  restate(fit, fitted.profile);
  return fit;
}

}  // namespace zenflow::sim
