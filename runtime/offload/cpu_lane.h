/// The CPU's side of the schedule: jobs in order, on a thread of their own, beside the training.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace zenflow::runtime {

/// An in-order lane, as the simulator has it. What a job throws is rethrown to whoever waits or
/// submits next; jobs behind it are dropped.
class CpuLane {
 public:
  using Ticket = std::uint64_t;

  CpuLane();
  /// Finishes the job at work and drops the rest.
  ~CpuLane();
  CpuLane(const CpuLane&) = delete;
  CpuLane& operator=(const CpuLane&) = delete;

  Ticket submit(std::function<void()> job);
  /// Blocks until the job has ended.
  void wait(Ticket ticket);
  [[nodiscard]] bool done(Ticket ticket) const;
  /// The last job submitted; 0 if there was none.
  [[nodiscard]] Ticket last() const;
  /// Rethrows what a job has thrown.
  void check() const;

 private:
  void work_through(const std::stop_token& stop);

  mutable std::mutex mutex_;  // guards all but thread_
  std::condition_variable_any filled_;
  std::condition_variable finished_;
  std::deque<std::function<void()>> queue_;
  Ticket submitted_ = 0;
  Ticket ended_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace zenflow::runtime
