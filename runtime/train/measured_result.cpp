#include "runtime/train/measured_result.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"

namespace zenflow::runtime {
namespace {

using Json = nlohmann::ordered_json;

/// To the nanosecond, as clocks are.
double milliseconds(double seconds) {
  return std::round(seconds * 1e9) * 1e-6;
}

std::uint64_t bytes(const std::array<std::uint64_t, kTrafficKinds>& count) {
  std::uint64_t sum = 0;
  for (const Traffic kind : {Traffic::kGradients, Traffic::kParameters}) {
    sum += count.at(static_cast<std::size_t>(kind));
  }
  return sum;
}

std::uint64_t bytes_of_all_kinds(const std::array<std::uint64_t, kTrafficKinds>& count) {
  return std::accumulate(count.begin(), count.end(), std::uint64_t{0});
}

Json traffic(const TrafficCount& count, const TrafficCount& of_all_ranks, double steps,
             double model_bytes) {
  const auto d2h = static_cast<double>(bytes(count.d2h)) / steps;
  const auto h2d = static_cast<double>(bytes(count.h2d)) / steps;
  const auto of = [&](const auto& counts, Traffic kind) {
    return counts.at(static_cast<std::size_t>(kind));
  };
  Json map;
  map["d2h_bytes_per_step"] = std::llround(d2h);
  map["h2d_bytes_per_step"] = std::llround(h2d);
  map["model_sizes_per_step"] =
      static_cast<double>(bytes(of_all_ranks.d2h) + bytes(of_all_ranks.h2d)) / steps / model_bytes;
  for (const auto& [key, kind] : {std::pair("selection_bytes_per_step", Traffic::kSelection),
                                  std::pair("control_bytes_per_step", Traffic::kControl)}) {
    const std::uint64_t both = of(count.d2h, kind) + of(count.h2d, kind);
    map[key] = std::llround(static_cast<double>(both) / steps);
  }
  return map;
}

/// What a simulated result calls it: there, one name is all that serves one end.
std::string category(const std::string& purpose) {
  static const std::map<std::string, std::string> kNames = {{"second weights", "parameter_buffer"},
                                                            {"deferred gradients", "staging"},
                                                            {"updated weights", "staging"},
                                                            {"loaded or written", "staging"},
                                                            {"gradient sums", "gradients"}};
  const auto found = kNames.find(purpose);
  if (found != kNames.end()) return found->second;
  std::string name = purpose;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

Json by_category(const MemoryUse& use) {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [purpose, held] : use.by_purpose) sums[category(purpose)] += held;
  Json map = Json::object();
  for (const auto& [name, held] : sums) {
    if (held > 0) map[name] = held;
  }
  return map;
}

Json memory(const TrainOptions& options, const TrainReport& report) {
  Json map;
  const std::optional<Bytes> capacity = options.cuda ? options.cuda->memory : options.device.memory;
  map["fits"] = true;
  map["gpu_peak_bytes"] = report.device_memory.peak;
  map["gpu_capacity_bytes"] = capacity ? Json(std::llround(capacity->value())) : Json(nullptr);
  map["host_peak_bytes"] = report.pinned_memory.peak + report.host_optimizer_bytes;
  map["host_capacity_bytes"] = report.host_capacity_bytes;
  map["gpu"] = by_category(report.device_memory);
  map["host"] = by_category(report.pinned_memory);
  map["host"]["optimizer_state"] = report.host_optimizer_bytes;
  return map;
}

Json decisions(const TrainReport& report) {
  Json list = Json::array();
  for (const IntervalDecision& d : report.decisions) {
    list.push_back({{"window", d.window},
                    {"update_interval", {{"previous", d.previous}, {"next", d.next}}},
                    {"by_gradient", d.by_gradient},
                    {"by_stall", d.by_stall},
                    {"limit", d.limit},
                    {"deferred_share", d.deferred_share},
                    {"reason", d.reason}});
  }
  return list;
}

Json tuning(const TuningLog& log) {
  const auto point = [](const TunePoint& one) {
    return Json{{"update_interval", one.update_interval}, {"topk_ratio", one.topk_ratio}};
  };
  const auto known = [](double seconds) {
    return seconds > 0 ? Json(milliseconds(seconds)) : Json(nullptr);
  };
  Json map{{"events", Json::array()}, {"windows", Json::array()}};
  for (const TuneEvent& e : log.events) {
    Json entry{{"window", e.window},
               {"kind", to_string(e.kind)},
               {"previous", point(e.from)},
               {"next", point(e.to)},
               {"measured_ms", known(e.measured)},
               {"predicted_ms", known(e.predicted)},
               {"noise", e.noise},
               {"reason", e.reason}};
    if (e.from.topk_ratio != e.to.topk_ratio) {
      entry["selection_ms"] = milliseconds(e.selection_seconds);
    }
    if (e.kind == TuneEvent::Kind::kFitted) {
      entry["fit_ms"] = milliseconds(e.fit_seconds);
      entry["other_cores"] = e.other_cores ? Json(*e.other_cores) : Json(nullptr);
      entry["other_threads"] = e.other_threads;
      entry["predictions"] = Json::array();
      for (const TunePrediction& one : e.predictions) {
        Json prediction = point(one.point);
        prediction["predicted_ms"] = milliseconds(one.step_seconds);
        entry["predictions"].push_back(std::move(prediction));
      }
    }
    map["events"].push_back(std::move(entry));
  }
  for (const TunedWindow& w : log.windows) {
    Json entry = point(w.point);
    entry["window"] = w.window;
    entry["first_step"] = w.first_step;
    entry["recorded"] = w.recorded;
    entry["step_time_ms"] = milliseconds(w.step_seconds);
    entry["importance_due"] = w.importance_due > 0 ? Json(w.importance_due) : Json(nullptr);
    entry["deferred_share"] = w.importance_due > 0 ? Json(w.deferred_share) : Json(nullptr);
    entry["selection_ms"] = milliseconds(w.selection_seconds);
    map["windows"].push_back(std::move(entry));
  }
  return map;
}

Json validations(const TrainReport& report) {
  Json list = Json::array();
  for (const Validation& v : report.validations) {
    Json entry{{"step", v.step}, {"loss", v.loss}};
    for (const NamedValue& metric : v.metrics) entry[metric.name] = metric.value;
    list.push_back(entry);
  }
  return list;
}

Json result(const TrainOptions& options, const TrainReport& report) {
  const StepTimes& mean = report.times.mean;
  const double model_bytes = static_cast<double>(report.parameters) *
                             static_cast<double>(sim::bytes_per_element(options.training.dtype));
  const double stall = mean.cpu_update + mean.d2h + mean.h2d + mean.collective + mean.launch;
  const auto done =
      static_cast<double>(std::max<std::int64_t>(1, report.steps - report.first_step));
  Json map;
  map["schedule"] = to_string(options.offload.schedule);
  if (options.offload.schedule == OffloadSchedule::kZenFlow) {
    map["topk_ratio"] = report.topk_ratio;
    if (const auto& range = options.offload.topk_range) {
      map["topk_range"] = {range->low, range->high};
    }
    map["update_interval"] = report.update_interval;
    if (options.offload.interval_is_auto) map["update_interval_is_auto"] = true;
  }
  map["gradient_accumulation_steps"] = options.offload.gradient_accumulation_steps;
  map["activation_checkpointing"] = options.training.activation_checkpointing;
  map["step_time_ms"] = milliseconds(mean.total);
  map["step_times_ms"] = Json::array();
  for (const double step : report.times.last_window) {
    map["step_times_ms"].push_back(milliseconds(step));
  }
  map["gpu_compute_ms"] = milliseconds(mean.compute);
  map["gpu_stall_ms"] = milliseconds(stall);
  map["gpu_utilization"] = mean.total > 0 ? mean.compute / mean.total : 0.0;
  map["stall_by_cause_ms"] = {{"cpu_update", milliseconds(mean.cpu_update)},
                              {"d2h", milliseconds(mean.d2h)},
                              {"h2d", milliseconds(mean.h2d)},
                              {"collective", milliseconds(mean.collective)},
                              {"nvme", 0.0},
                              {"selection", 0.0},
                              {"launch", milliseconds(mean.launch)}};
  const auto measured = static_cast<double>(std::max<std::int64_t>(1, report.times.steps));
  map["pcie"] = traffic(report.traffic, report.traffic_of_ranks, measured, model_bytes);
  if (options.ranks() > 1) {
    const auto per_step = [done](std::uint64_t bytes) { return static_cast<double>(bytes) / done; };
    map["ranks"] = {
        {"count", options.ranks()},
        {"gradient_bytes_per_step", per_step(report.rank_traffic.gradients)},
        {"weight_bytes_per_step", per_step(report.rank_traffic.weights)},
        {"control_bytes_per_step", per_step(report.rank_traffic.control)},
        {"selection_bytes_per_step", per_step(report.rank_traffic.selection)},
        {"selection_by_gradients_bytes_per_step", per_step(report.gradient_bytes_ranked)}};
  }
  map["tokens_per_second"] = report.tokens_per_second;
  map["mfu"] = nullptr;
  map["staleness_steps"] = {
      {"min", report.staleness_min ? Json(*report.staleness_min) : Json(nullptr)},
      {"max", report.staleness_max ? Json(*report.staleness_max) : Json(nullptr)}};
  map["memory"] = memory(options, report);
  map["critical_path_ms"] = nullptr;
  map["tasks"] = nullptr;  // of a simulated graph
  map["steps"] = {{"done", report.steps},
                  {"measured", report.times.steps},
                  {"steady", report.times.traffic.has_value()}};
  if (options.record_trace) {
    map["trace"] = {{"spans", report.trace_spans},
                    {"d2h_bytes", bytes_of_all_kinds(report.recorded_traffic.d2h)},
                    {"h2d_bytes", bytes_of_all_kinds(report.recorded_traffic.h2d)},
                    {"overhead_ms_per_step", milliseconds(report.trace_overhead_seconds / done)}};
  }
  if (options.tune_live) {
    map["tuning"] = tuning(report.tuning);
  } else if (options.offload.interval_is_auto) {
    map["decisions"] = decisions(report);
  }
  map["losses"] = report.losses;
  map["final_loss"] = report.losses.empty() ? Json(nullptr) : Json(report.losses.back());
  map["validations"] = validations(report);
  return map;
}

}  // namespace

std::string measured_result_json(const TrainOptions& options, const TrainReport& report,
                                 const std::string& version) {
  Json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-train";
  document["version"] = version;
  document["scenario"] = report.model_name;
  document["model"] = {
      {"name", report.model_name},
      {"parameters", report.parameters},
      {"bytes", report.parameters * sim::bytes_per_element(options.training.dtype)}};
  document["hardware"] = {{"name", report.device_name}, {"gpus", options.ranks()}};
  if (options.cuda) document["hardware"]["gpu"] = options.cuda->ordinal;
  document["results"] = Json::array({result(options, report)});
  return json_text(document);
}

}  // namespace zenflow::runtime
