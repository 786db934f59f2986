#include <algorithm>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_check.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/probe/peer_experiments.h"

namespace zenflow::runtime {
namespace {

using kernels::cuda_check;

void use(int device) {
  cuda_check(cudaSetDevice(device), "cudaSetDevice");
}

/// One GPU's stream, its times and its memory.
struct Gpu {
  CudaStream stream;
  CudaEvent begin;
  CudaEvent end;
  CudaMemory from{};
  CudaMemory to{};
};

class CudaPeerDevices final : public PeerDevices {
 public:
  CudaPeerDevices() {
    int count = 0;
    cuda_check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    for (int device = 0; device < count; ++device) {
      use(device);
      gpus_.push_back({make_cuda_stream(), make_cuda_event(), make_cuda_event()});
    }
    direct_.resize(gpus_.size() * gpus_.size());
    for (int from = 0; from < count; ++from) {
      for (int to = 0; to < count; ++to) open_way(from, to);
    }
    use(0);
  }

  [[nodiscard]] int count() const override { return static_cast<int>(gpus_.size()); }
  [[nodiscard]] bool is_direct(int from, int to) const override { return direct_[way(from, to)]; }

  void prepare(std::size_t bytes) override {
    bytes_ = bytes;
    for (int device = 0; device < count(); ++device) {
      use(device);
      for (CudaMemory* memory : {&gpu(device).from, &gpu(device).to}) {
        *memory = allocate_cuda_memory(bytes);
      }
    }
    use(0);
  }
  void release() override {
    for (Gpu& one : gpus_) {
      one.from.reset();
      one.to.reset();
    }
  }

  [[nodiscard]] double copy(int from, int to) override {
    enqueue(from, to);
    return seconds(from);
  }
  [[nodiscard]] double copy_both_ways(int one, int other) override {
    enqueue(one, other);
    enqueue(other, one);
    // Events of two GPUs cannot be subtracted. The copies begin within microseconds of each other,
    // so the longer one's time is that of both.
    return std::max(seconds(one), seconds(other));
  }

 private:
  [[nodiscard]] Gpu& gpu(int device) { return gpus_.at(static_cast<std::size_t>(device)); }
  [[nodiscard]] std::size_t way(int from, int to) const {
    return static_cast<std::size_t>(from) * gpus_.size() + static_cast<std::size_t>(to);
  }

  /// Where both can, copies of `from` go to `to` directly.
  void open_way(int from, int to) {
    if (from == to) return;
    int can = 0;
    cuda_check(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
    if (can == 0) return;
    use(from);
    const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled) {
      static_cast<void>(cudaGetLastError());  // else the next call reports it
    } else {
      cuda_check(status, "cudaDeviceEnablePeerAccess");
    }
    direct_[way(from, to)] = true;
  }

  void enqueue(int from, int to) {
    use(from);
    Gpu& source = gpu(from);
    cuda_check(cudaEventRecord(source.begin.get(), source.stream.get()), "cudaEventRecord");
    cuda_check(cudaMemcpyPeerAsync(gpu(to).to.get(), to, source.from.get(), from, bytes_,
                                   source.stream.get()),
               "cudaMemcpyPeerAsync");
    cuda_check(cudaEventRecord(source.end.get(), source.stream.get()), "cudaEventRecord");
  }
  [[nodiscard]] double seconds(int device) {
    return seconds_between(gpu(device).begin.get(), gpu(device).end.get());
  }

  std::vector<Gpu> gpus_;
  std::vector<bool> direct_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<PeerDevices> make_cuda_peer_devices() {
  return std::make_unique<CudaPeerDevices>();
}

}  // namespace zenflow::runtime
