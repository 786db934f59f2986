/// Sequences of one length for language modelling, the last ones of which are for validation.
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

/// Of n sequences the last ones are for validation: floor(fraction n) of them, but at least one if
/// the fraction is positive. Training never sees their targets.
class Sequences {
 public:
  virtual ~Sequences() = default;

  [[nodiscard]] virtual Fingerprint fingerprint() const = 0;
  /// Whether some targets do not count.
  [[nodiscard]] virtual bool has_labels() const { return false; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::uint64_t training_count() const { return sequences_ - validation_; }
  [[nodiscard]] std::uint64_t validation_count() const { return validation_; }

  /// Training sequences by index, as SampleStream gives them. Throws as TokenSource::read.
  [[nodiscard]] TokenBatch training_batch(std::span<const std::uint64_t> indices) const;
  /// Validation sequences [first, first + count), in the order of the file.
  [[nodiscard]] TokenBatch validation_batch(std::uint64_t first, std::uint64_t count) const;

 protected:
  /// Throws Error(kInput) if the length is not positive or the fraction is not in [0, 1).
  Sequences(std::int64_t length, double validation_fraction);
  Sequences(Sequences&&) = default;
  Sequences& operator=(Sequences&&) = default;

  /// How many a file has to have: one, and another one for validation.
  [[nodiscard]] std::uint64_t needed() const { return validation_fraction_ > 0.0 ? 2 : 1; }
  /// How many it has. Precondition: as many as needed.
  void divide(std::uint64_t sequences);
  virtual void append(std::uint64_t index, TokenBatch& batch) const = 0;

 private:
  std::int64_t length_;
  double validation_fraction_;
  std::uint64_t sequences_ = 0;
  std::uint64_t validation_ = 0;
};

}  // namespace zenflow::runtime
