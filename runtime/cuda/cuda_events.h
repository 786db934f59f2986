/// CUDA events that are used again, and what a stream did between them.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/cuda/cuda_handles.h"
#include "runtime/device/device.h"
#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

/// Making an event costs as much as recording it, so they are made once. Any thread.
class CudaEventPool {
 public:
  [[nodiscard]] CudaEvent take();
  void give_back(CudaEvent event);

 private:
  std::mutex mutex_;  // guards free_
  std::vector<CudaEvent> free_;
};

/// An event of the pool, recorded in a stream. Shared by those who wait for it; the last one gives
/// it back, which CUDA allows while streams still wait.
class RecordedEvent {
 public:
  RecordedEvent(std::shared_ptr<CudaEventPool> pool, cudaStream_t stream);
  ~RecordedEvent() { pool_->give_back(std::move(event_)); }
  RecordedEvent(const RecordedEvent&) = delete;
  RecordedEvent& operator=(const RecordedEvent&) = delete;

  [[nodiscard]] cudaEvent_t get() const { return event_.get(); }
  /// Throws Error(kDevice) with what has failed on the GPU.
  [[nodiscard]] bool passed() const;

 private:
  std::shared_ptr<CudaEventPool> pool_;
  CudaEvent event_;
};

/// Adds up what a stream does: each mark says what follows it. Events take no time of day, so only
/// the durations of the track's spans mean anything.
class StreamClock {
 public:
  enum class Doing : std::uint8_t { kNothing, kWork, kWait };

  explicit StreamClock(TrackRecorder& track) : track_(track) {}
  /// `event` has just been recorded in the stream.
  void mark(std::shared_ptr<const RecordedEvent> event, Doing next, WaitCause cause);
  [[nodiscard]] Doing doing() const { return doing_; }
  /// Takes in what has ended. Called by `mark`; never waits.
  void collect();

 private:
  struct Mark {
    std::shared_ptr<const RecordedEvent> event;
    Doing next;
    WaitCause cause;
  };
  TrackRecorder& track_;
  Doing doing_ = Doing::kNothing;
  std::deque<Mark> marks_;  // the oldest one's time has not been taken yet
};

}  // namespace zenflow::runtime
