/// The host transformer on the device of tests/support/test_device.h.
#pragma once

#include <vector>

#include "runtime/train/host_model.h"
#include "tests/support/test_device.h"

namespace zenflow::runtime::testing {

#if defined(ZENFLOW_FAKE_CUDA)

/// As HostModel, in kernels of the emulator's compute stream.
class TestModel final : public TrainableModel {
 public:
  explicit TestModel(HostTransformer transformer) : transformer_(std::move(transformer)) {}

  void begin(const Batch& batch) { transformer_.begin(batch); }
  [[nodiscard]] const ParameterTable& parameters() const override {
    return transformer_.parameters();
  }
  [[nodiscard]] bool shared(std::size_t parameter) const override {
    return parameter == 0 && transformer_.config().model.tied_embeddings;
  }
  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override {
    run_on(compute, "forward", [this, group, w = std::vector(weights.begin(), weights.end())] {
      transformer_.forward(group, w);
    });
  }
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override {
    run_on(compute, "backward",
           [this, group, w = std::vector(weights.begin(), weights.end()),
            g = std::vector(gradients.begin(), gradients.end())] {
             transformer_.backward(group, w, g);
           });
  }
  [[nodiscard]] double loss() const override { return transformer_.loss(); }

 private:
  HostTransformer transformer_;
};

#else

using TestModel = HostModel;

#endif

}  // namespace zenflow::runtime::testing
