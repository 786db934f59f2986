/// In which order training reads its samples: shuffled by seed, each once per epoch, endlessly.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace zenflow::runtime {

/// x mod n, or nothing if x >= 2^64 - 2^64 mod n: then uniform x give uniform results. n > 0.
[[nodiscard]] std::optional<std::uint64_t> uniform_remainder(std::uint64_t x, std::uint64_t n);

/// The permutation of [0, count) for an epoch, the same on every machine:
/// a std::mt19937_64, seeded with mix(mix(seed) + epoch), shuffles 0, 1, ..., count - 1 as Fisher
/// and Yates do: for i = count - 1, ..., 1, exchange elements i and below(i + 1), where below(n)
/// draws x until uniform_remainder(x, n) gives a value. mix is the output function of
/// SplitMix64 (Steele, Lea, Flood 2014): z = x + 0x9E3779B97F4A7C15;
/// z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9; z = (z ^ z >> 27) * 0x94D049BB133111EB; z ^ z >> 31.
/// Precondition: count < 2^32.
[[nodiscard]] std::vector<std::uint32_t> epoch_order(std::uint64_t count, std::uint64_t seed,
                                                     std::uint64_t epoch);

/// A permutation of [0, count) that is computed element by element: a Feistel network of eight
/// rounds over the least even number of bits that holds count - 1, whose left half takes
/// mix(key + round ^ right half) in each round, walked on from what is not below count (Black and
/// Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
class WalkingCipher {
 public:
  /// Precondition: 0 < count <= 2^62.
  WalkingCipher(std::uint64_t count, std::uint64_t key);
  /// Precondition: index < count.
  [[nodiscard]] std::uint64_t operator[](std::uint64_t index) const;

 private:
  std::uint64_t count_;
  std::uint64_t key_;
  unsigned half_bits_;
};

/// In which order an epoch takes its samples: up to kShuffledSamples that of epoch_order, which
/// costs 4 bytes a sample; of more that of a WalkingCipher with the key that seeds epoch_order.
class EpochOrder {
 public:
  static constexpr std::uint64_t kShuffledSamples = std::uint64_t{1} << 24U;
  EpochOrder(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);

  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
  /// Precondition: index < count.
  [[nodiscard]] std::uint64_t operator[](std::uint64_t index) const {
    return shuffled_.empty() ? cipher_[index] : shuffled_[static_cast<std::size_t>(index)];
  }

 private:
  std::uint64_t epoch_;
  WalkingCipher cipher_;
  std::vector<std::uint32_t> shuffled_;
};

/// How far all ranks together have read: what a checkpoint holds of the data.
struct DataPosition {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;  ///< samples of this epoch that have been taken, below count

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

/// One rank's share of an endless stream of samples. The stream is all of epoch 0, then all of
/// epoch 1, and so on. Of N micro-batches that follow each other, one a rank, rank r takes the one
/// after r others: what one rank has in its r-th. No sample is left out where an epoch ends. The
/// stream does not depend on the number of ranks or on the micro-batch, so a run may go on with
/// others.
class SampleStream {
 public:
  /// Throws Error(kInput) if there are no samples, or rank is not below ranks.
  SampleStream(std::uint64_t count, std::uint64_t seed, std::uint64_t rank, std::uint64_t ranks);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] DataPosition position() const { return position_; }
  /// Throws Error(kInput) if the index is not below count.
  void seek(DataPosition position);

  /// This rank's next micro-batch of `samples`; the position moves on by samples * ranks.
  [[nodiscard]] std::vector<std::uint64_t> next(std::uint64_t samples);

 private:
  std::uint64_t count_;
  std::uint64_t seed_;
  std::uint64_t rank_;
  std::uint64_t ranks_;
  DataPosition position_;
  EpochOrder order_;  // of the epoch of the sample that was taken last
};

}  // namespace zenflow::runtime
