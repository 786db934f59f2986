#include "runtime/model/block.h"

#include <algorithm>

namespace zenflow::runtime {
namespace {

kernels::ActivationFunction function_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return kernels::ActivationFunction::kSilu;
    case Activation::kGelu:
      return kernels::ActivationFunction::kGelu;
    case Activation::kRelu:
      return kernels::ActivationFunction::kRelu;
    case Activation::kGeluTanh:
      break;
  }
  return kernels::ActivationFunction::kGeluTanh;
}

std::int64_t qkv_columns(const BlockLayout& layout) {
  return layout.qk_columns() + layout.kv_heads * layout.head_dim;
}

NormStatistics take_statistics(std::int64_t rows, Arena& arena) {
  return {arena.take<float>(rows), arena.take<float>(rows)};
}

}  // namespace

template <class Element>
BlockActivations<Element>::BlockActivations(const BlockLayout& layout, std::int64_t tokens,
                                            const OperationMemory& memory, Arena& arena) {
  const auto take = [&](std::int64_t columns, bool exists = true) {
    return exists ? arena.take<Element>(tokens * columns) : nullptr;
  };
  normed = take(layout.hidden, layout.before[0].has_value());
  raw_qk = take(layout.qk_columns(), !layout.qk_norms.empty());
  qkv = take(qkv_columns(layout));
  attention = take(layout.heads * layout.head_dim);
  attended = take(layout.hidden, layout.after[0].has_value());
  middle = take(layout.hidden);
  normed_middle = take(layout.hidden, layout.before[1].has_value());
  gate = take(layout.intermediate);
  up = take(layout.intermediate, layout.up.has_value());
  activated = take(layout.intermediate);
  fed = take(layout.hidden, layout.after[1].has_value());
  for (std::size_t i = 0; i < 2; ++i) {
    if (layout.before[i]) before[i] = take_statistics(tokens, arena);
    if (layout.after[i]) after[i] = take_statistics(tokens, arena);
  }
  for (const BlockLayout::QkNorm& norm : layout.qk_norms) {
    qk.push_back(take_statistics(tokens * norm.rows, arena));
  }
  lse = arena.take<float>(tokens * layout.heads * memory.attention_statistics);
}

template <class Element>
BlockWorkspace<Element>::BlockWorkspace(const BlockLayout& layout, std::int64_t tokens,
                                        const OperationMemory& memory, Arena& arena) {
  delta = arena.take<Element>(tokens * layout.hidden);
  // With norms on both sides of a branch the gradients by what both take are needed at once.
  const bool has_both = layout.before[0] && layout.after[0];
  hidden = memory.halves_share || has_both ? arena.take<Element>(tokens * layout.hidden) : delta;
  attention_delta = arena.take<float>(tokens * layout.heads * memory.attention_scratch);
  scratch = arena.take<std::byte>(memory.scratch_bytes);
  const std::size_t begin = arena.bytes();
  d_activated = arena.take<Element>(tokens * layout.intermediate);
  d_gate = arena.take<Element>(tokens * layout.intermediate);
  const std::size_t end = arena.bytes();
  if (memory.halves_share) arena.rewind(begin);  // feed-forward is done before attention begins
  d_attention = arena.take<Element>(tokens * layout.heads * layout.head_dim);
  d_qkv = arena.take<Element>(tokens * qkv_columns(layout));
  arena.extend_to(end);
}

template <class Element>
kernels::NormShape Norm<Element>::shape(const Pass& pass) const {
  return {.rows = as_size(pass.tokens() * rows_.per_token),
          .columns = as_size(rows_.columns),
          .is_layer_norm = settings_.is_layer_norm,
          .epsilon = static_cast<float>(settings_.epsilon),
          .rounds_normalized = settings_.rounds_normalized,
          .offset = static_cast<float>(settings_.offset),
          .rows_per_token = as_size(rows_.per_token),
          .x_stride = as_size(rows_.x_stride),
          .y_stride = as_size(rows_.y_stride)};
}

template <class Element>
void Norm<Element>::forward(Operations<Element>& run, const Pass& pass,
                            const ResidualStream<Element>& in, Element* y, NormStatistics kept,
                            const Element* residual) const {
  using Stored = kernels::ParameterOf<Element>;
  run.norm(shape(pass),
           {in.x, in.delta, in.sum, static_cast<const Stored*>(pass.weights[places_.weight]),
            places_.bias ? static_cast<const Stored*>(pass.weights[*places_.bias]) : nullptr, y,
            kept.mean, kept.inverse, residual});
}

template <class Element>
void Norm<Element>::backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                             const kernels::NormBackward<Element>& values) const {
  using Stored = kernels::ParameterOf<Element>;
  kernels::NormBackward<Element> v = values;
  v.weight = static_cast<const Stored*>(pass.weights[places_.weight]);
  // First, since dx may take the place of dy.
  run.norm_weight_gradients(
      shape(pass),
      {v.x, v.mean, v.inverse, v.dy, static_cast<Stored*>(gradients[places_.weight]),
       places_.bias ? static_cast<Stored*>(gradients[*places_.bias]) : nullptr, pass.adds});
  run.norm_gradient(shape(pass), v);
}

