#include "runtime/model/decoder_block.h"

#include <cmath>

#include <fmt/format.h>

#include "runtime/model/activation.h"
#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

std::size_t require(const ParameterTable& table, const std::string& name) {
  if (const std::optional<std::size_t> place = table.find(name)) return *place;
  throw Error(ErrorKind::kRuntime, fmt::format("the model has no parameter \"{}\"", name));
}

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

NormPlaces find_norm(const ParameterTable& table, const std::string& prefix) {
  return {require(table, prefix + ".weight"), table.find(prefix + ".bias")};
}

LinearPlaces find_linear(const ParameterTable& table, const std::string& prefix,
                         LinearShape shape) {
  return {shape, require(table, prefix + ".weight"), table.find(prefix + ".bias")};
}

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
    : hidden_(config.model.hidden),
      intermediate_(config.model.intermediate),
      heads_(config.model.heads),
      kv_heads_(config.model.kv_heads),
      head_dim_(config.model.head_dim),
      scale_(config.scales_attention
                 ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim_)))
                 : 1.0F),
      is_rotary_(config.is_llama_like()),
      activation_(config.activation),
      norm_(norm_shape(config)) {
  if (config.scales_attention_by_layer) scale_ /= static_cast<float>(layer + 1);
  if (config.is_llama_like()) {
    find_llama_parameters(table, fmt::format("model.layers.{}.", layer));
  } else {
    find_gpt2_parameters(table, fmt::format("transformer.h.{}.", layer));
  }
}

void DecoderBlock::find_llama_parameters(const ParameterTable& table, const std::string& prefix) {
  const std::int64_t query = heads_ * head_dim_;
  const std::int64_t key = kv_heads_ * head_dim_;
  norm_places_ = {find_norm(table, prefix + "input_layernorm"),
                  find_norm(table, prefix + "post_attention_layernorm")};
  qkv_ = {{find_linear(table, prefix + "self_attn.q_proj", {hidden_, query}), 0},
          {find_linear(table, prefix + "self_attn.k_proj", {hidden_, key}), query},
          {find_linear(table, prefix + "self_attn.v_proj", {hidden_, key}), query + key}};
  attention_out_ = find_linear(table, prefix + "self_attn.o_proj", {query, hidden_});
  gate_ = find_linear(table, prefix + "mlp.gate_proj", {hidden_, intermediate_});
  up_ = find_linear(table, prefix + "mlp.up_proj", {hidden_, intermediate_});
  down_ = find_linear(table, prefix + "mlp.down_proj", {intermediate_, hidden_});
}

void DecoderBlock::find_gpt2_parameters(const ParameterTable& table, const std::string& prefix) {
  norm_places_ = {find_norm(table, prefix + "ln_1"), find_norm(table, prefix + "ln_2")};
  qkv_ = {{find_linear(table, prefix + "attn.c_attn", {hidden_, 3 * hidden_, true}), 0}};
  attention_out_ = find_linear(table, prefix + "attn.c_proj", {hidden_, hidden_, true});
  gate_ = find_linear(table, prefix + "mlp.c_fc", {hidden_, intermediate_, true});
  down_ = find_linear(table, prefix + "mlp.c_proj", {intermediate_, hidden_, true});
}

AttentionShape DecoderBlock::attention_shape(TokenGrid grid) const {
  return {grid.sequences, grid.length, heads_, kv_heads_, head_dim_, scale_};
}

void DecoderBlock::forward(const Execution& run, TokenGrid grid, const RotaryTable& rotary,
                           WeightPointers weights, const float* x, float* y, BlockActivations& kept,
                           BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  const AttentionShape shape = attention_shape(grid);
  stored_norm_forward(run, norm_, norm_places_[0], weights, tokens, x, kept.normed.data(),
                      {kept.mean[0].data(), kept.inverse_deviation[0].data()}, work);
  for (const QkvPart& part : qkv_) {
    linear_forward(run, part.linear.shape, at(weights, part.linear), tokens,
                   {kept.normed.data(), hidden_}, {kept.qkv.data() + part.column, shape.row()},
                   work.linear);
  }
  if (is_rotary_) {
    rotary.apply(run, RotaryTable::Direction::kForward, kept.qkv.data(), tokens, grid.length,
                 heads_ + kv_heads_, shape.row());
  }
  attention_forward(run, shape, kept.qkv.data(), kept.attention.data(),
                    {kept.maximum.data(), kept.inverse_sum.data()}, work.attention);
  linear_forward(run, attention_out_.shape, at(weights, attention_out_), tokens,
                 {kept.attention.data(), shape.out_row()}, {kept.middle.data(), hidden_},
                 work.linear);
  add(run, x, tokens * hidden_, kept.middle.data());

  stored_norm_forward(run, norm_, norm_places_[1], weights, tokens, kept.middle.data(),
                      kept.normed_middle.data(),
                      {kept.mean[1].data(), kept.inverse_deviation[1].data()}, work);
  const ConstMatrix normed = {kept.normed_middle.data(), hidden_};
  linear_forward(run, gate_.shape, at(weights, gate_), tokens, normed,
                 {kept.gate.data(), intermediate_}, work.linear);
  if (up_) {
    linear_forward(run, up_->shape, at(weights, *up_), tokens, normed,
                   {kept.up.data(), intermediate_}, work.linear);
    gated_forward(run, activation_, tokens * intermediate_, kept.gate.data(), kept.up.data(),
                  kept.activated.data());
  } else {
    activation_forward(run, activation_, tokens * intermediate_, kept.gate.data(),
                       kept.activated.data());
  }
  linear_forward(run, down_.shape, at(weights, down_), tokens,
                 {kept.activated.data(), intermediate_}, {y, hidden_}, work.linear);
  add(run, kept.middle.data(), tokens * hidden_, y);
}

