#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "sim/accuracy/document.h"
#include "sim/base/median.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();
/// Computed from figures; `check` compares.
constexpr std::array kStatedErrors = {"step_error",  "stall_error",        "bytes_equal",
                                      "bytes_error", "spread_of_all_runs", "first_to_look_at"};
/// By how much two figures of a document may differ that are the same but for rounding.
constexpr double kSlack = 2e-6;

std::optional<double> number(MapReader& map, std::string_view key) {
  const auto value = map.optional(key);
  return value ? std::optional(value->number(-kLargest, kLargest)) : std::nullopt;
}

std::vector<double> read_times(MapReader& map, std::string_view key) {
  std::vector<double> times;
  if (const auto list = map.optional(key)) {
    for (const ValueReader& one : list->items()) times.push_back(one.number(0, kLargest));
  }
  return times;
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
        std::pair("memory", MetricGroup::kMemory), std::pair("phases_ms", MetricGroup::kPhase),
        std::pair("timers_ms", MetricGroup::kTimer)}) {
    if (auto part = map.optional_map(key)) {
      take(*part, group);
      part->reject_unknown_keys();
    }
  }
  figures.step_times = read_times(map, "step_times_ms");
  map.reject_unknown_keys();
  return figures;
}

/// The step of `map`, a side's figures, is what `times` make it.
void check_step(const MapReader& map, const StepFigures& figures, double expected,
                std::string_view times) {
  const std::optional<double> step = figures[Metric::kStep];
  if (step && std::abs(*step - expected) <= kSlack) return;
  map.fail(key_of(Metric::kStep), fmt::format("{} makes it {}, found {}", times, expected,
                                              step ? fmt::format("{}", *step) : "nothing"));
}

/// What is said of the runs has to follow from their times.
void check_runs(MapReader& map, const ComparedSetting& one) {
  if (!one.run_times.empty()) {
    check_step(map.require_map("measured"), one.measured, median(one.run_times),
               "the median of run_step_times_ms");
  }
  const std::vector<double>& steps = one.predicted.step_times;
  if (!steps.empty()) {
    const double sum = std::accumulate(steps.begin(), steps.end(), 0.0);
    check_step(map.require_map("predicted"), one.predicted, sum / static_cast<double>(steps.size()),
               "the mean of step_times_ms");
  }
  if (!one.earlier_run_times.empty() && one.run_times.empty()) {
    map.fail("earlier_run_step_times_ms", "expected run_step_times_ms beside it");
  }
  // There are documents without the times of runs that do not count.
  const std::int64_t known = std::ssize(one.run_times) + std::ssize(one.earlier_run_times);
  const bool are_all = !one.earlier_run_times.empty();
  if (one.runs && (*one.runs < known || (are_all && *one.runs != known))) {
    map.fail("runs", fmt::format("expected {}{}, of which there are step times, found {}",
                                 are_all ? "" : "at least ", known, *one.runs));
  }
}

ComparedSetting read_setting(const ValueReader& value) {
  MapReader map(value.node(), value.path());
  ComparedSetting one{.name = map.require("setting").string(),
                      .schedule = map.require("schedule").string(),
                      .calibrated = map.require("calibrated").boolean(),
                      .measured = read_figures(map.require_map("measured")),
                      .predicted = read_figures(map.require_map("predicted"))};
  for (const char* stated : kStatedErrors) map.ignore(stated);
  if (const auto runs = map.optional("runs")) {
    one.runs = runs->integer(1, std::numeric_limits<std::int32_t>::max());
  }
  one.run_times = read_times(map, "run_step_times_ms");
  one.earlier_run_times = read_times(map, "earlier_run_step_times_ms");
  one.spread = number(map, "spread");
  check_runs(map, one);
  map.reject_unknown_keys();
  return one;
}

/// Null: not judged.
std::optional<double> limit(MapReader& map, std::string_view key) {
  const ValueReader value = map.require(key);
  if (value.node().kind == Node::Kind::kNull) return std::nullopt;
  return value.number(0, kLargest);
}

Tolerance read_tolerance(MapReader map) {
  Tolerance tolerance;
  tolerance.mean_step = map.require("mean_step").number(0, kLargest);
  tolerance.worst_step = map.require("worst_step").number(0, kLargest);
  tolerance.worst_stall = limit(map, "worst_stall");
  tolerance.bytes = limit(map, "bytes");
  map.reject_unknown_keys();
  return tolerance;
}

/// Whether two documents' scalars say the same: numbers to within what rounding explains.
bool agree(const ValueReader& stated, const Node& computed) {
  const Node& node = stated.node();
  if (node.kind != computed.kind || node.quoted != computed.quoted) return false;
  if (node.scalar == computed.scalar) return true;
  const auto is_word = [](const Node& one) {
    return one.quoted || one.scalar == "true" || one.scalar == "false";
  };
  if (is_word(node) || is_word(computed)) return false;
  const double value = ValueReader(computed, stated.path()).number(-kLargest, kLargest);
  return std::abs(stated.number(-kLargest, kLargest) - value) <= kSlack;
}

/// Everything that is stated has to follow from the figures, `computed`.
void check(const ValueReader& stated, const Node& computed) {
  const Node& node = stated.node();
  const auto found = [&](const Node& one) {
    return one.is_scalar() ? one.scalar : "another value";
  };
  if (node.kind == computed.kind && node.is_map()) {
    for (const Node::Entry& entry : node.entries) {
      const ValueReader value(entry.value, stated.path() + "." + entry.key);
      const Node* other = computed.find(entry.key);
      if (other == nullptr) value.fail("stated, but the figures of this document do not tell it");
      check(value, *other);
    }
  } else if (node.kind == computed.kind && node.kind == Node::Kind::kSequence &&
             node.items.size() == computed.items.size()) {
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      check({node.items[i], fmt::format("{}[{}]", stated.path(), i)}, computed.items[i]);
    }
  } else if (!agree(stated, computed)) {
    stated.fail(fmt::format("the figures of this document make it {}, found {}", found(computed),
                            found(node)));
  }
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
  document.tolerance = read_tolerance(map.require_map("summary").require_map("tolerance"));
  map.reject_unknown_keys();
  judge(document);
  const Node computed = parse_json(document_json(document), file.generic_string());
  for (const char* part : {"results", "summary"}) {
    check({*root.find(part), part}, *computed.find(part));
  }
  return document;
}

}  // namespace zenflow::sim
