#include "runtime/data/packed_sequences.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

PackedSequences::PackedSequences(TokenSource source, std::int64_t length,
                                 double validation_fraction)
    : source_(std::move(source)), length_(length) {
  if (length_ < 1) {
    throw Error(ErrorKind::kInput, fmt::format("sequence length {} is not positive", length_));
  }
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0)) {
    throw Error(ErrorKind::kInput,
                fmt::format("validation fraction {} is not in [0, 1)", validation_fraction));
  }
  const auto step = static_cast<std::uint64_t>(length_);
  sequences_ = source_.size() == 0 ? 0 : (source_.size() - 1) / step;
  const std::uint64_t needed = validation_fraction > 0.0 ? 2 : 1;
  if (sequences_ < needed) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: {} tokens are too few: {} sequence(s) of length {} need {}",
                            source_.path().generic_string(), source_.size(), needed, length_,
                            needed * step + 1));
  }
  if (needed == 1) return;
  const auto share =
      static_cast<std::uint64_t>(validation_fraction * static_cast<double>(sequences_));
  // At least one of each; the upper bound is for fractions that round to 1.
  validation_ = std::clamp<std::uint64_t>(share, 1, sequences_ - 1);
}

void PackedSequences::append_sequence(std::uint64_t index, TokenBatch& batch) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length_) + 1);
  source_.read(index * static_cast<std::uint64_t>(length_), tokens);
  batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end() - 1);
  batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
  ++batch.sequences;
}

TokenBatch PackedSequences::training_batch(std::span<const std::uint64_t> indices) const {
  TokenBatch batch;
  batch.length = length_;
  for (const std::uint64_t index : indices) {
    if (index >= training_count()) {
      throw Error(ErrorKind::kRuntime,
                  fmt::format("training sequence {} of {} was asked for", index, training_count()));
    }
    append_sequence(index, batch);
  }
  return batch;
}

TokenBatch PackedSequences::validation_batch(std::uint64_t first, std::uint64_t count) const {
  if (first > validation_ || count > validation_ - first) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("validation sequences {} to {} of {} were asked for", first,
                            first + count, validation_));
  }
  TokenBatch batch;
  batch.length = length_;
  for (std::uint64_t i = first; i < first + count; ++i) {
    append_sequence(training_count() + i, batch);
  }
  return batch;
}

}  // namespace zenflow::runtime
