#include "runtime/device/host_stream.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace zenflow::runtime {

void HostDemand::raise(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  wanted_ = std::max(wanted_, number);
  changed_.notify_all();
}

void HostDemand::await(std::uint64_t number, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return wanted_ >= number; });
}

void HostCompletion::wait() {
  if (demand_) demand_->raise(number_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  if (failure_) std::rethrow_exception(failure_);
}

bool HostCompletion::complete() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void HostCompletion::set(std::exception_ptr failure) {
  // Notified under the lock: a waiter that wakes may destroy the event at once.
  const std::lock_guard lock(mutex_);
  if (done_) return;
  done_ = true;
  done_at_ = Clock::now();
  failure_ = std::move(failure);
  changed_.notify_all();
}

Clock::time_point HostCompletion::completed_at() const {
  const std::lock_guard lock(mutex_);
  return done_at_;
}

HostSignal::~HostSignal() {
  if (completion_->complete()) return;
  completion_->set(std::make_exception_ptr(
      Error(ErrorKind::kRuntime, "a thread that others wait for has given up")));
}

HostStream::HostStream(TrackRecorder& track, Jitter jitter)
    : track_(track),
      jitter_(jitter),
      demand_(jitter.lazy ? std::make_shared<HostDemand>() : nullptr),
      random_(jitter.seed),
      thread_([this](const std::stop_token& stop) { work_through(stop); }) {}

HostStream::~HostStream() {
  thread_.request_stop();
  filled_.notify_all();
}

void HostStream::enqueue(Queued next) {
  next.number = ++enqueued_;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(next));
  }
  filled_.notify_one();
}

void HostStream::run(Label label, std::function<void()> work) {
  enqueue({.label = label, .traced = true, .work = [this, work = std::move(work)] {
             work();
             ready_ = Clock::now();
           }});
}

void HostStream::copy(Label label, CopyDirection direction, Traffic traffic, std::size_t bytes,
                      std::function<void(Clock::time_point)> work) {
  enqueue({.label = label,
           .copy = Copy{direction, traffic, bytes},
           .traced = true,
           .work = [this, work = std::move(work), enqueued = Clock::now()] {
             work(std::max(enqueued, ready_));
           }});
}

Event HostStream::record() {
  auto completion = std::make_shared<HostCompletion>(demand_, enqueued_ + 1);
  enqueue({.traced = false, .reports_failure = true, .work = [this, completion] {
             completion->set(failure_);
           }});
  return Event(std::move(completion));
}

void HostStream::wait(const Event& event, WaitCause cause) {
  if (event.complete()) {
    // Still a dependency on what failed.
    enqueue({.traced = false, .work = [event] { event.wait(); }});
    return;
  }
  enqueue({.traced = false, .work = [this, event, cause] {
             const Clock::time_point start = Clock::now();
             wait_here(event);
             track_.wait(cause, -1, start, Clock::now());
           }});
}

void HostStream::wait_here(const Event& event) {
  event.wait();
  ready_ = std::max(ready_, static_cast<const HostCompletion&>(*event.state()).completed_at());
}

void HostStream::synchronize() {
  record().wait();
}

void HostStream::execute(Queued& next) {
  if (failure_ && !next.reports_failure) return;
  try {
    if (jitter_.longest.count() > 0) {
      const auto limit = static_cast<std::uint64_t>(jitter_.longest.count());
      // Most operations are not delayed, some by much: both orders of every race occur.
      if (random_() % 4 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % limit));
    }
    const Clock::time_point start = Clock::now();
    next.work();
    if (!next.traced) return;
    const Label& label = next.label;
    if (next.copy) {
      track_.copy(next.copy->direction, next.copy->traffic, label.operation, label.step, start,
                  Clock::now(), next.copy->bytes);
    } else {
      track_.span(label.operation, label.step, start, Clock::now());
    }
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
}

void HostStream::work_through(const std::stop_token& stop) {
  while (true) {
    Queued next;
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, stop, [this] { return !queue_.empty(); });
      if (queue_.empty()) return;  // stopped, and nothing is left
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    if (demand_) demand_->await(next.number, stop);
    execute(next);
  }
}

}  // namespace zenflow::runtime
