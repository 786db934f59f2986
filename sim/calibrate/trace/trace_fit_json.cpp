#include "sim/calibrate/trace/trace_fit_json.h"

#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"

namespace zenflow::sim {
namespace {

using Json = nlohmann::ordered_json;

Json number_json(const FittedNumber& one) {
  Json map{{"path", one.path},
           {"value", one.value},
           {"unit", one.unit},
           {"state", one.fitted     ? "fitted"
                     : one.adjusted ? "adjusted"
                                    : "as_before"},
           {"standard_error", nullptr},
           {"samples", one.samples},
           {"damped", one.damped},
           {"set_aside", one.set_aside},
           {"residual", nullptr},
           {"range", one.range},
           {"reason", one.reason}};
  if (one.fitted) {
    map["standard_error"] = one.standard_error;
    map["residual"] = one.residual;
  }
  return map;
}

Json trace_json(const TraceBaseline& one) {
  Json map{{"trace", one.name}, {"step_ms", nullptr}, {"notes", one.remarks}};
  if (one.step_seconds) map["step_ms"] = 1e3 * *one.step_seconds;
  if (!one.steps.empty()) map["step_is_mean_of"] = one.steps;
  return map;
}

}  // namespace

std::string fit_json(const std::vector<FittedNumber>& numbers,
                     const std::vector<TraceBaseline>& traces, const std::string& version) {
  Json document{{"schema_version", 1},
                {"version", version},
                {"numbers", Json::array()},
                {"traces", Json::array()}};
  for (const FittedNumber& one : numbers) document["numbers"].push_back(number_json(one));
  for (const TraceBaseline& one : traces) document["traces"].push_back(trace_json(one));
  return json_text(document);
}

}  // namespace zenflow::sim
