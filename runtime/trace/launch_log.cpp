#include "runtime/trace/launch_log.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <unistd.h>

namespace zenflow::runtime {
namespace {

constexpr Clock::time_point kOpen = Clock::time_point::max();

}  // namespace

std::size_t LaunchLog::begin(LaunchedOperation operation) {
  const std::lock_guard lock(mutex_);
  operations_.push_back(std::move(operation));
  operations_.back().end = kOpen;
  return operations_.size() - 1;
}

void LaunchLog::end(std::size_t number, Clock::time_point time) {
  const std::lock_guard lock(mutex_);
  operations_[number].end = time;
}

std::vector<LaunchedOperation> LaunchLog::operations() const {
  const std::lock_guard lock(mutex_);
  std::vector<LaunchedOperation> ended;
  std::copy_if(operations_.begin(), operations_.end(), std::back_inserter(ended),
               [](const LaunchedOperation& one) { return one.end != kOpen; });
  return ended;
}

LaunchScope::LaunchScope(LaunchLog* log, Operation operation, std::int64_t step,
                         std::string_view stream)
    : log_(log) {
  if (log_ == nullptr) return;
  number_ = log_->begin({.operation = operation,
                         .step = step,
                         .stream = std::string(stream),
                         .thread = ::gettid(),
                         .start = Clock::now()});
}

LaunchScope::~LaunchScope() {
  if (log_ != nullptr) log_->end(number_, Clock::now());
}

}  // namespace zenflow::runtime
