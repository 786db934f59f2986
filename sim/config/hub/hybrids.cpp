#include "sim/config/hub/hybrids.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

// Estimated, as no kernel's work is published: a scan costs what adding each key and value to the
// state and reading it does, and keeps its inputs and result as the fused kernels of Mamba and of
// flash-linear-attention do, with the states between chunks left out.

namespace zenflow::sim::hub {
namespace {

constexpr std::int64_t kMaxState = 1 << 12;
constexpr std::int64_t kMaxKernel = 1 << 10;

/// How a layer's type is written, by transformers and by older files.
bool is_linear_type(std::string_view type) {
  return type == "linear_attention" || type == "mamba";
}

/// A list of types, one a layer, or nothing if the key is missing.
std::optional<std::vector<std::string>> read_layer_types(HubConfig& config, std::string_view key,
                                                         std::int64_t layers) {
  auto types = config.texts(key);
  if (types && std::ssize(*types) != layers) {
    config.fail(key, fmt::format("expected one for each of the {} layers, found {}", layers,
                                 types->size()));
  }
  return types;
}

void choose_linear(const HubConfig& config, std::string_view key,
                   const std::vector<std::string>& types, std::vector<bool>& chosen) {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = is_linear_type(types[i]);
    if (chosen[i] || types[i] == "full_attention" || types[i] == "attention") continue;
    config.fail(key,
                fmt::format("expected linear_attention or full_attention, found \"{}\"", types[i]));
  }
}

/// From layer_types, or those that `by_default` chooses.
template <typename ByDefault>
std::vector<bool> linear_layers(HubConfig& config, std::int64_t layers, ByDefault by_default) {
  std::vector<bool> chosen(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) chosen[static_cast<std::size_t>(i)] = by_default(i);
  if (const auto types = read_layer_types(config, "layer_types", layers)) {
    choose_linear(config, "layer_types", *types, chosen);
  }
  return chosen;
}

std::vector<bool> all_linear(HubConfig&, std::int64_t layers) {
  return std::vector<bool>(static_cast<std::size_t>(layers), true);
}

/// All but every fourth. Source: Qwen3NextConfig.
std::vector<bool> qwen_linear_layers(HubConfig& config, std::int64_t layers) {
  const std::int64_t period = config.positive_or({"full_attention_interval"}, 4, kMaxLayers);
  return linear_layers(config, layers, [period](std::int64_t i) { return (i + 1) % period != 0; });
}

/// All but every fourth, and at least one with attention. Source: OlmoHybridConfig.
std::vector<bool> olmo_linear_layers(HubConfig& config, std::int64_t layers) {
  return linear_layers(config, layers, [layers](std::int64_t i) {
    return i % 4 != 3 && !(layers < 4 && i + 1 == layers);
  });
}

std::vector<bool> minimax_linear_layers(HubConfig& config, std::int64_t layers) {
  return linear_layers(config, layers, [](std::int64_t i) { return i % 2 == 1; });
}

std::vector<bool> granite_linear_layers(HubConfig& config, std::int64_t layers) {
  std::vector<bool> chosen = linear_layers(config, layers, [](std::int64_t) { return true; });
  if (const auto types = read_layer_types(config, "layers_block_type", layers)) {
    choose_linear(config, "layers_block_type", *types, chosen);
  }
  return chosen;
}

/// All but those listed. Source: BambaConfig.
std::vector<bool> bamba_linear_layers(HubConfig& config, std::int64_t layers) {
  std::vector<bool> chosen = all_linear(config, layers);
  for (const std::int64_t i :
       config.numbers("attn_layer_indices").value_or(std::vector<std::int64_t>())) {
    if (i < layers) chosen[static_cast<std::size_t>(i)] = false;
  }
  return chosen;
}

/// All but one of each period. Source: JambaConfig.
std::vector<bool> jamba_linear_layers(HubConfig& config, std::int64_t layers) {
  const std::int64_t period = config.positive_or({"attn_layer_period"}, 8, kMaxLayers);
  const std::int64_t offset = config.size_or({"attn_layer_offset"}, 4, kMaxLayers);
  std::vector<bool> chosen = all_linear(config, layers);
  for (std::int64_t i = 0; i < layers; ++i) {
    chosen[static_cast<std::size_t>(i)] = i % period != offset;
  }
  return chosen;
}

/// Layers that are listed from 1 on in linear_attn_config. Source: KimiLinearConfig.
std::vector<bool> kimi_linear_layers(HubConfig& config, std::int64_t layers) {
  std::vector<bool> chosen =
      linear_layers(config, layers, [](std::int64_t i) { return i == 0 || i % 4 != 0; });
  if (config.has("layer_types") || !config.has("linear_attn_config")) return chosen;
  HubConfig below = config.below("linear_attn_config", config.head());
  const auto full = below.numbers("full_attn_layers");
  const auto linear = below.numbers("kda_layers");
  if (!full || !linear) return chosen;
  if (std::ssize(*full) + std::ssize(*linear) != layers) {
    below.fail("kda_layers", "expected each layer in one of both lists");
  }
  for (const std::int64_t i : *linear) {
    if (i >= 1 && i <= layers) chosen[static_cast<std::size_t>(i - 1)] = true;
  }
  for (const std::int64_t i : *full) {
    if (i >= 1 && i <= layers) chosen[static_cast<std::size_t>(i - 1)] = false;
  }
  return chosen;
}

std::vector<bool> lfm2_convolutions(HubConfig& config, std::int64_t layers) {
  std::vector<bool> chosen(static_cast<std::size_t>(layers), false);
  if (const auto full = config.numbers("full_attn_idxs")) {
    std::fill(chosen.begin(), chosen.end(), true);
    for (const std::int64_t i : *full) {
      if (i < layers) chosen[static_cast<std::size_t>(i)] = false;
    }
  }
  if (const auto types = read_layer_types(config, "layer_types", layers)) {
    for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = (*types)[i] == "conv";
  }
  return chosen;
}

/// A convolution of each column alone over `kernel` tokens, and SiLU: a chain each. Their inputs
/// are kept; what comes out, the scan keeps.
void convolve(LayerBuilder& b, std::string_view name, std::int64_t columns, std::int64_t kernel,
              bool has_bias) {
  b.tensor(fmt::format("{}.weight", name), {columns, 1, kernel});
  if (has_bias) b.tensor(fmt::format("{}.bias", name), {columns});
  b.chain(ChainKind::kActivation, as_double(columns));
  b.chain(ChainKind::kActivation, as_double(columns));
  b.keep(2 * as_double(columns), 0);
}

/// A scan with heads of `state` keys and `columns` values: its inputs and result are kept.
void scan(LayerBuilder& b, std::int64_t heads, std::int64_t key_heads, std::int64_t state,
          std::int64_t columns) {
  b.linear_attention({.heads = heads,
                      .kv_heads = key_heads,
                      .head_dim = state,
                      .value_dim = columns,
                      .linear = true});
  b.keep(2 * as_double(key_heads * state) + 2 * as_double(heads * columns), 8 * as_double(heads));
}

/// norm(result) * activation(gate), where the result is the scan's own.
void gated_norm(LayerBuilder& b, Norm kind, std::string_view name, std::int64_t size,
                std::int64_t heads) {
  b.chain(ChainKind::kGate, as_double(size * heads));
  b.keep(3 * as_double(size * heads), 0);
  if (heads == 1) {
    b.norm(kind, name, size);
  } else {
    b.head_norm(kind, name, size, heads);
  }
}

struct DeltaSizes {
  std::int64_t key_heads = 0;
  std::int64_t heads = 0;
  std::int64_t state = 0;
  std::int64_t columns = 0;
  std::int64_t kernel = 0;
};

DeltaSizes read_delta(HubConfig& config) {
  return {.key_heads = config.positive_or({"linear_num_key_heads"}, 16, kMaxHeads),
          .heads = config.positive_or({"linear_num_value_heads"}, 32, kMaxHeads),
          .state = config.positive_or({"linear_key_head_dim"}, 128, kMaxHeadDim),
          .columns = config.positive_or({"linear_value_head_dim"}, 128, kMaxHeadDim),
          .kernel = config.positive_or({"linear_conv_kernel_dim"}, 4, kMaxKernel)};
}

/// The gated delta rule. Source: arXiv 2412.06464.
void finish_delta_net(LayerBuilder& b, const DeltaSizes& sizes, std::int64_t hidden) {
  const std::int64_t keys = sizes.key_heads * sizes.state;
  const std::int64_t values = sizes.heads * sizes.columns;
  convolve(b, "linear_attn.conv1d", 2 * keys + values, sizes.kernel, false);
  b.tensor("linear_attn.dt_bias", {sizes.heads});
  b.tensor("linear_attn.A_log", {sizes.heads});
  scan(b, sizes.heads, sizes.key_heads, sizes.state, sizes.columns);
  gated_norm(b, Norm::kRms, "linear_attn.norm", sizes.columns, sizes.heads);
  b.linear("linear_attn.out_proj", values, hidden, false);
}

void add_delta_net(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  const DeltaSizes sizes = read_delta(config);
  const std::int64_t keys = sizes.key_heads * sizes.state;
  const std::int64_t values = sizes.heads * sizes.columns;
  b.linear("linear_attn.in_proj_qkvz", model.hidden, 2 * keys + 2 * values, false);
  b.linear("linear_attn.in_proj_ba", model.hidden, 2 * sizes.heads, false);
  finish_delta_net(b, sizes, model.hidden);
}

void add_split_delta_net(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  const DeltaSizes sizes = read_delta(config);
  const std::int64_t keys = sizes.key_heads * sizes.state;
  const std::int64_t values = sizes.heads * sizes.columns;
  b.linear("linear_attn.in_proj_qkv", model.hidden, 2 * keys + values, false);
  b.linear("linear_attn.in_proj_z", model.hidden, values, false);
  b.linear("linear_attn.in_proj_b", model.hidden, sizes.heads, false);
  b.linear("linear_attn.in_proj_a", model.hidden, sizes.heads, false);
  finish_delta_net(b, sizes, model.hidden);
}

void add_olmo_delta_net(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  const std::int64_t hidden = model.hidden;
  DeltaSizes sizes;
  sizes.key_heads = config.positive_or({"linear_num_key_heads"}, model.heads, kMaxHeads);
  sizes.heads = config.positive_or({"linear_num_value_heads"}, model.heads, kMaxHeads);
  // Three quarters of the stream, divided between the heads and rounded down.
  const std::int64_t state = std::max<std::int64_t>(1, 3 * hidden / (4 * sizes.key_heads));
  sizes.state = config.positive_or({"linear_key_head_dim"}, state, kMaxHeadDim);
  sizes.columns = config.positive_or({"linear_value_head_dim"}, 2 * sizes.state, kMaxHeadDim);
  sizes.kernel = config.positive_or({"linear_conv_kernel_dim"}, 4, kMaxKernel);
  const std::int64_t keys = sizes.key_heads * sizes.state;
  const std::int64_t values = sizes.heads * sizes.columns;
  b.linear("linear_attn.q_proj", hidden, keys, false);
  b.linear("linear_attn.k_proj", hidden, keys, false);
  b.linear("linear_attn.v_proj", hidden, values, false);
  b.linear("linear_attn.a_proj", hidden, sizes.heads, false);
  b.linear("linear_attn.b_proj", hidden, sizes.heads, false);
  b.linear("linear_attn.g_proj", hidden, values, false);
  convolve(b, "linear_attn.conv1d", 2 * keys + values, sizes.kernel, false);
  b.tensor("linear_attn.dt_bias", {sizes.heads});
  b.tensor("linear_attn.A_log", {sizes.heads});
  scan(b, sizes.heads, sizes.key_heads, sizes.state, sizes.columns);
  gated_norm(b, Norm::kRms, "linear_attn.o_norm", sizes.columns, sizes.heads);
  b.linear("linear_attn.o_proj", values, hidden, false);
}

/// The delta rule with a decay for each column. Source: Kimi Linear (arXiv 2510.26692).
void add_kimi_delta_net(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  const std::int64_t hidden = model.hidden;
  std::int64_t columns = config.positive_or({"linear_head_dim"}, 128, kMaxHeadDim);
  std::int64_t heads = config.positive_or({"linear_num_heads"}, 32, kMaxHeads);
  std::int64_t kernel = config.positive_or({"linear_conv_kernel_dim"}, 4, kMaxKernel);
  if (config.has("linear_attn_config")) {
    HubConfig below = config.below("linear_attn_config", config.head());
    columns = below.positive_or({"head_dim"}, columns, kMaxHeadDim);
    heads = below.positive_or({"num_heads"}, heads, kMaxHeads);
    kernel = below.positive_or({"short_conv_kernel_size"}, kernel, kMaxKernel);
  }
  const std::int64_t width = heads * columns;
  for (const std::string_view name : {"q_proj", "k_proj", "v_proj"}) {
    b.linear(fmt::format("self_attn.{}", name), hidden, width, false);
  }
  convolve(b, "self_attn.conv1d", 3 * width, kernel, false);
  b.linear("self_attn.forget_gate.f_a_proj", hidden, columns, false);
  b.linear("self_attn.forget_gate.f_b_proj", columns, width, false);
  b.tensor("self_attn.forget_gate.dt_bias", {width});
  b.tensor("self_attn.forget_gate.A_log", {1, 1, heads, 1});
  b.keep(as_double(columns), 4 * as_double(width));
  b.linear("self_attn.b_proj", hidden, heads, false);
  b.linear("self_attn.g_a_proj", hidden, columns, false);
  b.linear("self_attn.g_b_proj", columns, width, false);
  b.keep(as_double(columns), 0);
  scan(b, heads, heads, columns, columns);
  gated_norm(b, Norm::kRms, "self_attn.o_norm", columns, heads);
  b.linear("self_attn.o_proj", width, hidden, false);
}

/// Lightning attention. Source: MiniMax-01 (arXiv 2501.08313).
void add_lightning_attention(HubConfig&, const ModelSpec& model, LayerBuilder& b) {
  const std::int64_t width = model.heads * model.head_dim;
  b.linear("self_attn.qkv_proj", model.hidden, 3 * width, false);
  b.activation(ChainKind::kActivation, as_double(3 * width), 1);
  scan(b, model.heads, model.heads, model.head_dim, model.head_dim);
  b.norm(Norm::kRms, "self_attn.norm", width);
  b.linear("self_attn.output_gate", model.hidden, width, false);
  b.chain(ChainKind::kGate, as_double(width));
  b.keep(3 * as_double(width), 0);
  b.linear("self_attn.out_proj", width, model.hidden, false);
}

/// A convolution between two gates. Source: Lfm2ShortConv.
void add_short_convolution(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  const std::int64_t hidden = model.hidden;
  const bool has_bias = config.is({"conv_bias", false});
  const std::int64_t kernel = config.positive_or({"conv_L_cache"}, 3, kMaxKernel);
  b.linear("conv.in_proj", hidden, 3 * hidden, has_bias);
  b.tensor("conv.conv.weight", {hidden, 1, kernel});
  if (has_bias) b.tensor("conv.conv.bias", {hidden});
  // Two products of two streams, and the convolution's own pass.
  b.residual();
  b.chain(ChainKind::kActivation, as_double(hidden));
  b.residual();
  b.keep(6 * as_double(hidden), 0);
  b.linear("conv.out_proj", hidden, hidden, has_bias);
}

std::vector<bool> mllama_cross_layers(HubConfig& config, std::int64_t layers) {
  std::vector<bool> chosen(static_cast<std::size_t>(layers), false);
  for (const std::int64_t i :
       config.numbers("cross_attention_layers")
           .value_or(std::vector<std::int64_t>{3, 8, 13, 18, 23, 28, 33, 38})) {
    if (i < layers) chosen[static_cast<std::size_t>(i)] = true;
  }
  return chosen;
}

/// Queries of text over keys of images. Estimated: there are as many keys as queries for their
/// products; attention's own are counted.
void add_cross_attention(HubConfig&, const ModelSpec& model, LayerBuilder& b) {
  const std::int64_t queries = model.heads * model.head_dim;
  const std::int64_t keys = model.kv_heads * model.head_dim;
  b.linear("cross_attn.q_proj", model.hidden, queries, false);
  b.linear("cross_attn.k_proj", model.hidden, keys, false);
  b.linear("cross_attn.v_proj", model.hidden, keys, false);
  b.head_norm(Norm::kRms, "cross_attn.q_norm", model.head_dim, model.heads);
  b.head_norm(Norm::kRms, "cross_attn.k_norm", model.head_dim, model.kv_heads);
  b.attention({.heads = model.heads,
               .kv_heads = model.kv_heads,
               .head_dim = model.head_dim,
               .value_dim = model.head_dim,
               .causal = false});
  b.linear("cross_attn.o_proj", queries, model.hidden, false);
  for (const std::string_view gate : {"cross_attn_attn_gate", "cross_attn_mlp_gate"}) {
    b.tensor(gate, {1});
    b.activation(ChainKind::kActivation, as_double(model.hidden), 1);
  }
}

/// Sizes of Mamba-2's block. Source: arXiv 2405.21060.
struct Mamba2Sizes {
  std::int64_t heads = 0;
  std::int64_t columns = 0;  ///< of a head
  std::int64_t groups = 0;   ///< of heads that share keys and queries
  std::int64_t state = 0;
  std::int64_t kernel = 0;
  bool conv_bias = true;
  bool in_bias = false;
  bool out_bias = false;
  bool normed = true;
};

/// Below `at`: "mamba.", "mixer.".
void add_mamba2(LayerBuilder& b, const std::string& at, std::int64_t hidden,
                const Mamba2Sizes& sizes) {
  const std::int64_t inner = sizes.heads * sizes.columns;
  const std::int64_t convolved = inner + 2 * sizes.groups * sizes.state;
  b.linear(at + "in_proj", hidden, inner + convolved + sizes.heads, sizes.in_bias);
  convolve(b, at + "conv1d", convolved, sizes.kernel, sizes.conv_bias);
  for (const std::string_view name : {"dt_bias", "A_log", "D"}) {
    b.tensor(at + std::string(name), {sizes.heads});
  }
  scan(b, sizes.heads, sizes.groups, sizes.state, sizes.columns);
  if (sizes.normed) {
    gated_norm(b, Norm::kRms, at + "norm", inner, 1);
  } else {
    b.chain(ChainKind::kGate, as_double(inner));
    b.keep(3 * as_double(inner), 0);
  }
  b.linear(at + "out_proj", inner, hidden, sizes.out_bias);
}

/// Heads as wide together as the block: `inner` columns.
void check_heads(const HubConfig& config, std::string_view key, const Mamba2Sizes& sizes,
                 std::int64_t inner) {
  if (sizes.heads * sizes.columns == inner) return;
  config.fail(key, fmt::format("expected {} heads of {} columns in all, found {} a head",
                               sizes.heads, inner, sizes.columns));
}

/// A number, or "auto": `otherwise`.
std::int64_t number_or_auto(HubConfig& config, std::string_view key, std::int64_t otherwise,
                            std::int64_t limit) {
  const auto value = config.map().optional(key);
  if (!value || (value->node().is_scalar() && value->node().scalar == "auto")) return otherwise;
  return value->integer(1, limit);
}

/// `expand` times the stream, rounded down.
std::int64_t expanded(HubConfig& config, std::string_view key, std::int64_t hidden) {
  const double factor = config.map().number_or(key, 2, 1e-3, 64);
  const auto inner = static_cast<std::int64_t>(factor * as_double(hidden));
  if (inner < 1) config.fail(key, "expected a block of at least one column");
  return inner;
}

Mamba2Sizes read_bamba_sizes(HubConfig& config, std::int64_t inner) {
  Mamba2Sizes sizes;
  sizes.heads = config.positive_or({"mamba_n_heads"}, 128, kMaxHeads);
  sizes.columns = number_or_auto(config, "mamba_d_head", inner / sizes.heads, kMaxHeadDim);
  sizes.groups = config.positive_or({"mamba_n_groups"}, 1, kMaxHeads);
  sizes.state = config.positive_or({"mamba_d_state"}, 256, kMaxState);
  sizes.kernel = config.positive_or({"mamba_d_conv"}, 4, kMaxKernel);
  sizes.conv_bias = config.holds({"mamba_conv_bias", true});
  sizes.in_bias = config.is({"mamba_proj_bias", false});
  sizes.out_bias = sizes.in_bias;
  check_heads(config, "mamba_d_head", sizes, inner);
  return sizes;
}

void add_bamba_mixer(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  const std::int64_t inner = expanded(config, "mamba_expand", model.hidden);
  add_mamba2(b, "mamba.", model.hidden, read_bamba_sizes(config, inner));
}

void add_falcon_mixer(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  std::int64_t inner = 1024;
  if (config.map().node().find("mamba_d_ssm") != nullptr) {
    inner = config.positive_or({"mamba_d_ssm"}, expanded(config, "mamba_expand", model.hidden),
                               kMaxIntermediate);
  }
  Mamba2Sizes sizes = read_bamba_sizes(config, inner);
  sizes.normed = config.is({"mamba_rms_norm", false});
  sizes.out_bias = config.is({"projectors_bias", false});
  add_mamba2(b, "mamba.", model.hidden, sizes);
}

/// Sizes of the first Mamba's block. Source: arXiv 2312.00752.
struct MambaSizes {
  std::int64_t inner = 0;
  std::int64_t state = 0;
  std::int64_t rank = 0;
  std::int64_t kernel = 0;
  bool conv_bias = true;
  bool bias = false;
  bool normed = false;  ///< Jamba's norms of steps, keys and queries
};

void add_mamba(LayerBuilder& b, const std::string& at, std::int64_t hidden,
               const MambaSizes& sizes) {
  b.linear(at + "in_proj", hidden, 2 * sizes.inner, sizes.bias);
  convolve(b, at + "conv1d", sizes.inner, sizes.kernel, sizes.conv_bias);
  b.linear(at + "x_proj", sizes.inner, sizes.rank + 2 * sizes.state, false);
  if (sizes.normed) {
    b.norm(Norm::kRms, at + "dt_layernorm", sizes.rank);
    b.norm(Norm::kRms, at + "b_layernorm", sizes.state);
    b.norm(Norm::kRms, at + "c_layernorm", sizes.state);
  }
  b.linear(at + "dt_proj", sizes.rank, sizes.inner, true);
  b.keep(as_double(sizes.rank + sizes.inner), 0);
  b.tensor(at + "A_log", {sizes.inner, sizes.state});
  b.tensor(at + "D", {sizes.inner});
  // Each column is a head of its own, all with the same keys and queries.
  b.linear_attention({.heads = sizes.inner,
                      .kv_heads = 1,
                      .head_dim = sizes.state,
                      .value_dim = 1,
                      .linear = true});
  b.keep(2 * as_double(sizes.state) + 2 * as_double(sizes.inner), 0);
  b.chain(ChainKind::kGate, as_double(sizes.inner));
  b.keep(3 * as_double(sizes.inner), 0);
  b.linear(at + "out_proj", sizes.inner, hidden, sizes.bias);
}

void add_jamba_mixer(HubConfig& config, const ModelSpec& model, LayerBuilder& b) {
  MambaSizes sizes;
  sizes.inner = config.positive_or({"mamba_expand"}, 2, 64) * model.hidden;
  sizes.state = config.positive_or({"mamba_d_state"}, 16, kMaxState);
  sizes.rank = number_or_auto(config, "mamba_dt_rank", (model.hidden + 15) / 16, kMaxHidden);
  sizes.kernel = config.positive_or({"mamba_d_conv"}, 4, kMaxKernel);
  sizes.conv_bias = config.holds({"mamba_conv_bias", true});
  sizes.bias = config.is({"mamba_proj_bias", false});
  sizes.normed = true;
  add_mamba(b, "mamba.", model.hidden, sizes);
}

/// Embedding and sizes of a model that is a stack of mixers below `top`; how many layers.
std::int64_t start_stack(HubConfig& config, ModelSpec& model, const std::string& top,
                         std::string_view embedding_name) {
  model.hidden = config.size({"hidden_size"}, kMaxHidden);
  model.vocab = config.size({"vocab_size"}, kMaxVocab);
  model.embedding_dim = model.hidden;
  LayerBuilder embedding("embedding", top, model.hidden);
  embedding.tensor(fmt::format("{}.weight", embedding_name), {model.vocab, model.hidden});
  embedding.chain(ChainKind::kEmbedding, as_double(model.hidden));
  model.embedding = embedding.take();
  return config.size({"num_hidden_layers"}, kMaxLayers);
}

void finish_stack(HubConfig& config, ModelSpec& model, Norm norm, const std::string& name) {
  LayerBuilder head("head", "", model.hidden);
  head.norm(norm, name, model.hidden);
  add_head(config, model, head, model.hidden);
  model.head = head.take();
}

void read_first_mamba(HubConfig& config, ModelSpec& model, bool scan_norms) {
  const std::string top = config.head() == Head::kNone ? "" : "backbone.";
  const std::int64_t layers = start_stack(config, model, top, "embeddings");
  model.tied_embeddings = config.is({"tie_word_embeddings", true});
  MambaSizes sizes;
  sizes.inner =
      config.positive_or({"intermediate_size"},
                         config.positive_or({"expand"}, 2, 64) * model.hidden, kMaxIntermediate);
  sizes.state = config.positive_or({"state_size"}, 16, kMaxState);
  sizes.rank = number_or_auto(config, "time_step_rank", (model.hidden + 15) / 16, kMaxHidden);
  sizes.kernel = config.positive_or({"conv_kernel"}, 4, kMaxKernel);
  sizes.conv_bias = config.holds({"use_conv_bias", true});
  sizes.bias = config.is({"use_bias", false});
  model.intermediate = sizes.inner;
  LayerBuilder block("mamba block", top + "layers.{}.", model.hidden);
  block.norm(Norm::kRms, "norm", model.hidden);
  add_mamba(block, "mixer.", model.hidden, sizes);
  if (scan_norms) {
    // Norms of steps, keys and queries, without weights.
    block.norm(Norm::kRmsNoParameters, "", sizes.rank + 2 * sizes.state);
  }
  block.residual();
  append_layers(model, layers, block.take());
  finish_stack(config, model, Norm::kRms, top + "norm_f");
}

/// What a layer of Nemotron-H is.
enum class NemotronLayer : std::uint8_t { kMamba, kAttention, kMlp, kExperts };

std::optional<NemotronLayer> nemotron_layer(std::string_view type) {
  if (type == "M" || is_linear_type(type)) return NemotronLayer::kMamba;
  if (type == "*" || type == "full_attention" || type == "attention") {
    return NemotronLayer::kAttention;
  }
  if (type == "-" || type == "mlp") return NemotronLayer::kMlp;
  if (type == "E" || type == "moe") return NemotronLayer::kExperts;
  return std::nullopt;
}

/// From a list of names, or from a pattern of a letter a layer.
std::vector<NemotronLayer> read_nemotron_layers(HubConfig& config) {
  std::vector<std::string> types = {"mamba", "moe", "attention", "mlp"};
  std::string_view from = "layers_block_type";
  if (!config.has(from)) from = "layer_types";
  if (const auto listed = config.texts(from)) {
    types = *listed;
  } else if (config.has("hybrid_override_pattern")) {
    from = "hybrid_override_pattern";
    types.clear();
    for (const char letter : config.map().require(from).string()) types.emplace_back(1, letter);
  }
  if (types.empty() || std::ssize(types) > kMaxLayers) {
    config.fail(from, fmt::format("expected 1 to {} layers", kMaxLayers));
  }
  std::vector<NemotronLayer> layers;
  for (const std::string& type : types) {
    const auto layer = nemotron_layer(type);
    if (!layer) config.fail(from, fmt::format("unknown type of a layer: \"{}\"", type));
    layers.push_back(*layer);
  }
  return layers;
}

class NemotronReader {
 public:
  NemotronReader(HubConfig& config, ModelSpec& model) : config_(config), model_(model) {}

