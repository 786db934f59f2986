/// Language modelling: a token file cut into sequences of one length, without padding.
#pragma once

#include <cstdint>

#include "runtime/data/sequences.h"
#include "runtime/data/token_source.h"

namespace zenflow::runtime {

/// Sequence i has tokens [i L, i L + L + 1): L inputs and the same shifted by one as targets, so
/// every token but the first of the file is a target exactly once; what is left over at the end,
/// fewer than L tokens, is not used.
class PackedSequences final : public Sequences {
 public:
  /// `length` is L. Throws Error(kInput), with the tokens that would be needed, if the file is too
  /// short for one training sequence (and one for validation, if the fraction asks for it), and as
  /// Sequences.
  PackedSequences(TokenSource source, std::int64_t length, double validation_fraction);

  [[nodiscard]] const TokenSource& source() const { return source_; }
  [[nodiscard]] Fingerprint fingerprint() const override { return source_.fingerprint(); }

 private:
  void append(std::uint64_t index, TokenBatch& batch) const override;

  TokenSource source_;
};

}  // namespace zenflow::runtime
