#include <algorithm>
#include <limits>

#include "sim/accuracy/document.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

std::optional<double> number(MapReader& map, std::string_view key) {
  const auto value = map.optional(key);
  return value ? std::optional(value->number(-kLargest, kLargest)) : std::nullopt;
}

/// Null: relative to nothing.
double share(MapReader& map, std::string_view key) {
  return number(map, key).value_or(std::numeric_limits<double>::infinity());
}

StepFigures read_figures(MapReader map) {
  StepFigures figures;
  const auto take = [&](MapReader& from, MetricGroup group) {
    for (const Metric metric : all_metrics()) {
      if (group_of(metric) == group) figures[metric] = number(from, key_of(metric));
    }
  };
  take(map, MetricGroup::kStep);
  take(map, MetricGroup::kTraffic);
  for (const auto& [key, group] :
       {std::pair("stall_by_cause_ms", MetricGroup::kStallCause),
        std::pair("memory", MetricGroup::kMemory), std::pair("phases_ms", MetricGroup::kPhase)}) {
    if (auto part = map.optional_map(key)) {
      take(*part, group);
      part->reject_unknown_keys();
    }
  }
  if (const auto steps = map.optional("step_times_ms")) {
    for (const ValueReader& one : steps->items()) {
      figures.step_times.push_back(one.number(0, kLargest));
    }
  }
  map.reject_unknown_keys();
  return figures;
}

ComparedSetting read_setting(const ValueReader& value) {
  MapReader map(value.node(), value.path());
  ComparedSetting one{.name = map.require("setting").string(),
                      .schedule = map.require("schedule").string(),
                      .calibrated = map.require("calibrated").boolean(),
                      .measured = read_figures(map.require_map("measured")),
                      .predicted = read_figures(map.require_map("predicted"))};
  one.stated_step_error = number(map, "step_error");
  one.stated_stall_error = number(map, "stall_error");
  if (const auto equal = map.optional("bytes_equal")) one.stated_bytes_equal = equal->boolean();
  map.ignore("bytes_error");
  if (const auto runs = map.optional("runs")) {
    one.runs = runs->integer(1, std::numeric_limits<std::int32_t>::max());
  }
  one.spread = number(map, "spread");
  map.reject_unknown_keys();
  return one;
}

Metric metric_named(const ValueReader& value) {
  const std::string path = value.string();
  for (const Metric metric : all_metrics()) {
    if (path_of(metric) == path) return metric;
  }
  value.fail("expected a metric's name, found \"" + path + "\"");
}

MetricError read_metric(const ValueReader& value) {
  MapReader map(value.node(), value.path());
  MetricError one{metric_named(map.require("metric")),
                  map.require("settings").integer(1, std::numeric_limits<std::int32_t>::max()),
                  share(map, "mean_error"), share(map, "worst_error"),
                  map.require("worst_setting").string()};
  map.ignore("of");
  map.reject_unknown_keys();
  return one;
}

Tolerance read_tolerance(MapReader map) {
  Tolerance tolerance;
  tolerance.mean_step = map.require("mean_step").number(0, kLargest);
  tolerance.worst_step = map.require("worst_step").number(0, kLargest);
  tolerance.worst_stall = map.require("worst_stall").number(0, kLargest);
  tolerance.bytes = map.number_or("bytes", 0, 0, kLargest);
  map.reject_unknown_keys();
  return tolerance;
}

void read_summary(MapReader map, ValidationDocument& document) {
  ValidationSummary& summary = document.summary;
  summary.predicted = map.require("predicted").integer(0, std::numeric_limits<std::int32_t>::max());
  summary.mean_step_error = share(map, "mean_step_error");
  summary.worst_step_error = share(map, "worst_step_error");
  summary.worst_stall_error = number(map, "worst_stall_error");
  summary.worst_bytes_error = number(map, "worst_bytes_error");
  summary.bytes_equal = map.require("bytes_equal").boolean();
  summary.worst_spread = number(map, "worst_spread").value_or(0);
  summary.too_noisy = map.require("too_noisy").boolean();
  summary.within = map.require("within_tolerance").boolean();
  document.tolerance = read_tolerance(map.require_map("tolerance"));
  if (const auto metrics = map.optional("metrics")) {
    for (const ValueReader& one : metrics->items()) summary.metrics.push_back(read_metric(one));
  }
  if (const auto steps = map.optional("steps_of_window"))
    summary.window_steps = read_metric(*steps);
  if (const auto not_told = map.optional("not_told")) {
    for (const ValueReader& one : not_told->items()) {
      summary.not_told.push_back(metric_named(one));
    }
  }
  map.reject_unknown_keys();
}

}  // namespace

ValidationDocument read_document(const std::filesystem::path& file) {
  const Node root = load_document(file);
  MapReader map(root, "");
  if (map.require("tool").string() != "zenflow-validate") {
    map.fail("tool", "expected what zenflow-validate --json prints");
  }
  (void)map.require("schema_version").integer(1, 1);
  ValidationDocument document;
  document.version = map.require("version").string();
  document.scenario = map.require("scenario").string();
  document.origin.device = map.require("device").string();
  document.origin.date = map.require("date").string();
  document.origin.machine = map.require("machine").string();
  document.origin.command = map.require("command").string();
  for (const ValueReader& one : map.require("remarks").items()) {
    document.origin.remarks.push_back(one.string());
  }
  map.ignore("numbers");
  for (const ValueReader& one : map.require("results").items()) {
    document.settings.push_back(read_setting(one));
  }
  read_summary(map.require_map("summary"), document);
  map.reject_unknown_keys();
  return document;
}

}  // namespace zenflow::sim
