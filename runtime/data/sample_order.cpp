#include "runtime/data/sample_order.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"

namespace zenflow::runtime {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

std::uint64_t key_of(std::uint64_t seed, std::uint64_t epoch) {
  return mix(mix(seed) + epoch);
}

/// `count`, if there are samples and a rank of this number to take them.
std::uint64_t checked(std::uint64_t count, std::uint64_t rank, std::uint64_t ranks) {
  if (count == 0) throw Error(ErrorKind::kInput, "no training samples");
  if (rank >= ranks) {
    throw Error(ErrorKind::kInput, fmt::format("there is no rank {} of {}", rank, ranks));
  }
  return count;
}

}  // namespace

std::optional<std::uint64_t> uniform_remainder(std::uint64_t x, std::uint64_t n) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t remainder = (kMax % n + 1) % n;  // 2^64 mod n
  return x <= kMax - remainder ? std::optional(x % n) : std::nullopt;
}

std::vector<std::uint32_t> epoch_order(std::uint64_t count, std::uint64_t seed,
                                       std::uint64_t epoch) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937_64 random(key_of(seed, epoch));
  constexpr std::size_t kBetweenQuestions = 1 << 20;
  for (std::size_t i = order.size(); i > 1; --i) {
    if (i % kBetweenQuestions == 0) throw_if_stopped();
    // Not std::uniform_int_distribution, which every library defines for itself.
    std::optional<std::uint64_t> other;
    while (!other) other = uniform_remainder(random(), i);
    std::swap(order[i - 1], order[static_cast<std::size_t>(*other)]);
  }
  return order;
}

WalkingCipher::WalkingCipher(std::uint64_t count, std::uint64_t key)
    : count_(count),
      key_(key),
      half_bits_(std::max(1U, (static_cast<unsigned>(std::bit_width(count - 1)) + 1) / 2)) {}

std::uint64_t WalkingCipher::operator[](std::uint64_t index) const {
  constexpr std::uint64_t kRounds = 8;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      left ^= mix((key_ + round) ^ right) & mask;
      std::swap(left, right);
    }
    index = (left << half_bits_) | right;
  } while (index >= count_);
  return index;
}

EpochOrder::EpochOrder(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch)
    : epoch_(epoch), cipher_(count, key_of(seed, epoch)) {
  if (count <= kShuffledSamples) shuffled_ = epoch_order(count, seed, epoch);
}

SampleStream::SampleStream(std::uint64_t count, std::uint64_t seed, std::uint64_t rank,
                           std::uint64_t ranks)
    : count_(checked(count, rank, ranks)),
      seed_(seed),
      rank_(rank),
      ranks_(ranks),
      order_(count, seed, 0) {}

void SampleStream::seek(DataPosition position) {
  if (position.index >= count_) {
    throw Error(ErrorKind::kInput,
                fmt::format("data position {} is not within the {} training samples",
                            position.index, count_));
  }
  position_ = position;
}

std::vector<std::uint64_t> SampleStream::next(std::uint64_t samples) {
  std::vector<std::uint64_t> taken;
  taken.reserve(static_cast<std::size_t>(samples));
  const auto advance = [this](DataPosition& position, std::uint64_t by) {
    const std::uint64_t rest = count_ - position.index;
    if (by < rest) {
      position.index += by;
      return;
    }
    position.epoch += 1 + (by - rest) / count_;
    position.index = (by - rest) % count_;
  };
  DataPosition mine = position_;
  advance(mine, rank_ * samples);
  for (std::uint64_t i = 0; i < samples; ++i) {
    if (mine.epoch != order_.epoch()) order_ = EpochOrder(count_, seed_, mine.epoch);
    taken.push_back(order_[mine.index]);
    advance(mine, 1);
  }
  advance(position_, samples * ranks_);
  return taken;
}

}  // namespace zenflow::runtime
