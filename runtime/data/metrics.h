/// The metrics of GLUE. Definitions as in scikit-learn and scipy.stats, in double precision.
/// Every function throws Error(kRuntime) if the spans differ in length or are empty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/glue_task.h"

namespace zenflow::runtime {

/// Share of predictions that equal the label.
[[nodiscard]] double accuracy(std::span<const std::int32_t> predictions,
                              std::span<const std::int32_t> labels);

/// 2 TP / (2 TP + FP + FN) of class 1; 0 if no label and no prediction is 1.
[[nodiscard]] double f1(std::span<const std::int32_t> predictions,
                        std::span<const std::int32_t> labels);

/// (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)) of classes 1 and 0; 0 if a factor
/// is 0, that is if predictions or labels are all the same. Throws Error(kRuntime) for other
/// classes.
[[nodiscard]] double matthews_correlation(std::span<const std::int32_t> predictions,
                                          std::span<const std::int32_t> labels);

/// Covariance over the product of standard deviations; NaN, undefined, if one of them is 0 or a
/// value is not finite.
[[nodiscard]] double pearson(std::span<const float> predictions, std::span<const float> labels);

/// Pearson's correlation of the ranks, where equal values share the mean of their ranks.
/// NaN as pearson.
[[nodiscard]] double spearman(std::span<const float> predictions, std::span<const float> labels);

struct MetricValue {
  GlueMetric metric;
  double value;
};

/// The task's metrics, in its order. The first is for tasks with classes, the second for those with
/// a score; Error(kRuntime) for the others.
[[nodiscard]] std::vector<MetricValue> evaluate(const GlueTaskInfo& task,
                                                std::span<const std::int32_t> predictions,
                                                std::span<const std::int32_t> labels);
[[nodiscard]] std::vector<MetricValue> evaluate(const GlueTaskInfo& task,
                                                std::span<const float> predictions,
                                                std::span<const float> labels);

}  // namespace zenflow::runtime
