/// Whether a batch is one that a model can be trained on.
#pragma once

#include <cstdint>

#include "runtime/model/transformer.h"

namespace zenflow::runtime {

struct BatchLimits {
  std::int64_t max_sequences;
  std::int64_t max_length;
};

/// Throws Error(kInput) if sequences of `length` exceed the model's positions or sliding window.
void check_length(const TransformerConfig& config, std::int64_t length);

/// Throws Error(kInput) with the place of what is wrong.
void check_batch(const Batch& batch, const TransformerConfig& config, BatchLimits limits);

}  // namespace zenflow::runtime