  void read() {
    const std::string top = config_.head() == Head::kNone ? "" : "model.";
    read_sizes(top);
    for (const NemotronLayer kind : read_nemotron_layers(config_)) {
      append_layer(model_, layer(kind, top));
    }
    finish_stack(config_, model_, Norm::kGemmaRms, top + "norm_f");
  }

 private:
  void read_sizes(const std::string& top) {
    model_.hidden = config_.size({"hidden_size"}, kMaxHidden);
    model_.vocab = config_.size({"vocab_size"}, kMaxVocab);
    model_.embedding_dim = model_.hidden;
    model_.heads = config_.size({"num_attention_heads"}, kMaxHeads);
    model_.kv_heads = config_.positive_or(
        {"num_key_value_heads"},
        config_.map().node().find("num_key_value_heads") == nullptr ? 8 : model_.heads, kMaxHeads);
    check_kv_heads(config_, "num_key_value_heads", model_.kv_heads, "num_attention_heads",
                   model_.heads);
    model_.head_dim = config_.positive_or({"head_dim"}, 128, kMaxHeadDim);
    model_.intermediate = config_.positive_or({"intermediate_size"}, 21504, kMaxIntermediate);
    model_.max_positions = config_.positive_or({"max_position_embeddings"}, 4096, kMaxPositions);
    mlp_bias_ = config_.is({"mlp_bias", false});
    activation_ = plain_activation(config_.text_or("mlp_hidden_act", "relu2"));
    LayerBuilder embedding("embedding", top, model_.hidden);
    embedding.tensor("embeddings.weight", {model_.vocab, model_.hidden});
    embedding.chain(ChainKind::kEmbedding, as_double(model_.hidden));
    model_.embedding = embedding.take();
  }

