#include "sim/calibrate/trace/trace_machines.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "sim/calibrate/trace/trace_work.h"
#include "sim/calibrate/trace/traced_job.h"
#include "sim/trace/launches.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// Whether copies are what can be read of it without knowing what ran.
bool has_copies_to_read(const FitTrace& one, std::vector<std::string>& remarks) {
  const Timeline& timeline = one.trace->timeline;
  if (one.trace->timers || is_of_zenflow_train(timeline)) return false;
  if (!is_simulated(timeline)) return true;
  if (one.job != nullptr) return false;
  const auto ranks = traced_job({one.trace}).ranks;
  if (!ranks || ranks->value <= static_cast<std::int64_t>(timeline.devices.size())) return true;
  remarks.emplace_back(
      "copies left aside: a simulated GPU stands for several that share links, which only the "
      "scenario tells");
  return false;
}

/// When and on which GPUs a timeline has GPU work, on the clock that was read.
struct Presence {
  std::set<int> devices;
  double begin = 0;  // seconds
  double end = 0;

  explicit Presence(const Timeline& timeline) {
    for (const TimelineSpan& span : timeline.spans) {
      if (!is_gpu_work(kind_of(timeline, span))) continue;
      const double start = to_seconds(span.start).value();
      begin = devices.empty() ? start : std::min(begin, start);
      end = std::max(end, to_seconds(span.end).value());
      devices.insert(timeline.tracks[span.track].device);
    }
    const double origin = 1e-9 * static_cast<double>(timeline.origin_nanoseconds);
    begin += origin;
    end += origin;
  }
  /// Whether both can be of one machine: they ran at one time, each with GPUs of its own.
  [[nodiscard]] bool goes_with(const Presence& other) const {
    const bool meets = begin < other.end && other.begin < end;
    return meets && std::none_of(devices.begin(), devices.end(),
                                 [&](int one) { return other.devices.contains(one); });
  }
};

}  // namespace

std::vector<std::vector<std::size_t>> machines_of(const std::vector<FitTrace>& traces,
                                                  std::vector<TraceBaseline>& baselines) {
  std::vector<std::vector<std::size_t>> machines;
  std::vector<Presence> present;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    present.emplace_back(traces[i].trace->timeline);
    if (!has_copies_to_read(traces[i], baselines[i].remarks)) continue;
    const bool has_clock = traces[i].trace->timeline.origin_nanoseconds != 0;
    const auto fits = [&](const std::vector<std::size_t>& machine) {
      return has_clock && std::all_of(machine.begin(), machine.end(), [&](std::size_t other) {
               return traces[other].trace->timeline.origin_nanoseconds != 0 &&
                      present[i].goes_with(present[other]);
             });
    };
    const auto found = std::find_if(machines.begin(), machines.end(), fits);
    if (found == machines.end()) {
      machines.push_back({i});
    } else {
      found->push_back(i);
    }
  }
  return machines;
}

void remark_unseen_gpus(const std::vector<FitTrace>& traces, const HardwareProfile& base,
                        const std::vector<std::size_t>& machine, TraceBaseline& baseline) {
  if (base.host_link.switches.empty()) return;
  std::vector<const ImportedTrace*> all;
  std::set<int> seen;
  for (const std::size_t i : machine) {
    all.push_back(traces[i].trace);
    seen.merge(Presence(traces[i].trace->timeline).devices);
  }
  const auto ranks = traced_job(all).ranks;
  const auto there = static_cast<std::int64_t>(seen.size());
  if (!ranks || std::min(ranks->value, base.gpu.count) <= there) return;
  baseline.remarks.push_back(
      fmt::format("the job has {} ranks ({}), of which {} GPU{} seen: copies of the others over "
                  "the same switch may have slowed those that count as alone",
                  ranks->value, ranks->from, there, there == 1 ? " is" : "s are"));
}

}  // namespace zenflow::sim
