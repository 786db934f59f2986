/// What the offload engine asks of a model.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/device/device.h"
#include "runtime/model_config/parameters.h"

namespace zenflow::runtime {

/// Forward and backward passes over batches that the model has been given before, group by group:
/// the engine decides in between what moves. Passes enqueue on `compute` and return.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;
  [[nodiscard]] virtual const ParameterTable& parameters() const = 0;
  /// Parameters whose gradient several groups add to (a tied head): complete with their own group.
  [[nodiscard]] virtual bool shared(std::size_t parameter) const = 0;

  /// The next passes are over micro-batch `index` of the step; backward adds to the gradients of
  /// those before it, unless it is the first. Passes before may still be under way.
  virtual void begin_micro_batch(std::size_t index) = 0;
  /// Groups in order. `weights[i]`: parameter i on the device, row-major.
  virtual void forward(std::size_t group, std::span<const void* const> weights,
                       Stream& compute) = 0;
  /// Groups in reverse order. Stores `gradients[i]` for the parameters of `group`, and of those
  /// that it shares.
  virtual void backward(std::size_t group, std::span<const void* const> weights,
                        std::span<void* const> gradients, Stream& compute) = 0;
  /// Summed over the step's micro-batches so far; the compute stream has been waited for.
  [[nodiscard]] virtual double loss() const = 0;
};

}  // namespace zenflow::runtime