template <class Element>
Block<Element>::Block(const TransformerConfig& config, const ParameterTable& table,
                      std::int64_t layer)
    : layout_(config, table, layer), activation_(function_of(config.activation)) {
  const NormRows whole = {.columns = layout_.hidden};
  for (std::size_t i = 0; i < 2; ++i) {
    if (layout_.before[i]) before_[i].emplace(config.norm, *layout_.before[i], whole);
    if (layout_.after[i]) after_[i].emplace(config.norm, *layout_.after[i], whole);
  }
  for (const BlockLayout::QkNorm& norm : layout_.qk_norms) {
    qk_norms_.emplace_back(config.norm, norm.places,
                           NormRows{.columns = norm.columns,
                                    .per_token = norm.rows,
                                    .x_stride = layout_.qk_columns(),
                                    .y_stride = qkv_columns(layout_)});
  }
}

template <class Element>
kernels::AttentionShape Block<Element>::attention_shape(const Pass& pass) const {
  return {.sequences = as_size(pass.batch.sequences),
          .length = as_size(pass.batch.length),
          .heads = as_size(layout_.heads),
          .kv_heads = as_size(layout_.kv_heads),
          .head_dim = as_size(layout_.head_dim),
          .scale = layout_.scale,
          .window = as_size(layout_.window),
          .cap = layout_.cap};
}

template <class Element>
void Block<Element>::rotate(Operations<Element>& run, const Pass& pass,
                            kernels::RotaryDirection direction, Element* qkv) const {
  if (layout_.rotary_columns == 0) return;
  run.rotary({.rows = as_size(pass.tokens()),
              .length = as_size(pass.batch.length),
              .heads = as_size(layout_.heads + layout_.kv_heads),
              .head_dim = as_size(layout_.head_dim),
              .stride = as_size(qkv_columns(layout_)),
              .turned = as_size(layout_.rotary_columns)},
             layout_.uses_window_rotary ? pass.window_angles : pass.angles, direction, qkv);
}

/// Queries and keys by way of raw_qk, if they have norms.
template <class Element>
void Block<Element>::project_qkv(Operations<Element>& run, const Pass& pass, const Element* input,
                                 const BlockActivations<Element>& kept) const {
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    const bool is_normed = !qk_norms_.empty() && part.column < layout_.qk_columns();
    Element* const to = is_normed ? kept.raw_qk : kept.qkv;
    run.linear(part.linear, pass.weights, pass.tokens(), input,
               {to + part.column, is_normed ? layout_.qk_columns() : qkv_columns(layout_)});
  }
  for (std::size_t i = 0; i < qk_norms_.size(); ++i) {
    const std::int64_t column = layout_.qk_norms[i].column;
    qk_norms_[i].forward(run, pass, {kept.raw_qk + column, nullptr, nullptr}, kept.qkv + column,
                         kept.qk[i]);
  }
}

template <class Element>
void Block<Element>::attention_forward(Operations<Element>& run, const Pass& pass,
                                       const Element* input, const BlockActivations<Element>& kept,
                                       const BlockWorkspace<Element>& work) const {
  project_qkv(run, pass, input, kept);
  rotate(run, pass, kernels::RotaryDirection::kForward, kept.qkv);
  run.attention(attention_shape(pass), {kept.qkv, kept.attention, kept.lse});
  run.linear(layout_.attention_out, pass.weights, pass.tokens(), kept.attention,
             {after_[0] ? kept.attended : work.delta, layout_.hidden});
}

template <class Element>
void Block<Element>::feed_forward(Operations<Element>& run, const Pass& pass, const Element* input,
                                  const BlockActivations<Element>& kept) const {
  const std::int64_t tokens = pass.tokens();
  const std::size_t elements = as_size(tokens * layout_.intermediate);
  if (!layout_.up && activation_ == kernels::ActivationFunction::kGeluTanh) {
    return run.linear_gelu(layout_.gate, pass.weights, tokens, input, kept.gate, kept.activated);
  }
  run.linear(layout_.gate, pass.weights, tokens, input, {kept.gate, layout_.intermediate});
  if (!layout_.up) return run.activation(activation_, elements, kept.gate, kept.activated);
  run.linear(*layout_.up, pass.weights, tokens, input, {kept.up, layout_.intermediate});
  run.gated(activation_, elements, kept.gate, kept.up, kept.activated);
}

