/// Numbers of values that are kept once, found again by what they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zenflow::sim {

/// A hash table of numbers beside the values, which their owner keeps: copies are independent, and
/// no value is stored twice. Number 0 is the owner's for what is in every table and is not in here.
class NumberTable {
 public:
  /// Where the number of a value is, or belongs; 0 there: the value is new. `is_it(number)` says
  /// whether a known number is the value's. Valid until the next `make_room`.
  /// Precondition: `make_room` was called since the last number was put in.
  template <class IsIt>
  [[nodiscard]] std::uint32_t& place(std::size_t hash, const IsIt& is_it) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash & mask;
    while (slots_[slot] != 0 && !is_it(slots_[slot])) slot = (slot + 1) & mask;
    return slots_[slot];
  }

  /// Keeps a third free with one more than the numbers below `count`, of which `hash_of(number)`
  /// gives the hashes.
  template <class HashOf>
  void make_room(std::size_t count, const HashOf& hash_of) {
    if (3 * (count + 1) <= 2 * slots_.size()) return;
    constexpr std::size_t kFirst = 64;
    slots_.assign(slots_.empty() ? kFirst : 2 * slots_.size(), 0);
    const auto is_another = [](std::uint32_t) { return false; };
    for (std::uint32_t number = 1; number < count; ++number) {
      place(hash_of(number), is_another) = number;
    }
  }

 private:
  std::vector<std::uint32_t> slots_;  // 0: free. Its size is a power of two, at least a third free.
};

}  // namespace zenflow::sim
