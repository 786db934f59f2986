#include "runtime/cuda_model/linear.h"

#include "kernels/activation/activation_cuda.h"
#include "kernels/bias/bias_cuda.h"

namespace zenflow::runtime {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
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
          .b = in_by_out(linear.shape, weights[linear.weight]),
          .c = y.values,
          .c_stride = y.stride};
}

}  // namespace

template <class Element>
void cuda_linear_forward(const CudaExecution& run, const LinearPlaces& linear,
                         WeightPointers weights, std::int64_t rows, const Element* x,
                         RowsView<Element> y) {
  GemmCall call = forward_call(linear, weights, rows, x, y);
  if (!linear.bias) return run.gemm.multiply(call, run.stream);
  const void* const bias = weights[*linear.bias];
  call.epilogue = Epilogue::kBias;
  call.bias = bias;
  if (run.gemm.multiply_fused(call, run.stream)) return;
  call.epilogue = Epilogue::kNone;
  run.gemm.multiply(call, run.stream);
  kernels::add_bias_cuda(size(rows), size(linear.shape.out), size(y.stride),
                         static_cast<const Element*>(bias), y.values, run.stream);
}

template <class Element>
void cuda_linear_gelu_forward(const CudaExecution& run, const LinearPlaces& linear,
                              WeightPointers weights, std::int64_t rows, const Element* x,
                              Element* before, Element* y) {
  const std::int64_t out = linear.shape.out;
  if (linear.bias) {
    GemmCall call = forward_call(linear, weights, rows, x, RowsView<Element>{y, out});
    call.epilogue = Epilogue::kBiasGelu;
    call.bias = weights[*linear.bias];
    call.before_gelu = before;
    if (run.gemm.multiply_fused(call, run.stream)) return;
  }
  cuda_linear_forward(run, linear, weights, rows, x, RowsView<Element>{before, out});
  kernels::activation_cuda(kernels::ActivationFunction::kGeluTanh, size(rows * out), before, y,
                           run.stream);
}

template <class Element>
void cuda_linear_backward_input(const CudaExecution& run, const LinearPlaces& linear,
                                WeightPointers weights, std::int64_t rows,
                                RowsView<const Element> dy, Element* dx, bool adds) {
  run.gemm.multiply({.m = rows,
                     .n = linear.shape.in,
                     .k = linear.shape.out,
                     .type = element_type<Element>(),
                     .a = {dy.values, dy.stride},
                     .b = transpose(in_by_out(linear.shape, weights[linear.weight])),
                     .c = dx,
                     .c_stride = linear.shape.in,
                     .adds = adds},
                    run.stream);
}

template <class Element>
void cuda_linear_backward_weights(const CudaExecution& run, const LinearPlaces& linear,
                                  GradientPointers gradients, std::int64_t rows, const Element* x,
                                  RowsView<const Element> dy, bool adds) {
  const LinearShape& shape = linear.shape;
  GemmCall call = {.m = shape.out,
                   .n = shape.in,
                   .k = rows,
                   .type = element_type<Element>(),
                   .a = {dy.values, dy.stride, true},
                   .b = {x, shape.in},
                   .c = gradients[linear.weight],
                   .c_stride = shape.in,
                   .adds = adds,
                   .epilogue = Epilogue::kSumsOfA};
  if (shape.is_conv1d) {
    call.m = shape.in;
    call.n = shape.out;
    call.a = {x, shape.in, true};
    call.b = {dy.values, dy.stride};
    call.c_stride = shape.out;
    call.epilogue = Epilogue::kSumsOfB;
  }
  if (linear.bias && !adds) {  // the library's sums replace what is there
    call.sums = gradients[*linear.bias];
    if (run.gemm.multiply_fused(call, run.stream)) return;
  }
  call.epilogue = Epilogue::kNone;
  run.gemm.multiply(call, run.stream);
  if (!linear.bias) return;
  kernels::bias_gradient_cuda(
      kernels::MatrixView<Element>{dy.values, size(rows), size(shape.out), size(dy.stride)}, adds,
      static_cast<Element*>(gradients[*linear.bias]), run.scratch, run.stream);
}

#define ZENFLOW_LINEAR(Element)                                                                   \
  template void cuda_linear_forward(const CudaExecution&, const LinearPlaces&, WeightPointers,    \
                                    std::int64_t, const Element*, RowsView<Element>);             \
  template void cuda_linear_gelu_forward(const CudaExecution&, const LinearPlaces&,               \
                                         WeightPointers, std::int64_t, const Element*, Element*,  \
                                         Element*);                                               \
  template void cuda_linear_backward_input(const CudaExecution&, const LinearPlaces&,             \
                                           WeightPointers, std::int64_t, RowsView<const Element>, \
                                           Element*, bool);                                       \
  template void cuda_linear_backward_weights(const CudaExecution&, const LinearPlaces&,           \
                                             GradientPointers, std::int64_t, const Element*,      \
                                             RowsView<const Element>, bool);
ZENFLOW_LINEAR(float)
ZENFLOW_LINEAR(kernels::Bf16)
#undef ZENFLOW_LINEAR

}  // namespace zenflow::runtime
