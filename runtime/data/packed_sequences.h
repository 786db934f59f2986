/// Language modelling: a token file cut into sequences of one length, without padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/token_source.h"

namespace zenflow::runtime {

/// [sequences, length], row-major: targets[i] is the token that follows inputs[i].
struct TokenBatch {
  std::int64_t sequences = 0;
  std::int64_t length = 0;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
};

/// Sequence i has tokens [i L, i L + L + 1): L inputs and the same shifted by one as targets, so
/// every token but the first of the file is a target exactly once; what is left over at the end,
/// fewer than L tokens, is not used. Of n sequences the last ones are for validation:
/// floor(fraction n) of them, but at least one if the fraction is positive. Training never sees
/// their targets.
class PackedSequences {
 public:
  /// `length` is L. Throws Error(kInput), with the tokens that would be needed, if the file is too
  /// short for one training sequence (and one for validation, if the fraction asks for it), or the
  /// fraction is not in [0, 1).
  PackedSequences(TokenSource source, std::int64_t length, double validation_fraction);

  [[nodiscard]] const TokenSource& source() const { return source_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::uint64_t training_count() const { return sequences_ - validation_; }
  [[nodiscard]] std::uint64_t validation_count() const { return validation_; }

  /// Training sequences by index, as SampleStream gives them. Throws as TokenSource::read.
  [[nodiscard]] TokenBatch training_batch(std::span<const std::uint64_t> indices) const;
  /// Validation sequences [first, first + count), in the order of the file.
  [[nodiscard]] TokenBatch validation_batch(std::uint64_t first, std::uint64_t count) const;

 private:
  void append_sequence(std::uint64_t index, TokenBatch& batch) const;

  TokenSource source_;
  std::int64_t length_;
  std::uint64_t sequences_ = 0;
  std::uint64_t validation_ = 0;
};

}  // namespace zenflow::runtime
