/// What a training run asks of a model beside what the engine does.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/model/transformer.h"
#include "runtime/offload/trainable.h"

namespace zenflow::runtime {

class TrainingModel : public TrainableModel {
 public:
  [[nodiscard]] virtual const TransformerConfig& config() const = 0;
  /// Takes the micro-batches of the next step, one at least, all of which count the same, as do
  /// those of the other ranks; with `targets`, the targets that count on all ranks, each counts by
  /// its own. Call it when the stream has finished the last pass, as it has when
  /// OffloadEngine::step returns.
  /// Throws Error(kInput) as HostTransformer::check.
  void begin_step(std::vector<Batch> micro_batches, int ranks = 1,
                  std::optional<double> targets = {}) {
    for (const Batch& batch : micro_batches) check(batch);
    micro_batches_ = std::move(micro_batches);
    weight_ = 1.0 / (static_cast<double>(micro_batches_.size()) * ranks);
    targets_ = targets;
  }
  void begin_micro_batch(std::size_t index) final {
    const Batch& batch = micro_batches_.at(index);
    const double weight =
        targets_ ? static_cast<double>(batch.counted_targets()) / *targets_ : weight_;
    begin(batch, {.adds = index > 0, .weight = weight});
  }
  /// The next passes are over `batch`. Throws as HostTransformer::begin.
  virtual void begin(const Batch& batch, MicroBatch part) = 0;
  /// A forward pass of `batch` alone. `weights` are on the device, and nothing else is under way on
  /// `compute`. Returns when the result is there. Throws as HostTransformer::begin.
  [[nodiscard]] virtual Evaluation evaluate(const Batch& batch,
                                            std::span<const void* const> weights,
                                            Stream& compute) = 0;

 protected:
  /// Throws Error(kInput) as HostTransformer::check.
  virtual void check(const Batch& batch) const = 0;

 private:
  std::vector<Batch> micro_batches_;
  double weight_ = 1.0;  // of each in the loss of all, unless they count by targets
  std::optional<double> targets_;
};

}  // namespace zenflow::runtime
