#include "runtime/model/block_layout.h"

#include <cmath>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

std::size_t require(const ParameterTable& table, const std::string& name) {
  if (const std::optional<std::size_t> place = table.find(name)) return *place;
  throw Error(ErrorKind::kRuntime, fmt::format("the model has no parameter \"{}\"", name));
}

}  // namespace

NormPlaces find_norm(const ParameterTable& table, const std::string& prefix) {
  return {require(table, prefix + ".weight"), table.find(prefix + ".bias")};
}

LinearPlaces find_linear(const ParameterTable& table, const std::string& prefix,
                         LinearShape shape) {
  return {shape, require(table, prefix + ".weight"), table.find(prefix + ".bias")};
}

BlockLayout::BlockLayout(const TransformerConfig& config, const ParameterTable& table,
                         std::int64_t layer)
    : hidden(config.model.hidden),
      intermediate(config.model.intermediate),
      heads(config.model.heads),
      kv_heads(config.model.kv_heads),
      head_dim(config.model.head_dim),
      scale(config.scales_attention
                ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)))
                : 1.0F) {
  if (config.scales_attention_by_layer) scale /= static_cast<float>(layer + 1);
  if (config.is_llama_like()) {
    find_llama_parameters(table, fmt::format("model.layers.{}.", layer));
  } else {
    find_gpt2_parameters(table, fmt::format("transformer.h.{}.", layer));
  }
}

void BlockLayout::find_llama_parameters(const ParameterTable& table, const std::string& prefix) {
  const std::int64_t query = heads * head_dim;
  const std::int64_t key = kv_heads * head_dim;
  norm_places = {find_norm(table, prefix + "input_layernorm"),
                 find_norm(table, prefix + "post_attention_layernorm")};
  qkv = {{find_linear(table, prefix + "self_attn.q_proj", {hidden, query}), 0},
         {find_linear(table, prefix + "self_attn.k_proj", {hidden, key}), query},
         {find_linear(table, prefix + "self_attn.v_proj", {hidden, key}), query + key}};
  attention_out = find_linear(table, prefix + "self_attn.o_proj", {query, hidden});
  gate = find_linear(table, prefix + "mlp.gate_proj", {hidden, intermediate});
  up = find_linear(table, prefix + "mlp.up_proj", {hidden, intermediate});
  down = find_linear(table, prefix + "mlp.down_proj", {intermediate, hidden});
}

void BlockLayout::find_gpt2_parameters(const ParameterTable& table, const std::string& prefix) {
  norm_places = {find_norm(table, prefix + "ln_1"), find_norm(table, prefix + "ln_2")};
  qkv = {{find_linear(table, prefix + "attn.c_attn", {hidden, 3 * hidden, true}), 0}};
  attention_out = find_linear(table, prefix + "attn.c_proj", {hidden, hidden, true});
  gate = find_linear(table, prefix + "mlp.c_fc", {hidden, intermediate, true});
  down = find_linear(table, prefix + "mlp.c_proj", {intermediate, hidden, true});
}

}  // namespace zenflow::runtime