void DecoderBlock::feed_forward_gradients(const Execution& run, TokenGrid grid,
                                          WeightPointers weights, GradientPointers gradients,
                                          const float* dx, BlockActivations& kept,
                                          BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  const std::int64_t elements = tokens * intermediate_;
  const ConstMatrix dy = {dx, hidden_};
  const ConstMatrix normed = {kept.normed_middle.data(), hidden_};
  const Matrix d_normed = {work.hidden.data(), hidden_};
  linear_backward_weights(run, down_.shape, at(gradients, down_), tokens,
                          {kept.activated.data(), intermediate_}, dy, work.linear);
  linear_backward_input(run, down_.shape, weights[down_.weight], tokens, dy,
                        {work.d_activated.data(), intermediate_}, Store::kWrite, work.linear);
  if (up_) {
    gated_backward(run, activation_, elements, kept.gate.data(), kept.up.data(),
                   work.d_activated.data(), work.d_gate.data(), work.d_activated.data());
  } else {
    activation_backward(run, activation_, elements, kept.gate.data(), work.d_activated.data(),
                        work.d_gate.data());
  }
  const ConstMatrix d_gate = {work.d_gate.data(), intermediate_};
  linear_backward_weights(run, gate_.shape, at(gradients, gate_), tokens, normed, d_gate,
                          work.linear);
  linear_backward_input(run, gate_.shape, weights[gate_.weight], tokens, d_gate, d_normed,
                        Store::kWrite, work.linear);
  if (!up_) return;
  const ConstMatrix d_up = {work.d_activated.data(), intermediate_};
  linear_backward_weights(run, up_->shape, at(gradients, *up_), tokens, normed, d_up, work.linear);
  linear_backward_input(run, up_->shape, weights[up_->weight], tokens, d_up, d_normed, Store::kAdd,
                        work.linear);
}

void DecoderBlock::attention_gradients(const Execution& run, TokenGrid grid,
                                       const RotaryTable& rotary, WeightPointers weights,
                                       GradientPointers gradients, const float* dx,
                                       BlockActivations& kept, BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  const AttentionShape shape = attention_shape(grid);
  const ConstMatrix dy = {dx, hidden_};
  linear_backward_weights(run, attention_out_.shape, at(gradients, attention_out_), tokens,
                          {kept.attention.data(), shape.out_row()}, dy, work.linear);
  linear_backward_input(run, attention_out_.shape, weights[attention_out_.weight], tokens, dy,
                        {work.d_attention.data(), shape.out_row()}, Store::kWrite, work.linear);
  attention_backward(run, shape, kept.qkv.data(), kept.attention.data(),
                     {kept.maximum.data(), kept.inverse_sum.data()}, work.d_attention.data(),
                     work.d_qkv.data(), work.attention);
  if (is_rotary_) {
    rotary.apply(run, RotaryTable::Direction::kBackward, work.d_qkv.data(), tokens, grid.length,
                 heads_ + kv_heads_, shape.row());
  }
  Store store = Store::kWrite;
  for (const QkvPart& part : qkv_) {
    const ConstMatrix d_part = {work.d_qkv.data() + part.column, shape.row()};
    linear_backward_weights(run, part.linear.shape, at(gradients, part.linear), tokens,
                            {kept.normed.data(), hidden_}, d_part, work.linear);
    linear_backward_input(run, part.linear.shape, weights[part.linear.weight], tokens, d_part,
                          {work.hidden.data(), hidden_}, store, work.linear);
    store = Store::kAdd;
  }
}

void DecoderBlock::backward(const Execution& run, TokenGrid grid, const RotaryTable& rotary,
                            WeightPointers weights, GradientPointers gradients, const float* x,
                            float* dx, BlockActivations& kept, BlockWorkspace& work) const {
  const std::int64_t tokens = grid.tokens();
  feed_forward_gradients(run, grid, weights, gradients, dx, kept, work);
  stored_norm_backward(run, norm_, norm_places_[1], weights, gradients, tokens, kept.middle.data(),
                       {kept.mean[1].data(), kept.inverse_deviation[1].data()}, work.hidden.data(),
                       dx, work);
  attention_gradients(run, grid, rotary, weights, gradients, dx, kept, work);
  stored_norm_backward(run, norm_, norm_places_[0], weights, gradients, tokens, x,
                       {kept.mean[0].data(), kept.inverse_deviation[0].data()}, work.hidden.data(),
                       dx, work);
}

}  // namespace zenflow::runtime
