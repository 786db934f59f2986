/// What training minimises: cross-entropy over classes, or the mean squared error of a regression.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/model/numerics.h"

namespace zenflow::runtime {

/// A target that does not count, as in PyTorch and Hugging Face.
inline constexpr std::int32_t kIgnoredTarget = -100;

/// Kept of each row by `cross_entropy`.
struct RowLoss {
  double log_sum_exp = 0.0;  ///< of the row's logits; fp32 exponentials, maximum subtracted
  double loss = 0.0;         ///< log_sum_exp - logit of the target; 0 if ignored
  bool is_correct = false;   ///< the target has the largest logit (of equal ones, is the first)
};

/// rows[r] for logits[rows.size(), classes] and targets[rows.size()], each a class or ignored.
void cross_entropy(const Execution& run, std::int64_t classes, const float* logits,
                   std::span<const std::int32_t> targets, std::span<RowLoss> rows);

/// logits become the gradients of weight * (sum of losses): weight * (softmax - one-hot), 0 for
/// ignored rows. `rows` are those of the same logits.
void cross_entropy_gradient(const Execution& run, std::int64_t classes, double weight,
                            std::span<const std::int32_t> targets, std::span<const RowLoss> rows,
                            float* logits);

/// Mean of (output - value)^2; outputs become the gradients of weight times it.
[[nodiscard]] double mean_squared_error(std::span<const float> outputs,
                                        std::span<const float> values);
void mean_squared_error_gradient(const Execution& run, double weight, std::span<float> outputs,
                                 std::span<const float> values);

}  // namespace zenflow::runtime
