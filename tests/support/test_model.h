/// The host transformer on the device of tests/support/test_device.h.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "runtime/train/host_model.h"
#include "tests/support/test_device.h"

namespace zenflow::runtime::testing {

#if defined(ZENFLOW_FAKE_CUDA)

/// As HostModel, in kernels of the emulator's compute stream.
class TestModel final : public TrainingModel {
 public:
  explicit TestModel(HostTransformer transformer) : transformer_(std::move(transformer)) {}

  [[nodiscard]] const TransformerConfig& config() const override { return transformer_.config(); }
  void begin(const Batch& batch, MicroBatch part) override { next_.emplace(batch, part); }
  [[nodiscard]] Evaluation evaluate(const Batch& batch, std::span<const void* const> weights,
                                    Stream&) override {
    return transformer_.evaluate(batch, weights);
  }
  [[nodiscard]] const ParameterTable& parameters() const override {
    return transformer_.parameters();
  }
  [[nodiscard]] bool shared(std::size_t parameter) const override {
    return parameter == 0 && transformer_.config().model.tied_embeddings;
  }
  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override {
    run_on(compute, Operation::kForward,
           [this, group, begins = std::exchange(next_, std::nullopt),
            w = std::vector(weights.begin(), weights.end())] {
             if (begins) transformer_.begin(begins->first, begins->second);
             transformer_.forward(group, w);
           });
  }
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override {
    run_on(compute, Operation::kBackward,
           [this, group, w = std::vector(weights.begin(), weights.end()),
            g = std::vector(gradients.begin(), gradients.end())] {
             transformer_.backward(group, w, g);
           });
  }
  [[nodiscard]] double loss() const override { return transformer_.loss(); }

 protected:
  void check(const Batch& batch) const override { transformer_.check(batch); }

 private:
  HostTransformer transformer_;
  std::optional<std::pair<Batch, MicroBatch>> next_;
};

#else

using TestModel = HostModel;

#endif

}  // namespace zenflow::runtime::testing
