/// Which spans of a timeline: by their indices, in some order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace zenflow::sim {

/// A trace may have millions of spans of one kind, one after the other as the timeline has them:
/// indices that follow each other are kept as a range, which takes no memory.
class SpanIndices {
 public:
  /// `most`: how many there will be. A list that grows would for a moment take three times as much.
  explicit SpanIndices(std::size_t most = 0) : most_(most) {}

  [[nodiscard]] std::size_t size() const { return list_.empty() ? count_ : list_.size(); }
  [[nodiscard]] std::uint32_t operator[](std::size_t i) const {
    return list_.empty() ? first_ + static_cast<std::uint32_t>(i) : list_[i];
  }

  void push_back(std::uint32_t index) {
    if (list_.empty() && count_ == 0) first_ = index;
    if (list_.empty() && index == first_ + count_) {
      ++count_;
      return;
    }
    make_list();
    list_.push_back(index);
  }

  /// By `less` of two indices, which is a total order.
  template <class Less>
  void sort(const Less& less) {
    bool is_sorted = true;
    for (std::size_t i = 1; i < size() && is_sorted; ++i) {
      is_sorted = !less((*this)[i], (*this)[i - 1]);
    }
    if (is_sorted) return;
    make_list();
    std::sort(list_.begin(), list_.end(), less);
  }

  /// The place of the first index that `is_before` is false of; it is true of all before.
  template <class IsBefore>
  [[nodiscard]] std::size_t partition_point(const IsBefore& is_before) const {
    std::size_t low = 0;
    std::size_t high = size();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (is_before((*this)[middle])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

 private:
  void make_list() {
    if (!list_.empty() || count_ == 0) return;
    list_.reserve(std::max<std::size_t>(most_, count_));
    list_.resize(count_);
    std::iota(list_.begin(), list_.end(), first_);
  }

  std::size_t most_;
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;  // of the range, unless there is a list
  std::vector<std::uint32_t> list_;
};

}  // namespace zenflow::sim
