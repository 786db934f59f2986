/// A stream of the CUDA device.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "runtime/cuda/cuda_events.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_stream.h"
#include "runtime/cuda/device_clock.h"
#include "runtime/cuda/stream_clock.h"
#include "runtime/device/device.h"
#include "runtime/trace/launch_log.h"

namespace zenflow::runtime {

/// Its work up to a point. `promises`: signals that the stream has waited for until then, itself or
/// through others, and that have failed or not been seen to be set.
class CudaEventState final : public Event::State {
 public:
  CudaEventState(int ordinal, std::shared_ptr<const RecordedEvent> event,
                 std::vector<Event> promises, std::shared_ptr<DeviceClock> clock)
      : ordinal_(ordinal),
        event_(std::move(event)),
        promises_(std::move(promises)),
        clock_(std::move(clock)) {}

  /// Throws Error(kDevice) if the GPU has failed, and what a promise has failed with.
  void wait() override;
  [[nodiscard]] bool complete() const override { return event_->passed(); }

  [[nodiscard]] cudaEvent_t event() const { return event_->get(); }
  [[nodiscard]] const std::vector<Event>& promises() const { return promises_; }

 private:
  int ordinal_;
  std::shared_ptr<const RecordedEvent> event_;
  std::vector<Event> promises_;
  std::shared_ptr<DeviceClock> clock_;
};

/// What all streams of a device have in common.
struct CudaStreamShared {
  int ordinal = 0;
  std::shared_ptr<CudaEventPool> events = std::make_shared<CudaEventPool>();
  std::shared_ptr<DeviceClock> clock = std::make_shared<DeviceClock>();
  LaunchLog* launches = nullptr;  ///< may be null
};

class CudaDeviceStream final : public Stream {
 public:
  /// `priority` as CUDA counts: less comes first.
  CudaDeviceStream(std::string name, int priority, const CudaStreamShared& shared,
                   TrackRecorder& track);
  /// Finishes what is enqueued.
  ~CudaDeviceStream() override;
  CudaDeviceStream(const CudaDeviceStream&) = delete;
  CudaDeviceStream& operator=(const CudaDeviceStream&) = delete;

  /// To enqueue work on: makes the GPU the thread's current one and starts the clock.
  [[nodiscard]] cudaStream_t for_work();
  [[nodiscard]] OperationScope launching(Label label) {
    return launching(TrackRecorder::Span{.operation = label.operation, .step = label.step});
  }
  [[nodiscard]] OperationScope copying(Label label, CopyDirection direction, Traffic kind,
                                       std::size_t bytes);
  [[nodiscard]] Event record() override;
  void wait(const Event& event, WaitCause cause) override;

  /// Memory for kernels of this stream, which use it one after the other; aligned to 256 bytes.
  /// Grows by allocating, which waits for the GPU.
  [[nodiscard]] std::byte* workspace(Device& device, std::size_t bytes);

  [[nodiscard]] std::weak_ptr<StreamClock> clock() const { return clock_; }

 private:
  [[nodiscard]] OperationScope launching(const TrackRecorder::Span& what);
  void wait_for_signal(const Event& signal, WaitCause cause);
  void remember(const Event& promise);
  void forget_kept_promises();

  /// What a host function in the stream waits for. The stream's own: after a failure of the GPU
  /// the function does not run.
  struct SignalWait {
    Event signal;
    std::atomic<bool> ended = false;
  };
  static void run_signal_wait(void* wait);

  std::string name_;
  CudaStreamShared shared_;
  std::vector<std::unique_ptr<SignalWait>> signal_waits_;  // freed after stream_
  CudaStream stream_;
  std::shared_ptr<StreamClock> clock_;  // shared for Device::collect_times alone
  std::vector<Event> promises_;
  std::vector<Buffer> workspaces_;  // the last is in use; those before it may still be
};

}  // namespace zenflow::runtime
