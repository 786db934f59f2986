#include <cmath>

#include <nlohmann/json.hpp>

#include "sim/accuracy/document.h"
#include "sim/base/json_text.h"

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double value, double decimals) {
  return std::round(value * decimals) / decimals;
}

/// Times in milliseconds to the nanosecond; bytes keep more than they need.
double rounded_figure(double value) {
  return rounded(value, 1e6);
}

void round(StepFigures& figures) {
  for (std::optional<double>& value : figures.values) {
    if (value) value = rounded_figure(*value);
  }
  for (double& step : figures.step_times) step = rounded_figure(step);
}

constexpr double kShare = 1e6;

/// Null for an error relative to nothing.
Json share(double value) {
  return std::isfinite(value) ? Json(rounded(value, kShare)) : Json(nullptr);
}

Json& at(Json& map, Metric metric) {
  const std::string key(key_of(metric));
  switch (group_of(metric)) {
    case MetricGroup::kStallCause:
      return map["stall_by_cause_ms"][key];
    case MetricGroup::kMemory:
      return map["memory"][key];
    case MetricGroup::kPhase:
      return map["phases_ms"][key];
    case MetricGroup::kTimer:
      return map["timers_ms"][key];
    case MetricGroup::kStep:
    case MetricGroup::kTraffic:
      break;
  }
  return map[key];
}

Json figures_json(const StepFigures& figures) {
  Json map = Json::object();
  for (const Metric metric : all_metrics()) {
    if (!figures[metric]) continue;
    at(map, metric) = *figures[metric];
    if (metric == Metric::kStep && !figures.step_times.empty()) {
      map["step_times_ms"] = figures.step_times;
    }
  }
  return map;
}

Json number_json(const FittedNumber& one) {
  return {{"path", one.path},
          {"value", one.value},
          {"unit", one.unit},
          {"fitted", one.fitted},
          {"standard_error", one.standard_error},
          {"samples", one.samples},
          {"residual", one.residual},
          {"range", one.range}};
}

Json setting_json(const ComparedSetting& one) {
  Json entry{{"setting", one.name},
             {"schedule", one.schedule},
             {"calibrated", one.calibrated},
             {"measured", figures_json(one.measured)},
             {"predicted", figures_json(one.predicted)}};
  if (const auto error = one.error(Metric::kStep)) entry["step_error"] = share(*error);
  if (const auto error = one.error(Metric::kStall)) entry["stall_error"] = share(*error);
  if (const auto first = one.first_to_look_at()) entry["first_to_look_at"] = path_of(*first);
  if (const auto equal = one.bytes_within(0)) entry["bytes_equal"] = *equal;
  if (const auto error = one.bytes_error()) entry["bytes_error"] = share(*error);
  if (one.runs) entry["runs"] = *one.runs;
  if (!one.run_times.empty()) entry["run_step_times_ms"] = one.run_times;
  if (!one.earlier_run_times.empty()) entry["earlier_run_step_times_ms"] = one.earlier_run_times;
  if (one.spread) entry["spread"] = share(*one.spread);
  if (const auto spread = one.spread_of_all()) entry["spread_of_all_runs"] = share(*spread);
  return entry;
}

Json metric_json(const MetricError& one) {
  return {
      {"metric", path_of(one.metric)},   {"of", is_share_of_step(one.metric) ? "step" : "measured"},
      {"settings", one.settings},        {"mean_error", share(one.mean)},
      {"worst_error", share(one.worst)}, {"worst_setting", one.worst_setting}};
}

Json if_known(const auto& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json summary_json(const ValidationSummary& summary, const Tolerance& tolerance) {
  Json map{{"predicted", summary.predicted},
           {"mean_step_error", share(summary.mean_step_error)},
           {"worst_step_error", share(summary.worst_step_error)}};
  if (summary.worst_stall_error) map["worst_stall_error"] = share(*summary.worst_stall_error);
  if (summary.worst_bytes_error) map["worst_bytes_error"] = share(*summary.worst_bytes_error);
  map["bytes_equal"] = if_known(summary.bytes_equal);
  map["worst_spread"] = share(summary.worst_spread);
  map["too_noisy"] = summary.too_noisy;
  map["within_tolerance"] = summary.within;
  map["tolerance"] = {{"mean_step", tolerance.mean_step},
                      {"worst_step", tolerance.worst_step},
                      {"worst_stall", if_known(tolerance.worst_stall)},
                      {"bytes", if_known(tolerance.bytes)}};
  map["metrics"] = Json::array();
  for (const MetricError& one : summary.metrics) map["metrics"].push_back(metric_json(one));
  if (summary.window_steps) map["steps_of_window"] = metric_json(*summary.window_steps);
  map["not_told"] = Json::array();
  for (const Metric metric : summary.not_told) map["not_told"].push_back(path_of(metric));
  return map;
}

}  // namespace

void judge(ValidationDocument& document) {
  for (ComparedSetting& one : document.settings) {
    round(one.measured);
    round(one.predicted);
    for (std::vector<double>* times : {&one.run_times, &one.earlier_run_times}) {
      for (double& time : *times) time = rounded_figure(time);
    }
    if (one.run_times.size() > 1) one.spread = run_spread(one.run_times);
  }
  document.summary = summarize(document.settings, document.tolerance);
}

std::string document_json(const ValidationDocument& document) {
  const MeasurementOrigin& origin = document.origin;
  Json json{
      {"schema_version", 1},           {"tool", "zenflow-validate"}, {"version", document.version},
      {"scenario", document.scenario}, {"device", origin.device},    {"date", origin.date},
      {"machine", origin.machine},     {"command", origin.command},  {"remarks", origin.remarks}};
  json["numbers"] = Json::array();
  for (const FittedNumber& one : document.numbers) json["numbers"].push_back(number_json(one));
  json["results"] = Json::array();
  for (const ComparedSetting& one : document.settings) {
    json["results"].push_back(setting_json(one));
  }
  json["summary"] = summary_json(document.summary, document.tolerance);
  return json_text(json);
}

}  // namespace zenflow::sim
