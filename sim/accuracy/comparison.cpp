#include "sim/accuracy/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "sim/base/median.h"

namespace zenflow::sim {
namespace {

constexpr std::array kLinkDirections = {Metric::kD2HBytes, Metric::kH2DBytes};

}  // namespace

std::optional<double> ComparedSetting::bytes_error() const {
  std::optional<double> worst;
  for (const Metric metric : kLinkDirections) {
    if (const auto one = error(metric)) worst = std::max(worst.value_or(0), std::abs(*one));
  }
  return worst;
}

std::optional<bool> ComparedSetting::bytes_within(double tolerance) const {
  if (bytes_error().value_or(0) > tolerance) return false;
  for (const Metric metric : kLinkDirections) {
    if (!error(metric)) return std::nullopt;
  }
  return true;
}

std::vector<double> ComparedSetting::errors_in_window() const {
  const std::vector<double>& is = measured.step_times;
  const std::vector<double>& said = predicted.step_times;
  if (is.size() != said.size() || !measured[Metric::kStep]) return {};
  std::vector<double> errors;
  for (std::size_t i = 0; i < is.size(); ++i) {
    errors.push_back((said[i] - is[i]) / *measured[Metric::kStep]);
  }
  return errors;
}

std::optional<double> ComparedSetting::error(Metric metric) const {
  const std::optional<double>& is = measured[metric];
  const std::optional<double>& said = predicted[metric];
  if (!is || !said) return std::nullopt;
  const std::optional<double> of = is_share_of_step(metric) ? measured[Metric::kStep] : is;
  if (!of) return std::nullopt;
  if (*said == *is) return 0;
  if (*of == 0) return std::numeric_limits<double>::infinity();
  return (*said - *is) / *of;
}

bool is_share_of_step(Metric metric) {
  const MetricGroup group = group_of(metric);
  return metric == Metric::kStall || group == MetricGroup::kStallCause ||
         group == MetricGroup::kPhase || group == MetricGroup::kTimer;
}

std::optional<Metric> ComparedSetting::first_to_look_at() const {
  const std::optional<double> missed = error(Metric::kStep);
  if (!missed || std::abs(*missed) < kMissWorthALook) return std::nullopt;
  const bool has_timers = measured[Metric::kTimerStep].has_value();
  std::optional<Metric> most;
  for (const Metric metric : all_metrics()) {
    const MetricGroup group = group_of(metric);
    const bool tells = has_timers ? group == MetricGroup::kTimer
                                  : metric == Metric::kCompute || group == MetricGroup::kStallCause;
    const std::optional<double> off = tells ? error(metric) : std::nullopt;
    if (!off || *off * *missed <= 0) continue;  // what is off the other way makes up for it
    const auto in_step = [&](Metric one) { return std::abs(*predicted[one] - *measured[one]); };
    if (!most || in_step(metric) > in_step(*most)) most = metric;
  }
  return most;
}

namespace {

/// Sums up the errors that are given to it.
class ErrorSum {
 public:
  explicit ErrorSum(Metric metric) : sum_{metric, 0, 0, 0, ""} {}
  void add(const std::string& setting, const std::vector<double>& errors) {
    if (!errors.empty()) ++sum_.settings;
    for (const double error : errors) {
      ++errors_;
      sum_.mean += std::abs(error);
      if (sum_.worst_setting.empty() || std::abs(error) > std::abs(sum_.worst)) {
        sum_.worst = error;
        sum_.worst_setting = setting;
      }
    }
  }
  [[nodiscard]] std::optional<MetricError> take() {
    if (errors_ == 0) return std::nullopt;
    sum_.mean /= errors_;
    return sum_;
  }

