#include "runtime/offload/cpu_lane.h"

#include <utility>

namespace zenflow::runtime {

CpuLane::CpuLane() : thread_([this](const std::stop_token& stop) { work_through(stop); }) {}

CpuLane::~CpuLane() {
  thread_.request_stop();
  thread_.join();
}

CpuLane::Ticket CpuLane::submit(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  queue_.push_back(std::move(job));
  filled_.notify_one();
  return ++submitted_;
}

void CpuLane::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return ended_ >= ticket || failure_; });
  if (failure_) std::rethrow_exception(failure_);
}

bool CpuLane::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return ended_ >= ticket;
}

CpuLane::Ticket CpuLane::last() const {
  const std::lock_guard lock(mutex_);
  return submitted_;
}

void CpuLane::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void CpuLane::work_through(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (filled_.wait(lock, stop, [this] { return !queue_.empty(); })) {
    if (stop.stop_requested()) return;
    const std::function<void()> job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    ++ended_;
    if (failure) {
      failure_ = failure;
      queue_.clear();
    }
    finished_.notify_all();
  }
}

}  // namespace zenflow::runtime
