#include "sim/report/fit_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"
#include "sim/deepspeed/estimator.h"

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t whole(double value) {
  return std::llround(value);
}

Json buffers(const Fit& fit, MemoryPlace place) {
  Json list = Json::array();
  for (const BufferUse& use : fit.buffers) {
    if (place_of(use.buffer.home) != place) continue;
    Json one;
    one["name"] = use.buffer.name;
    one["where"] = to_string(use.buffer.home);
    if (!use.buffer.of_framework) one["category"] = to_string(use.buffer.category);
    one["of_framework"] = use.buffer.of_framework;
    one["bytes_at_peak"] = whole(use.at_peak);
    one["largest_bytes"] = whole(use.largest);
    one["formula"] = use.buffer.formula;
    one["held"] = use.buffer.held;
    list.push_back(std::move(one));
  }
  return list;
}

/// The peak is the one of `run --json`.
Json place(const Fit& fit, double peak, double capacity, const std::string& at, MemoryPlace where) {
  Json map;
  map["peak_bytes"] = whole(peak);
  map["capacity_bytes"] = whole(capacity);
  map["by_category"] = Json::object();
  for (const auto& [name, bytes] : used_categories(fit.memory, where)) {
    map["by_category"][name] = bytes;
  }
  map["peak_at"] = at;
  map["buffers"] = buffers(fit, where);
  return map;
}

Json limits(const MemoryReport& memory) {
  Json map = Json::object();
  for (std::size_t i = 0; i < memory.limits.size(); ++i) {
    const LimitCheck& check = memory.limits[i];
    Json& one = map[to_string(static_cast<MemoryLimit>(i))];
    one["need_bytes"] = whole(check.need);
    const bool finite = check.capacity && std::isfinite(*check.capacity);
    one["capacity_bytes"] = finite ? Json(whole(*check.capacity)) : Json(nullptr);
    const bool checked = check.need == 0 || check.capacity.has_value();
    one["verdict"] = !checked ? "not checked" : check.holds() ? "holds" : "exceeded";
  }
  return map;
}

Json over_time(const Fit& fit) {
  constexpr double kPicosecondsPerMillisecond = 1e9;
  Json list = Json::array();
  for (const PartMemory& part : fit.over_time) {
    const double ms = static_cast<double>(part.duration.count) / kPicosecondsPerMillisecond;
    list.push_back({{"step", part.step},
                    {"part", to_string(part.part)},
                    {"ms", ms},
                    {"gpu_bytes", whole(part.gpu)},
                    {"host_bytes", whole(part.host)}});
  }
  return list;
}

Json estimator(const Fit& fit) {
  Json map = Json::object();
  for (const EstimatorComparison& one : fit.estimator) {
    Json& place = map[one.place == MemoryPlace::kGpu ? "gpu" : "host"];
    place["formula"] = one.formula;
    place["estimate_bytes"] = whole(one.estimate);
    place["differences"] = Json::array();
    for (const auto& term : one.terms) {
      place["differences"].push_back({{"what", term.what}, {"bytes", whole(term.bytes)}});
    }
    place["need_bytes"] = whole(one.ours);
  }
  return map;
}

Json changes(const Fit& fit) {
  Json list = Json::array();
  for (const FitChange& one : fit.changes) {
    list.push_back({{"set", one.set},
                    {"limit", to_string(one.limit)},
                    {"saves_bytes", whole(one.saves)},
                    {"limit_holds", one.limit_holds},
                    {"fits", one.fits}});
    const std::string variable = environment_of(one.set);
    if (!variable.empty()) list.back()["environment"] = variable;
  }
  return list;
}

Json result(const Job& job, const Fit& fit) {
  const MemoryReport& memory = fit.memory;
  Json map;
  map["schedule"] = fit.schedule;
  if (fit.chosen_interval) map["update_interval"] = *fit.chosen_interval;
  map["fits"] = memory.fits;
  map["gpu"] =
      place(fit, memory.gpu.total, memory.gpu_capacity, fit.gpu_peak_at, MemoryPlace::kGpu);
  map["host"] = place(fit, memory.limit(MemoryLimit::kHost).need, memory.host_capacity,
                      fit.host_peak_at, MemoryPlace::kHost);
  map["host"]["framework_bytes"] = whole(memory.host_framework);
  map["nvme"] = {{"buffers", buffers(fit, MemoryPlace::kNvme)}};
  map["symbols"] = Json::object();
  for (const MemorySymbol& symbol : fit.symbols) {
    map["symbols"][symbol.name] = {{"value", symbol.value}, {"meaning", symbol.meaning}};
  }
  map["limits"] = limits(memory);
  map["limits"]["gpu_memory"]["with_allocator_bytes"] = whole(with_allocator(job, fit));
  map["limits"]["gpu_memory"]["at_risk"] = is_gpu_at_risk(job, fit);
  if (const auto loading = loading_peak(job, fit)) {
    map["limits"][to_string(MemoryLimit::kHost)]["while_loading_bytes"] = whole(*loading);
    map["limits"][to_string(MemoryLimit::kHost)]["at_risk"] = is_loading_at_risk(job, fit);
  }
  map["changes"] = changes(fit);
  if (fit.together) map["together"] = {{"set", fit.together->set}, {"fits", fit.together->fits}};
  map["estimator"] = estimator(fit);
  map["over_time"] = over_time(fit);
  return map;
}

}  // namespace

std::string fit_json(const Job& job, const std::vector<Fit>& fits, const std::string& version) {
  Json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = version;
  document["scenario"] = job.scenario.name;
  if (!job.deepspeed.not_modelled.empty()) document["not_modelled"] = job.deepspeed.not_modelled;
  if (!job.assumptions.empty()) document["assumptions"] = job.assumptions;
  document["results"] = Json::array();
  for (const Fit& one : fits) document["results"].push_back(result(job, one));
  const auto estimate =
      deepspeed_estimate(job.scenario.model, job.deepspeed, job.scenario.gpus, job.scenario.nodes);
  if (estimate) {
    document["deepspeed_estimator"] = {{"gpu_bytes", estimate->gpu_bytes},
                                       {"cpu_bytes", estimate->cpu_bytes}};
  }
  return json_text(document);
}

}  // namespace zenflow::sim
