#include <cmath>

#include <nlohmann/json.hpp>

#include "sim/accuracy/published_runs.h"
#include "sim/base/json_text.h"

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

/// Shares and quantities to what a reader needs, so that last bits do not make documents differ.
double rounded(double value) {
  constexpr double kDecimals = 1e6;
  return std::round(value * kDecimals) / kDecimals;
}

double milliseconds(double picoseconds) {
  return rounded(picoseconds * 1e-9);
}

Json errors_json(const PublishedErrors& one) {
  Json map;
  if (!one.name.empty()) map["name"] = one.name;
  map["rows"] = one.rows;
  map["mean_error"] = rounded(one.mean);
  map["signed_mean_error"] = rounded(one.signed_mean);
  map["worst_error"] = rounded(one.worst);
  map["worst_row"] = one.worst_row;
  return map;
}

Json errors_json(const std::vector<PublishedErrors>& groups) {
  Json list = Json::array();
  for (const PublishedErrors& one : groups) list.push_back(errors_json(one));
  return list;
}

/// Of a micro step.
Json run_json(const SimulationResult& result) {
  Json map{{"step_time_ms", milliseconds(result.step_time)},
           {"compute_ms", milliseconds(result.compute)},
           {"stall_ms", milliseconds(result.stall)}};
  for (std::size_t i = 0; i < result.stall_by_cause.size(); ++i) {
    map["stall_by_cause_ms"][std::string(name_of(static_cast<WaitCause>(i)))] =
        milliseconds(result.stall_by_cause[i]);
  }
  return map;
}

Json row_json(const PublishedResult& one) {
  const PublishedRow& row = one.row;
  Json map{{"id", row.id},
           {"node", row.node},
           {"model", row.model},
           {"schedule", row.schedule},
           {"quantity", row.quantity},
           {"unit", row.unit},
           {"published", row.value},
           {"judged", row.judged},
           {"source", row.source},
           {"how_read", row.how_read},
           {"uncertainty", row.uncertainty}};
  if (!row.notes.empty()) map["notes"] = row.notes;
  if (!row.release_modelled.empty()) map["release_modelled"] = row.release_modelled;
  if (!row.parts.empty()) map["parts"] = row.parts;
  if (!row.cause.empty()) map["cause"] = row.cause;
  if (!one.prediction) {
    map["not_simulated"] = row.reason;
    return map;
  }
  if (one.prediction->value) {
    map["predicted"] = rounded(*one.prediction->value);
    map["error"] = rounded(*one.error());
    map["run"] = run_json(*one.prediction->result);
  } else {
    map["refused"] = one.prediction->refused;
  }
  for (const MemoryLimit limit : one.prediction->exceeded) {
    map["exceeded"].push_back(to_string(limit));
  }
  return map;
}

}  // namespace

std::string published_json(const std::vector<PublishedResult>& results,
                           const std::string& version) {
  Json json{{"schema_version", 1}, {"tool", "zenflow-validate"}, {"version", version}};
  json["rows"] = Json::array();
  for (const PublishedResult& one : results) json["rows"].push_back(row_json(one));
  json["summary"] = errors_json(published_errors(results));
  json["summary"]["judged"] = judged_rows(results);
  json["by_schedule"] = errors_json(published_errors(results, PublishedGroup::kSchedule));
  json["by_node"] = errors_json(published_errors(results, PublishedGroup::kNode));
  json["by_quantity"] = errors_json(published_errors(results, PublishedGroup::kQuantity));
  json["by_source"] = errors_json(published_errors(results, PublishedGroup::kSource));
  return json_text(json);
}

}  // namespace zenflow::sim
