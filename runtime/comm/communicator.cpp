#include "runtime/comm/communicator.h"

#include <vector>

namespace zenflow::runtime {

void HostCommunicator::reduce(Device& device, Stream& stream, Label label, ElementType type,
                              std::span<const OwnedTensor> tensors) {
  device.run(stream, label, [this, type, all = std::vector(tensors.begin(), tensors.end())] {
    reduce_now(type, all);
  });
}

void HostCommunicator::broadcast(Device& device, Stream& stream, Label label, ElementType type,
                                 std::span<const OwnedTensor> tensors) {
  device.run(stream, label, [this, type, all = std::vector(tensors.begin(), tensors.end())] {
    broadcast_now(type, all);
  });
}

}  // namespace zenflow::runtime
