#include "runtime/cuda_model/operations.h"

#include <algorithm>
#include <type_traits>

#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/bias/bias_cuda.h"
#include "kernels/cast/cast_cuda.h"
#include "kernels/cross_entropy/cross_entropy_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rotary/rotary_cuda.h"

namespace zenflow::runtime {
namespace {

template <class Element>
constexpr bool kIsNarrow = std::is_same_v<Element, kernels::Bf16>;

template <class Element>
constexpr ElementType element_type() {
  return kIsNarrow<Element> ? ElementType::kBfloat16 : ElementType::kFloat32;
}

/// The stored weight as [in, out].
GemmInput in_by_out(const LinearShape& shape, const void* weight) {
  if (shape.is_conv1d) return {weight, shape.out, false};
  return {weight, shape.in, true};
}

GemmInput transpose(GemmInput matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

template <class Element>
GemmCall forward_call(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                      const Element* x, RowsView<Element> y) {
  return {.m = rows,
          .n = linear.shape.out,
          .k = linear.shape.in,
          .type = element_type<Element>(),
          .a = {x, linear.shape.in},
          .b = in_by_out(linear.shape, linear.weight_in<Element>(weights)),
          .c = y.values,
          .c_stride = y.stride};
}

template <class Element>
GemmCall weight_gradient_call(const LinearShape& shape, std::int64_t rows, const Element* x,
                              RowsView<const Element> dy, void* gradient) {
  GemmCall call = {.m = shape.out,
                   .n = shape.in,
                   .k = rows,
                   .type = element_type<Element>(),
                   .a = {dy.values, dy.stride, true},
                   .b = {x, shape.in},
                   .c = gradient,
                   .c_stride = shape.in};
  if (shape.is_conv1d) {
    call.m = shape.in;
    call.n = shape.out;
    call.a = {x, shape.in, true};
    call.b = {dy.values, dy.stride};
    call.c_stride = shape.out;
  }
  return call;
}

/// cuBLASLt's products of bfloat16 whose rows have a number of elements that is no multiple of 8
/// read or write them one by one, at a fifth of the rate, whatever lies between rows: GPT-2's
/// 50,257 logits, forward and as what the input's gradient sums over (seen on an H100, CUDA 13.0).
/// Such a matrix is taken in two parts, the second of at most 7 outputs.
constexpr std::int64_t kAlignedOutputs = 8;

/// How many outputs the first part has; all of them: there is one part.
template <class Element>
std::int64_t aligned_outputs(const LinearPlaces& linear) {
  const std::int64_t out = linear.shape.out;
  const bool in_parts =
      kIsNarrow<Element> && !linear.shape.is_conv1d && !linear.bias && out > kAlignedOutputs;
  return in_parts ? out - out % kAlignedOutputs : out;
}

/// Outputs [first, first + count).
LinearPlaces outputs_of(LinearPlaces linear, std::int64_t first, std::int64_t count) {
  linear.first_row += first;
  linear.shape.out = count;
  return linear;
}

template <class Element>
GemmCall input_gradient_call(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                             RowsView<const Element> dy, Element* dx, bool adds) {
  return {.m = rows,
          .n = linear.shape.in,
          .k = linear.shape.out,
          .type = element_type<Element>(),
          .a = {dy.values, dy.stride},
          .b = transpose(in_by_out(linear.shape, linear.weight_in<Element>(weights))),
          .c = dx,
          .c_stride = linear.shape.in,
          .adds = adds};
}

template <class Element>
class CudaOperations final : public Operations<Element> {
 public:
  explicit CudaOperations(const CudaExecution& run) : run_(run) {}

  void linear(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
              const Element* x, RowsView<Element> y) override {
    const std::int64_t first = aligned_outputs<Element>(linear);
    if (const std::int64_t rest = linear.shape.out - first; rest > 0) {
      this->linear(outputs_of(linear, 0, first), weights, rows, x, y);
      return run_.gemm->multiply(forward_call(outputs_of(linear, first, rest), weights, rows, x,
                                              RowsView<Element>{y.values + first, y.stride}),
                                 run_.stream);
    }
    GemmCall call = forward_call(linear, weights, rows, x, y);
    if (!linear.bias) return run_.gemm->multiply(call, run_.stream);
    const void* const bias = weights[*linear.bias];
    call.epilogue = Epilogue::kBias;
    call.bias = bias;
    if (run_.gemm->multiply_fused(call, run_.stream)) return;
    call.epilogue = Epilogue::kNone;
    run_.gemm->multiply(call, run_.stream);
    kernels::add_bias_cuda(as_size(rows), as_size(linear.shape.out), as_size(y.stride),
                           static_cast<const Element*>(bias), y.values, run_.stream);
  }

  /// Where the library fuses them, y comes from the fp32 sums.
  void linear_gelu(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                   const Element* x, Element* before, Element* y) override {
    if (linear.bias) {
      GemmCall call =
          forward_call(linear, weights, rows, x, RowsView<Element>{y, linear.shape.out});
      call.epilogue = Epilogue::kBiasGelu;
      call.bias = weights[*linear.bias];
      call.before_gelu = before;
      if (run_.gemm->multiply_fused(call, run_.stream)) return;
    }
    Operations<Element>::linear_gelu(linear, weights, rows, x, before, y);
  }

  void linear_input_gradient(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                             RowsView<const Element> dy, Element* dx, bool adds) override {
    const std::int64_t first = aligned_outputs<Element>(linear);
    const std::int64_t rest = linear.shape.out - first;
    // The few outputs first: what is rounded in between is their small part of the sum.
    if (rest > 0) {
      const LinearPlaces last = outputs_of(linear, first, rest);
      const RowsView<const Element> dy_of_last{dy.values + first, dy.stride};
      run_.gemm->multiply(input_gradient_call(last, weights, rows, dy_of_last, dx, adds),
                          run_.stream);
    }
    run_.gemm->multiply(
        input_gradient_call(outputs_of(linear, 0, first), weights, rows, dy, dx, adds || rest > 0),
        run_.stream);
  }

  void linear_weight_gradients(const LinearPlaces& linear, GradientPointers gradients,
                               std::int64_t rows, const Element* x, RowsView<const Element> dy,
                               bool adds, const RowsPart& part) override {
    auto* const gradient = linear.gradient_in<Element>(gradients);
    GemmCall call = weight_gradient_call(linear.shape, rows, x, dy, gradient);
    call.adds = adds || !part.is_first;
    // Sums of several parts in bf16 grow in fp32, from what is there if they are added to that.
    const std::size_t elements = as_size(linear.shape.in * linear.shape.out);
    if (part.sums != nullptr && !(part.is_first && part.is_last)) {
      if (part.is_first && adds) {
        kernels::accumulate_first_cuda(part.sums, static_cast<const Element*>(gradient), 1.0F,
                                       elements, run_.stream);
      }
      call.c = part.sums;
      call.c_is_float = true;
    }
    if (linear.bias && !adds) {  // the library's sums replace what is there
      call.epilogue = linear.shape.is_conv1d ? Epilogue::kSumsOfB : Epilogue::kSumsOfA;
      call.sums = gradients[*linear.bias];
      if (run_.gemm->multiply_fused(call, run_.stream)) return;
      call.epilogue = Epilogue::kNone;
    }
    run_.gemm->multiply(call, run_.stream);
    if constexpr (kIsNarrow<Element>) {
      if (call.c_is_float && part.is_last) {
        kernels::to_bf16_cuda(part.sums, elements, gradient, run_.stream);
      }
    }
    if (!linear.bias) return;
    kernels::bias_gradient_cuda(
        kernels::MatrixView<Element>{dy.values, as_size(rows), as_size(linear.shape.out),
                                     as_size(dy.stride)},
        adds, static_cast<Element*>(gradients[*linear.bias]), run_.scratch, run_.stream);
  }

  void norm(const kernels::NormShape& shape, const kernels::NormForward<Element>& values) override {
    kernels::norm_forward_cuda(shape, values, run_.stream);
  }

  void norm_gradient(const kernels::NormShape& shape,
                     const kernels::NormBackward<Element>& values) override {
    kernels::norm_backward_cuda(shape, values, run_.stream);
  }

  void norm_weight_gradients(const kernels::NormShape& shape,
                             const kernels::NormWeightGradients<Element>& values) override {
    kernels::norm_weight_gradients_cuda(shape, values, run_.scratch, run_.stream);
  }

  void rotary(const kernels::RotaryShape& shape, kernels::RotaryAngles angles,
              kernels::RotaryDirection direction, Element* x) override {
    kernels::rotary_cuda(shape, angles, direction, x, run_.stream);
  }

  void attention(const kernels::AttentionShape& shape,
                 const kernels::AttentionForward<Element>& values) override {
    kernels::attention_forward_cuda(shape, values, run_.stream);
  }

  void attention_gradient(const kernels::AttentionShape& shape,
                          const kernels::AttentionBackward<Element>& values) override {
    kernels::attention_backward_cuda(shape, values, run_.stream);
  }

  void activation(kernels::ActivationFunction f, std::size_t n, const Element* x,
                  Element* y) override {
    kernels::activation_cuda(f, n, x, y, run_.stream);
  }

  void activation_gradient(kernels::ActivationFunction f, std::size_t n,
                           const kernels::ActivationGradient<Element>& values) override {
    kernels::activation_gradient_cuda(f, n, values, run_.stream);
  }

  void gated(kernels::ActivationFunction f, std::size_t n, const Element* gate, const Element* up,
             Element* y) override {
    kernels::gated_cuda(f, n, gate, up, y, run_.stream);
  }

  void gated_gradient(kernels::ActivationFunction f, std::size_t n,
                      const kernels::GatedGradient<Element>& values) override {
    kernels::gated_gradient_cuda(f, n, values, run_.stream);
  }

  void embedding(const BatchView& batch, std::size_t columns, float scale, const Element* words,
                 const Element* positions, Element* y) override {
    kernels::embedding_cuda({batch.at.ids, as_size(batch.tokens()), as_size(batch.length), scale},
                            columns, words, positions, y, run_.stream);
  }

  void word_gradient(const BatchView& batch, std::size_t columns, float scale, const Element* dy,
                     std::size_t rows, bool adds, Element* gradient) override {
    kernels::WordOrderView order = batch.order();
    order.scale = scale;
    kernels::word_gradient_cuda(order, columns, dy, rows, adds, gradient, run_.stream);
  }

  void position_gradient(const BatchView& batch, std::size_t columns, const Element* dy,
                         std::size_t first, std::size_t places, bool adds,
                         Element* gradient) override {
    kernels::position_gradient_cuda(as_size(batch.tokens()), as_size(batch.length), columns, dy,
                                    first, places, adds, gradient, run_.stream);
  }

  void gather_last(const BatchView& batch, std::size_t columns, const Element* from,
                   Element* to) override {
    kernels::embedding_cuda<Element>(
        {batch.at.last, as_size(batch.sequences), as_size(batch.length)}, columns, from, nullptr,
        to, run_.stream);
  }

  void scatter_last(const BatchView& batch, std::size_t columns, const Element* from,
                    Element* to) override {
    kernels::word_gradient_cuda(
        {batch.at.last, batch.at.counting, batch.at.counting, as_size(batch.sequences)}, columns,
        from, as_size(batch.tokens()), false, to, run_.stream);
  }

  /// Losses are kernels::RowLoss.
  void loss(const LossRows<Element>& all, LossPass pass) override {
    const bool writes_gradient = pass != LossPass::kLoss;
    const auto scale = static_cast<float>(all.scale);
    auto* const losses = static_cast<kernels::RowLoss*>(all.losses);
    if (all.values != nullptr) {
      kernels::squared_error_cuda<Element>(
          {all.logits.values, as_size(all.rows), as_size(all.logits.stride), all.values, losses,
           scale, writes_gradient},
          run_.stream);
      return;
    }
    kernels::cross_entropy_cuda<Element>(
        {all.logits.values, as_size(all.rows), as_size(all.outputs), as_size(all.logits.stride),
         all.classes, losses, scale, writes_gradient, all.cap},
        run_.stream);
  }

  void sum_losses(const void* losses, std::size_t rows, kernels::LossSum* sum) override {
    kernels::sum_losses_cuda(static_cast<const kernels::RowLoss*>(losses), rows, sum, run_.stream);
  }

 private:
  const CudaExecution& run_;
};

}  // namespace

template <class Element>
std::unique_ptr<Operations<Element>> cuda_operations(const CudaExecution& run) {
  return std::make_unique<CudaOperations<Element>>(run);
}
template std::unique_ptr<Operations<float>> cuda_operations(const CudaExecution&);
template std::unique_ptr<Operations<kernels::Bf16>> cuda_operations(const CudaExecution&);

template <class Element>
OperationMemory cuda_operation_memory(const sim::ModelSpec& model, std::int64_t tokens,
                                      std::int64_t logit_bytes) {
  // For the sums over rows of any norm or bias of a block.
  const std::int64_t qkv = (model.heads + 2 * model.kv_heads) * model.head_dim;
  const std::int64_t widest = std::max({model.hidden, qkv, model.intermediate});
  const auto norm = [tokens](std::int64_t rows, std::int64_t columns) {
    return kernels::norm_weight_gradients_workspace(
        {as_size(tokens * rows), as_size(columns), false, 0.0F});
  };
  std::size_t scratch = std::max(
      norm(1, model.hidden), kernels::bias_gradient_workspace(as_size(tokens), as_size(widest)));
  if (const sim::Tensor* const queries = model.kinds.front().tensor_ending("q_norm.weight")) {
    const std::int64_t columns = queries->columns();
    scratch = std::max(scratch, norm(model.heads * model.head_dim / columns, columns));
  }
  return {.row_loss_bytes = sizeof(kernels::RowLoss),
          .logit_bytes = logit_bytes,
          .logit_multiple = 64,  // rows begin at multiples of 128 bytes
          .attention_scratch = 1,
          .scratch_bytes = static_cast<std::int64_t>(scratch),
          .sums_parts_apart = kIsNarrow<Element>};
}
template OperationMemory cuda_operation_memory<float>(const sim::ModelSpec&, std::int64_t,
                                                      std::int64_t);
template OperationMemory cuda_operation_memory<kernels::Bf16>(const sim::ModelSpec&, std::int64_t,
                                                              std::int64_t);

}  // namespace zenflow::runtime