  Layer layer(NemotronLayer kind, const std::string& top) {
    constexpr std::array<std::string_view, 4> kNames = {"mamba block", "attention block",
                                                        "MLP block", "expert block"};
    LayerBuilder b(std::string(kNames.at(static_cast<std::size_t>(kind))), top + "layers.{}.",
                   model_.hidden);
    b.norm(Norm::kGemmaRms, "norm", model_.hidden);
    switch (kind) {
      case NemotronLayer::kMamba:
        mamba(b);
        break;
      case NemotronLayer::kAttention:
        attention(b);
        break;
      case NemotronLayer::kMlp:
        mlp(b, "mixer.", model_.intermediate);
        break;
      case NemotronLayer::kExperts:
        experts(b);
        break;
    }
    b.residual();
    return b.take();
  }

  void mamba(LayerBuilder& b) {
    Mamba2Sizes sizes;
    sizes.heads = config_.positive_or({"mamba_num_heads"}, 128, kMaxHeads);
    sizes.columns = config_.positive_or({"mamba_head_dim"}, 64, kMaxHeadDim);
    sizes.groups = config_.positive_or({"mamba_n_groups", "n_groups"}, 8, kMaxHeads);
    sizes.state = config_.positive_or({"ssm_state_size"}, 128, kMaxState);
    sizes.kernel = config_.positive_or({"mamba_d_conv", "conv_kernel"}, 4, kMaxKernel);
    sizes.conv_bias = config_.is({"mamba_conv_bias", config_.holds({"use_conv_bias", true})});
    sizes.in_bias = config_.is({"use_bias", false});
    sizes.out_bias = sizes.in_bias;
    add_mamba2(b, "mixer.", model_.hidden, sizes);
  }

