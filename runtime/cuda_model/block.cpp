#include "runtime/cuda_model/block.h"

#include <algorithm>

#include "kernels/activation/activation_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/bias/bias_cuda.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rotary/rotary_cuda.h"

namespace zenflow::runtime {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

std::int64_t qkv_columns(const sim::ModelSpec& model) {
  return (model.heads + 2 * model.kv_heads) * model.head_dim;
}

/// Bytes for the sums over rows of any norm or bias of a block.
std::size_t scratch_bytes(const sim::ModelSpec& model, std::int64_t tokens) {
  const std::int64_t widest = std::max({model.hidden, qkv_columns(model), model.intermediate});
  return std::max(kernels::norm_weight_gradients_workspace(
                      {size(tokens), size(model.hidden), !model.gated_mlp, 0.0F}),
                  kernels::bias_gradient_workspace(size(tokens), size(widest)));
}

kernels::ActivationFunction function_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kernels::ActivationFunction::kSilu;
    case Activation::kGelu:
      return kernels::ActivationFunction::kGelu;
    case Activation::kGeluTanh:
      break;
  }
  return kernels::ActivationFunction::kGeluTanh;
}

template <class Element>
const Element* as(const void* values) {
  return static_cast<const Element*>(values);
}

}  // namespace

template <class Element>
CudaBlockActivations<Element>::CudaBlockActivations(const TransformerConfig& config,
                                                    std::int64_t tokens, Arena& arena) {
  const sim::ModelSpec& model = config.model;
  normed = arena.take<Element>(tokens * model.hidden);
  qkv = arena.take<Element>(tokens * qkv_columns(model));
  attention = arena.take<Element>(tokens * model.heads * model.head_dim);
  middle = arena.take<Element>(tokens * model.hidden);
  normed_middle = arena.take<Element>(tokens * model.hidden);
  gate = arena.take<Element>(tokens * model.intermediate);
  up = model.gated_mlp ? arena.take<Element>(tokens * model.intermediate) : nullptr;
  activated = arena.take<Element>(tokens * model.intermediate);
  for (float*& values : mean) values = arena.take<float>(tokens);
  for (float*& values : inverse) values = arena.take<float>(tokens);
  lse = arena.take<float>(tokens * model.heads);
}

template <class Element>
CudaWorkspace<Element>::CudaWorkspace(const TransformerConfig& config, std::int64_t tokens,
                                      Arena& arena) {
  const sim::ModelSpec& model = config.model;
  delta = arena.take<Element>(tokens * model.hidden);
  hidden = arena.take<Element>(tokens * model.hidden);
  attention_delta = arena.take<float>(tokens * model.heads);
  scratch = arena.take<std::byte>(static_cast<std::int64_t>(scratch_bytes(model, tokens)));
  const std::size_t begin = arena.bytes();
  d_activated = arena.take<Element>(tokens * model.intermediate);
  d_gate = arena.take<Element>(tokens * model.intermediate);
  const std::size_t end = arena.bytes();
  arena.rewind(begin);  // the feed-forward part is done before attention's begins
  d_attention = arena.take<Element>(tokens * model.heads * model.head_dim);
  d_qkv = arena.take<Element>(tokens * qkv_columns(model));
  arena.extend_to(end);
}

template <class Element>
void cuda_norm_forward(const CudaExecution& run, const kernels::NormShape& shape,
                       const NormPlaces& places, WeightPointers weights,
                       const ResidualStream<Element>& in, Element* y, float* mean, float* inverse) {
  kernels::norm_forward_cuda<Element>(
      shape,
      {in.x, in.delta, in.sum, as<Element>(weights[places.weight]),
       places.bias ? as<Element>(weights[*places.bias]) : nullptr, y, mean, inverse},
      run.stream);
}

template <class Element>
void cuda_norm_backward(const CudaExecution& run, const kernels::NormShape& shape,
                        const NormPlaces& places, WeightPointers weights,
                        GradientPointers gradients, const CudaNormBackward<Element>& v) {
  kernels::norm_backward_cuda<Element>(
      shape,
      {v.x, as<Element>(weights[places.weight]), v.mean, v.inverse, v.dy, v.dx, v.adds_to_dx},
      run.stream);
  kernels::norm_weight_gradients_cuda<Element>(
      shape,
      {v.x, v.mean, v.inverse, v.dy, static_cast<Element*>(gradients[places.weight]),
       places.bias ? static_cast<Element*>(gradients[*places.bias]) : nullptr, v.adds_to_gradients},
      run.scratch, run.stream);
}

template <class Element>
CudaBlock<Element>::CudaBlock(const TransformerConfig& config, const ParameterTable& table,
                              std::int64_t layer)
    : layout_(config, table, layer),
      is_llama_like_(config.is_llama_like()),
      epsilon_(static_cast<float>(config.norm_epsilon)),
      activation_(function_of(config.activation)) {}

