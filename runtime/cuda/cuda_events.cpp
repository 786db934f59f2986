#include "runtime/cuda/cuda_events.h"

#include <utility>

#include "kernels/cuda/cuda_check.h"

namespace zenflow::runtime {

using kernels::cuda_check;

CudaEvent CudaEventPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      CudaEvent event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  // Threads that wait sleep: the cores belong to the optimizer.
  cuda_check(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

void CudaEventPool::give_back(CudaEvent event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(event));
}

RecordedEvent::RecordedEvent(std::shared_ptr<CudaEventPool> pool, cudaStream_t stream)
    : pool_(std::move(pool)), event_(pool_->take()), recorded_at_(Clock::now()) {
  cuda_check(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
}

bool RecordedEvent::passed() const {
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // an answer, not an error
    return false;
  }
  cuda_check(status, "cudaEventQuery");
  return true;
}

void RecordedEvent::wait() const {
  cuda_check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize");
}

std::chrono::nanoseconds RecordedEvent::since(const RecordedEvent& earlier) const {
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, earlier.get(), get()), "cudaEventElapsedTime");
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace zenflow::runtime