template <class Element>
void Block<Element>::forward(Operations<Element>& run, const Pass& pass,
                             const ResidualStream<Element>& in,
                             const BlockActivations<Element>& kept,
                             const BlockWorkspace<Element>& work, Element* out) const {
  const Element* const x = in.delta != nullptr ? in.sum : in.x;
  if (before_[0]) before_[0]->forward(run, pass, in, kept.normed, kept.before[0]);
  attention_forward(run, pass, before_[0] ? kept.normed : x, kept, work);
  if (after_[0]) {
    after_[0]->forward(run, pass, {kept.attended, nullptr, nullptr}, kept.middle, kept.after[0], x);
  }
  if (before_[1]) {
    const ResidualStream<Element> whole = {kept.middle, nullptr, nullptr};
    const ResidualStream<Element> parts = {x, work.delta, kept.middle};
    before_[1]->forward(run, pass, after_[0] ? whole : parts, kept.normed_middle, kept.before[1]);
  }
  feed_forward(run, pass, before_[1] ? kept.normed_middle : kept.middle, kept);
  if (out == nullptr && !after_[1]) return;
  run.linear(layout_.down, pass.weights, pass.tokens(), kept.activated,
             {after_[1] ? kept.fed : work.delta, layout_.hidden});
  if (!after_[1]) return;
  // Computed again for its statistics alone.
  Element* const to = out != nullptr ? out : work.delta;
  after_[1]->forward(run, pass, {kept.fed, nullptr, nullptr}, to, kept.after[1], kept.middle);
}

template <class Element>
void Block<Element>::feed_forward_gradients(Operations<Element>& run, const Pass& pass,
                                            GradientPointers gradients,
                                            const BranchGradient& branch,
                                            const BlockActivations<Element>& kept,
                                            const BlockWorkspace<Element>& work) const {
  const std::int64_t tokens = pass.tokens();
  const std::size_t elements = as_size(tokens * layout_.intermediate);
  const RowsView<const Element> dy = {branch.by_output, layout_.hidden};
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
    run.linear_weight_gradients(linear, gradients, tokens, branch.input, rows, pass.adds);
    run.linear_input_gradient(linear, pass.weights, tokens, rows, branch.by_input, adds);
  };
  gradients_of(layout_.gate, work.d_gate, branch.adds);
  if (layout_.up) gradients_of(*layout_.up, work.d_activated, true);
}

template <class Element>
void Block<Element>::attention_gradients(Operations<Element>& run, const Pass& pass,
                                         GradientPointers gradients, const BranchGradient& branch,
                                         const BlockActivations<Element>& kept,
                                         const BlockWorkspace<Element>& work) const {
  const std::int64_t tokens = pass.tokens();
  const RowsView<const Element> dy = {branch.by_output, layout_.hidden};
  run.linear_weight_gradients(layout_.attention_out, gradients, tokens, kept.attention, dy,
                              pass.adds);
  run.linear_input_gradient(layout_.attention_out, pass.weights, tokens, dy, work.d_attention,
                            false);
  run.attention_gradient(
      attention_shape(pass),
      {kept.qkv, kept.attention, kept.lse, work.d_attention, work.attention_delta, work.d_qkv});
  rotate(run, pass, kernels::RotaryDirection::kBackward, work.d_qkv);
  for (std::size_t i = 0; i < qk_norms_.size(); ++i) {
    const std::int64_t column = layout_.qk_norms[i].column;
    Element* const d = work.d_qkv + column;
    qk_norms_[i].backward(
        run, pass, gradients,
        {kept.raw_qk + column, nullptr, kept.qk[i].mean, kept.qk[i].inverse, d, d, false});
  }
  bool adds = branch.adds;
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    const RowsView<const Element> d_part = {work.d_qkv + part.column, qkv_columns(layout_)};
    run.linear_weight_gradients(part.linear, gradients, tokens, branch.input, d_part, pass.adds);
    run.linear_input_gradient(part.linear, pass.weights, tokens, d_part, branch.by_input, adds);
    adds = true;
  }
}

template <class Element>
void Block<Element>::backward(Operations<Element>& run, const Pass& pass,
                              GradientPointers gradients, const Element* x, Element* dx,
                              const BlockActivations<Element>& kept,
                              const BlockWorkspace<Element>& work) const {
  // dx is the gradient by the stream before and after a branch; a norm in front of the branch adds
  // its own part, and without one the branch does.
  const auto branch = [&](std::size_t i, const Element* stream, const Element* normed,
                          const Element* before_after) {
    BranchGradient gradient = {before_[i] ? normed : stream, dx, before_[i] ? work.hidden : dx,
                               !before_[i]};
    if (!after_[i]) return gradient;
    after_[i]->backward(
        run, pass, gradients,
        {before_after, nullptr, kept.after[i].mean, kept.after[i].inverse, dx, work.delta, false});
    gradient.by_output = work.delta;
    return gradient;
  };
  const auto finish = [&](std::size_t i, const Element* stream) {
    if (!before_[i]) return;
    before_[i]->backward(
        run, pass, gradients,
        {stream, nullptr, kept.before[i].mean, kept.before[i].inverse, work.hidden, dx, true});
  };
  feed_forward_gradients(run, pass, gradients, branch(1, kept.middle, kept.normed_middle, kept.fed),
                         kept, work);
  finish(1, kept.middle);
  attention_gradients(run, pass, gradients, branch(0, x, kept.normed, kept.attended), kept, work);
  finish(0, x);
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