  void attention(LayerBuilder& b) {
    const std::int64_t queries = model_.heads * model_.head_dim;
    const std::int64_t keys = model_.kv_heads * model_.head_dim;
    b.linear("mixer.q_proj", model_.hidden, queries, false);
    b.linear("mixer.k_proj", model_.hidden, keys, false);
    b.linear("mixer.v_proj", model_.hidden, keys, false);
    b.attention({.heads = model_.heads,
                 .kv_heads = model_.kv_heads,
                 .head_dim = model_.head_dim,
                 .value_dim = model_.head_dim});
    b.linear("mixer.o_proj", queries, model_.hidden, false);
  }

  void mlp(LayerBuilder& b, const std::string& at, std::int64_t columns) {
    b.linear(at + "up_proj", model_.hidden, columns, mlp_bias_);
    b.activation(activation_.kind, as_double(columns), activation_.kept);
    b.linear(at + "down_proj", columns, model_.hidden, mlp_bias_);
  }

  void experts(LayerBuilder& b) {
    const std::int64_t n =
        config_.positive_or({"num_local_experts", "n_routed_experts"}, 8, kMaxExperts);
    const std::int64_t top_k = config_.positive_or({"num_experts_per_tok"}, 2, kMaxExperts);
    if (top_k > n) {
      config_.fail("num_experts_per_tok",
                   fmt::format("expected at most the {} experts, found {}", n, top_k));
    }
    const std::int64_t columns =
        config_.positive_or({"moe_intermediate_size"}, 7688, kMaxIntermediate);
    const std::int64_t shared =
        config_.positive_or({"moe_shared_expert_intermediate_size"}, 7688, kMaxIntermediate);
    const std::int64_t latent = config_.positive_or({"moe_latent_size"}, 0, kMaxHidden);
    const std::int64_t width = latent > 0 ? latent : model_.hidden;
    const double seen = as_double(top_k);
    const Sharing sharing{n, seen / as_double(n)};
    b.linear("mixer.gate", model_.hidden, n, false);
    if (latent > 0) b.linear("mixer.fc1_latent_proj", model_.hidden, latent, mlp_bias_);
    b.tensor("mixer.experts.up_proj", {n, columns, width});
    b.product("up_proj", width, columns, sharing);
    b.activation(activation_.kind, seen * as_double(columns), activation_.kept);
    b.tensor("mixer.experts.down_proj", {n, width, columns});
    b.product("down_proj", columns, width, sharing);
    b.routing(n, seen, width);
    if (latent > 0) b.linear("mixer.fc2_latent_proj", latent, model_.hidden, mlp_bias_);
    mlp(b, "mixer.shared_experts.", shared);
    b.residual();
  }

