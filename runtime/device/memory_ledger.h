/// What allocations of one kind of memory hold, by purpose.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/device/device.h"

namespace zenflow::runtime {

/// Every device keeps one for each MemoryKind. Any thread.
class MemoryLedger {
 public:
  /// Whether `bytes` more stay within `capacity`; if they do, they are held from now on.
  [[nodiscard]] bool try_hold(std::uint64_t bytes, std::string_view purpose,
                              std::uint64_t capacity);
  void give_back(std::uint64_t bytes, const std::string& purpose);

  [[nodiscard]] std::uint64_t held() const;
  /// "weights: 100, gradients: 20": what holds something now; "nothing" if nothing does.
  [[nodiscard]] std::string holders() const;
  [[nodiscard]] MemoryUse most() const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::uint64_t held_ = 0;
  std::map<std::string, std::uint64_t> by_purpose_;
  MemoryUse most_;
};

/// Bytes over the link. Any thread.
class TrafficLedger {
 public:
  void add(CopyDirection direction, Traffic kind, std::uint64_t bytes);
  [[nodiscard]] TrafficCount count() const;

 private:
  mutable std::mutex mutex_;  // guards count_
  TrafficCount count_;
};

}  // namespace zenflow::runtime
