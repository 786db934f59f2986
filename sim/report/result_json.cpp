#include "sim/report/result_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"
#include "sim/schedule/live_work.h"

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t whole(double value) {
  return std::llround(value);
}

Json times(const std::vector<double>& picoseconds) {
  Json list = Json::array();
  for (const double time : picoseconds) list.push_back(rounded_milliseconds(time));
  return list;
}

Json causes(const StallTimes& stall) {
  Json map = Json::object();
  for (std::size_t i = 0; i < stall.size(); ++i) {
    map[std::string(name_of(static_cast<WaitCause>(i)))] = rounded_milliseconds(stall[i]);
  }
  return map;
}

Json categories(const MemoryReport& report, MemoryPlace place) {
  Json map = Json::object();
  for (const auto& [name, bytes] : used_categories(report, place)) map[name] = bytes;
  return map;
}

Json memory(const MemoryReport& report) {
  Json map;
  map["fits"] = report.fits;
  map["gpu_peak_bytes"] = whole(report.gpu.total);
  map["gpu_capacity_bytes"] = whole(report.gpu_capacity);
  map["host_peak_bytes"] = whole(report.limit(MemoryLimit::kHost).need);
  map["host_capacity_bytes"] = whole(report.host_capacity);
  for (std::size_t i = 0; i < report.limits.size(); ++i) {
    if (report.limits[i].holds()) continue;
    map["exceeded"].push_back(to_string(static_cast<MemoryLimit>(i)));
  }
  map["gpu"] = categories(report, MemoryPlace::kGpu);
  map["host"] = categories(report, MemoryPlace::kHost);
  return map;
}

Json result(const SimulationResult& one) {
  Json map;
  map["schedule"] = one.schedule;
  if (one.deepspeed_version) map["deepspeed_version"] = *one.deepspeed_version;
  if (one.target) map["target"] = *one.target;
  if (one.topk_ratio) map["topk_ratio"] = *one.topk_ratio;
  if (one.update_interval) map["update_interval"] = *one.update_interval;
  if (one.update_interval_is_auto) {
    map["update_interval_is_auto"] = true;
    map["stall_removed"] = one.stall_removed;
  }
  map["step_time_ms"] = rounded_milliseconds(one.step_time);
  map["step_times_ms"] = times(one.step_times);
  if (one.micro_steps > 1) {
    map["gradient_accumulation_steps"] = one.micro_steps;
    map["micro_step_time_ms"] = rounded_milliseconds(one.micro_step_time);
    map["optimizer_step_time_ms"] = rounded_milliseconds(one.optimizer_step_time);
  }
  map["gpu_compute_ms"] = rounded_milliseconds(one.compute);
  map["gpu_stall_ms"] = rounded_milliseconds(one.stall);
  map["gpu_utilization"] = rounded_value(one.compute / one.step_time);
  map["stall_by_cause_ms"] = causes(one.stall_by_cause);
  map["pcie"] = {{"d2h_bytes_per_step", whole(one.d2h_bytes)},
                 {"h2d_bytes_per_step", whole(one.h2d_bytes)},
                 {"model_sizes_per_step", rounded_value(one.model_sizes)}};
  // As zenflow-train says it of its ranks.
  if (one.ranks > 1 && live_kind(one.schedule)) {
    map["ranks"] = {{"count", one.ranks},
                    {"gradient_bytes_per_step", whole(one.between_ranks.gradients)},
                    {"weight_bytes_per_step", whole(one.between_ranks.weights)},
                    {"control_bytes_per_step", whole(one.between_ranks.control)},
                    {"selection_bytes_per_step", whole(one.between_ranks.selection)}};
  }
  map["tokens_per_second"] = rounded_value(one.tokens_per_second);
  map["mfu"] = rounded_value(one.mfu);
  map["staleness_steps"] = {{"min", one.staleness.min}, {"max", one.staleness.max}};
  map["memory"] = memory(one.memory);
  map["critical_path_ms"] = rounded_milliseconds(one.critical_path);
  map["tasks"] = one.tasks;
  return map;
}

}  // namespace

double rounded_value(double value) {
  constexpr double kDecimals = 1e9;
  const double scaled = std::round(value * kDecimals) / kDecimals;
  return std::isfinite(scaled) ? scaled : value;
}

double rounded_milliseconds(double picoseconds) {
  return rounded_value(picoseconds * 1e-9);
}

std::string json_milliseconds(double picoseconds) {
  return Json(rounded_milliseconds(picoseconds)).dump();
}

std::string json_number(double value) {
  return Json(rounded_value(value)).dump();
}

std::string result_json(const Job& job, const std::vector<SimulationResult>& results,
                        const std::string& version) {
  const Scenario& scenario = job.scenario;
  const auto b = static_cast<double>(bytes_per_element(scenario.training.dtype));
  const std::int64_t trained = scenario.model.trained();
  const std::int64_t bytes =
      whole(static_cast<double>(trained) * b + scenario.model.frozen_bytes(b));
  Json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = version;
  document["scenario"] = scenario.name;
  document["model"] = {
      {"name", scenario.model.name}, {"parameters", scenario.model.parameters()}, {"bytes", bytes}};
  if (trained < scenario.model.parameters()) document["model"]["trained_parameters"] = trained;
  document["hardware"] = {{"name", scenario.hardware.name}, {"gpus", scenario.ranks()}};
  if (!job.deepspeed.not_modelled.empty()) document["not_modelled"] = job.deepspeed.not_modelled;
  if (!job.assumptions.empty()) document["assumptions"] = job.assumptions;
  document["results"] = Json::array();
  for (const SimulationResult& one : results) document["results"].push_back(result(one));
  // Names come from files: bytes that are not UTF-8 were refused on reading, so dump cannot throw.
  return json_text(document);
}

}  // namespace zenflow::sim