  HubConfig& config_;
  ModelSpec& model_;
  bool mlp_bias_ = false;
  PlainActivation activation_;
};

}  // namespace

const Mixer kDeltaNet{.name = "linear block", .layers = qwen_linear_layers, .add = add_delta_net};
const Mixer kSplitDeltaNet{
    .name = "linear block", .layers = qwen_linear_layers, .add = add_split_delta_net};
const Mixer kOlmoDeltaNet{.name = "linear block",
                          .layers = olmo_linear_layers,
                          .add = add_olmo_delta_net,
                          .norms_first = true};
const Mixer kKimiDeltaNet{
    .name = "linear block", .layers = kimi_linear_layers, .add = add_kimi_delta_net};
const Mixer kLightningAttention{
    .name = "linear block", .layers = minimax_linear_layers, .add = add_lightning_attention};
const Mixer kGraniteMamba{
    .name = "mamba block", .layers = granite_linear_layers, .add = add_bamba_mixer};
const Mixer kBambaMamba{
    .name = "mamba block", .layers = bamba_linear_layers, .add = add_bamba_mixer};
const Mixer kFalconMamba2{
    .name = "mamba block", .layers = all_linear, .add = add_falcon_mixer, .beside = true};
const Mixer kJambaMamba{
    .name = "mamba block", .layers = jamba_linear_layers, .add = add_jamba_mixer};
