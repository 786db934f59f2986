#include <algorithm>

#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"
#include "sim/report/result_json.h"
#include "sim/tune/convergence.h"
#include "tools/tune/tune.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using Json = nlohmann::ordered_json;
using sim::Evaluation;
using sim::Knob;
using sim::rounded_milliseconds;
using sim::rounded_value;
using sim::Setting;

constexpr std::int64_t kSchemaVersion = 1;

Json value_of(Knob knob, double value) {
  switch (sim::info(knob).kind) {
    case sim::KnobKind::kWord:
      return sim::value_text(knob, value);
    case sim::KnobKind::kFlag:
      return value != 0;
    case sim::KnobKind::kWhole:
      return static_cast<std::int64_t>(value);
    case sim::KnobKind::kShare:
      break;
  }
  return value;
}

Json setting_json(const TuneAnswer& answer, const Setting& setting) {
  Json map;
  for (const sim::KnobInfo& one : sim::knobs()) {
    if (one.of_zenflow && !setting.zenflow()) continue;
    if (!has_knob(answer.loaded.request.family, one.knob)) continue;
    map[std::string(one.name)] = value_of(one.knob, setting.get(one.knob));
  }
  map["gradient_accumulation_steps"] = answer.candidates.accumulation(setting);
  return map;
}

Json evaluation_json(const Evaluation& one) {
  Json map;
  map["step_time_ms"] = rounded_milliseconds(one.step_time);
  map["micro_step_time_ms"] = rounded_milliseconds(one.micro_step);
  map["gpu_compute_ms"] = rounded_milliseconds(one.compute);
  Json stall;
  for (std::size_t cause = 0; cause < kStallCauses; ++cause) {
    stall[std::string(name_of(static_cast<WaitCause>(cause)))] =
        rounded_milliseconds(one.stall.at(cause));
  }
  map["stall_by_cause_ms"] = stall;
  map["tokens_per_second"] = rounded_value(one.tokens_per_second);
  map["mfu"] = rounded_value(one.mfu);
  map["d2h_bytes_per_step"] = rounded_value(one.d2h_bytes);
  map["h2d_bytes_per_step"] = rounded_value(one.h2d_bytes);
  map["model_sizes_per_micro_step"] = rounded_value(one.model_sizes);
  map["staleness_steps_max"] = one.staleness;
  map["gpu_peak_bytes"] = rounded_value(one.gpu_bytes);
  Json needs;
  for (int i = 0; i < sim::kMemoryLimits; ++i) {
    const auto limit = static_cast<sim::MemoryLimit>(i);
    if (limit == sim::MemoryLimit::kGpu) continue;
    needs[to_string(limit) + "_bytes"] = rounded_value(one.needs[static_cast<std::size_t>(i)]);
  }
  map["needs"] = needs;
  map["feasible"] = one.infeasible.empty();
  if (!one.infeasible.empty()) map["infeasible"] = one.infeasible;
  return map;
}

Json simulated_json(const TuneAnswer& answer, const sim::Simulated& one) {
  Json map;
  map["setting"] = setting_json(answer, one.setting);
  map["result"] = evaluation_json(one.evaluation);
  if (answer.loaded.request.objective == sim::Objective::kCostPerToken) {
    map["cost_per_million_tokens"] =
        rounded_value(cost_per_million_tokens(answer, one.setting, one.evaluation));
  }
  return map;
}

Json counts_json(const sim::SearchResult& result) {
  const sim::SearchCounts& counts = result.counts;
  const std::uint64_t simulated = simulated_infeasible(result);
  Json map;
  map["points"] = counts.points;
  map["simulated"] = counts.simulated;
  map["equal_to_simulated"] = counts.equal;
  map["excluded_by_bound"] = counts.excluded_by_bound;
  map["infeasible"] = counts.infeasible;
  map["infeasible_when_simulated"] = simulated;
  map["equal_to_infeasible_when_simulated"] = counts.infeasible_when_simulated - simulated;
  map["not_reached"] = counts.not_reached;
  Json reasons = Json::object();
  for (const auto& [why, count] : counts.reasons) reasons[why] = count;
  map["infeasible_by_reason"] = reasons;
  return map;
}

Json unsearched_json(const TuneAnswer& answer) {
  Json list = Json::array();
  for (const sim::FitChange& one : answer.unsearched.changes) {
    Json map;
    map["set"] = one.set;
    map["limit"] = to_string(one.limit);
    map["saves_bytes"] = rounded_value(one.saves);
    map["fits"] = one.fits;
    list.push_back(map);
  }
  return list;
}

