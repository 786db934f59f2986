#include "runtime/model/block.h"

#include <algorithm>

namespace zenflow::runtime {
namespace {

std::int64_t qkv_columns(const sim::ModelSpec& model) {
  return (model.heads + 2 * model.kv_heads) * model.head_dim;
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

}  // namespace

template <class Element>
BlockActivations<Element>::BlockActivations(const TransformerConfig& config, std::int64_t tokens,
                                            const OperationMemory& memory, Arena& arena) {
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
  lse = arena.take<float>(tokens * model.heads * memory.attention_statistics);
}

template <class Element>
BlockWorkspace<Element>::BlockWorkspace(const TransformerConfig& config, std::int64_t tokens,
                                        const OperationMemory& memory, Arena& arena) {
  const sim::ModelSpec& model = config.model;
  delta = arena.take<Element>(tokens * model.hidden);
  hidden = memory.halves_share ? arena.take<Element>(tokens * model.hidden) : delta;
  attention_delta = arena.take<float>(tokens * model.heads * memory.attention_scratch);
  scratch = arena.take<std::byte>(memory.scratch_bytes);
  const std::size_t begin = arena.bytes();
  d_activated = arena.take<Element>(tokens * model.intermediate);
  d_gate = arena.take<Element>(tokens * model.intermediate);
  const std::size_t end = arena.bytes();
  if (memory.halves_share) arena.rewind(begin);  // feed-forward is done before attention begins
  d_attention = arena.take<Element>(tokens * model.heads * model.head_dim);
  d_qkv = arena.take<Element>(tokens * qkv_columns(model));
  arena.extend_to(end);
}

template <class Element>
void Norm<Element>::forward(Operations<Element>& run, const Pass& pass,
                            const ResidualStream<Element>& in, Element* y, float* mean,
                            float* inverse) const {
  using Stored = kernels::ParameterOf<Element>;
  run.norm(shape(pass),
           {in.x, in.delta, in.sum, static_cast<const Stored*>(pass.weights[places_.weight]),
            places_.bias ? static_cast<const Stored*>(pass.weights[*places_.bias]) : nullptr, y,
            mean, inverse});
}

template <class Element>
void Norm<Element>::backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                             const kernels::NormBackward<Element>& values) const {
  using Stored = kernels::ParameterOf<Element>;
  kernels::NormBackward<Element> v = values;
  v.weight = static_cast<const Stored*>(pass.weights[places_.weight]);
  run.norm_gradient(shape(pass), v);
  run.norm_weight_gradients(
      shape(pass),
      {v.x, v.mean, v.inverse, v.dy, static_cast<Stored*>(gradients[places_.weight]),
       places_.bias ? static_cast<Stored*>(gradients[*places_.bias]) : nullptr, pass.adds});
}

template <class Element>
Block<Element>::Block(const TransformerConfig& config, const ParameterTable& table,
                      std::int64_t layer)
    : layout_(config, table, layer),
      norms_{Norm<Element>(config, layout_.norm_places[0]),
             Norm<Element>(config, layout_.norm_places[1])},
      is_rotary_(config.is_llama_like()),
      activation_(function_of(config.activation)) {}

template <class Element>
kernels::AttentionShape Block<Element>::attention_shape(const Pass& pass) const {
  return {as_size(pass.batch.sequences), as_size(pass.batch.length), as_size(layout_.heads),
          as_size(layout_.kv_heads),     as_size(layout_.head_dim),  layout_.scale};
}

template <class Element>
void Block<Element>::rotate(Operations<Element>& run, const Pass& pass,
                            kernels::RotaryDirection direction, Element* qkv) const {
  if (!is_rotary_) return;
  run.rotary({as_size(pass.tokens()), as_size(pass.batch.length),
              as_size(layout_.heads + layout_.kv_heads), as_size(layout_.head_dim),
              attention_shape(pass).row()},
             pass.angles, direction, qkv);
}

template <class Element>
void Block<Element>::attention_forward(Operations<Element>& run, const Pass& pass,
                                       const BlockActivations<Element>& kept,
                                       const BlockWorkspace<Element>& work) const {
  const kernels::AttentionShape shape = attention_shape(pass);
  const auto row = static_cast<std::int64_t>(shape.row());
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    run.linear(part.linear, pass.weights, pass.tokens(), kept.normed,
               {kept.qkv + part.column, row});
  }
  rotate(run, pass, kernels::RotaryDirection::kForward, kept.qkv);
  run.attention(shape, {kept.qkv, kept.attention, kept.lse});
  run.linear(layout_.attention_out, pass.weights, pass.tokens(), kept.attention,
             {work.delta, layout_.hidden});
}

template <class Element>
void Block<Element>::feed_forward(Operations<Element>& run, const Pass& pass,
                                  const BlockActivations<Element>& kept) const {
  const std::int64_t tokens = pass.tokens();
  const std::size_t elements = as_size(tokens * layout_.intermediate);
  if (!layout_.up && activation_ == kernels::ActivationFunction::kGeluTanh) {
    return run.linear_gelu(layout_.gate, pass.weights, tokens, kept.normed_middle, kept.gate,
                           kept.activated);
  }
  run.linear(layout_.gate, pass.weights, tokens, kept.normed_middle,
             {kept.gate, layout_.intermediate});
  if (!layout_.up) return run.activation(activation_, elements, kept.gate, kept.activated);
  run.linear(*layout_.up, pass.weights, tokens, kept.normed_middle,
             {kept.up, layout_.intermediate});
  run.gated(activation_, elements, kept.gate, kept.up, kept.activated);
}

