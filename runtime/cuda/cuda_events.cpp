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
    : pool_(std::move(pool)), event_(pool_->take()) {
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

void StreamClock::mark(std::shared_ptr<const RecordedEvent> event, Doing next, WaitCause cause) {
  doing_ = next;
  marks_.push_back({std::move(event), next, cause});
  collect();
}

void StreamClock::collect() {
  while (marks_.size() > 1 && marks_[1].event->passed()) {
    const Mark from = std::move(marks_.front());
    marks_.pop_front();
    if (from.next == Doing::kNothing) continue;
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, from.event->get(), marks_.front().event->get()),
               "cudaEventElapsedTime");
    const Clock::time_point start{};
    const auto end = start + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double, std::milli>(milliseconds));
    if (from.next == Doing::kWork) {
      track_.span("work", -1, start, end);
    } else {
      track_.wait(from.cause, -1, start, end);
    }
  }
}

}  // namespace zenflow::runtime
