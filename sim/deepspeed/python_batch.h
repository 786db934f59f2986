/// DeepSpeed's batch arithmetic as Python computes it, whatever numbers the file holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/config/document.h"

namespace zenflow::sim {

/// train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps as written;
/// nullptr: absent or null.
struct BatchNodes {
  const Node* train = nullptr;
  const Node* micro = nullptr;
  const Node* steps = nullptr;
};

/// The three sizes after DeepSpeed has filled in what is missing, as Python prints them.
struct BatchOutcome {
  std::string train;
  std::string micro;
  std::string steps;
  std::string due;     ///< micro x steps x ranks, each at least 1; empty if nothing follows
  bool holds = false;  ///< all positive, and train = micro x steps x ranks
};

/// Nothing if the outcome is an error of another kind: no size is given (ZF090), or one is not a
/// number. Whole numbers are exact. Where Python cannot make a float of one, nothing holds.
/// Source: deepspeed/runtime/config.py _set_batch_related_parameters, _batch_assertion.
[[nodiscard]] std::optional<BatchOutcome> complete_batch(const BatchNodes& written,
                                                         std::int64_t ranks);

}  // namespace zenflow::sim
