#include "sim/trace/span_extras.h"

#include <bit>

namespace zenflow::sim {
namespace {

std::size_t hash_of(const SpanExtra& extra) {
  // Mixes as SplitMix64 does (Steele, Lea, Flood 2014): sizes and steps differ in few bits.
  std::uint64_t hash = 0;
  const auto add = [&hash](std::uint64_t value) {
    hash += value + 0x9E3779B97F4A7C15U;
    hash = (hash ^ (hash >> 30U)) * 0xBF58476D1CE4E5B9U;
    hash = (hash ^ (hash >> 27U)) * 0x94D049BB133111EBU;
    hash ^= hash >> 31U;
  };
  add(std::bit_cast<std::uint64_t>(extra.bytes + 0.0));  // -0 and 0 are equal
  add(static_cast<std::uint64_t>(extra.stalled.count));
  add((static_cast<std::uint64_t>(extra.cause) << 32U) | static_cast<std::uint32_t>(extra.step));
  add((static_cast<std::uint64_t>(static_cast<std::uint32_t>(extra.index)) << 32U) |
      static_cast<std::uint32_t>(extra.detail));
  return static_cast<std::size_t>(hash);
}

}  // namespace

ExtraId SpanExtras::intern(const SpanExtra& extra) {
  if (extra == SpanExtra{}) return kNoExtra;
  numbers_.make_room(extras_.size(), [&](ExtraId id) { return hash_of(extras_[id]); });
  ExtraId& id = numbers_.place(hash_of(extra), [&](ExtraId one) { return extras_[one] == extra; });
  if (id == kNoExtra) {
    id = static_cast<ExtraId>(extras_.size());
    extras_.push_back(extra);
  }
  return id;
}

}  // namespace zenflow::sim
