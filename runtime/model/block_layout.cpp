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

float score_scale(const TransformerConfig& config) {
  if (!config.scales_attention) return 1.0F;
  if (config.attention_scale > 0.0) return static_cast<float>(config.attention_scale);
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.model.head_dim)));
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
      scale(score_scale(config)),
      cap(static_cast<float>(config.attention_cap)),
      window(config.window(layer)),
      uses_window_rotary(window > 0 && config.window_rotary.has_value()),
      rotary_columns(config.has_rotary() ? config.rotary_columns : 0) {
  if (config.scales_attention_by_layer) scale /= static_cast<float>(layer + 1);
  const std::string prefix = fmt::format("{}{}.", config.names.layers, layer);
  if (config.model.type == "gpt2") {
    find_gpt2_parameters(table, prefix);
  } else if (config.model.type == "opt") {
    find_opt_parameters(table, prefix);
  } else {
    find_llama_parameters(table, prefix);
  }
}

/// By which of them there are: those of Llama are before the branches, those of OLMo 2 after them,
/// Gemma 2 has both.
void BlockLayout::find_llama_norms(const ParameterTable& table, const std::string& prefix) {
  const auto find = [&](const char* name) -> std::optional<NormPlaces> {
    if (!table.find(prefix + name + ".weight")) return std::nullopt;
    return find_norm(table, prefix + name);
  };
  before[0] = find("input_layernorm");
  before[1] = find("pre_feedforward_layernorm");
  after[1] = find("post_feedforward_layernorm");
  auto& second = after[1] ? after[0] : before[1];
  second = find_norm(table, prefix + "post_attention_layernorm");
}

void BlockLayout::find_qk_norms(const ParameterTable& table, const std::string& prefix) {
  const auto add = [&](const std::string& name, std::int64_t column, std::int64_t width) {
    if (!table.find(name + ".weight")) return;
    const NormPlaces places = find_norm(table, name);
    const std::int64_t columns = table.parameters[places.weight].columns;
    qk_norms.push_back({places, column, width / columns, columns});
  };
  add(prefix + "self_attn.q_norm", 0, heads * head_dim);
  add(prefix + "self_attn.k_norm", heads * head_dim, kv_heads * head_dim);
}

void BlockLayout::find_llama_parameters(const ParameterTable& table, const std::string& prefix) {
  const std::int64_t query = heads * head_dim;
  const std::int64_t key = kv_heads * head_dim;
  find_llama_norms(table, prefix);
  find_qk_norms(table, prefix);
  if (table.find(prefix + "self_attn.qkv_proj.weight")) {
    qkv = {{find_linear(table, prefix + "self_attn.qkv_proj", {hidden, query + 2 * key}), 0}};
  } else {
    qkv = {{find_linear(table, prefix + "self_attn.q_proj", {hidden, query}), 0},
           {find_linear(table, prefix + "self_attn.k_proj", {hidden, key}), query},
           {find_linear(table, prefix + "self_attn.v_proj", {hidden, key}), query + key}};
  }
  attention_out = find_linear(table, prefix + "self_attn.o_proj", {query, hidden});
  if (table.find(prefix + "mlp.gate_up_proj.weight")) {
    gate = find_linear(table, prefix + "mlp.gate_up_proj", {hidden, intermediate});
    up = gate;
    up->first_row = intermediate;
  } else {
    gate = find_linear(table, prefix + "mlp.gate_proj", {hidden, intermediate});
    up = find_linear(table, prefix + "mlp.up_proj", {hidden, intermediate});
  }
  down = find_linear(table, prefix + "mlp.down_proj", {intermediate, hidden});
}

void BlockLayout::find_opt_parameters(const ParameterTable& table, const std::string& prefix) {
  before = {find_norm(table, prefix + "self_attn_layer_norm"),
            find_norm(table, prefix + "final_layer_norm")};
  const LinearShape square = {hidden, hidden};
  qkv = {{find_linear(table, prefix + "self_attn.q_proj", square), 0},
         {find_linear(table, prefix + "self_attn.k_proj", square), hidden},
         {find_linear(table, prefix + "self_attn.v_proj", square), 2 * hidden}};
  attention_out = find_linear(table, prefix + "self_attn.out_proj", square);
  gate = find_linear(table, prefix + "fc1", {hidden, intermediate});
  down = find_linear(table, prefix + "fc2", {intermediate, hidden});
}

void BlockLayout::find_gpt2_parameters(const ParameterTable& table, const std::string& prefix) {
  before = {find_norm(table, prefix + "ln_1"), find_norm(table, prefix + "ln_2")};
  qkv = {{find_linear(table, prefix + "attn.c_attn", {hidden, 3 * hidden, true}), 0}};
  attention_out = find_linear(table, prefix + "attn.c_proj", {hidden, hidden, true});
  gate = find_linear(table, prefix + "mlp.c_fc", {hidden, intermediate, true});
  down = find_linear(table, prefix + "mlp.c_proj", {intermediate, hidden, true});
}

}  // namespace zenflow::runtime