template <class Element>
kernels::AttentionShape CudaBlock<Element>::attention_shape(TokenGrid grid) const {
  return {size(grid.sequences),   size(grid.length),      size(layout_.heads),
          size(layout_.kv_heads), size(layout_.head_dim), layout_.scale};
}

template <class Element>
kernels::RotaryShape CudaBlock<Element>::rotary_shape(TokenGrid grid) const {
  return {size(grid.tokens()), size(grid.length), size(layout_.heads + layout_.kv_heads),
          size(layout_.head_dim), attention_shape(grid).row()};
}

template <class Element>
kernels::NormShape CudaBlock<Element>::norm_shape(TokenGrid grid) const {
  return {size(grid.tokens()), size(layout_.hidden), !is_llama_like_, epsilon_};
}

template <class Element>
void CudaBlock<Element>::attention_forward(const CudaExecution& run, TokenGrid grid,
                                           kernels::RotaryAngles angles, WeightPointers weights,
                                           const CudaBlockActivations<Element>& kept,
                                           const CudaWorkspace<Element>& work) const {
  const kernels::AttentionShape shape = attention_shape(grid);
  const auto row = static_cast<std::int64_t>(shape.row());
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    cuda_linear_forward<Element>(run, part.linear, weights, grid.tokens(), kept.normed,
                                 {kept.qkv + part.column, row});
  }
  if (is_llama_like_) {
    kernels::rotary_cuda(rotary_shape(grid), angles, kernels::RotaryDirection::kForward, kept.qkv,
                         run.stream);
  }
  kernels::attention_forward_cuda<Element>(shape, {kept.qkv, kept.attention, kept.lse}, run.stream);
  cuda_linear_forward<Element>(run, layout_.attention_out, weights, grid.tokens(), kept.attention,
                               {work.delta, layout_.hidden});
}

template <class Element>
void CudaBlock<Element>::feed_forward(const CudaExecution& run, TokenGrid grid,
                                      WeightPointers weights,
                                      const CudaBlockActivations<Element>& kept) const {
  const std::int64_t tokens = grid.tokens();
  const std::size_t elements = size(tokens * layout_.intermediate);
  if (!layout_.up && activation_ == kernels::ActivationFunction::kGeluTanh) {
    return cuda_linear_gelu_forward(run, layout_.gate, weights, tokens, kept.normed_middle,
                                    kept.gate, kept.activated);
  }
  cuda_linear_forward<Element>(run, layout_.gate, weights, tokens, kept.normed_middle,
                               {kept.gate, layout_.intermediate});
  if (!layout_.up) {
    return kernels::activation_cuda(activation_, elements, kept.gate, kept.activated, run.stream);
  }
  cuda_linear_forward<Element>(run, *layout_.up, weights, tokens, kept.normed_middle,
                               {kept.up, layout_.intermediate});
  kernels::gated_cuda(activation_, elements, kept.gate, kept.up, kept.activated, run.stream);
}

template <class Element>
void CudaBlock<Element>::forward(const CudaExecution& run, TokenGrid grid,
                                 kernels::RotaryAngles angles, WeightPointers weights,
                                 const ResidualStream<Element>& in,
                                 const CudaBlockActivations<Element>& kept,
                                 const CudaWorkspace<Element>& work, bool recomputes) const {
  const Element* const x = in.delta != nullptr ? in.sum : in.x;
  cuda_norm_forward(run, norm_shape(grid), layout_.norm_places[0], weights, in, kept.normed,
                    kept.mean[0], kept.inverse[0]);
  attention_forward(run, grid, angles, weights, kept, work);
  cuda_norm_forward<Element>(run, norm_shape(grid), layout_.norm_places[1], weights,
                             {x, work.delta, kept.middle}, kept.normed_middle, kept.mean[1],
                             kept.inverse[1]);
  feed_forward(run, grid, weights, kept);
  if (recomputes) return;  // backward does not need the block's output
  cuda_linear_forward<Element>(run, layout_.down, weights, grid.tokens(), kept.activated,
                               {work.delta, layout_.hidden});
}

