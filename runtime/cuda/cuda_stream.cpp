#include "runtime/cuda/cuda_stream.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_check.h"
#include "runtime/cuda/device_stream.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

using kernels::cuda_check;

CudaStream make_stream(int ordinal, int priority) {
  cuda_check(cudaSetDevice(ordinal), "cudaSetDevice");
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
             "cudaStreamCreateWithPriority");
  return CudaStream(stream);
}

bool kept(const Event& promise) {
  if (!promise.complete()) return false;
  try {
    promise.wait();
    return true;
  } catch (const std::exception&) {
    return false;  // stays, for whoever waits behind it
  }
}

}  // namespace

cudaStream_t handle_of(Stream& stream) {
  return static_cast<CudaDeviceStream&>(stream).for_work();
}

OperationScope::OperationScope(StreamClock& clock, const TrackRecorder::Span& what, LaunchLog* log,
                               std::string_view stream)
    : clock_(clock), launch_(log, what.operation, what.step, stream) {
  clock_.open(what);
}

OperationScope::~OperationScope() {
  clock_.close();
}

OperationScope launching(Stream& stream, Label label) {
  return static_cast<CudaDeviceStream&>(stream).launching(label);
}

void CudaEventState::wait() {
  cuda_check(cudaSetDevice(ordinal_), "cudaSetDevice");
  event_->wait();
  clock_->saw(event_);
  for (const Event& promise : promises_) promise.wait();
}

CudaDeviceStream::CudaDeviceStream(std::string name, int priority, const CudaStreamShared& shared,
                                   TrackRecorder& track)
    : name_(std::move(name)),
      shared_(shared),
      stream_(make_stream(shared.ordinal, priority)),
      clock_(std::make_shared<StreamClock>(shared.events, stream_.get(), track, shared.clock)) {}

CudaDeviceStream::~CudaDeviceStream() {
  // What fails here has failed for whoever waited; nobody is left to tell.
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

cudaStream_t CudaDeviceStream::for_work() {
  cuda_check(cudaSetDevice(shared_.ordinal), "cudaSetDevice");
  clock_->work();
  return stream_.get();
}

OperationScope CudaDeviceStream::launching(const TrackRecorder::Span& what) {
  return {*clock_, what, shared_.launches, name_};
}

OperationScope CudaDeviceStream::copying(Label label, CopyDirection direction, Traffic kind,
                                         std::size_t bytes) {
  return launching(TrackRecorder::Span{.operation = label.operation,
                                       .kind = TrackRecorder::copy_kind(direction),
                                       .traffic = kind,
                                       .step = label.step,
                                       .bytes = bytes});
}

Event CudaDeviceStream::record() {
  cuda_check(cudaSetDevice(shared_.ordinal), "cudaSetDevice");
  forget_kept_promises();
  return Event(
      std::make_shared<CudaEventState>(shared_.ordinal, clock_->rest(), promises_, shared_.clock));
}

void CudaDeviceStream::wait(const Event& event, WaitCause cause) {
  if (event.state() == nullptr) return;
  const auto* recorded = dynamic_cast<const CudaEventState*>(event.state());
  if (recorded == nullptr) return wait_for_signal(event, cause);
  for (const Event& promise : recorded->promises()) remember(promise);
  if (recorded->complete()) return;
  cuda_check(cudaSetDevice(shared_.ordinal), "cudaSetDevice");
  clock_->wait(cause);
  cuda_check(cudaStreamWaitEvent(stream_.get(), recorded->event(), 0), "cudaStreamWaitEvent");
}

void CudaDeviceStream::wait_for_signal(const Event& signal, WaitCause cause) {
  if (kept(signal)) return;
  remember(signal);
  if (signal.complete()) return;  // and failed
  cuda_check(cudaSetDevice(shared_.ordinal), "cudaSetDevice");
  clock_->wait(cause);
  signal_waits_.erase(std::remove_if(signal_waits_.begin(), signal_waits_.end(),
                                     [](const auto& one) { return one->ended.load(); }),
                      signal_waits_.end());
  signal_waits_.push_back(std::make_unique<SignalWait>());
  signal_waits_.back()->signal = signal;
  cuda_check(cudaLaunchHostFunc(stream_.get(), run_signal_wait, signal_waits_.back().get()),
             "cudaLaunchHostFunc");
}

/// On a thread of CUDA's, where nothing may be thrown and CUDA not be called.
void CudaDeviceStream::run_signal_wait(void* wait) {
  auto& own = *static_cast<SignalWait*>(wait);
  try {
    own.signal.wait();
  } catch (const std::exception&) {
    // The signal keeps it, and is among the promises of the events behind it.
  }
  own.ended = true;
}

void CudaDeviceStream::remember(const Event& promise) {
  const bool known = std::any_of(promises_.begin(), promises_.end(), [&](const Event& other) {
    return other.state() == promise.state();
  });
  if (!known && !kept(promise)) promises_.push_back(promise);
}

void CudaDeviceStream::forget_kept_promises() {
  promises_.erase(std::remove_if(promises_.begin(), promises_.end(), kept), promises_.end());
}

std::byte* CudaDeviceStream::workspace(Device& device, std::size_t bytes) {
  const std::size_t there = workspaces_.empty() ? 0 : workspaces_.back().bytes();
  if (bytes > there) {
    // Not less than twice, so that those left behind are no more than the last.
    workspaces_.push_back(
        device.allocate(MemoryKind::kDevice, std::max(bytes, 2 * there), "workspace"));
  }
  return workspaces_.empty() ? nullptr : workspaces_.back().data();
}

}  // namespace zenflow::runtime
