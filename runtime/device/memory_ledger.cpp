#include "runtime/device/memory_ledger.h"

#include <algorithm>

#include <fmt/format.h>

namespace zenflow::runtime {

bool MemoryLedger::try_hold(std::uint64_t bytes, std::string_view purpose, std::uint64_t capacity) {
  const std::lock_guard lock(mutex_);
  if (bytes > capacity - std::min(capacity, held_)) return false;
  held_ += bytes;
  by_purpose_[std::string(purpose)] += bytes;
  ++most_.allocations;
  if (held_ > most_.peak) {
    most_.peak = held_;
    most_.by_purpose = by_purpose_;
  }
  return true;
}

void MemoryLedger::give_back(std::uint64_t bytes, const std::string& purpose) {
  const std::lock_guard lock(mutex_);
  held_ -= bytes;
  by_purpose_[purpose] -= bytes;
}

std::uint64_t MemoryLedger::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

std::string MemoryLedger::holders() const {
  const std::lock_guard lock(mutex_);
  std::string holders;
  for (const auto& [name, held] : by_purpose_) {
    if (held > 0) holders += fmt::format("{}{}: {}", holders.empty() ? "" : ", ", name, held);
  }
  return holders.empty() ? "nothing" : holders;
}

MemoryUse MemoryLedger::most() const {
  const std::lock_guard lock(mutex_);
  return most_;
}

void TrafficLedger::add(CopyDirection direction, Traffic kind, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& count = direction == CopyDirection::kHostToDevice ? count_.h2d : count_.d2h;
  count.at(static_cast<std::size_t>(kind)) += bytes;
}

TrafficCount TrafficLedger::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace zenflow::runtime