Json baseline_json(const TuneAnswer& answer) {
  const Setting own = sim::setting_of(answer.loaded.request.job);
  Json map;
  map["setting"] = setting_json(answer, own);
  if (answer.result.own) {
    map["result"] = evaluation_json(*answer.result.own);
    if (answer.loaded.request.objective == sim::Objective::kCostPerToken) {
      map["cost_per_million_tokens"] =
          rounded_value(cost_per_million_tokens(answer, own, *answer.result.own));
    }
  } else {
    map["refused"] = answer.result.own_refusal;
  }
  if (!answer.unsearched.changes.empty()) map["not_searched"] = unsearched_json(answer);
  if (!answer.unsearched.fit_together.empty()) {
    map["fit_together"] = answer.unsearched.fit_together;
  }
  if (!answer.result.own_not_proposed.empty()) {
    map["not_proposed"] = answer.result.own_not_proposed;
  }
  if (const auto& measured = answer.loaded.request.measured_step) {
    map["measured_step_time_ms"] = rounded_value(*measured * 1e3);
    map["reliable"] = !sim::is_unreliable(answer);
    if (const auto miss = sim::likely_miss(answer)) {
      map["first_to_look_at"] = {{"part", miss->part},
                                 {"predicted_ms", rounded_milliseconds(miss->predicted)},
                                 {"needed_ms", rounded_milliseconds(miss->needed)}};
    }
  }
  return map;
}

/// Of every answer: who reads only the summary sees what was measured, and where.
Json convergence_json(const TuneAnswer& answer) {
  const sim::TuneRequest& request = answer.loaded.request;
  Json map;
  map["max_staleness"] = request.limits.staleness;
  map["asked_for_staleness"] = request.is_staleness_asked;
  map["measured_on_this_job"] = false;
  map["chosen_was_measured"] =
      answer.chosen().setting.zenflow() ? Json(sim::is_measured(answer.chosen().setting)) : Json();
  map["measured_on"] = sim::kMeasuredWhere;
  map["excess_validation_loss_percent"] = Json::array();
  for (const sim::MeasuredLoss& one : sim::kMeasuredLosses) {
    map["excess_validation_loss_percent"].push_back({{"topk_ratio", one.topk_ratio},
                                                     {"update_interval", one.interval},
                                                     {"task", one.task},
                                                     {"deferred_scaling", one.scaling},
                                                     {"excess", one.excess}});
  }
  return map;
}

Json traced_json(const TuneAnswer& answer) {
  const sim::TracedRequest& traced = *answer.traced;
  Json map;
  map["traces"] = Json::array();
  for (const auto& one : answer.options.traces) map["traces"].push_back(one.generic_string());
  map["base_profile"] = traced.base_profile;
  map["measured_steps"] = traced.steps;
  const auto& step = answer.loaded.request.measured_step;
  if (step && answer.result.own) {
    map["simulated_over_measured"] = rounded_value(answer.result.own->step_time / (*step * 1e12));
  }
  if (const auto scaled = scaled_step(answer))
    map["scaled_step_time_ms"] = rounded_milliseconds(*scaled);
  map["parts"] = Json::array();
  if (answer.result.own) {
    for (const sim::PartTime& one :
         sim::part_times(traced.parts, answer.loaded.request.job, *answer.result.own)) {
      map["parts"].push_back({{"part", one.name},
                              {"recorded_ms", rounded_value(1e3 * one.recorded)},
                              {"simulated_ms", rounded_value(1e3 * one.simulated)}});
    }
  }
  map["told"] = traced.facts;
  map["untold"] = traced.untold;
  map["fitted"] = Json::array();
  for (const sim::FittedNumber& one : traced.numbers) {
    if (!one.fitted) continue;
    map["fitted"].push_back({{"number", one.path},
                             {"value", rounded_value(one.value)},
                             {"unit", one.unit},
                             {"standard_error", rounded_value(one.standard_error)},
                             {"samples", one.samples}});
  }
  return map;
}

Json knobs_json(const TuneAnswer& answer) {
  Json list = Json::array();
  for (const sim::KnobEffect& effect : answer.knobs) {
    Json values = Json::array();
    for (const sim::KnobValue& one : effect.values) {
      Json map;
      map["value"] = value_of(effect.knob, one.value);
      if (one.evaluation) {
        map["step_time_ms"] = rounded_milliseconds(one.evaluation->step_time);
        map["gpu_peak_bytes"] = rounded_value(one.evaluation->gpu_bytes);
        if (!one.evaluation->infeasible.empty()) map["infeasible"] = one.evaluation->infeasible;
      } else {
        map["infeasible"] = one.refusal;
      }
      values.push_back(map);
    }
    list.push_back({{"knob", sim::info(effect.knob).name}, {"values", values}});
  }
  return list;
}

