#include "runtime/trace/launch_log.h"

#include <utility>

#include <unistd.h>

namespace zenflow::runtime {

void LaunchLog::add(LaunchedOperation operation) {
  const std::lock_guard lock(mutex_);
  operations_.push_back(std::move(operation));
}

std::vector<LaunchedOperation> LaunchLog::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

LaunchScope::LaunchScope(LaunchLog* log, std::string_view name, std::int64_t step,
                         std::string_view stream)
    : log_(log) {
  if (log_ == nullptr) return;
  operation_ = {.name = name,
                .step = step,
                .stream = std::string(stream),
                .thread = ::gettid(),
                .start = Clock::now()};
}

LaunchScope::~LaunchScope() {
  if (log_ == nullptr) return;
  operation_.end = Clock::now();
  log_->add(std::move(operation_));
}

}  // namespace zenflow::runtime
