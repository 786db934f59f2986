/// Which operation a thread was launching when: what joins a GPU's own records, which know kernels
/// and copies alone, with the names and steps that the host device's recordings have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

/// An operation of a stream; what was launched by `thread` from `start` to `end` belongs to it, but
/// for what belongs to one that began and ended within it.
struct LaunchedOperation {
  Operation operation = Operation::kUnknown;
  std::int64_t step = -1;
  std::string stream;       ///< its name: "compute"
  std::int64_t thread = 0;  ///< the system's number
  Clock::time_point start{};
  Clock::time_point end{};
};

/// Any thread.
class LaunchLog {
 public:
  /// Makes room for an operation without an end and returns its number.
  std::size_t begin(LaunchedOperation operation);
  /// Takes no memory.
  void end(std::size_t number, Clock::time_point time);
  /// All that have ended, in the order in which they began.
  [[nodiscard]] std::vector<LaunchedOperation> operations() const;

 private:
  mutable std::mutex mutex_;  // guards operations_
  std::vector<LaunchedOperation> operations_;
};

/// While it lives the thread launches an operation; others may be launched within it. Without a log
/// nothing happens.
class LaunchScope {
 public:
  LaunchScope(LaunchLog* log, Operation operation, std::int64_t step, std::string_view stream);
  ~LaunchScope();
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  LaunchLog* log_;
  std::size_t number_ = 0;
};

}  // namespace zenflow::runtime