const Mixer kShortConvolution{
    .name = "convolution block", .layers = lfm2_convolutions, .add = add_short_convolution};
const Mixer kCrossAttention{
    .name = kCrossBlock, .layers = mllama_cross_layers, .add = add_cross_attention};

std::int64_t lfm2_width(HubConfig& config, std::int64_t intermediate) {
  std::int64_t columns = config.positive_or({"block_ff_dim"}, intermediate, kMaxIntermediate);
  if (!config.is({"block_auto_adjust_ff_dim", true})) return columns;
  columns = 2 * columns / 3;
  if (const auto factor = config.map().optional("block_ffn_dim_multiplier")) {
    columns = static_cast<std::int64_t>(factor->number(1e-3, 64) * as_double(columns));
  }
  const std::int64_t step = config.positive_or({"block_multiple_of"}, 256, kMaxIntermediate);
  columns = step * ((columns + step - 1) / step);
  if (columns < 1 || columns > kMaxIntermediate) {
    config.fail("intermediate_size", "expected at least one column of the MLP");
  }
  return columns;
}

void read_mamba(HubConfig& config, ModelSpec& model) {
  read_first_mamba(config, model, false);
}

void read_falcon_mamba(HubConfig& config, ModelSpec& model) {
  read_first_mamba(config, model, true);
}

