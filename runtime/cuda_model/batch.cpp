#include "runtime/cuda_model/batch.h"

#include <algorithm>
#include <numeric>

#include "runtime/model/loss.h"

namespace zenflow::runtime {
namespace {

std::size_t bytes_of(std::int64_t sequences, std::int64_t length) {
  Arena arena(nullptr);
  const CudaBatch::Arrays arrays(sequences, length, arena);
  return arena.bytes();
}

CudaBatch::Arrays arrays_in(const Buffer& memory, std::int64_t sequences, std::int64_t length) {
  Arena arena(memory.data());
  return {sequences, length, arena};
}

}  // namespace

CudaBatch::Arrays::Arrays(std::int64_t sequences, std::int64_t length, Arena& arena)
    : ids(arena.take<std::int32_t>(sequences * length)),
      classes(arena.take<std::int32_t>(sequences * length)),
      values(arena.take<float>(sequences)),
      last(arena.take<std::int32_t>(sequences)),
      counting(arena.take<std::uint32_t>(sequences + 1)),
      word(arena.take<std::int32_t>(sequences * length)),
      first(arena.take<std::uint32_t>(sequences * length + 1)),
      token(arena.take<std::uint32_t>(sequences * length)) {}

CudaBatch::CudaBatch(Device& device, std::int64_t sequences, std::int64_t length)
    : device_(device),
      device_memory_(device.allocate(MemoryKind::kDevice, bytes_of(sequences, length), "batch")),
      host_memory_(device.allocate(MemoryKind::kPinnedHost, bytes_of(sequences, length), "batch")),
      on_device_(arrays_in(device_memory_, sequences, length)),
      on_host_(arrays_in(host_memory_, sequences, length)) {
  // Never read before they are written, but copied whole.
  std::fill_n(host_memory_.data(), host_memory_.bytes(), std::byte{0});
}

void CudaBatch::take(const Batch& batch) {
  uploaded_.wait();
  sequences_ = batch.sequences;
  length_ = batch.length;
  std::copy(batch.inputs.begin(), batch.inputs.end(), on_host_.ids);
  std::copy(batch.targets.begin(), batch.targets.end(), on_host_.classes);
  std::copy(batch.values.begin(), batch.values.end(), on_host_.values);
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    const std::int64_t tokens =
        batch.lengths.empty() ? batch.length : batch.lengths[static_cast<std::size_t>(s)];
    on_host_.last[s] = static_cast<std::int32_t>(s * batch.length + tokens - 1);
  }
  std::iota(on_host_.counting, on_host_.counting + batch.sequences + 1, 0U);
  const kernels::WordOrder order = kernels::order_by_word(batch.inputs);
  std::copy(order.word.begin(), order.word.end(), on_host_.word);
  std::copy(order.first.begin(), order.first.end(), on_host_.first);
  std::copy(order.token.begin(), order.token.end(), on_host_.token);
  words_ = order.word.size();
  counted_ = batch.targets.empty()
                 ? batch.sequences
                 : static_cast<std::int64_t>(batch.targets.size()) -
                       std::count(batch.targets.begin(), batch.targets.end(), kIgnoredTarget);
}

void CudaBatch::upload(Stream& stream) {
  device_.copy(stream, device_memory_.data(), host_memory_.data(), host_memory_.bytes(),
               CopyDirection::kHostToDevice, Traffic::kControl, {Operation::kBatch});
  uploaded_ = stream.record();
}

}  // namespace zenflow::runtime
