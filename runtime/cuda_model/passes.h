/// The passes of a whole transformer on the device, for one element type: what they keep, and which
/// block, embedding or head a group is.
#pragma once

#include <memory>

#include "runtime/cuda_model/batch.h"
#include "runtime/cuda_model/head.h"
#include "runtime/cuda_model/transformer.h"

namespace zenflow::runtime {

/// What a pass is over.
struct CudaPass {
  CudaExecution run;
  const CudaBatch& batch;
  WeightPointers weights;
  float gradient_scale;  ///< of the losses of single targets
  bool trains;           ///< backward follows
  bool adds;             ///< to the gradients that are there

  [[nodiscard]] TokenGrid grid() const { return {batch.sequences(), batch.length()}; }
};

class CudaPasses {
 public:
  virtual ~CudaPasses() = default;
  /// The head's writes *sum, on the device.
  virtual void forward(const CudaPass& pass, std::size_t group, kernels::LossSum* sum) = 0;
  virtual void backward(const CudaPass& pass, std::size_t group, GradientPointers gradients) = 0;
  /// [sequences, outputs], rows `stride` elements apart, in the element type on the device.
  struct Logits {
    const void* values;
    std::int64_t stride;
  };
  virtual Logits last_logits(const CudaPass& pass) = 0;
  /// Where a run of passes finds memory for its sums over rows.
  [[nodiscard]] virtual void* scratch() const = 0;
};

/// `device` has to live as long. Throws Error(kInfeasible) as Device::allocate.
[[nodiscard]] std::unique_ptr<CudaPasses> make_cuda_passes(const TransformerConfig& config,
                                                           const ParameterTable& table,
                                                           const CudaTransformerSettings& settings,
                                                           Device& device);

}  // namespace zenflow::runtime
