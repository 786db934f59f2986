#include "runtime/model/loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace zenflow::runtime {
namespace {

RowLoss row_loss(const float* logits, std::int64_t classes, std::int32_t target) {
  const float* const largest = std::max_element(logits, logits + classes);
  double sum = 0.0;
  for (std::int64_t c = 0; c < classes; ++c) {
    sum += static_cast<double>(std::exp(logits[c] - *largest));
  }
  RowLoss row;
  row.log_sum_exp = static_cast<double>(*largest) + std::log(sum);
  if (target == kIgnoredTarget) return row;
  row.loss = row.log_sum_exp - static_cast<double>(logits[target]);
  row.is_correct = largest - logits == target;
  return row;
}

}  // namespace

void cross_entropy(const Execution& run, std::int64_t classes, const float* logits,
                   std::span<const std::int32_t> targets, std::span<RowLoss> rows) {
  for_ranges(run.pool, static_cast<std::int64_t>(rows.size()), rows_per_block(classes),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t r = first; r < last; ++r) {
                 const auto i = static_cast<std::size_t>(r);
                 rows[i] = row_loss(logits + r * classes, classes, targets[i]);
               }
             });
}

void cross_entropy_gradient(const Execution& run, std::int64_t classes, double weight,
                            std::span<const std::int32_t> targets, std::span<const RowLoss> rows,
                            float* logits) {
  const Rounding rounded = run.rounding();
  const auto scale = static_cast<float>(weight);
  for_ranges(run.pool, static_cast<std::int64_t>(rows.size()), rows_per_block(classes),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t r = first; r < last; ++r) {
                 const auto i = static_cast<std::size_t>(r);
                 float* const row = logits + r * classes;
                 if (targets[i] == kIgnoredTarget) {
                   std::fill_n(row, classes, 0.0F);
                   continue;
                 }
                 for (std::int64_t c = 0; c < classes; ++c) {
                   const auto exponent =
                       static_cast<float>(static_cast<double>(row[c]) - rows[i].log_sum_exp);
                   const float one_hot = c == targets[i] ? 1.0F : 0.0F;
                   row[c] = rounded((std::exp(exponent) - one_hot) * scale);
                 }
               }
             });
}

double mean_squared_error(std::span<const float> outputs, std::span<const float> values) {
  double sum = 0.0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double error = static_cast<double>(outputs[i]) - static_cast<double>(values[i]);
    sum += error * error;
  }
  return sum / static_cast<double>(outputs.size());
}

void mean_squared_error_gradient(const Execution& run, double weight, std::span<float> outputs,
                                 std::span<const float> values) {
  const Rounding rounded = run.rounding();
  const auto scale = 2.0 * weight / static_cast<double>(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const double error = static_cast<double>(outputs[i]) - static_cast<double>(values[i]);
    outputs[i] = rounded(static_cast<float>(error * scale));
  }
}

}  // namespace zenflow::runtime
