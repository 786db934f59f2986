/// CUDA events that are used again.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/cuda/cuda_handles.h"
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
  /// On the host; it passes later.
  [[nodiscard]] Clock::time_point recorded_at() const { return recorded_at_; }
  // Both throw Error(kDevice) with what has failed on the GPU.
  [[nodiscard]] bool passed() const;
  /// Blocks the calling thread until it has.
  void wait() const;
  /// How much later than `earlier`, which had passed before this one was recorded or is of the same
  /// stream: what CUDA says of two events in any other order is not documented. Both have passed.
  /// To half a microsecond, and to 24 bits.
  [[nodiscard]] std::chrono::nanoseconds since(const RecordedEvent& earlier) const;

 private:
  std::shared_ptr<CudaEventPool> pool_;
  CudaEvent event_;
  Clock::time_point recorded_at_;
};

}  // namespace zenflow::runtime