void read_mamba2(HubConfig& config, ModelSpec& model) {
  const std::string top = config.head() == Head::kNone ? "" : "backbone.";
  const std::int64_t layers = start_stack(config, model, top, "embeddings");
  model.tied_embeddings = config.is({"tie_word_embeddings", false});
  const std::int64_t inner = expanded(config, "expand", model.hidden);
  Mamba2Sizes sizes;
  sizes.heads = config.positive_or({"num_heads"}, 128, kMaxHeads);
  sizes.columns = config.positive_or({"head_dim"}, 64, kMaxHeadDim);
  sizes.groups = config.positive_or({"n_groups"}, 8, kMaxHeads);
  sizes.state = config.positive_or({"state_size"}, 128, kMaxState);
  sizes.kernel = config.positive_or({"conv_kernel"}, 4, kMaxKernel);
  sizes.conv_bias = config.holds({"use_conv_bias", true});
  sizes.in_bias = config.is({"use_bias", false});
  sizes.out_bias = sizes.in_bias;
  check_heads(config, "head_dim", sizes, inner);
  model.intermediate = inner;
  LayerBuilder block("mamba block", top + "layers.{}.", model.hidden);
  block.norm(Norm::kRms, "norm", model.hidden);
  add_mamba2(block, "mixer.", model.hidden, sizes);
  block.residual();
  append_layers(model, layers, block.take());
  finish_stack(config, model, Norm::kRms, top + "norm_f");
}

