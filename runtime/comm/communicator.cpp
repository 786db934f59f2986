#include "runtime/comm/communicator.h"

namespace zenflow::runtime {

void HostCommunicator::reduce(Device& device, Stream& stream, Label label, int owner,
                              ElementType type, void* values, std::size_t n) {
  device.run(stream, label, [this, owner, type, values, n] {
    if (type == ElementType::kFloat32) {
      reduce_now(owner, std::span(static_cast<float*>(values), n));
    } else {
      reduce_now(owner, std::span(static_cast<std::uint16_t*>(values), n));
    }
  });
}

void HostCommunicator::broadcast(Device& device, Stream& stream, Label label, int owner,
                                 void* values, std::size_t bytes) {
  device.run(stream, label, [this, owner, values, bytes] {
    broadcast_now(owner, {static_cast<std::byte*>(values), bytes});
  });
}

}  // namespace zenflow::runtime