Json numbers_json(const TuneAnswer& answer) {
  Json list = Json::array();
  for (const sim::NumberEffect& one : answer.numbers.numbers) {
    list.push_back({{"number", one.path},
                    {"relative_error", rounded_value(one.relative_error)},
                    {"from", one.measured ? "given" : "assumed"},
                    {"elasticity", rounded_value(one.elasticity)}});
  }
  return list;
}

Json changes_json(const TuneAnswer& answer) {
  Json list = Json::array();
  for (const sim::Edit& edit : answer.changes) list.push_back(describe(edit));
  return list;
}

Json findings_json(const TuneAnswer& answer) {
  Json list = Json::array();
  for (const sim::Finding& one : answer.findings) {
    list.push_back({{"code", one.code},
                    {"severity", to_string(one.severity)},
                    {"path", one.path},
                    {"what", one.what},
                    {"instead", one.instead}});
  }
  return list;
}

}  // namespace

std::string summary_json(const TuneAnswer& answer) {
  const sim::TuneRequest& request = answer.loaded.request;
  const sim::SearchResult& result = answer.result;
  Json map;
  map["schema_version"] = kSchemaVersion;
  map["tool"] = "zenflow-tune";
  map["version"] = kVersion;
  map["scenario"] = request.job.scenario.name;
  map["schedule"] = to_string(request.family);
  map["deepspeed_version"] = to_string(request.job.version);
  map["target"] = to_string(request.job.target);
  map["objective"] = to_string(request.objective);
  map["offload_when"] = to_string(request.offload_when);
  if (request.family != sim::Family::kLive) {
    if (!request.job.deepspeed.not_modelled.empty())
      map["not_modelled"] = request.job.deepspeed.not_modelled;
    if (!request.job.assumptions.empty()) map["assumptions"] = request.job.assumptions;
  } else if (const auto notes = job_notes(request.job, false); !notes.empty()) {
    map["assumptions"] = notes;
  }
  map["fits_without_offloading"] = result.fits_without_offloading;
  map["global_batch"] = request.global_batch;
  map["slack"] = request.slack;
  map["complete"] = result.complete;
  map["chosen"] = simulated_json(answer, answer.chosen());
  // What the errors of numbers do is simulated only after the whole search.
  if (result.complete) map["chosen"]["relative_error"] = rounded_value(sim::step_error(answer));
  map["fastest"] = simulated_json(answer, result.simulated[*result.fastest]);
  map["baseline"] = baseline_json(answer);
  if (result.own) {
    map["speedup"] = rounded_value(result.own->step_time / answer.chosen().evaluation.step_time);
    if (result.complete) map["speedup_relative_error"] = rounded_value(sim::gain_error(answer));
  }
  map["convergence"] = convergence_json(answer);
  if (answer.traced) map["trace"] = traced_json(answer);
  if (result.published) map["published"] = simulated_json(answer, *result.published);
  map["changes"] = changes_json(answer);
  map["base_kept"] = answer.text.kept;
  if (!answer.text.kept) map["base_rewritten"] = answer.text.reason;
  map["written"] = is_relied_on(answer);
  map["command"] = answer.command.substr(0, answer.command.size() - 1);
  map["top"] = Json::array();
  for (const std::size_t one : result.top) {
    map["top"].push_back(simulated_json(answer, result.simulated[one]));
  }
  map["runners_up"] = Json::array();
  for (const sim::RunnerUp& one : answer.numbers.runners_up) {
    Json runner = simulated_json(answer, result.simulated[one.which]);
    runner["difference"] = rounded_value(one.difference);
    runner["error_of_difference"] = rounded_value(one.error);
    runner["chance_of_being_better"] = rounded_value(one.chance);
    map["runners_up"].push_back(runner);
  }
  map["best_by_placement"] = Json::object();
  for (int place = 0; place < sim::kPlacements; ++place) {
    const auto& best = result.by_placement[static_cast<std::size_t>(place)];
    if (!best) continue;
    map["best_by_placement"][std::string(to_string(static_cast<sim::Placement>(place)))] =
        simulated_json(answer, result.simulated[*best]);
  }
  map["pareto_front"] = Json::array();
  for (const std::size_t one : result.front) {
    map["pareto_front"].push_back(simulated_json(answer, result.simulated[one]));
  }
  map["knobs"] = knobs_json(answer);
  map["numbers"] = numbers_json(answer);
  map["search"] = counts_json(result);
  map["deepspeed_will"] = findings_json(answer);
  return json_text(map);
}

}  // namespace zenflow::tools
