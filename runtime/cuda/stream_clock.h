/// What a stream does, by events between its operations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/cuda/cuda_events.h"
#include "runtime/cuda/device_clock.h"
#include "runtime/device/device.h"
#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

/// Adds up what a stream does: each mark, an event, says what follows it. While the track's spans
/// are kept, every operation begins and ends with a mark, too, and becomes a span.
///
/// Operations contain one another; work belongs to the innermost. An operation's span lasts from
/// the mark before its first work to the one behind its last, gaps between its kernels included.
/// The mark at the end of one begins the next, if that is enqueued before the GPU has come there:
/// an event for each operation, then.
///
/// Only `wait_for_last` waits for the GPU. One thread enqueues; it and the two behind it are any
/// other's.
class StreamClock {
 public:
  /// `stream` and `track` outlive it.
  StreamClock(std::shared_ptr<CudaEventPool> events, cudaStream_t stream, TrackRecorder& track,
              std::shared_ptr<DeviceClock> device);

  /// Work follows, of the operation that was opened last.
  void work();
  /// A wait follows.
  void wait(WaitCause cause);
  /// Nothing follows, until it is said. The event stands for everything before.
  [[nodiscard]] std::shared_ptr<const RecordedEvent> rest();

  /// An operation begins: `what`, times aside.
  void open(const TrackRecorder::Span& what);
  /// It ends. What fails here is thrown by the next of the calls above.
  void close() noexcept;

  /// Waits until the last mark has been passed.
  void wait_for_last();
  /// Takes in what has ended.
  void take_in();
  /// Puts its spans into the track: when all streams of a device have taken in what they have,
  /// which says where times lie.
  void hand_over();

 private:
  enum class Doing : std::uint8_t { kNothing, kWork, kWait };
  /// What follows an event.
  struct Mark {
    std::shared_ptr<const RecordedEvent> event{};
    Doing next = Doing::kNothing;
    WaitCause cause = WaitCause::kNone;
    std::uint32_t recording = 0;     ///< in which the event can be placed; 0: in none
    std::uint64_t operation = 0;     ///< whose work; 0: of none
    bool goes_on = false;            ///< with the operation, after another one within it
    bool is_end = false;             ///< of an operation
    Clock::time_point not_before{};  ///< the event passes
    TrackRecorder::Span what{};      ///< the operation
  };
  struct OpenOperation {
    std::uint64_t number;
    TrackRecorder::Span what;
    bool has_worked = false;
  };
  /// Times from the recording's zero.
  struct PlacedSpan {
    std::uint32_t recording;
    std::uint64_t operation;
    TrackRecorder::Span what;
    std::chrono::nanoseconds start;
    std::chrono::nanoseconds end;
  };

  [[nodiscard]] std::uint32_t recording() const;
  std::shared_ptr<const RecordedEvent> put(Mark mark);
  /// The stream has not come to its last mark, the end of an operation: it begins this one, too.
  [[nodiscard]] bool begins_at_the_last_end(const Mark& mark);
  void rethrow();
  // With the lock.
  void collect();
  void place(const Mark& from, std::chrono::nanoseconds duration);
  void keep(const Mark& from, std::chrono::nanoseconds start, std::chrono::nanoseconds end);

  std::shared_ptr<CudaEventPool> events_;
  cudaStream_t stream_;
  TrackRecorder& track_;
  std::shared_ptr<DeviceClock> device_;

  // The enqueuing thread's.
  Doing doing_ = Doing::kNothing;
  std::uint32_t last_recording_ = 0;  // of the last mark
  std::uint64_t last_operation_ = 0;
  std::uint64_t operations_ = 0;
  std::vector<OpenOperation> open_;
  bool has_worked_ = false;  // work of no operation has followed the last mark
  std::exception_ptr failure_;

  std::mutex mutex_;        // guards all below
  std::deque<Mark> marks_;  // what follows the oldest one has not been taken in
  std::optional<std::chrono::nanoseconds>
      front_;                     // when that one passed, from the zero of its recording
  std::deque<PlacedSpan> spans_;  // not handed over
};

}  // namespace zenflow::runtime
