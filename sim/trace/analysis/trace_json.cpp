#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "sim/trace/analysis/trace_report.h"

namespace zenflow::sim {
namespace {

using json = nlohmann::ordered_json;

/// A division rounds once; multiplying by 1e-9, which is rounded itself, does not.
double milliseconds(Picoseconds time) {
  return static_cast<double>(time.count) / 1e9;
}

json share(Picoseconds part, Picoseconds whole) {
  if (whole.count <= 0) return nullptr;
  return static_cast<double>(part.count) / static_cast<double>(whole.count);
}

json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json copies_json(const DeviceAnalysis& device) {
  json list = json::array();
  for (const CopyStatistics& one : device.copy_statistics) {
    json copy;
    copy["direction"] = to_string(one.kind.direction);
    copy["from"] = to_string(one.kind.from);
    copy["to"] = to_string(one.kind.to);
    copy["copies"] = one.copies;
    copy["copies_without_bytes"] = one.without_bytes;
    const bool is_known = one.without_bytes < one.copies;
    copy["bytes"] = is_known ? json(one.bytes) : json(nullptr);
    copy["time_ms"] = milliseconds(one.time);
    const bool has_rate = is_known && one.time_with_bytes.count > 0;
    copy["bandwidth_gb_per_s"] =
        has_rate
            ? json(static_cast<double>(one.bytes) / to_seconds(one.time_with_bytes).value() / 1e9)
            : json(nullptr);
    copy["hidden_ms"] = milliseconds(one.hidden);
    copy["exposed_ms"] = milliseconds(one.united - one.hidden);
    list.push_back(std::move(copy));
  }
  return list;
}

json device_json(const DeviceAnalysis& device) {
  json map;
  map["device"] = device.device;
  map["name"] = device.name;
  map["start_ms"] = milliseconds(device.start);
  map["span_ms"] = milliseconds(device.span());
  map["kernels"] = device.kernels;
  map["collective_kernels"] = device.collectives;
  map["copies"] = device.copies;
  map["memsets"] = device.memsets;
  map["kernel_sum_ms"] = milliseconds(device.kernel_sum);
  map["kernel_ms"] = milliseconds(device.kernel);
  map["compute_ms"] = milliseconds(device.compute);
  map["collective_ms"] = milliseconds(device.collective);
  map["collective_exposed_ms"] = milliseconds(device.collective_exposed);
  map["copy_ms"] = milliseconds(device.copy);
  map["busy_ms"] = milliseconds(device.busy);
  const Picoseconds idle = device.span() - device.busy;
  map["idle_ms"] = milliseconds(idle);
  map["idle_share"] = share(idle, device.span());
  map["stall_ms"] = milliseconds(device.span() - device.compute);
  map["stall_by_cause_ms"] = json::object();
  for (std::size_t i = 0; i < kTraceCauses; ++i) {
    map["stall_by_cause_ms"][std::string(name_of(static_cast<WaitCause>(i)))] =
        milliseconds(device.stall[i]);
  }
  map["copies_by_kind"] = copies_json(device);
  map["idle_by_stream"] = json::array();
  for (const StreamIdle& one : device.streams) {
    map["idle_by_stream"].push_back({{"stream", one.track},
                                     {"spans", one.spans},
                                     {"busy_ms", milliseconds(one.busy)},
                                     {"host_wait_ms", milliseconds(one.host_wait)},
                                     {"kernel_wait_ms", milliseconds(one.kernel_wait)},
                                     {"other_ms", milliseconds(one.other)},
                                     {"not_recorded_ms", milliseconds(one.not_recorded)}});
  }
  Picoseconds total;
  for (const PhaseTime& one : device.phases) total += one.time;
  map["phases"] = json::array();
  for (const PhaseTime& one : device.phases) {
    map["phases"].push_back({{"phase", to_string(one.phase)},
                             {"spans", one.spans},
                             {"time_ms", milliseconds(one.time)},
                             {"share", share(one.time, total)}});
  }
  map["unassigned"] = json::array();
  for (const NamedTime& one : device.unassigned) {
    map["unassigned"].push_back({{"name", one.name},
                                 {"spans", one.spans},
                                 {"time_ms", milliseconds(one.time)},
                                 {"share", share(one.time, total)}});
  }
  map["gpu_work_without_launch"] = device.without_launch;
  return map;
}

json steps_json(const TraceAnalysis& analysis) {
  json map;
  map["source"] = to_string(analysis.step_source);
  map["count"] = analysis.steps.size();
  map["mean_ms"] = nullptr;
  map["mean_interval_ms"] = nullptr;
  map["mean_idle_share"] = nullptr;
  const std::vector<StepAnalysis>& steps = analysis.steps;
  if (!steps.empty()) {
    Picoseconds sum;
    for (const StepAnalysis& step : steps) sum += step.duration;
    map["mean_ms"] = milliseconds(sum) / static_cast<double>(steps.size());
  }
  if (steps.size() >= 2) {
    map["mean_interval_ms"] = milliseconds(steps.back().start - steps.front().start) /
                              static_cast<double>(steps.size() - 1);
  }
  const UsualMean usual = usual_mean(steps);
  map["usual"] = {{"count", usual.steps},
                  {"mean_ms", usual.milliseconds ? json(*usual.milliseconds) : json(nullptr)}};
  map["with_updates"] = analysis.steps_with_updates;
  map["question"] =
      analysis.step_source == StepSource::kPeriod ? json(kStepsOrLayers) : json(nullptr);
  map["each"] = json::array();
  double idle_sum = 0;
  std::size_t idle_count = 0;
  for (const StepAnalysis& step : steps) {
    json one;
    one["step"] = step.number;
    one["start_ms"] = milliseconds(step.start);
    one["duration_ms"] = milliseconds(step.duration);
    if (!step.apart.empty()) one["apart"] = step.apart;
    one["busy_ms"] = json::array();
    one["kernel_ms"] = json::array();
    one["idle_share"] = json::array();
    for (std::size_t i = 0; i < step.busy.size(); ++i) {
      one["busy_ms"].push_back(milliseconds(step.busy[i]));
      one["kernel_ms"].push_back(milliseconds(step.kernel[i]));
      const json idle = share(step.duration - step.busy[i], step.duration);
      one["idle_share"].push_back(idle);
      if (idle.is_number()) {
        idle_sum += idle.get<double>();
        ++idle_count;
      }
    }
    one["bytes_by_direction"] = json::object();
    for (std::size_t d = 0; d < kCopyDirections; ++d) {
      if (step.bytes[d] == 0) continue;
      one["bytes_by_direction"][to_string(static_cast<CopyDirection>(d))] = step.bytes[d];
    }
    map["each"].push_back(std::move(one));
  }
  if (idle_count > 0) map["mean_idle_share"] = idle_sum / static_cast<double>(idle_count);
  return map;
}

json named_json(const std::vector<NamedTime>& rows) {
  json list = json::array();
  for (const NamedTime& one : rows) {
    list.push_back({{"name", one.name}, {"count", one.spans}, {"time_ms", milliseconds(one.time)}});
  }
  return list;
}

void add_tables(const TraceTables& tables, json& map) {
  map["top_kernels"] = named_json(tables.kernels);
  map["top_operators"] = named_json(tables.operators);
  map["products_by_shape"] = json::array();
  for (const ShapedProduct& one : tables.products) {
    map["products_by_shape"].push_back(
        {{"operation", one.operation},
         {"batch", one.batch},
         {"m", one.m},
         {"n", one.n},
         {"k", one.k},
         {"type", one.type},
         {"count", one.products},
         {"time_ms", milliseconds(one.time)},
         {"tflops", number_or_null(one.flops_per_second() / 1e12)},
         {"share_of_peak",
          one.peak > 0 ? number_or_null(one.flops_per_second() / one.peak) : json(nullptr)}});
  }
  map["collectives_by_size"] = json::array();
  for (const SizedCollective& one : tables.collectives) {
    map["collectives_by_size"].push_back(
        {{"kind", one.kind},
         {"bytes", one.bytes > 0 ? json(one.bytes) : json(nullptr)},
         {"ranks", one.ranks > 0 ? json(one.ranks) : json(nullptr)},
         {"count", one.collectives},
         {"time_ms", milliseconds(one.time)},
         {"bus_gb_per_s", number_or_null(one.bus_bytes_per_second() / 1e9)}});
  }
  map["step_variation"] = nullptr;
  if (tables.steps) {
    const StepVariation& steps = *tables.steps;
    map["step_variation"] = {{"mean_ms", steps.mean / 1e9},
                             {"standard_deviation_ms", steps.deviation / 1e9},
                             {"least_ms", steps.least / 1e9},
                             {"median_ms", steps.median / 1e9},
                             {"most_ms", steps.most / 1e9}};
  }
}

json timers_json(const TimerLog& log) {
  json map;
  map["records"] = log.records;
  map["records_not_at_line_start"] = log.not_at_line_start;
  map["step_ms"] = number_or_null(log.step_ms);
  map["forward_ms"] = number_or_null(log.forward_ms);
  map["backward_ms"] = number_or_null(log.backward_ms);
  map["optimizer_ms"] = number_or_null(log.optimizer_ms);
  const auto series = [](const TimerSeries& of) {
    json one;
    one["count"] = of.values.size();
    one["sum_ms"] = of.sum();
    one["mean_ms"] = number_or_null(of.mean());
    one["first_ms"] = of.values.empty() ? json(nullptr) : json(of.values.front());
    one["last_ms"] = of.values.empty() ? json(nullptr) : json(of.values.back());
    // The first step allocates and compiles.
    const auto rest = static_cast<double>(of.values.size()) - 1;
    one["mean_without_first_ms"] =
        rest > 0 ? json((of.sum() - of.values.front()) / rest) : json(nullptr);
    return one;
  };
  map["iterations"] = series(log.iterations);
  const UsualSteps steps = log.usual_steps();
  const auto some = [](const std::vector<double>& of) {
    return json{{"count", of.size()}, {"mean_ms", number_or_null(mean(of))}};
  };
  map["usual_steps"] = some(steps.usual);
  map["usual_steps"]["without"] = {{"first", some(steps.first)},
                                   {"evaluating", some(steps.evaluating)},
                                   {"saving", some(steps.saving)},
                                   {"skipping", some(steps.skipping)},
                                   {"long_forward", some(steps.long_forward)}};
  map["usual_steps"]["micro_steps"] = steps.micro_steps;
  map["timers"] = json::object();
  for (const TimerSeries& one : log.timers) map["timers"][one.name] = series(one);
  map["across_ranks"] = json::object();
  for (const RankTimerSeries& one : log.across_ranks) {
    map["across_ranks"][one.name] = {{"count", one.longest.size()},
                                     {"mean_shortest_ms", number_or_null(mean(one.shortest))},
                                     {"mean_longest_ms", number_or_null(mean(one.longest))},
                                     {"first_longest_ms", one.longest.front()},
                                     {"last_longest_ms", one.longest.back()}};
  }
  return map;
}

/// The time between the first start and the last end of everything.
Picoseconds extent(const Timeline& timeline) {
  if (timeline.spans.empty()) return {};
  Picoseconds start = timeline.spans.front().start;
  Picoseconds end = timeline.spans.front().end;
  for (const TimelineSpan& span : timeline.spans) {
    start = std::min(start, span.start);
    end = std::max(end, span.end);
  }
  return end - start;
}

}  // namespace

std::string trace_json(const ImportedTrace& trace, const TraceAnalysis& analysis,
                       const std::string& file) {
  json map;
  map["trace"] = file;
  map["format"] = to_string(trace.format);
  map["name"] = trace.timeline.name;
  map["events"] = trace.events;
  map["spans_kept"] = trace.timeline.spans.size();
  const Picoseconds whole = extent(trace.timeline);
  map["extent_ms"] = milliseconds(whole);
  map["steps"] = steps_json(analysis);
  map["devices"] = json::array();
  std::map<std::string, std::int64_t> bytes;
  for (const DeviceAnalysis& device : analysis.devices) {
    map["devices"].push_back(device_json(device));
    for (const CopyStatistics& one : device.copy_statistics) {
      bytes[to_string(one.kind.direction)] += one.bytes;
    }
  }
  map["rank_waits"] = json::array();
  for (const RankWait& one : analysis.rank_waits) {
    map["rank_waits"].push_back({{"device", one.device},
                                 {"collectives", one.collectives},
                                 {"time_ms", milliseconds(one.time)},
                                 {"waits_for_others_ms", milliseconds(one.waited)},
                                 {"came_last", one.came_last}});
  }
  map["bytes_by_direction"] = bytes;
  map["ranges"] = json::array();
  for (const NamedTime& one : analysis.ranges) {
    map["ranges"].push_back(
        {{"name", one.name}, {"count", one.spans}, {"time_ms", milliseconds(one.time)}});
  }
  add_tables(analysis.tables, map);
  map["critical_path_ms"] = json::object();
  for (const PathPart& part : analysis.path) {
    map["critical_path_ms"][part.what] = milliseconds(part.time);
  }
  map["critical_path_length_ms"] = milliseconds(analysis.path_length);
  if (trace.timers) map["timers"] = timers_json(*trace.timers);
  map["left_out"] = json::array();
  for (const LeftOut& one : trace.left_out) {
    map["left_out"].push_back({{"what", one.what},
                               {"count", one.count},
                               {"time_ms", milliseconds(one.time)},
                               {"share", share(one.time, whole)},
                               {"first", one.first}});
    if (one.takes_longer) map["left_out"].back()["takes_longer"] = true;
  }
  map["problems"] = trace.problems;
  return map.dump(2, ' ', false, json::error_handler_t::replace);
}

}  // namespace zenflow::sim
