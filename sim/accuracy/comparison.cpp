#include "sim/accuracy/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zenflow::sim {

std::optional<double> ComparedSetting::step_error() const {
  return stated_step_error ? stated_step_error : error(Metric::kStep);
}

std::optional<double> ComparedSetting::stall_error() const {
  return stated_stall_error ? stated_stall_error : error(Metric::kStall);
}

std::optional<double> ComparedSetting::bytes_error() const {
  if (stated_bytes_equal && *stated_bytes_equal) return 0;
  std::optional<double> worst;
  for (const Metric metric : {Metric::kD2HBytes, Metric::kH2DBytes}) {
    if (const auto one = error(metric)) worst = std::max(worst.value_or(0), std::abs(*one));
  }
  return worst;
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
         group == MetricGroup::kPhase;
}

namespace {

std::optional<double> error_of(const ComparedSetting& one, Metric metric) {
  if (metric == Metric::kStep) return one.step_error();
  if (metric == Metric::kStall) return one.stall_error();
  return one.error(metric);
}

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
    bool is_told = false;
    bool is_there = false;
    for (const ComparedSetting& one : settings) {
      is_told = is_told || one.measured[metric].has_value();
      is_there = is_there || one.measured[metric].value_or(0) != 0 ||
                 one.predicted[metric].value_or(0) != 0;
      const std::optional<double> error = error_of(one, metric);
      if (!one.calibrated && error) sum.add(one.name, {*error});
    }
    if (!is_told) all.not_told.push_back(metric);
    // What no setting has, measured or predicted, has no error worth a line.
    const auto errors = sum.take();
    if (errors && is_there) all.metrics.push_back(*errors);
  }
}

}  // namespace

ValidationSummary summarize(const std::vector<ComparedSetting>& settings,
                            const Tolerance& tolerance) {
  ValidationSummary all;
  add_metrics(settings, all);
  for (const ComparedSetting& one : settings) {
    all.worst_spread = std::max(all.worst_spread, one.spread.value_or(0));
    const std::optional<double> bytes = one.bytes_error();
    if (bytes) all.worst_bytes_error = std::max(all.worst_bytes_error.value_or(0), *bytes);
    if (!one.calibrated) ++all.predicted;
  }
  bool has_steps = false;
  for (const MetricError& one : all.metrics) {
    if (one.metric == Metric::kStep) {
      has_steps = true;
      all.mean_step_error = one.mean;
      all.worst_step_error = std::abs(one.worst);
    }
    if (one.metric == Metric::kStall) all.worst_stall_error = std::abs(one.worst);
  }
  all.bytes_equal = all.worst_bytes_error.value_or(0) <= tolerance.bytes;
  all.too_noisy = all.worst_spread > tolerance.mean_step / 3;
  all.within = has_steps && all.bytes_equal && all.mean_step_error <= tolerance.mean_step &&
               all.worst_step_error <= tolerance.worst_step &&
               all.worst_stall_error.value_or(0) <= tolerance.worst_stall;
  return all;
}

double middle_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double median = (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
  const std::size_t quarter = values.size() / 4;
  return (values[values.size() - 1 - quarter] - values[quarter]) / 2 / median;
}

}  // namespace zenflow::sim
