/// What a training run asks of a model beside what the engine does.
#pragma once

#include <span>

#include "runtime/device/device.h"
#include "runtime/model/transformer.h"
#include "runtime/offload/trainable.h"

namespace zenflow::runtime {

class TrainingModel : public TrainableModel {
 public:
  [[nodiscard]] virtual const TransformerConfig& config() const = 0;
  /// Takes the batch of the next step. Call it when the stream has finished the last pass, as it
  /// has when OffloadEngine::step returns. Throws as HostTransformer::begin.
  virtual void begin(const Batch& batch) = 0;
  /// A forward pass of `batch` alone. `weights` are on the device, and nothing else is under way on
  /// `compute`. Returns when the result is there. Throws as HostTransformer::begin.
  [[nodiscard]] virtual Evaluation evaluate(const Batch& batch,
                                            std::span<const void* const> weights,
                                            Stream& compute) = 0;
};

}  // namespace zenflow::runtime
