/// A batch on the device.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/model/batch_arrays.h"

namespace zenflow::runtime {

class CudaBatch {
 public:
  /// For at most `sequences` of `length` tokens.
  CudaBatch(Device& device, std::int64_t sequences, std::int64_t length);

  /// Takes a batch that has been checked. Waits until the last batch's copy is done.
  void take(const Batch& batch);
  /// Enqueues the copy.
  void upload(Stream& stream);

  [[nodiscard]] const BatchView& on_device() const { return on_device_; }

 private:
  Device& device_;
  Buffer device_memory_;
  Buffer host_memory_;
  BatchView on_device_;
  BatchArrays on_host_;
  Event uploaded_;
};

}  // namespace zenflow::runtime
