#include "runtime/model/decoder_block.h"

#include "runtime/model/activation.h"

namespace zenflow::runtime {
namespace {

LinearWeights at(WeightPointers weights, const LinearPlaces& places) {
  return {weights[places.weight], places.bias ? weights[*places.bias] : nullptr};
}
LinearGradients at(GradientPointers gradients, const LinearPlaces& places) {
  return {gradients[places.weight], places.bias ? gradients[*places.bias] : nullptr};
}

std::vector<float> buffer(std::int64_t rows, std::int64_t columns) {
  return std::vector<float>(static_cast<std::size_t>(rows * columns));
}

}  // namespace

NormShape norm_shape(const TransformerConfig& config) {
  return {config.model.hidden, !config.is_llama_like(), static_cast<float>(config.norm_epsilon)};
}

BlockActivations::BlockActivations(const TransformerConfig& config, std::int64_t tokens) {
  const sim::ModelSpec& model = config.model;
  normed = buffer(tokens, model.hidden);
  qkv = buffer(tokens, (model.heads + 2 * model.kv_heads) * model.head_dim);
  attention = buffer(tokens, model.heads * model.head_dim);
  middle = buffer(tokens, model.hidden);
  normed_middle = buffer(tokens, model.hidden);
  gate = buffer(tokens, model.intermediate);
  if (model.gated_mlp) up = buffer(tokens, model.intermediate);
  activated = buffer(tokens, model.intermediate);
  for (std::vector<float>& values : mean) values = buffer(tokens, 1);
  for (std::vector<float>& values : inverse_deviation) values = buffer(tokens, 1);
  maximum = buffer(tokens, model.heads);
  inverse_sum = buffer(tokens, model.heads);
}

BlockWorkspace::BlockWorkspace(const TransformerConfig& config, std::int64_t tokens)
    : d_norm_weight(buffer(1, config.model.hidden)), d_norm_bias(buffer(1, config.model.hidden)) {
  const sim::ModelSpec& model = config.model;
  hidden = buffer(tokens, model.hidden);
  d_activated = buffer(tokens, model.intermediate);
  d_gate = buffer(tokens, model.intermediate);
  d_attention = buffer(tokens, model.heads * model.head_dim);
  d_qkv = buffer(tokens, (model.heads + 2 * model.kv_heads) * model.head_dim);
}

void stored_norm_forward(const Execution& run, NormShape shape, NormPlaces places,
                         WeightPointers weights, std::int64_t rows, const float* x, float* y,
                         NormStatistics statistics, BlockWorkspace& work) {
  NormWeights values = {as_float(run, weights[places.weight], shape.columns, work.norm_weight)};
  if (places.bias) {
    values.bias = as_float(run, weights[*places.bias], shape.columns, work.norm_bias);
  }
  norm_forward(run, shape, values, rows, x, y, statistics);
}

void stored_norm_backward(const Execution& run, NormShape shape, NormPlaces places,
                          WeightPointers weights, GradientPointers gradients, std::int64_t rows,
                          const float* x, NormStatistics statistics, const float* dy, float* dx,
                          BlockWorkspace& work) {
  const float* const weight =
      as_float(run, weights[places.weight], shape.columns, work.norm_weight);
  NormGradients out = {
      dx, gradient_in_float(run, gradients[places.weight], shape.columns, work.d_norm_weight)};
  if (places.bias) {
    out.d_bias = gradient_in_float(run, gradients[*places.bias], shape.columns, work.d_norm_bias);
  }
  norm_backward(run, shape, weight, rows, x, statistics, dy, out);
  store_gradient(run, out.d_weight, shape.columns, gradients[places.weight]);
  if (places.bias) store_gradient(run, out.d_bias, shape.columns, gradients[*places.bias]);
}

DecoderBlock::DecoderBlock(const TransformerConfig& config, const ParameterTable& table,
                           std::int64_t layer)
    : layout_(config, table, layer),
      is_rotary_(config.is_llama_like()),
      activation_(config.activation),
      norm_(norm_shape(config)) {}

AttentionShape DecoderBlock::attention_shape(TokenGrid grid) const {
  return {grid.sequences,   grid.length,      layout_.heads,
          layout_.kv_heads, layout_.head_dim, layout_.scale};
}

void DecoderBlock::forward(const Execution& run, TokenGrid grid, const RotaryTable& rotary,
                           WeightPointers weights, const float* x, float* y, BlockActivations& kept,
                           BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  const AttentionShape shape = attention_shape(grid);
  stored_norm_forward(run, norm_, layout_.norm_places[0], weights, tokens, x, kept.normed.data(),
                      {kept.mean[0].data(), kept.inverse_deviation[0].data()}, work);
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    linear_forward(run, part.linear.shape, at(weights, part.linear), tokens,
                   {kept.normed.data(), layout_.hidden},
                   {kept.qkv.data() + part.column, shape.row()}, work.linear);
  }
  if (is_rotary_) {
    rotary.apply(run, RotaryTable::Direction::kForward, kept.qkv.data(), tokens, grid.length,
                 layout_.heads + layout_.kv_heads, shape.row());
  }
  attention_forward(run, shape, kept.qkv.data(), kept.attention.data(),
                    {kept.maximum.data(), kept.inverse_sum.data()}, work.attention);
  linear_forward(run, layout_.attention_out.shape, at(weights, layout_.attention_out), tokens,
                 {kept.attention.data(), shape.out_row()}, {kept.middle.data(), layout_.hidden},
                 work.linear);
  add(run, x, tokens * layout_.hidden, kept.middle.data());

