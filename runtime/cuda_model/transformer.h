/// The transformer on the GPU, as the offload engine sees it: the model of
/// runtime/model/transformer.h with the same parameters and roundings, on the device's streams.
#pragma once

#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "runtime/cuda_model/gemm.h"
#include "runtime/device/device.h"
#include "runtime/model/network.h"
#include "runtime/model/transformer.h"
#include "runtime/offload/training_model.h"

namespace zenflow::runtime {

struct CudaTransformerSettings : TransformerSettings {
  /// Logits of a language model above this are computed in chunks of tokens (runtime/model/head.h).
  std::int64_t logit_bytes = std::int64_t{1} << 30;
};

/// Bytes of device memory that the transformer allocates when it is made ("activations" and "model
/// workspace"), and then no more; beside them the batch and the angles of rotary positions, below 1
/// MiB for 8,192 tokens.
[[nodiscard]] NetworkMemory cuda_transformer_memory(const TransformerConfig& config,
                                                    const CudaTransformerSettings& settings);

/// Gradients of several micro-batches are added in fp32 and stored in the element type after each,
/// as a gradient buffer of that type has them.
class CudaTransformer : public TrainingModel {
 public:
  /// The CUDA stream behind a stream of the device.
  using StreamHandle = cudaStream_t (*)(Stream&);

  /// `device` has to live as long. Throws Error(kInput) as HostTransformer, and Error(kInfeasible)
  /// as Device::allocate.
  CudaTransformer(const TransformerConfig& config, const CudaTransformerSettings& settings,
                  Device& device, std::unique_ptr<DeviceGemm> gemm, StreamHandle handle_of);
  ~CudaTransformer() override;
  CudaTransformer(const CudaTransformer&) = delete;
  CudaTransformer& operator=(const CudaTransformer&) = delete;

  /// Takes the next batch: the forward pass of its first group copies it to the device. Waits for
  /// the copy of the batch before, and with `adds` for its loss, but for no backward pass: passes
  /// of several batches may be enqueued one after the other, all on one stream.
  /// Throws Error(kInput) as HostTransformer::begin.
  void begin(const Batch& batch, MicroBatch part) override;
  /// A forward pass alone, which it waits for; ends a step that has not run its backward.
  [[nodiscard]] Evaluation evaluate(const Batch& batch, std::span<const void* const> weights,
                                    Stream& compute) override;
  [[nodiscard]] const TransformerConfig& config() const override;

  [[nodiscard]] const ParameterTable& parameters() const override;
  [[nodiscard]] bool shared(std::size_t parameter) const override;
  /// Both throw Error(kRuntime) as HostTransformer if a group is out of order.
  void forward(std::size_t group, std::span<const void* const> weights, Stream& compute) override;
  void backward(std::size_t group, std::span<const void* const> weights,
                std::span<void* const> gradients, Stream& compute) override;
  /// The step's so far: the weighted sum over its micro-batches.
  [[nodiscard]] double loss() const override;

 protected:
  void check(const Batch& batch) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zenflow::runtime
