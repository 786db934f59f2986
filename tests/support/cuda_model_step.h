/// A transformer on the device with weights of its own, and one step of it: what the offload engine
/// does, without one.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/cuda_model/transformer.h"
#include "tests/support/model_step.h"
#include "tests/support/on_device.h"
#include "tests/support/plain_device.h"

namespace zenflow::testing {

/// Tensors of a table on the device, each in an allocation of its own.
class DeviceTensors {
 public:
  explicit DeviceTensors(const TensorStore& values) {
    for (const std::vector<std::byte>& bytes : values.bytes()) {
      tensors_.push_back(std::make_unique<kernels::testing::OnDevice<std::byte>>(bytes));
      pointers_.push_back(tensors_.back()->get());
    }
    for (void* pointer : pointers_) constant_.push_back(pointer);
  }
  [[nodiscard]] const std::vector<void*>& pointers() const { return pointers_; }
  [[nodiscard]] const std::vector<const void*>& constant() const { return constant_; }
  void read_into(TensorStore& values) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::vector<std::byte> bytes = tensors_[i]->read();
      std::memcpy(values.pointers()[i], bytes.data(), bytes.size());
    }
  }

 private:
  std::vector<std::unique_ptr<kernels::testing::OnDevice<std::byte>>> tensors_;
  std::vector<void*> pointers_;
  std::vector<const void*> constant_;
};

struct CudaModelUnderTest {
  /// `make_gemm(device)` makes the products.
  template <class MakeGemm>
  CudaModelUnderTest(const runtime::TransformerConfig& config,
                     const runtime::CudaTransformerSettings& settings, const MakeGemm& make_gemm)
      : model(config, settings, device, make_gemm(device), &null_stream),
        weights(model.parameters(), settings.type),
        gradients(model.parameters(), settings.type) {}

  void upload_weights() { on_device = std::make_unique<DeviceTensors>(weights); }

  /// Forward and backward over micro-batches of equal weight; the loss.
  double step(const std::vector<runtime::Batch>& batches) {
    const DeviceTensors out(gradients);
    const std::size_t groups = model.parameters().groups.size();
    for (std::size_t i = 0; i < batches.size(); ++i) {
      model.begin(batches[i], {.adds = i > 0, .weight = 1.0 / static_cast<double>(batches.size())});
      for (std::size_t group = 0; group < groups; ++group) {
        model.forward(group, on_device->constant(), stream);
      }
      for (std::size_t group = groups; group-- > 0;) {
        model.backward(group, on_device->constant(), out.pointers(), stream);
      }
    }
    kernels::testing::synchronize();
    out.read_into(gradients);
    return model.loss();
  }
  runtime::Evaluation evaluate(const runtime::Batch& batch) {
    return model.evaluate(batch, on_device->constant(), stream);
  }

  PlainDevice device;
  PlainStream stream;
  runtime::CudaTransformer model;
  TensorStore weights;
  TensorStore gradients;
  std::unique_ptr<DeviceTensors> on_device;
};

}  // namespace zenflow::testing