void read_nemotron_h(HubConfig& config, ModelSpec& model) {
  NemotronReader(config, model).read();
}

void read_recurrent_gemma(HubConfig& config, ModelSpec& model) {
  const std::string top = config.head() == Head::kNone ? "" : "model.";
  const std::int64_t hidden = config.size({"hidden_size"}, kMaxHidden);
  const std::int64_t layers = start_stack(config, model, top, "embed_tokens");
  model.tied_embeddings = config.is({"tie_word_embeddings", true});
  model.heads = config.size({"num_attention_heads"}, kMaxHeads);
  model.kv_heads = config.positive_or({"num_key_value_heads"}, model.heads, kMaxHeads);
  check_kv_heads(config, "num_key_value_heads", model.kv_heads, "num_attention_heads", model.heads);
  model.head_dim = config.positive_or({"head_dim"}, 0, kMaxHeadDim);
  if (model.head_dim == 0) {
    model.head_dim = head_dim_of(config, "hidden_size", hidden, "num_attention_heads", model.heads);
  }
  const std::int64_t width = config.positive_or({"lru_width"}, hidden, kMaxHidden);
  const std::int64_t columns =
      head_dim_of(config, "lru_width", width, "num_attention_heads", model.heads);
  model.intermediate = config.size({"intermediate_size"}, kMaxIntermediate) / 2;
  if (model.intermediate < 1) config.fail("intermediate_size", "expected 2 columns at least");
  model.gated_mlp = true;
  const std::int64_t window =
      config.positive_or({"sliding_window", "attention_window_size"}, 2048, kMaxPositions);
  const std::int64_t kernel = config.positive_or({"conv1d_width"}, 4, kMaxKernel);
  const bool has_bias = config.is({"attention_bias", false});
  const std::vector<std::string> types =
      config.texts("block_types")
          .value_or(std::vector<std::string>{"recurrent", "recurrent", "attention"});
  if (types.empty()) config.fail("block_types", "expected at least one type");

  for (std::int64_t i = 0; i < layers; ++i) {
    const bool recurrent = types[static_cast<std::size_t>(i % std::ssize(types))] == "recurrent";
    LayerBuilder b(recurrent ? "recurrent block" : "attention block", top + "layers.{}.", hidden);
    b.norm(Norm::kGemmaRms, "temporal_pre_norm", hidden);
    if (recurrent) {
      b.linear("temporal_block.linear_y", hidden, width, true);
      b.linear("temporal_block.linear_x", hidden, width, true);
      b.chain(ChainKind::kActivation, as_double(width));
      b.keep(2 * as_double(width), 0);
      b.tensor("temporal_block.conv_1d.weight", {width, 1, kernel});
      b.tensor("temporal_block.conv_1d.bias", {width});
      b.chain(ChainKind::kActivation, as_double(width));
      b.tensor("temporal_block.rg_lru.recurrent_param", {width});
      for (const std::string_view gate : {"input_gate", "recurrent_gate"}) {
        b.tensor(fmt::format("temporal_block.rg_lru.{}_weight", gate),
                 {model.heads, columns, columns});
        b.tensor(fmt::format("temporal_block.rg_lru.{}_bias", gate), {model.heads, columns});
        b.product(gate, columns, columns, {model.heads, 1});
      }
      // Gates, decays and states, in fp32, and the product with the other branch.
      b.chain(ChainKind::kGate, 3 * as_double(width));
      b.keep(4 * as_double(width), 16 * as_double(width));
      b.linear_attention(
          {.heads = width, .kv_heads = width, .head_dim = 1, .value_dim = 1, .linear = true});
      b.linear("temporal_block.linear_out", width, hidden, true);
    } else {
      const std::int64_t queries = model.heads * model.head_dim;
      const std::int64_t keys = model.kv_heads * model.head_dim;
      b.linear("temporal_block.q_proj", hidden, queries, has_bias);
      b.linear("temporal_block.k_proj", hidden, keys, has_bias);
      b.linear("temporal_block.v_proj", hidden, keys, has_bias);
      b.chain(ChainKind::kRotary, as_double(queries) / 2);
      b.chain(ChainKind::kRotary, as_double(keys) / 2);
      b.attention({.heads = model.heads,
                   .kv_heads = model.kv_heads,
                   .head_dim = model.head_dim,
                   .value_dim = model.head_dim,
                   .window = window});
      b.linear("temporal_block.o_proj", queries, hidden, true);
    }
    b.residual();
    b.norm(Norm::kGemmaRms, "channel_pre_norm", hidden);
    b.linear("mlp_block.gate_proj", hidden, model.intermediate, true);
    b.linear("mlp_block.up_proj", hidden, model.intermediate, true);
    b.gate(as_double(model.intermediate));
    b.linear("mlp_block.down_proj", model.intermediate, hidden, true);
    b.residual();
    append_layer(model, b.take());
  }
  finish_stack(config, model, Norm::kGemmaRms, top + "final_norm");
}

}  // namespace zenflow::sim::hub