template <class Element>
void Block<Element>::forward(Operations<Element>& run, const Pass& pass,
                             const ResidualStream<Element>& in,
                             const BlockActivations<Element>& kept,
                             const BlockWorkspace<Element>& work, bool recomputes) const {
  const Element* const x = in.delta != nullptr ? in.sum : in.x;
  norms_[0].forward(run, pass, in, kept.normed, kept.mean[0], kept.inverse[0]);
  attention_forward(run, pass, kept, work);
  norms_[1].forward(run, pass, {x, work.delta, kept.middle}, kept.normed_middle, kept.mean[1],
                    kept.inverse[1]);
  feed_forward(run, pass, kept);
  if (recomputes) return;
  run.linear(layout_.down, pass.weights, pass.tokens(), kept.activated,
             {work.delta, layout_.hidden});
}

template <class Element>
void Block<Element>::feed_forward_gradients(Operations<Element>& run, const Pass& pass,
                                            GradientPointers gradients, const Element* dx,
                                            const BlockActivations<Element>& kept,
                                            const BlockWorkspace<Element>& work) const {
  const std::int64_t tokens = pass.tokens();
  const std::size_t elements = as_size(tokens * layout_.intermediate);
  const RowsView<const Element> dy = {dx, layout_.hidden};
  run.linear_weight_gradients(layout_.down, gradients, tokens, kept.activated, dy, pass.adds);
  run.linear_input_gradient(layout_.down, pass.weights, tokens, dy, work.d_activated, false);
  if (layout_.up) {
    run.gated_gradient(activation_, elements,
                       {kept.gate, kept.up, work.d_activated, work.d_gate, work.d_activated});
  } else {
    run.activation_gradient(activation_, elements, {kept.gate, work.d_activated, work.d_gate});
  }
  const auto gradients_of = [&](const LinearPlaces& linear, const Element* d, bool adds) {
    const RowsView<const Element> rows = {d, layout_.intermediate};
    run.linear_weight_gradients(linear, gradients, tokens, kept.normed_middle, rows, pass.adds);
    run.linear_input_gradient(linear, pass.weights, tokens, rows, work.hidden, adds);
  };
  gradients_of(layout_.gate, work.d_gate, false);
  if (layout_.up) gradients_of(*layout_.up, work.d_activated, true);
}

template <class Element>
void Block<Element>::attention_gradients(Operations<Element>& run, const Pass& pass,
                                         GradientPointers gradients, const Element* dx,
                                         const BlockActivations<Element>& kept,
                                         const BlockWorkspace<Element>& work) const {
  const std::int64_t tokens = pass.tokens();
  const kernels::AttentionShape shape = attention_shape(pass);
  const RowsView<const Element> dy = {dx, layout_.hidden};
  run.linear_weight_gradients(layout_.attention_out, gradients, tokens, kept.attention, dy,
                              pass.adds);
  run.linear_input_gradient(layout_.attention_out, pass.weights, tokens, dy, work.d_attention,
                            false);
  run.attention_gradient(shape, {kept.qkv, kept.attention, kept.lse, work.d_attention,
                                 work.attention_delta, work.d_qkv});
  rotate(run, pass, kernels::RotaryDirection::kBackward, work.d_qkv);
  bool adds_to_hidden = false;
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    const RowsView<const Element> d_part = {work.d_qkv + part.column,
                                            static_cast<std::int64_t>(shape.row())};
    run.linear_weight_gradients(part.linear, gradients, tokens, kept.normed, d_part, pass.adds);
    run.linear_input_gradient(part.linear, pass.weights, tokens, d_part, work.hidden,
                              adds_to_hidden);
    adds_to_hidden = true;
  }
}

template <class Element>
void Block<Element>::backward(Operations<Element>& run, const Pass& pass,
                              GradientPointers gradients, const Element* x, Element* dx,
                              const BlockActivations<Element>& kept,
                              const BlockWorkspace<Element>& work) const {
  feed_forward_gradients(run, pass, gradients, dx, kept, work);
  norms_[1].backward(run, pass, gradients,
                     {kept.middle, nullptr, kept.mean[1], kept.inverse[1], work.hidden, dx, true});
  attention_gradients(run, pass, gradients, dx, kept, work);
  norms_[0].backward(run, pass, gradients,
                     {x, nullptr, kept.mean[0], kept.inverse[0], work.hidden, dx, true});
}

#define ZENFLOW_BLOCK(Element)               \
  template struct BlockActivations<Element>; \
  template struct BlockWorkspace<Element>;   \
  template class Norm<Element>;              \
  template class Block<Element>;
ZENFLOW_BLOCK(float)
ZENFLOW_BLOCK(kernels::Bf16)
ZENFLOW_BLOCK(kernels::WideBf16)
#undef ZENFLOW_BLOCK

}  // namespace zenflow::runtime