 private:
  MetricError sum_;
  double errors_ = 0;
};

void add_metrics(const std::vector<ComparedSetting>& settings, ValidationSummary& all) {
  ErrorSum window_steps(Metric::kStep);
  for (const ComparedSetting& one : settings) {
    if (!one.calibrated) window_steps.add(one.name, one.errors_in_window());
  }
  all.window_steps = window_steps.take();
  for (const Metric metric : all_metrics()) {
    ErrorSum sum(metric);
    bool is_measured = false;
    bool is_there = false;
    for (const ComparedSetting& one : settings) {
      is_measured = is_measured || one.measured[metric].has_value();
      is_there = is_there || one.measured[metric].value_or(0) != 0 ||
                 one.predicted[metric].value_or(0) != 0;
      const std::optional<double> error = one.error(metric);
      if (!one.calibrated && error) sum.add(one.name, {*error});
    }
    const bool is_of_logs = group_of(metric) == MetricGroup::kTimer;
    if (!is_measured && !is_of_logs) all.not_told.push_back(metric);
    // What no setting has, measured or predicted, has no error worth a line.
    const auto errors = sum.take();
    if (errors && is_there) all.metrics.push_back(*errors);
  }
}

/// What both say: wrong if one is, else unknown if one is.
std::optional<bool> both(const std::optional<bool>& a, const std::optional<bool>& b) {
  if (a == false || b == false) return false;
  return a && b ? std::optional(true) : std::nullopt;
}

}  // namespace

ValidationSummary summarize(const std::vector<ComparedSetting>& settings,
                            const Tolerance& tolerance) {
  ValidationSummary all;
  add_metrics(settings, all);
  bool is_stall_told = true;
  all.bytes_equal = true;
  for (const ComparedSetting& one : settings) {
    all.worst_spread = std::max(all.worst_spread, one.spread.value_or(0));
    if (const auto bytes = one.bytes_error()) {
      all.worst_bytes_error = std::max(all.worst_bytes_error.value_or(0), *bytes);
    }
    all.bytes_equal = both(all.bytes_equal, one.bytes_within(tolerance.bytes.value_or(0)));
    if (one.calibrated) continue;
    ++all.predicted;
    is_stall_told = is_stall_told && one.error(Metric::kStall);
  }
  bool has_steps = false;
  for (const MetricError& one : all.metrics) {
    if (one.metric == Metric::kStep) {
      has_steps = true;
      all.mean_step_error = one.mean;
      all.worst_step_error = std::abs(one.worst);
    }
    if (one.metric == Metric::kStall && is_stall_told) all.worst_stall_error = std::abs(one.worst);
  }
  // Without any stall, measured or predicted, there is no error of it.
  if (has_steps && is_stall_told) all.worst_stall_error = all.worst_stall_error.value_or(0);
  const bool bytes_pass = !tolerance.bytes || all.bytes_equal.value_or(false);
  const bool stall_passes =
      !tolerance.worst_stall ||
      (all.worst_stall_error && *all.worst_stall_error <= *tolerance.worst_stall);
  all.too_noisy = all.worst_spread > tolerance.mean_step / 3;
  all.within = has_steps && bytes_pass && stall_passes &&
               all.mean_step_error <= tolerance.mean_step &&
               all.worst_step_error <= tolerance.worst_step;
  return all;
}

std::optional<double> ComparedSetting::spread_of_all() const {
  if (earlier_run_times.empty()) return std::nullopt;
  std::vector<double> all = earlier_run_times;
  all.insert(all.end(), run_times.begin(), run_times.end());
  return run_spread(std::move(all));
}

std::string ComparedSetting::runs_text() const {
  if (!runs) return "";
  const std::int64_t counted = std::ssize(run_times);
  if (counted == 0 || counted == *runs) return std::to_string(*runs);
  return fmt::format("newest {} of {}", counted, *runs);
}

std::string ComparedSetting::spread_text() const {
  if (!spread) return "";
  const std::optional<double> of_all = spread_of_all();
  return of_all ? fmt::format("{:.1f} % (all runs: {:.1f} %)", 100 * *spread, 100 * *of_all)
                : fmt::format("{:.1f} %", 100 * *spread);
}

double run_spread(std::vector<double> times) {
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  const double range = *most - *least;
  return range / median(std::move(times));
}

Tolerance tolerance_of(const ToleranceFlags& flags, MeasuredBy measured) {
  const bool is_gpu = measured == MeasuredBy::kGpu;
  const auto share = [](const std::string& text, const char* otherwise) -> std::optional<double> {
    const std::string given = text.empty() ? otherwise : text;
    return given == kNotJudged ? std::nullopt : std::optional(std::stod(given) / 100);
  };
  return {.mean_step = flags.tolerance.value_or(is_gpu ? 3 : 8) / 100,
          .worst_step = flags.worst.value_or(is_gpu ? 8 : 15) / 100,
          .worst_stall = share(flags.stall, is_gpu ? kNotJudged : "5"),
          .bytes = share(flags.bytes, measured == MeasuredBy::kHostDevice ? "0" : "0.1")};
}

}  // namespace zenflow::sim
