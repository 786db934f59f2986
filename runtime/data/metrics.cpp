#include "runtime/data/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kRuntime, what);
}

void check_sizes(std::size_t predictions, std::size_t labels) {
  if (predictions == labels && labels > 0) return;
  fail(fmt::format("metric of {} predictions and {} labels", predictions, labels));
}

/// Counts as doubles: their products exceed 64 bits.
struct Confusion {
  double true_positive = 0;
  double false_positive = 0;
  double false_negative = 0;
  double true_negative = 0;
};

Confusion confusion(std::span<const std::int32_t> predictions,
                    std::span<const std::int32_t> labels) {
  Confusion counts;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool predicted = predictions[i] == 1;
    const bool actual = labels[i] == 1;
    double& count = predicted ? (actual ? counts.true_positive : counts.false_positive)
                              : (actual ? counts.false_negative : counts.true_negative);
    ++count;
  }
  return counts;
}

double correlation(std::span<const double> x, std::span<const double> y) {
  const auto count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xx = 0.0;
  double yy = 0.0;
  double xy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  // Equal values have a mean that may differ from them by rounding: their deviations say nothing.
  const auto is_constant = [](std::span<const double> values) {
    return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
  };
  if (is_constant(x) || is_constant(y)) return kUndefined;
  // Rounding may leave [-1, 1] by an ulp. Passes NaN on.
  const double r = xy / (std::sqrt(xx) * std::sqrt(yy));
  return r > 1.0 ? 1.0 : (r < -1.0 ? -1.0 : r);
}

/// From 1; equal values share the mean of the ranks that they take together.
std::vector<double> ranks(std::span<const float> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = static_cast<double>(begin + 1 + end) / 2.0;
    for (std::size_t i = begin; i < end; ++i) result[order[i]] = shared;
    begin = end;
  }
  return result;
}

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

double accuracy(std::span<const std::int32_t> predictions, std::span<const std::int32_t> labels) {
  check_sizes(predictions.size(), labels.size());
  std::size_t correct = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) correct += predictions[i] == labels[i] ? 1U : 0U;
  return static_cast<double>(correct) / static_cast<double>(labels.size());
}

double f1(std::span<const std::int32_t> predictions, std::span<const std::int32_t> labels) {
  check_sizes(predictions.size(), labels.size());
  const Confusion c = confusion(predictions, labels);
  const double denominator = 2.0 * c.true_positive + c.false_positive + c.false_negative;
  return denominator == 0.0 ? 0.0 : 2.0 * c.true_positive / denominator;
}

double matthews_correlation(std::span<const std::int32_t> predictions,
                            std::span<const std::int32_t> labels) {
  check_sizes(predictions.size(), labels.size());
  const auto is_binary = [](std::int32_t value) { return value == 0 || value == 1; };
  if (!std::ranges::all_of(predictions, is_binary) || !std::ranges::all_of(labels, is_binary)) {
    fail("Matthews correlation of classes other than 0 and 1");
  }
  const Confusion c = confusion(predictions, labels);
  const double denominator = std::sqrt(c.true_positive + c.false_positive) *
                             std::sqrt(c.true_positive + c.false_negative) *
                             std::sqrt(c.true_negative + c.false_positive) *
                             std::sqrt(c.true_negative + c.false_negative);
  if (denominator == 0.0) return 0.0;
  return (c.true_positive * c.true_negative - c.false_positive * c.false_negative) / denominator;
}

double pearson(std::span<const float> predictions, std::span<const float> labels) {
  check_sizes(predictions.size(), labels.size());
  if (!is_finite(predictions) || !is_finite(labels)) return kUndefined;
  return correlation(std::vector<double>(predictions.begin(), predictions.end()),
                     std::vector<double>(labels.begin(), labels.end()));
}

double spearman(std::span<const float> predictions, std::span<const float> labels) {
  check_sizes(predictions.size(), labels.size());
  if (!is_finite(predictions) || !is_finite(labels)) return kUndefined;
  return correlation(ranks(predictions), ranks(labels));
}

std::vector<MetricValue> evaluate(const GlueTaskInfo& task,
                                  std::span<const std::int32_t> predictions,
                                  std::span<const std::int32_t> labels) {
  std::vector<MetricValue> values;
  for (const GlueMetric metric : task.metrics) {
    switch (metric) {
      case GlueMetric::kAccuracy:
        values.push_back({metric, accuracy(predictions, labels)});
        break;
      case GlueMetric::kF1:
        values.push_back({metric, f1(predictions, labels)});
        break;
      case GlueMetric::kMatthews:
        values.push_back({metric, matthews_correlation(predictions, labels)});
        break;
      case GlueMetric::kPearson:
      case GlueMetric::kSpearman:
        fail(fmt::format("{} has scores, not classes", task.name));
    }
  }
  return values;
}

std::vector<MetricValue> evaluate(const GlueTaskInfo& task, std::span<const float> predictions,
                                  std::span<const float> labels) {
  std::vector<MetricValue> values;
  for (const GlueMetric metric : task.metrics) {
    switch (metric) {
      case GlueMetric::kPearson:
        values.push_back({metric, pearson(predictions, labels)});
        break;
      case GlueMetric::kSpearman:
        values.push_back({metric, spearman(predictions, labels)});
        break;
      case GlueMetric::kAccuracy:
      case GlueMetric::kF1:
      case GlueMetric::kMatthews:
        fail(fmt::format("{} has classes, not scores", task.name));
    }
  }
  return values;
}

}  // namespace zenflow::runtime