  stored_norm_forward(run, norm_, layout_.norm_places[1], weights, tokens, kept.middle.data(),
                      kept.normed_middle.data(),
                      {kept.mean[1].data(), kept.inverse_deviation[1].data()}, work);
  const ConstMatrix normed = {kept.normed_middle.data(), layout_.hidden};
  linear_forward(run, layout_.gate.shape, at(weights, layout_.gate), tokens, normed,
                 {kept.gate.data(), layout_.intermediate}, work.linear);
  if (layout_.up) {
    linear_forward(run, layout_.up->shape, at(weights, *layout_.up), tokens, normed,
                   {kept.up.data(), layout_.intermediate}, work.linear);
    gated_forward(run, activation_, tokens * layout_.intermediate, kept.gate.data(), kept.up.data(),
                  kept.activated.data());
  } else {
    activation_forward(run, activation_, tokens * layout_.intermediate, kept.gate.data(),
                       kept.activated.data());
  }
  linear_forward(run, layout_.down.shape, at(weights, layout_.down), tokens,
                 {kept.activated.data(), layout_.intermediate}, {y, layout_.hidden}, work.linear);
  add(run, kept.middle.data(), tokens * layout_.hidden, y);
}

void DecoderBlock::feed_forward_gradients(const Execution& run, TokenGrid grid,
                                          WeightPointers weights, GradientPointers gradients,
                                          const float* dx, BlockActivations& kept,
                                          BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  const std::int64_t elements = tokens * layout_.intermediate;
  const ConstMatrix dy = {dx, layout_.hidden};
  const ConstMatrix normed = {kept.normed_middle.data(), layout_.hidden};
  const Matrix d_normed = {work.hidden.data(), layout_.hidden};
  linear_backward_weights(run, layout_.down.shape, at(gradients, layout_.down), tokens,
                          {kept.activated.data(), layout_.intermediate}, dy, work.linear);
  linear_backward_input(run, layout_.down.shape, weights[layout_.down.weight], tokens, dy,
                        {work.d_activated.data(), layout_.intermediate}, Store::kWrite,
                        work.linear);
  if (layout_.up) {
    gated_backward(run, activation_, elements, kept.gate.data(), kept.up.data(),
                   work.d_activated.data(), work.d_gate.data(), work.d_activated.data());
  } else {
    activation_backward(run, activation_, elements, kept.gate.data(), work.d_activated.data(),
                        work.d_gate.data());
  }
  const ConstMatrix d_gate = {work.d_gate.data(), layout_.intermediate};
  linear_backward_weights(run, layout_.gate.shape, at(gradients, layout_.gate), tokens, normed,
                          d_gate, work.linear);
  linear_backward_input(run, layout_.gate.shape, weights[layout_.gate.weight], tokens, d_gate,
                        d_normed, Store::kWrite, work.linear);
  if (!layout_.up) return;
  const ConstMatrix d_up = {work.d_activated.data(), layout_.intermediate};
  linear_backward_weights(run, layout_.up->shape, at(gradients, *layout_.up), tokens, normed, d_up,
                          work.linear);
  linear_backward_input(run, layout_.up->shape, weights[layout_.up->weight], tokens, d_up, d_normed,
                        Store::kAdd, work.linear);
}

void DecoderBlock::attention_gradients(const Execution& run, TokenGrid grid,
                                       const RotaryTable& rotary, WeightPointers weights,
                                       GradientPointers gradients, const float* dx,
                                       BlockActivations& kept, BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  const AttentionShape shape = attention_shape(grid);
  const ConstMatrix dy = {dx, layout_.hidden};
  linear_backward_weights(run, layout_.attention_out.shape, at(gradients, layout_.attention_out),
                          tokens, {kept.attention.data(), shape.out_row()}, dy, work.linear);
  linear_backward_input(run, layout_.attention_out.shape, weights[layout_.attention_out.weight],
                        tokens, dy, {work.d_attention.data(), shape.out_row()}, Store::kWrite,
                        work.linear);
  attention_backward(run, shape, kept.qkv.data(), kept.attention.data(),
                     {kept.maximum.data(), kept.inverse_sum.data()}, work.d_attention.data(),
                     work.d_qkv.data(), work.attention);
  if (is_rotary_) {
    rotary.apply(run, RotaryTable::Direction::kBackward, work.d_qkv.data(), tokens, grid.length,
                 layout_.heads + layout_.kv_heads, shape.row());
  }
  Store store = Store::kWrite;
  for (const BlockLayout::QkvPart& part : layout_.qkv) {
    const ConstMatrix d_part = {work.d_qkv.data() + part.column, shape.row()};
    linear_backward_weights(run, part.linear.shape, at(gradients, part.linear), tokens,
                            {kept.normed.data(), layout_.hidden}, d_part, work.linear);
    linear_backward_input(run, part.linear.shape, weights[part.linear.weight], tokens, d_part,
                          {work.hidden.data(), layout_.hidden}, store, work.linear);
    store = Store::kAdd;
  }
}

void DecoderBlock::backward(const Execution& run, TokenGrid grid, const RotaryTable& rotary,
                            WeightPointers weights, GradientPointers gradients, const float* x,
                            float* dx, BlockActivations& kept, BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  feed_forward_gradients(run, grid, weights, gradients, dx, kept, work);
  stored_norm_backward(run, norm_, layout_.norm_places[1], weights, gradients, tokens,
                       kept.middle.data(), {kept.mean[1].data(), kept.inverse_deviation[1].data()},
                       work.hidden.data(), dx, work);
  attention_gradients(run, grid, rotary, weights, gradients, dx, kept, work);
  stored_norm_backward(run, norm_, layout_.norm_places[0], weights, gradients, tokens, x,
                       {kept.mean[0].data(), kept.inverse_deviation[0].data()}, work.hidden.data(),
                       dx, work);
}

}  // namespace zenflow::runtime
