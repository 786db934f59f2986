#include "runtime/data/sequences.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

Sequences::Sequences(std::int64_t length, double validation_fraction)
    : length_(length), validation_fraction_(validation_fraction) {
  if (length_ < 1) {
    throw Error(ErrorKind::kInput, fmt::format("sequence length {} is not positive", length_));
  }
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0)) {
    throw Error(ErrorKind::kInput,
                fmt::format("validation fraction {} is not in [0, 1)", validation_fraction));
  }
}

void Sequences::divide(std::uint64_t sequences) {
  sequences_ = sequences;
  if (needed() == 1) return;
  const auto share =
      static_cast<std::uint64_t>(validation_fraction_ * static_cast<double>(sequences_));
  // At least one of each; the upper bound is for fractions that round to 1.
  validation_ = std::clamp<std::uint64_t>(share, 1, sequences_ - 1);
}

TokenBatch Sequences::training_batch(std::span<const std::uint64_t> indices) const {
  TokenBatch batch;
  batch.length = length_;
  for (const std::uint64_t index : indices) {
    if (index >= training_count()) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("training sequence {} of {} was asked for", index, training_count()));
    }
    append(index, batch);
    ++batch.sequences;
  }
  return batch;
}

TokenBatch Sequences::validation_batch(std::uint64_t first, std::uint64_t count) const {
  if (first > validation_ || count > validation_ - first) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("validation sequences {} to {} of {} were asked for", first,
                            first + count, validation_));
  }
  TokenBatch batch;
  batch.length = length_;
  for (std::uint64_t i = first; i < first + count; ++i) {
    append(training_count() + i, batch);
    ++batch.sequences;
  }
  return batch;
}

}  // namespace zenflow::runtime
