#include "runtime/probe/cuda_probe_device.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/bf16/bf16.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/empty/empty_cuda.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/probe/cublas_products.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

using kernels::Bf16;
using kernels::cuda_check;

/// What occupy() sets: some ten microseconds of a GPU's memory.
constexpr std::size_t kOccupyingBytes = std::size_t{64} << 20;

/// Events are made once: making one costs as much as recording it, and would be measured with it.
class EventPool {
 public:
  [[nodiscard]] CudaEvent take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        CudaEvent event = std::move(free_.back());
        free_.pop_back();
        return event;
      }
    }
    return make_cuda_event();
  }
  /// An event may be recorded again before it is complete.
  void give_back(CudaEvent event) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(event));
  }

 private:
  std::mutex mutex_;  // guards free_: two threads measure beside each other
  std::vector<CudaEvent> free_;
};

class CudaMark final : public ProbeMark {
 public:
  CudaMark(EventPool& pool, cudaStream_t stream) : pool_(pool), event_(pool.take()) {
    cuda_check(cudaEventRecord(event_.get(), stream), "cudaEventRecord");
  }
  ~CudaMark() override { pool_.give_back(std::move(event_)); }
  CudaMark(const CudaMark&) = delete;
  CudaMark& operator=(const CudaMark&) = delete;
  [[nodiscard]] cudaEvent_t event() const { return event_.get(); }

 private:
  EventPool& pool_;
  CudaEvent event_;
};

cudaEvent_t event_of(const ProbeMark& mark) {
  return static_cast<const CudaMark&>(mark).event();
}

class CudaProbeDevice final : public ProbeDevice {
 public:
  CudaProbeDevice(int device, const LibraryFolders& folders)
      : device_(device),
        streams_(make_streams(device)),
        products_(folders, stream(ProbeLane::kCompute)) {
    cudaDeviceProp properties{};
    cuda_check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    name_ = properties.name;
    occupied_ = allocate(ProbeMemory::kDevice, kOccupyingBytes);
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] sim::DType product_type() const override { return sim::DType::kBf16; }

  [[nodiscard]] Buffer allocate(ProbeMemory where, std::size_t bytes) override {
    void* address = nullptr;
    switch (where) {
      case ProbeMemory::kDevice: {
        CudaMemory memory = allocate_cuda_memory(bytes);
        cuda_check(cudaMemset(memory.get(), 0, bytes), "cudaMemset");
        await_default_stream();
        return {memory.release(), bytes, CudaFree()};
      }
      case ProbeMemory::kPinned:
        check_allocation(cudaMallocHost(&address, bytes), "cudaMallocHost", bytes);
        return {address, bytes, [](void* held) { cudaFreeHost(held); }};
      case ProbeMemory::kPageable:
        address = std::malloc(bytes);
        if (address == nullptr) check_allocation(cudaErrorMemoryAllocation, "malloc", bytes);
        // Pages that were never written are all one page of zeros, which the cache holds.
        std::memset(address, 1, bytes);
        return {address, bytes, [](void* held) { std::free(held); }};
    }
    return {};
  }

  void fill(const Buffer& memory) override {
    std::vector<Bf16> values(memory.bytes() / sizeof(Bf16));
    std::uint32_t state = 1;
    for (Bf16& value : values) value = kernels::round_to_bf16(next_fill(state));
    cuda_check(cudaMemcpy(memory.data(), values.data(), values.size() * sizeof(Bf16),
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
    await_default_stream();
  }

  void copy(ProbeLane lane, void* to, const void* from, std::size_t bytes,
            CopyDirection direction) override {
    const cudaMemcpyKind kind =
        direction == CopyDirection::kHostToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    cuda_check(cudaMemcpyAsync(to, from, bytes, kind, stream(lane)), "cudaMemcpyAsync");
  }

  void update(ProbeLane lane, float* y, const float* x, std::size_t n) override {
    kernels::accumulate_cuda(y, x, kAccumulateScale, n, stream(lane));
  }
  void pass(ProbeLane lane, float* y, const float* x, std::size_t n) override {
    kernels::accumulate_first_cuda(y, x, kAccumulateScale, n, stream(lane));
  }
  // cuBLAS works in the compute lane alone; no experiment asks for another.
  void multiply(ProbeLane, const ProbeProduct& product, const void* a, const void* b,
                void* c) override {
    products_.multiply(product, a, b, c);
  }
  void nothing(ProbeLane lane) override { kernels::empty_cuda(stream(lane)); }
  void occupy(ProbeLane lane) override {
    cuda_check(cudaMemsetAsync(occupied_.data(), 0, occupied_.bytes(), stream(lane)),
               "cudaMemsetAsync");
  }

  [[nodiscard]] std::shared_ptr<ProbeMark> mark(ProbeLane lane) override {
    // Marks are also made by threads that run work beside a measurement: CUDA's current device is a
    // thread's own.
    cuda_check(cudaSetDevice(device_), "cudaSetDevice");
    return std::make_shared<CudaMark>(events_, stream(lane));
  }
  [[nodiscard]] double seconds(const ProbeMark& earlier, const ProbeMark& later) override {
    return seconds_between(event_of(earlier), event_of(later));
  }
  void synchronize(ProbeLane lane) override {
    cuda_check(cudaStreamSynchronize(stream(lane)), "cudaStreamSynchronize");
  }

 private:
  using Streams = std::array<CudaStream, kProbeLanes>;
  static Streams make_streams(int device) {
    cuda_check(cudaSetDevice(device), "cudaSetDevice");
    Streams streams;
    for (CudaStream& one : streams) one = make_cuda_stream();
    return streams;
  }
  [[nodiscard]] cudaStream_t stream(ProbeLane lane) const {
    return streams_.at(static_cast<std::size_t>(lane)).get();
  }
  /// Memsets and copies return early, and the lanes' streams do not wait for the default one.
  static void await_default_stream() {
    cuda_check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  }

  int device_;
  EventPool events_;
  Streams streams_;
  CublasProducts products_;
  std::string name_;
  Buffer occupied_;
};

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  cuda_check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

/// CUDA C++ Programming Guide, arithmetic instructions: results of fp32 additions a clock.
int fp32_lanes(int major, int minor) {
  if (major == 6) return minor == 0 ? 64 : 128;
  if (major == 7) return 64;
  if (major == 8) return minor == 0 ? 64 : 128;
  return major >= 9 && major <= 12 ? 128 : 0;
}

}  // namespace

std::unique_ptr<ProbeDevice> make_cuda_probe_device(int device, const LibraryFolders& folders) {
  return std::make_unique<CudaProbeDevice>(device, folders);
}

CudaDeviceFacts cuda_device_facts(int device) {
  CudaDeviceFacts facts;
  cuda_check(cudaSetDevice(device), "cudaSetDevice");
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  cuda_check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
  facts.memory = total;
  facts.free_memory = free_bytes;
  // kHz, two transfers a clock; bits. A driver that does not say gives 0.
  const double clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, device);
  const double width = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  facts.memory_bandwidth = 2 * clock * width / 8;
  facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  facts.lanes = fp32_lanes(attribute(cudaDevAttrComputeCapabilityMajor, device),
                           attribute(cudaDevAttrComputeCapabilityMinor, device));
  facts.clock = 1e3 * attribute(cudaDevAttrClockRate, device);
  std::array<char, 32> bus_id{};
  cuda_check(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device),
             "cudaDeviceGetPCIBusId");
  facts.bus_id = bus_id.data();
  return facts;
}

}  // namespace zenflow::runtime