template <class Element>
void CudaBlock<Element>::feed_forward_gradients(const CudaExecution& run, TokenGrid grid,
                                                WeightPointers weights, GradientPointers gradients,
                                                bool adds, const Element* dx,
                                                const CudaBlockActivations<Element>& kept,
                                                const CudaWorkspace<Element>& work) const {
  const std::int64_t tokens = grid.tokens();
  const std::size_t elements = size(tokens * layout_.intermediate);
  const RowsView<const Element> dy = {dx, layout_.hidden};
  cuda_linear_backward_weights(run, layout_.down, gradients, tokens,
                               static_cast<const Element*>(kept.activated), dy, adds);
  cuda_linear_backward_input(run, layout_.down, weights, tokens, dy, work.d_activated, false);
  if (layout_.up) {
    kernels::gated_gradient_cuda<Element>(
        activation_, elements,
        {kept.gate, kept.up, work.d_activated, work.d_gate, work.d_activated}, run.stream);
  } else {
    kernels::activation_gradient_cuda<Element>(
        activation_, elements, {kept.gate, work.d_activated, work.d_gate}, run.stream);
  }
  const Element* const normed = kept.normed_middle;
  const RowsView<const Element> d_gate = {work.d_gate, layout_.intermediate};
  cuda_linear_backward_weights(run, layout_.gate, gradients, tokens, normed, d_gate, adds);
  cuda_linear_backward_input(run, layout_.gate, weights, tokens, d_gate, work.hidden, false);
  if (!layout_.up) return;
  const RowsView<const Element> d_up = {work.d_activated, layout_.intermediate};
  cuda_linear_backward_weights(run, *layout_.up, gradients, tokens, normed, d_up, adds);
  cuda_linear_backward_input(run, *layout_.up, weights, tokens, d_up, work.hidden, true);
}

template <class Element>
void CudaBlock<Element>::attention_gradients(const CudaExecution& run, TokenGrid grid,
                                             kernels::RotaryAngles angles, WeightPointers weights,
                                             GradientPointers gradients, bool adds,
                                             const Element* dx,
                                             const CudaBlockActivations<Element>& kept,
                                             const CudaWorkspace<Element>& work) const {
  const std::int64_t tokens = grid.tokens();
  const kernels::AttentionShape shape = attention_shape(grid);
  const auto row = static_cast<std::int64_t>(shape.row());
  const RowsView<const Element> dy = {dx, layout_.hidden};
  cuda_linear_backward_weights(run, layout_.attention_out, gradients, tokens,
                               static_cast<const Element*>(kept.attention), dy, adds);
  cuda_linear_backward_input(run, layout_.attention_out, weights, tokens, dy, work.d_attention,
                             false);
  kernels::attention_backward_cuda<Element>(
      shape,
      {kept.qkv, kept.attention, kept.lse, work.d_attention, work.attention_delta, work.d_qkv},
      run.stream);
  if (is_llama_like_) {
    kernels::rotary_cuda(rotary_shape(grid), angles, kernels::RotaryDirection::kBackward,
                         work.d_qkv, run.stream);
  }
  bool adds_to_hidden = false;
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    const RowsView<const Element> d_part = {work.d_qkv + part.column, row};
    cuda_linear_backward_weights(run, part.linear, gradients, tokens,
                                 static_cast<const Element*>(kept.normed), d_part, adds);
    cuda_linear_backward_input(run, part.linear, weights, tokens, d_part, work.hidden,
                               adds_to_hidden);
    adds_to_hidden = true;
  }
}

template <class Element>
void CudaBlock<Element>::backward(const CudaExecution& run, TokenGrid grid,
                                  kernels::RotaryAngles angles, WeightPointers weights,
                                  GradientPointers gradients, bool adds, const Element* x,
                                  Element* dx, const CudaBlockActivations<Element>& kept,
                                  const CudaWorkspace<Element>& work) const {
  feed_forward_gradients(run, grid, weights, gradients, adds, dx, kept, work);
  cuda_norm_backward<Element>(
      run, norm_shape(grid), layout_.norm_places[1], weights, gradients,
      {kept.middle, kept.mean[1], kept.inverse[1], work.hidden, dx, true, adds});
  attention_gradients(run, grid, angles, weights, gradients, adds, dx, kept, work);
  cuda_norm_backward<Element>(run, norm_shape(grid), layout_.norm_places[0], weights, gradients,
                              {x, kept.mean[0], kept.inverse[0], work.hidden, dx, true, adds});
}

#define ZENFLOW_BLOCK(Element)                                                               \
  template struct CudaBlockActivations<Element>;                                             \
  template struct CudaWorkspace<Element>;                                                    \
  template void cuda_norm_forward(const CudaExecution&, const kernels::NormShape&,           \
                                  const NormPlaces&, WeightPointers,                         \
                                  const ResidualStream<Element>&, Element*, float*, float*); \
  template void cuda_norm_backward(const CudaExecution&, const kernels::NormShape&,          \
                                   const NormPlaces&, WeightPointers, GradientPointers,      \
                                   const CudaNormBackward<Element>&);                        \
  template class CudaBlock<Element>;
ZENFLOW_BLOCK(float)
ZENFLOW_BLOCK(kernels::Bf16)
#undef ZENFLOW_BLOCK

}  // namespace zenflow::runtime
