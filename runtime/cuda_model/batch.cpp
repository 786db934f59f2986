#include "runtime/cuda_model/batch.h"

#include <algorithm>

namespace zenflow::runtime {
namespace {

BatchArrays arrays_in(const Buffer& memory, std::int64_t sequences, std::int64_t length) {
  Arena arena(memory.data());
  return {sequences, length, arena};
}

}  // namespace

CudaBatch::CudaBatch(Device& device, std::int64_t sequences, std::int64_t length)
    : device_(device),
      device_memory_(
          device.allocate(MemoryKind::kDevice, BatchArrays::bytes(sequences, length), "batch")),
      host_memory_(device.allocate(MemoryKind::kPinnedHost, device_memory_.bytes(), "batch")),
      on_device_{arrays_in(device_memory_, sequences, length)},
      on_host_(arrays_in(host_memory_, sequences, length)) {
  // Never read before they are written, but copied whole.
  std::fill_n(host_memory_.data(), host_memory_.bytes(), std::byte{0});
}

void CudaBatch::take(const Batch& batch) {
  uploaded_.wait();
  const BatchArrays on_device = on_device_.at;
  on_device_ = store_batch(batch, on_host_);
  on_device_.at = on_device;
}

void CudaBatch::upload(Stream& stream) {
  device_.copy(stream, device_memory_.data(), host_memory_.data(), host_memory_.bytes(),
               CopyDirection::kHostToDevice, Traffic::kControl, {Operation::kBatch});
  uploaded_ = stream.record();
}

}  // namespace zenflow::runtime
