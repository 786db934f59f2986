/// The host transformer as the offload engine sees it: passes run on the compute stream's thread.
#pragma once

#include <optional>
#include <utility>

#include "runtime/model/transformer.h"
#include "runtime/offload/training_model.h"

namespace zenflow::runtime {

class HostModel final : public TrainingModel {
 public:
  explicit HostModel(HostTransformer transformer) : transformer_(std::move(transformer)) {}

  /// The transformer takes it in the compute stream, as passes before may be under way.
  void begin(const Batch& batch, MicroBatch part) override { next_.emplace(batch, part); }
  /// On the calling thread.
  [[nodiscard]] Evaluation evaluate(const Batch& batch, std::span<const void* const> weights,
                                    Stream&) override {
    return transformer_.evaluate(batch, weights);
  }
  [[nodiscard]] const TransformerConfig& config() const override { return transformer_.config(); }

  [[nodiscard]] const ParameterTable& parameters() const override {
    return transformer_.parameters();
  }
  [[nodiscard]] bool shared(std::size_t parameter) const override;
  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override;
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override;
  [[nodiscard]] double loss() const override { return transformer_.loss(); }

 protected:
  void check(const Batch& batch) const override { transformer_.check(batch); }

 private:
  HostTransformer transformer_;
  std::optional<std::pair<Batch, MicroBatch>> next_;  // for the next forward of group 0
};

}  // namespace zenflow::runtime
