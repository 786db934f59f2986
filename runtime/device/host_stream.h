/// A stream of the host device: a thread that works through a queue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>

#include "runtime/device/device.h"
#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

/// Delays before operations, for tests: an asynchronous device may be slow anywhere.
struct Jitter {
  std::uint64_t seed = 0;
  std::chrono::microseconds longest{0};  ///< 0: none
  /// Operations run when somebody waits for an event behind them, or the stream ends: as late as
  /// events allow, whatever the machine's timing. Who relies on less than an event reads too early.
  bool lazy = false;
};

/// How far a lazy stream has to come.
class HostDemand {
 public:
  /// Operations up to `number` are waited for.
  void raise(std::uint64_t number);
  /// Blocks until `number` is waited for, or until `stop`.
  void await(std::uint64_t number, const std::stop_token& stop);

 private:
  std::mutex mutex_;  // guards wanted_
  std::condition_variable_any changed_;
  std::uint64_t wanted_ = 0;
};

/// Completed once, by whoever owns the work: a stream's thread or, for a signal, any other.
class HostCompletion final : public Event::State {
 public:
  HostCompletion() = default;
  /// Completion of operation `number` of a lazy stream.
  HostCompletion(std::shared_ptr<HostDemand> demand, std::uint64_t number)
      : demand_(std::move(demand)), number_(number) {}

  void wait() override;
  [[nodiscard]] bool complete() const override;
  /// Only the first call counts.
  void set(std::exception_ptr failure);
  /// When that was. Once complete.
  [[nodiscard]] Clock::time_point completed_at() const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool done_ = false;
  Clock::time_point done_at_{};
  std::exception_ptr failure_;
  std::shared_ptr<HostDemand> demand_;  // null: comes without being asked for
  std::uint64_t number_ = 0;
};

class HostSignal final : public Signal {
 public:
  ~HostSignal() override;
  [[nodiscard]] Event event() const override { return Event(completion_); }
  void set() override { completion_->set(nullptr); }

 private:
  std::shared_ptr<HostCompletion> completion_ = std::make_shared<HostCompletion>();
};

class HostStream final : public Stream {
 public:
  HostStream(TrackRecorder& track, Jitter jitter);
  /// Finishes what is queued.
  ~HostStream() override;
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  /// Enqueues `work`. After an operation has thrown, the rest of the queue is not executed.
  void run(Label label, std::function<void()> work);
  /// The same of a copy, which work(ready) does: from `ready` on, since it was enqueued, what it
  /// waits for was complete and no work but copies was before it.
  void copy(Label label, CopyDirection direction, Traffic traffic, std::size_t bytes,
            std::function<void(Clock::time_point)> work);

  [[nodiscard]] Event record() override;
  /// `event`: of the host device.
  void wait(const Event& event, WaitCause cause) override;
  void synchronize();

 private:
  struct Copy {
    CopyDirection direction;
    Traffic traffic;
    std::size_t bytes;
  };
  struct Queued {
    Label label{};
    std::optional<Copy> copy{};
    bool traced = true;
    bool reports_failure = false;  ///< runs even after one
    std::function<void()> work;
    std::uint64_t number = 0;
  };

  void enqueue(Queued next);
  void wait_here(const Event& event);
  void work_through(const std::stop_token& stop);
  void execute(Queued& next);

  TrackRecorder& track_;
  Jitter jitter_;
  std::shared_ptr<HostDemand> demand_;  // of a lazy stream
  std::uint64_t enqueued_ = 0;          // the enqueuing thread alone
  std::mt19937_64 random_;              // the stream's thread alone
  std::exception_ptr failure_;          // the stream's thread alone; events copy it on completion
  Clock::time_point ready_{};           // the stream's thread alone: what is next may begin
  std::mutex mutex_;                    // guards queue_
  std::condition_variable_any filled_;
  std::deque<Queued> queue_;
  std::jthread thread_;  // last: starts when all else is there
};

}  // namespace zenflow::runtime
