#include "sim/config/hub/towers.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/config/hub/decoder.h"

// Assumed: one image a sequence, of image_size and not cut into tiles; of towers of any resolution
// without an image_size, one of 1024 patches.

namespace zenflow::sim::hub {
namespace {

constexpr std::int64_t kLargestImage = 1 << 14;
constexpr std::int64_t kLargestPatch = 1 << 10;
constexpr std::int64_t kMostChannels = 1 << 6;
constexpr std::int64_t kLargestMerge = 1 << 4;
constexpr std::int64_t kPatchesOfAnyImage = 1024;

/// How a family of image encoders names and shapes its blocks.
struct VisionRow {
  std::string_view layers;  ///< "encoder.layers.{}."
  Norm norm = Norm::kLayer;
  std::array<std::string_view, 2> norms = {"layer_norm1", "layer_norm2"};
  /// Queries, keys, values and output; one product of the first three if the second is empty.
  std::array<std::string_view, 4> attention = {"self_attn.q_proj", "self_attn.k_proj",
                                               "self_attn.v_proj", "self_attn.out_proj"};
  bool qkv_bias = true;
  bool output_bias = true;
  /// Up and down, or gate, up and down.
  std::array<std::string_view, 3> mlp = {"mlp.fc1", "mlp.fc2", ""};
  bool mlp_bias = true;
  bool rotary = false;
};

constexpr VisionRow kClipBlocks{.layers = "encoder.layers.{}."};
constexpr VisionRow kPixtralBlocks{
    .layers = "transformer.layers.{}.",
    .norm = Norm::kRms,
    .norms = {"attention_norm", "ffn_norm"},
    .attention = {"attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj"},
    .qkv_bias = false,
    .output_bias = false,
    .mlp = {"feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"},
    .mlp_bias = false,
    .rotary = true};
constexpr VisionRow kQwen2Blocks{.layers = "blocks.{}.",
                                 .norms = {"norm1", "norm2"},
                                 .attention = {"attn.qkv", "", "", "attn.proj"},
                                 .rotary = true};
constexpr VisionRow kQwen25Blocks{.layers = "blocks.{}.",
                                  .norm = Norm::kRms,
                                  .norms = {"norm1", "norm2"},
                                  .attention = {"attn.qkv", "", "", "attn.proj"},
                                  .mlp = {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
                                  .rotary = true};
constexpr VisionRow kQwen3Blocks{.layers = "blocks.{}.",
                                 .norms = {"norm1", "norm2"},
                                 .attention = {"attn.qkv", "", "", "attn.proj"},
                                 .mlp = {"mlp.linear_fc1", "mlp.linear_fc2", ""},
                                 .rotary = true};
constexpr VisionRow kLlama4Blocks{
    .layers = "model.layers.{}.",
    .norms = {"input_layernorm", "post_attention_layernorm"},
    .attention = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"},
    .rotary = true};
constexpr VisionRow kMllamaBlocks{
    .layers = "transformer.layers.{}.",
    .norms = {"input_layernorm", "post_attention_layernorm"},
    .attention = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"},
    .qkv_bias = false,
    .output_bias = false};
constexpr VisionRow kInternBlocks{.layers = "encoder.layer.{}.",
                                  .norms = {"layernorm_before", "layernorm_after"},
                                  .attention = {"attention.q_proj", "attention.k_proj",
                                                "attention.v_proj", "attention.projection_layer"}};

/// An encoder of images, whose blocks are all as wide.
struct VisionTower {
  std::string prefix;  ///< "model.vision_tower."
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 0;
  std::int64_t intermediate = 0;
  std::int64_t patch = 0;
  std::int64_t channels = 3;
  std::int64_t patches = 0;
  std::int64_t tokens = 0;  ///< with a class's
  PlainActivation act;
};

/// Sizes where a vision_config leaves them out.
struct VisionDefaults {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 0;
  std::int64_t intermediate = 0;
  std::int64_t image = 0;  ///< 0: of any size
  std::int64_t patch = 0;
  std::string_view act = "gelu";
};

/// A number, or a pair of two.
std::array<std::int64_t, 2> read_sides(HubConfig& config, std::string_view key,
                                       std::int64_t otherwise, std::int64_t limit) {
  const auto value = config.map().optional(key);
  if (!value) return {otherwise, otherwise};
  if (value->node().is_scalar()) {
    const std::int64_t side = value->integer(1, limit);
    return {side, side};
  }
  const std::vector<ValueReader> items = value->items();
  if (items.size() != 2) value->fail("expected a size or a pair of them");
  return {items[0].integer(1, limit), items[1].integer(1, limit)};
}

VisionTower read_vision(HubConfig& vision, const VisionDefaults& otherwise, std::string prefix) {
  VisionTower tower;
  tower.prefix = std::move(prefix);
  tower.hidden = vision.positive_or({"hidden_size"}, otherwise.hidden, kMaxHidden);
  tower.heads = vision.positive_or({"num_attention_heads"}, otherwise.heads, kMaxHeads);
  tower.layers = vision.positive_or({"num_hidden_layers"}, otherwise.layers, kMaxLayers);
  tower.intermediate =
      vision.positive_or({"intermediate_size"}, otherwise.intermediate, kMaxIntermediate);
  tower.channels = vision.positive_or({"num_channels"}, 3, kMostChannels);
  tower.patch = vision.positive_or({"patch_size"}, otherwise.patch, kLargestPatch);
  const std::int64_t image = vision.positive_or({"image_size"}, otherwise.image, kLargestImage);
  tower.patches = (image / tower.patch) * (image / tower.patch);
  if (tower.patches == 0) vision.fail("patch_size", "expected at most image_size");
  tower.tokens = tower.patches;
  tower.act = plain_activation(vision.text_or("hidden_act", otherwise.act));
  return tower;
}

/// Tensors of a tower that no product is with: positions and the like.
void add_vision_tensor(ModelSpec& model, const VisionTower& tower, std::string_view name,
                       std::vector<std::int64_t> shape) {
  model.embedding.tensors.push_back({tower.prefix + std::string(name), std::move(shape)});
}

/// A layer of its own, as it runs on patches and not on text.
LayerBuilder start_vision_part(const VisionTower& tower, std::string name, std::int64_t tokens) {
  LayerBuilder part(std::move(name), tower.prefix, tower.hidden);
  part.tokens(tokens);
  return part;
}

/// The convolution of patches: a product with each, of equal FLOPs.
LayerBuilder start_patches(const VisionTower& tower, std::string_view name,
                           std::vector<std::int64_t> shape, bool has_bias) {
  LayerBuilder stem = start_vision_part(tower, "patch embedding", tower.tokens);
  std::int64_t pixels = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) pixels *= shape[i];
  stem.tensor(fmt::format("{}.weight", name), std::move(shape));
  if (has_bias) stem.tensor(fmt::format("{}.bias", name), {tower.hidden});
  stem.product(name, pixels, tower.hidden);
  stem.keep(as_double(pixels), 0);
  return stem;
}

LayerBuilder start_square_patches(const VisionTower& tower, std::string_view name, bool has_bias) {
  return start_patches(tower, name, {tower.hidden, tower.channels, tower.patch, tower.patch},
                       has_bias);
}

void vision_attention(LayerBuilder& b, const VisionRow& row, const VisionTower& tower,
                      std::int64_t columns, std::int64_t window) {
  const std::int64_t hidden = tower.hidden;
  if (row.attention[1].empty()) {
    b.linear(row.attention[0], hidden, 3 * hidden, row.qkv_bias);
  } else {
    for (std::size_t i = 0; i < 3; ++i) b.linear(row.attention.at(i), hidden, hidden, row.qkv_bias);
  }
  if (row.rotary) {
    b.chain(ChainKind::kRotary, as_double(hidden));
    b.chain(ChainKind::kRotary, as_double(hidden));
  }
  b.attention({.heads = tower.heads,
               .kv_heads = tower.heads,
               .head_dim = columns,
               .value_dim = columns,
               .window = window,
               .causal = false});
  // Values are a view of the fused result, and what images return one by one is joined (torch.cat).
  if (row.attention[1].empty() && row.rotary) b.keep(3 * as_double(hidden), 0);
  b.linear(row.attention[3], hidden, hidden, row.output_bias);
}

void vision_mlp(LayerBuilder& b, const VisionRow& row, const VisionTower& tower) {
  const std::int64_t columns = tower.intermediate;
  b.linear(row.mlp[0], tower.hidden, columns, row.mlp_bias);
  if (row.mlp[2].empty()) {
    b.activation(tower.act.kind, as_double(columns), tower.act.kept);
    b.linear(row.mlp[1], columns, tower.hidden, row.mlp_bias);
  } else {
    b.linear(row.mlp[1], tower.hidden, columns, row.mlp_bias);
    b.gate(as_double(columns));
    b.linear(row.mlp[2], columns, tower.hidden, row.mlp_bias);
  }
}

/// `window`: of each query to both sides; 0: all.
LayerBuilder vision_block(const VisionRow& row, const VisionTower& tower, HubConfig& vision,
                          std::int64_t window = 0) {
  const std::int64_t columns =
      head_dim_of(vision, "hidden_size", tower.hidden, "num_attention_heads", tower.heads);
  LayerBuilder b("vision block", tower.prefix + std::string(row.layers), tower.hidden);
  b.tokens(tower.tokens);
  b.norm(row.norm, row.norms[0], tower.hidden);
  vision_attention(b, row, tower, columns, window);
  b.residual();
  b.norm(row.norm, row.norms[1], tower.hidden);
  vision_mlp(b, row, tower);
  b.residual();
  return b;
}

/// A norm whose result no projector reads.
void unread_norm(ModelSpec& model, const VisionTower& tower, std::string_view name) {
  add_vision_tensor(model, tower, fmt::format("{}.weight", name), {tower.hidden});
  add_vision_tensor(model, tower, fmt::format("{}.bias", name), {tower.hidden});
}

VisionTower add_clip(HubConfig& vision, ModelSpec& model, const std::string& prefix) {
  VisionTower tower = read_vision(vision,
                                  {.hidden = 768,
                                   .heads = 12,
                                   .layers = 12,
                                   .intermediate = 3072,
                                   .image = 224,
                                   .patch = 32,
                                   .act = "quick_gelu"},
                                  prefix);
  tower.tokens = tower.patches + 1;
  add_vision_tensor(model, tower, "embeddings.class_embedding", {tower.hidden});
  add_vision_tensor(model, tower, "embeddings.position_embedding.weight",
                    {tower.tokens, tower.hidden});
  LayerBuilder stem = start_square_patches(tower, "embeddings.patch_embedding", false);
  stem.residual();
  stem.norm(Norm::kLayer, "pre_layrnorm", tower.hidden);
  append_layer(model, stem.take());
  append_layers(model, tower.layers, vision_block(kClipBlocks, tower, vision).take());
  unread_norm(model, tower, "post_layernorm");
  return tower;
}

/// SigLIP's pooling, whose result no projector reads.
void add_siglip_pooling(ModelSpec& model, const VisionTower& tower) {
  const std::int64_t hidden = tower.hidden;
  add_vision_tensor(model, tower, "head.probe", {1, 1, hidden});
  add_vision_tensor(model, tower, "head.attention.in_proj_weight", {3 * hidden, hidden});
  add_vision_tensor(model, tower, "head.attention.in_proj_bias", {3 * hidden});
  add_vision_tensor(model, tower, "head.attention.out_proj.weight", {hidden, hidden});
  add_vision_tensor(model, tower, "head.attention.out_proj.bias", {hidden});
  unread_norm(model, tower, "head.layernorm");
  add_vision_tensor(model, tower, "head.mlp.fc1.weight", {tower.intermediate, hidden});
  add_vision_tensor(model, tower, "head.mlp.fc1.bias", {tower.intermediate});
  add_vision_tensor(model, tower, "head.mlp.fc2.weight", {hidden, tower.intermediate});
  add_vision_tensor(model, tower, "head.mlp.fc2.bias", {hidden});
}

/// SigLIP's tower, and Idefics3's.
VisionTower add_siglip_blocks(HubConfig& vision, ModelSpec& model, const VisionDefaults& otherwise,
                              const std::string& prefix) {
  const VisionTower tower = read_vision(vision, otherwise, prefix);
  add_vision_tensor(model, tower, "embeddings.position_embedding.weight",
                    {tower.patches, tower.hidden});
  LayerBuilder stem = start_square_patches(tower, "embeddings.patch_embedding", true);
  stem.residual();
  append_layer(model, stem.take());
  append_layers(model, tower.layers, vision_block(kClipBlocks, tower, vision).take());
  LayerBuilder norm = start_vision_part(tower, "vision norm", tower.tokens);
  norm.norm(Norm::kLayer, "post_layernorm", tower.hidden);
  append_layer(model, norm.take());
  return tower;
}

VisionTower add_siglip(HubConfig& vision, ModelSpec& model, const std::string& prefix) {
  VisionTower tower = add_siglip_blocks(vision, model,
                                        {.hidden = 768,
                                         .heads = 12,
                                         .layers = 12,
                                         .intermediate = 3072,
                                         .image = 224,
                                         .patch = 16,
                                         .act = "gelu_pytorch_tanh"},
                                        prefix);
  if (vision.is({"vision_use_head", true})) add_siglip_pooling(model, tower);
  return tower;
}

VisionTower add_pixtral(HubConfig& vision, ModelSpec& model, const std::string& prefix) {
  const VisionTower tower = read_vision(
      vision,
      {.hidden = 1024, .heads = 16, .layers = 24, .intermediate = 4096, .image = 1024, .patch = 16},
      prefix);
  LayerBuilder stem = start_square_patches(tower, "patch_conv", false);
  stem.norm(Norm::kRms, "ln_pre", tower.hidden);
  append_layer(model, stem.take());
  append_layers(model, tower.layers, vision_block(kPixtralBlocks, tower, vision).take());
  return tower;
}

/// A tower of the kind that vision_config says.
VisionTower add_vision(HubConfig& vision, ModelSpec& model, std::string_view otherwise,
                       const std::string& prefix) {
  const std::string type = vision.text_or("model_type", otherwise);
  if (type == "clip_vision_model") return add_clip(vision, model, prefix);
  if (type == "siglip_vision_model") return add_siglip(vision, model, prefix);
  if (type == "pixtral") return add_pixtral(vision, model, prefix);
  vision.fail("model_type", fmt::format("unknown tower \"{}\"; known: clip_vision_model, pixtral, "
                                        "siglip_vision_model",
                                        type));
}

/// The text's side of a model of several towers.
struct TextSide {
  HubConfig config;
  const DecoderRow* row = nullptr;
  std::int64_t hidden = 0;
};

/// What holds where there is no text_config at all.
enum class TextSizes : std::uint8_t {
  kOfClass,   ///< the same as where it is empty
  kOfFamily,  ///< sizes of the family's own, which no file leaves out
};

/// `type`: of the decoder where text_config does not say it. `fixed`: whatever it says.
TextSide text_side(HubConfig& config, std::string_view type, bool fixed,
                   TextSizes sizes = TextSizes::kOfClass) {
  TextSide side{sizes == TextSizes::kOfClass ? config.below_or_empty("text_config", config.head())
                                             : config.below("text_config", config.head())};
  const std::string said = fixed ? std::string(type) : side.config.text_or("model_type", type);
  side.row = find_decoder_row(said);
  if (side.row == nullptr) {
    side.config.fail("model_type", fmt::format("unknown model_type \"{}\" of the text", said));
  }
  side.hidden = side.config.size({"hidden_size"}, kMaxHidden, side.row->hidden);
  return side;
}

/// Qwen2-VL's files may have what is the text's beside vision_config.
TextSide flat_text_side(HubConfig& config, std::string_view type) {
  if (config.has("text_config")) return text_side(config, type, true);
  TextSide side{HubConfig(config.map(), config.head(), true)};
  side.row = find_decoder_row(type);
  side.hidden = side.config.size({"hidden_size"}, kMaxHidden, side.row->hidden);
  return side;
}

/// "model.", or nothing of the class without a head.
std::string top_of(const HubConfig& config) {
  return config.head() == Head::kNone ? "" : "model.";
}

/// Labels are the whole model's.
void share_labels(HubConfig& config, TextSide& text) {
  if (config.head() == Head::kSequence || config.head() == Head::kTokens) {
    text.config.take_labels(config.labels());
  }
}

void finish_text(HubConfig& config, TextSide& text, ModelSpec& model, std::string_view name,
                 bool tied) {
  share_labels(config, text);
  read_decoder(text.config, *text.row, top_of(config) + std::string(name), model, tied);
}

/// What the whole model says of tied embeddings, or the text, where it does not.
bool tied_by_either(HubConfig& config, TextSide& text) {
  return config.is({"tie_word_embeddings", false}) || text.config.is(text.row->tied);
}

/// Layers of the tower whose results are put beside each other.
std::int64_t feature_layers(HubConfig& config) {
  const auto value = config.map().optional("vision_feature_layer");
  if (!value || value->node().is_scalar()) return 1;
  const std::int64_t count = std::ssize(value->items());
  if (count == 0) value->fail("expected at least one layer");
  return count;
}

/// Two products with an activation between.
struct Projection {
  std::int64_t in = 0;
  std::int64_t between = 0;
  std::int64_t out = 0;
  bool has_bias = true;
};

void add_projection(LayerBuilder& b, std::string_view first, std::string_view second,
                    const Projection& sizes, const PlainActivation& act) {
  b.linear(first, sizes.in, sizes.between, sizes.has_bias);
  b.activation(act.kind, as_double(sizes.between), act.kept);
  b.linear(second, sizes.between, sizes.out, sizes.has_bias);
}

LayerBuilder start_projector(const std::string& prefix, std::int64_t width, std::int64_t tokens) {
  LayerBuilder b("projector", prefix, width);
  b.tokens(std::max<std::int64_t>(1, tokens));
  return b;
}

void read_llava_like(HubConfig& config, ModelSpec& model, bool has_newline) {
  const std::string top = top_of(config);
  HubConfig vision = config.below("vision_config", config.head());
  TextSide text = text_side(config, "llama", false);
  if (has_newline) model.embedding.tensors.push_back({top + "image_newline", {text.hidden}});
  const VisionTower tower = add_vision(vision, model, "clip_vision_model", top + "vision_tower.");
  const bool has_bias = config.is({"multimodal_projector_bias", true});
  LayerBuilder projector =
      start_projector(top + "multi_modal_projector.", tower.hidden, tower.patches);
  projector.keep(as_double(feature_layers(config) * tower.hidden), 0);
  add_projection(projector, "linear_1", "linear_2",
                 {feature_layers(config) * tower.hidden, text.hidden, text.hidden, has_bias},
                 plain_activation(config.text_or("projector_hidden_act", "gelu")));
  append_layer(model, projector.take());
  const bool tied =
      has_newline ? config.is({"tie_word_embeddings", false}) : tied_by_either(config, text);
  finish_text(config, text, model, "language_model.", tied);
}

/// Qwen's encoder of images of any size.
VisionTower read_qwen_vision(HubConfig& vision, const VisionDefaults& otherwise,
                             std::string_view width_key, std::string prefix) {
  VisionTower tower;
  tower.prefix = std::move(prefix);
  tower.hidden = vision.positive_or({width_key}, otherwise.hidden, kMaxHidden);
  tower.heads =
      vision.positive_or({"num_attention_heads", "num_heads"}, otherwise.heads, kMaxHeads);
  tower.layers = vision.positive_or({"num_hidden_layers", "depth"}, otherwise.layers, kMaxLayers);
  tower.intermediate =
      vision.positive_or({"intermediate_size"}, otherwise.intermediate, kMaxIntermediate);
  tower.channels = vision.positive_or({"in_channels"}, 3, kMostChannels);
  tower.patch = vision.positive_or({"patch_size"}, otherwise.patch, kLargestPatch);
  tower.patches = kPatchesOfAnyImage;
  tower.tokens = tower.patches;
  tower.act = plain_activation(vision.text_or("hidden_act", otherwise.act));
  return tower;
}

/// A convolution over two frames, too: an image is taken twice.
void add_qwen_patches(HubConfig& vision, ModelSpec& model, const VisionTower& tower,
                      bool has_bias) {
  const std::int64_t frames = vision.positive_or({"temporal_patch_size"}, 2, kMostChannels);
  LayerBuilder stem =
      start_patches(tower, "patch_embed.proj",
                    {tower.hidden, tower.channels, frames, tower.patch, tower.patch}, has_bias);
  append_layer(model, stem.take());
}

std::int64_t merged_patches(HubConfig& vision) {
  const std::int64_t side = vision.positive_or({"spatial_merge_size"}, 2, kLargestMerge);
  return side * side;
}

/// Qwen2-VL's, and Qwen2.5-VL's, which has another norm.
void add_qwen2_merger(HubConfig& vision, ModelSpec& model, const VisionTower& tower, Norm norm,
                      std::int64_t out) {
  const std::int64_t merged = merged_patches(vision);
  LayerBuilder b = start_projector(tower.prefix + "merger.", tower.hidden, tower.patches / merged);
  b.head_norm(norm, "ln_q", tower.hidden, merged);
  const std::int64_t width = merged * tower.hidden;
  add_projection(b, "mlp.0", "mlp.2", {width, width, out}, {});
  append_layer(model, b.take());
}

/// `wide`: the norm is of merged patches.
Layer qwen3_merger(HubConfig& vision, const VisionTower& tower, const std::string& at, bool wide,
                   std::int64_t out) {
  const std::int64_t merged = merged_patches(vision);
  const std::int64_t width = merged * tower.hidden;
  LayerBuilder b = start_projector(tower.prefix + at, tower.hidden, tower.patches / merged);
  if (wide) {
    b.norm(Norm::kLayer, "norm", width);
  } else {
    b.head_norm(Norm::kLayer, "norm", tower.hidden, merged);
  }
  add_projection(b, "linear_fc1", "linear_fc2", {width, width, out}, {});
  return b.take();
}

constexpr VisionDefaults kQwen3Vision{.hidden = 1152,
                                      .heads = 16,
                                      .layers = 27,
                                      .intermediate = 4304,
                                      .patch = 16,
                                      .act = "gelu_pytorch_tanh"};

/// `deep`: with projections of layers between, which are added to the text's first ones.
void read_qwen3_like(HubConfig& config, ModelSpec& model, std::string_view text_type, bool deep) {
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = text_side(config, text_type, true);
  const VisionTower tower =
      read_qwen_vision(vision, kQwen3Vision, "hidden_size", top_of(config) + "visual.");
  const std::int64_t positions =
      vision.positive_or({"num_position_embeddings"}, 2304, kMaxPositions);
  const std::int64_t out = vision.positive_or({"out_hidden_size"}, 3584, kMaxHidden);
  add_vision_tensor(model, tower, "pos_embed.weight", {positions, tower.hidden});
  add_qwen_patches(vision, model, tower, true);
  append_layers(model, tower.layers, vision_block(kQwen3Blocks, tower, vision).take());
  append_layer(model, qwen3_merger(vision, tower, "merger.", false, out));
  if (deep) {
    const std::int64_t mergers = std::ssize(
        vision.numbers("deepstack_visual_indexes").value_or(std::vector<std::int64_t>{8, 16, 24}));
    if (mergers > kMaxLayers) vision.fail("deepstack_visual_indexes", "expected fewer layers");
    for (std::int64_t i = 0; i < mergers; ++i) {
      append_layer(model, qwen3_merger(vision, tower, "deepstack_merger_list.{}.", true, out));
    }
  }
  finish_text(config, text, model, "language_model.", config.is({"tie_word_embeddings", false}));
}

void read_idefics3_like(HubConfig& config, ModelSpec& model) {
  const std::string top = top_of(config);
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = text_side(config, "llama", false);
  const VisionTower tower = add_siglip_blocks(vision, model,
                                              {.hidden = 1152,
                                               .heads = 16,
                                               .layers = 12,
                                               .intermediate = 3072,
                                               .image = 224,
                                               .patch = 32,
                                               .act = "gelu_pytorch_tanh"},
                                              top + "vision_model.");
  const std::int64_t side = config.positive_or({"scale_factor"}, 2, kLargestMerge);
  const std::int64_t merged = side * side;
  LayerBuilder connector =
      start_projector(top + "connector.modality_projection.", tower.hidden, tower.patches / merged);
  connector.linear("proj", tower.hidden * merged, text.hidden, false);
  append_layer(model, connector.take());
  finish_text(config, text, model, "text_model.", config.is({"tie_word_embeddings", false}));
}

/// InternVL's blocks scale what they add, and may have norms of queries and keys.
Layer intern_block(HubConfig& vision, const VisionTower& tower) {
  VisionRow row = kInternBlocks;
  const std::string norm = vision.text_or("norm_type", "layer_norm");
  if (norm != "layer_norm" && norm != "rms_norm") {
    vision.fail("norm_type", "expected layer_norm or rms_norm");
  }
  if (norm == "rms_norm") row.norm = Norm::kRms;
  row.qkv_bias = vision.is({"attention_bias", false});
  LayerBuilder b = vision_block(row, tower, vision);
  for (const std::string_view name : {"lambda_1", "lambda_2"}) {
    b.tensor(name, {tower.hidden});
    b.activation(ChainKind::kActivation, as_double(tower.hidden), 1);
  }
  if (vision.is({"use_qk_norm", false})) {
    b.norm(Norm::kRms, "attention.q_norm", tower.hidden);
    b.norm(Norm::kRms, "attention.k_norm", tower.hidden);
  }
  return b.take();
}

VisionTower add_intern_vision(HubConfig& vision, ModelSpec& model, std::string prefix) {
  VisionTower tower;
  tower.prefix = std::move(prefix);
  tower.hidden = vision.positive_or({"hidden_size"}, 1024, kMaxHidden);
  tower.heads = vision.positive_or({"num_attention_heads"}, 16, kMaxHeads);
  tower.layers = vision.positive_or({"num_hidden_layers"}, 24, kMaxLayers);
  tower.intermediate = vision.positive_or({"intermediate_size"}, 4096, kMaxIntermediate);
  tower.channels = vision.positive_or({"num_channels"}, 3, kMostChannels);
  tower.act = plain_activation(vision.text_or("hidden_act", "gelu"));
  const auto image = read_sides(vision, "image_size", 448, kLargestImage);
  const auto patch = read_sides(vision, "patch_size", 14, kLargestPatch);
  tower.patches = (image[0] / patch[0]) * (image[1] / patch[1]);
  if (tower.patches == 0) vision.fail("patch_size", "expected at most image_size");
  tower.tokens = tower.patches + 1;
  add_vision_tensor(model, tower, "embeddings.cls_token", {1, 1, tower.hidden});
  if (vision.is({"use_mask_token", false})) {
    add_vision_tensor(model, tower, "embeddings.mask_token", {1, 1, tower.hidden});
  }
  if (vision.is({"use_absolute_position_embeddings", true})) {
    add_vision_tensor(model, tower, "embeddings.position_embeddings",
                      {1, tower.tokens, tower.hidden});
  }
  LayerBuilder stem = start_patches(tower, "embeddings.patch_embeddings.projection",
                                    {tower.hidden, tower.channels, patch[0], patch[1]}, true);
  stem.residual();
  append_layer(model, stem.take());
  append_layers(model, tower.layers, intern_block(vision, tower));
  if (!vision.is({"use_mean_pooling", true})) unread_norm(model, tower, "layernorm");
  return tower;
}

/// Sizes that only Mllama's tower has.
struct MllamaVision {
  std::int64_t ratios = 0;  ///< that images may have, and padding
  std::int64_t tiles = 0;
};

MllamaVision read_mllama_vision(HubConfig& vision) {
  constexpr std::int64_t kMost = 1 << 6;
  MllamaVision sizes;
  sizes.tiles = vision.positive_or({"max_num_tiles"}, 4, kMost);
  sizes.ratios = 9;
  if (const auto listed = vision.map().optional("supported_aspect_ratios")) {
    sizes.ratios = std::ssize(listed->items()) + 1;
    if (sizes.ratios > kMost) listed->fail(fmt::format("expected fewer than {}", kMost));
  }
  return sizes;
}

void add_mllama_vision(HubConfig& vision, ModelSpec& model, VisionTower& tower) {
  const MllamaVision sizes = read_mllama_vision(vision);
  const std::int64_t hidden = tower.hidden;
  const std::int64_t positions = tower.patches + 1;
  // All tiles of an image see each other.
  tower.tokens = sizes.tiles * positions;
  add_vision_tensor(model, tower, "class_embedding", {hidden});
  add_vision_tensor(model, tower, "gated_positional_embedding.gate", {1});
  add_vision_tensor(model, tower, "gated_positional_embedding.embedding", {positions, hidden});
  add_vision_tensor(model, tower, "gated_positional_embedding.tile_embedding.weight",
                    {sizes.ratios, sizes.tiles * positions * hidden});
  for (const std::string_view name : {"pre", "post"}) {
    add_vision_tensor(model, tower, fmt::format("{}_tile_positional_embedding.gate", name), {1});
    add_vision_tensor(model, tower,
                      fmt::format("{}_tile_positional_embedding.embedding.weight", name),
                      {sizes.ratios, sizes.tiles * hidden});
  }
  LayerBuilder stem = start_square_patches(tower, "patch_embedding", false);
  stem.residual();
  stem.norm(Norm::kLayer, "layernorm_pre", hidden);
  append_layer(model, stem.take());
  append_layers(model, tower.layers, vision_block(kMllamaBlocks, tower, vision).take());
  LayerBuilder between = start_vision_part(tower, "vision norm", tower.tokens);
  between.norm(Norm::kLayer, "layernorm_post", hidden);
  append_layer(model, between.take());
  VisionRow global = kMllamaBlocks;
  global.layers = "global_transformer.layers.{}.";
  const std::int64_t layers = vision.positive_or({"num_global_layers"}, 8, kMaxLayers);
  LayerBuilder block = vision_block(global, tower, vision);
  for (const std::string_view name : {"gate_attn", "gate_ffn"}) {
    block.tensor(name, {1});
    block.activation(ChainKind::kActivation, as_double(hidden), 1);
  }
  append_layers(model, layers, block.take());
}

/// Whisper's encoder without biases of keys. Source: Qwen2AudioEncoder.
Layer audio_block(HubConfig& audio, const VisionTower& tower) {
  const std::int64_t hidden = tower.hidden;
  const std::int64_t columns =
      head_dim_of(audio, "d_model", hidden, "encoder_attention_heads", tower.heads);
  LayerBuilder b("audio block", tower.prefix + "layers.{}.", hidden);
  b.tokens(tower.tokens);
  b.norm(Norm::kLayer, "self_attn_layer_norm", hidden);
  b.linear("self_attn.q_proj", hidden, hidden, true);
  b.linear("self_attn.k_proj", hidden, hidden, false);
  b.linear("self_attn.v_proj", hidden, hidden, true);
  b.attention({.heads = tower.heads,
               .kv_heads = tower.heads,
               .head_dim = columns,
               .value_dim = columns,
               .causal = false});
  b.linear("self_attn.out_proj", hidden, hidden, true);
  b.residual();
  b.norm(Norm::kLayer, "final_layer_norm", hidden);
  b.linear("fc1", hidden, tower.intermediate, true);
  b.activation(tower.act.kind, as_double(tower.intermediate), tower.act.kept);
  b.linear("fc2", tower.intermediate, hidden, true);
  b.residual();
  return b.take();
}

/// Two convolutions of three frames, the second of which takes every other one.
void add_audio_stem(ModelSpec& model, const VisionTower& tower, std::int64_t bins) {
  LayerBuilder stem = start_vision_part(tower, "audio embedding", tower.tokens);
  stem.tensor("conv1.weight", {tower.hidden, bins, 3});
  stem.tensor("conv1.bias", {tower.hidden});
  stem.product("conv1", 3 * bins, tower.hidden, {2, 1});
  stem.tensor("conv2.weight", {tower.hidden, tower.hidden, 3});
  stem.tensor("conv2.bias", {tower.hidden});
  stem.product("conv2", 3 * tower.hidden, tower.hidden);
  stem.activation(ChainKind::kActivation, 3 * as_double(tower.hidden), 2);
  stem.residual();
  append_layer(model, stem.take());
}

}  // namespace

void read_llava(HubConfig& config, ModelSpec& model) {
  config.check_class("Llava", {"ForConditionalGeneration", "Model"});
  read_llava_like(config, model, false);
}

void read_llava_next(HubConfig& config, ModelSpec& model) {
  config.check_class("LlavaNext", {"ForConditionalGeneration", "Model"});
  read_llava_like(config, model, true);
}

void read_mistral3(HubConfig& config, ModelSpec& model) {
  config.check_class("Mistral3", {"ForConditionalGeneration", "Model"});
  const std::string top = top_of(config);
  HubConfig vision = config.below("vision_config", config.head());
  TextSide text = text_side(config, "mistral", false, TextSizes::kOfFamily);
  const VisionTower tower = add_vision(vision, model, "pixtral", top + "vision_tower.");
  const std::int64_t side = config.positive_or({"spatial_merge_size"}, 2, kLargestMerge);
  const std::int64_t merged = side * side;
  const bool has_bias = config.is({"multimodal_projector_bias", false});
  LayerBuilder projector =
      start_projector(top + "multi_modal_projector.", tower.hidden, tower.patches / merged);
  projector.head_norm(Norm::kRms, "norm", tower.hidden, merged);
  projector.linear("patch_merger.merging_layer", tower.hidden * merged, tower.hidden, false);
  projector.keep(as_double(tower.hidden), 0);
  add_projection(projector, "linear_1", "linear_2",
                 {feature_layers(config) * tower.hidden, text.hidden, text.hidden, has_bias},
                 plain_activation(config.text_or("projector_hidden_act", "gelu")));
  append_layer(model, projector.take());
  finish_text(config, text, model, "language_model.", config.holds({"tie_word_embeddings", true}));
}

void read_gemma3(HubConfig& config, ModelSpec& model) {
  config.check_class("Gemma3", {"ForConditionalGeneration", "Model", "ForSequenceClassification"});
  const std::string top = top_of(config);
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = text_side(config, "gemma3_text", true);
  const VisionTower tower = add_vision(vision, model, "siglip_vision_model", top + "vision_tower.");
  const std::int64_t tokens = config.positive_or({"mm_tokens_per_image"}, 256, kMaxPositions);
  LayerBuilder projector = start_projector(top + "multi_modal_projector.", tower.hidden, tokens);
  // The mean of neighbouring patches, by as many reads.
  projector.chain(ChainKind::kActivation,
                  as_double(tower.hidden * std::max<std::int64_t>(1, tower.patches / tokens)));
  projector.norm(Norm::kGemmaRms, "mm_soft_emb_norm", tower.hidden);
  projector.tensor("mm_input_projection_weight", {tower.hidden, text.hidden});
  projector.product("mm_input_projection_weight", tower.hidden, text.hidden);
  append_layer(model, projector.take());
  finish_text(config, text, model, "language_model.", config.holds({"tie_word_embeddings", true}));
}

void read_paligemma(HubConfig& config, ModelSpec& model) {
  config.check_class("PaliGemma", {"ForConditionalGeneration", "Model"});
  const std::string top = top_of(config);
  HubConfig vision = config.below("vision_config", config.head());
  TextSide text = text_side(config, "gemma", false, TextSizes::kOfFamily);
  const VisionTower tower = add_vision(vision, model, "siglip_vision_model", top + "vision_tower.");
  const std::int64_t out = config.positive_or({"projection_dim"}, 2048, kMaxHidden);
  LayerBuilder projector =
      start_projector(top + "multi_modal_projector.", tower.hidden, tower.patches);
  projector.linear("linear", tower.hidden, out, true);
  append_layer(model, projector.take());
  finish_text(config, text, model, "language_model.", config.holds({"tie_word_embeddings", true}));
}

void read_idefics3(HubConfig& config, ModelSpec& model) {
  config.check_class("Idefics3", {"ForConditionalGeneration", "Model"});
  read_idefics3_like(config, model);
}

void read_smolvlm(HubConfig& config, ModelSpec& model) {
  config.check_class("SmolVLM", {"ForConditionalGeneration", "Model"});
  read_idefics3_like(config, model);
}

void read_internvl(HubConfig& config, ModelSpec& model) {
  config.check_class("InternVL", {"ForConditionalGeneration", "Model"});
  const std::string top = top_of(config);
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = text_side(config, "qwen2", false);
  const VisionTower tower = add_intern_vision(vision, model, top + "vision_tower.");
  const double ratio = config.map().number_or("downsample_ratio", 0.5, 1.0 / kLargestMerge, 1);
  const auto side = static_cast<std::int64_t>(1 / ratio);
  const std::int64_t width = tower.hidden * side * side;
  LayerBuilder projector =
      start_projector(top + "multi_modal_projector.", tower.hidden, tower.patches / (side * side));
  projector.norm(Norm::kLayer, "layer_norm", width);
  add_projection(projector, "linear_1", "linear_2", {width, text.hidden, text.hidden},
                 plain_activation(config.text_or("projector_hidden_act", "gelu")));
  append_layer(model, projector.take());
  finish_text(config, text, model, "language_model.", config.holds({"tie_word_embeddings", true}));
}

void read_qwen2_vl(HubConfig& config, ModelSpec& model) {
  config.check_class("Qwen2VL", {"ForConditionalGeneration", "Model"});
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = flat_text_side(config, "qwen2_vl_text");
  VisionTower tower = read_qwen_vision(
      vision, {.hidden = 1280, .heads = 16, .layers = 32, .patch = 14, .act = "quick_gelu"},
      "embed_dim", top_of(config) + "visual.");
  tower.intermediate = tower.hidden * vision.positive_or({"mlp_ratio"}, 4, kLargestMerge);
  const std::int64_t out = vision.positive_or({"hidden_size"}, 3584, kMaxHidden);
  add_qwen_patches(vision, model, tower, false);
  append_layers(model, tower.layers, vision_block(kQwen2Blocks, tower, vision).take());
  add_qwen2_merger(vision, model, tower, Norm::kLayer, out);
  finish_text(config, text, model, "language_model.", tied_by_either(config, text));
}

void read_qwen2_5_vl(HubConfig& config, ModelSpec& model) {
  config.check_class("Qwen2_5_VL", {"ForConditionalGeneration", "Model"});
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = flat_text_side(config, "qwen2_5_vl_text");
  const VisionTower tower = read_qwen_vision(
      vision,
      {.hidden = 3584, .heads = 16, .layers = 32, .intermediate = 3420, .patch = 14, .act = "silu"},
      "hidden_size", top_of(config) + "visual.");
  const std::int64_t out = vision.positive_or({"out_hidden_size"}, 3584, kMaxHidden);
  const std::vector<std::int64_t> whole =
      vision.numbers("fullatt_block_indexes").value_or(std::vector<std::int64_t>{7, 15, 23, 31});
  // A window of so many pixels a side, which all of its patches see: half of them to each side.
  const std::int64_t side = vision.positive_or({"window_size"}, 112, kLargestImage) / tower.patch;
  const std::int64_t window = std::max<std::int64_t>(1, side * side / 2);
  add_qwen_patches(vision, model, tower, false);
  for (std::int64_t i = 0; i < tower.layers; ++i) {
    const bool all = std::find(whole.begin(), whole.end(), i) != whole.end();
    append_layer(model, vision_block(kQwen25Blocks, tower, vision, all ? 0 : window).take());
  }
  add_qwen2_merger(vision, model, tower, Norm::kRms, out);
  finish_text(config, text, model, "language_model.", tied_by_either(config, text));
}

void read_qwen3_vl(HubConfig& config, ModelSpec& model) {
  config.check_class("Qwen3VL", {"ForConditionalGeneration", "Model"});
  read_qwen3_like(config, model, "qwen3_vl_text", true);
}

void read_qwen3_vl_moe(HubConfig& config, ModelSpec& model) {
  config.check_class("Qwen3VLMoe", {"ForConditionalGeneration", "Model"});
  read_qwen3_like(config, model, "qwen3_vl_moe_text", true);
}

void read_qwen3_5(HubConfig& config, ModelSpec& model) {
  config.check_class("Qwen3_5", {"ForConditionalGeneration", "Model", "ForSequenceClassification",
                                 "ForTokenClassification"});
  read_qwen3_like(config, model, "qwen3_5_text", false);
}

void read_qwen3_5_moe(HubConfig& config, ModelSpec& model) {
  config.check_class("Qwen3_5Moe", {"ForConditionalGeneration", "Model"});
  read_qwen3_like(config, model, "qwen3_5_moe_text", false);
}

void read_llama4(HubConfig& config, ModelSpec& model) {
  config.check_class("Llama4", {"ForConditionalGeneration"});
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = text_side(config, "llama4_text", true);
  VisionTower tower = read_vision(
      vision,
      {.hidden = 768, .heads = 16, .layers = 34, .intermediate = 5632, .image = 448, .patch = 14},
      "vision_model.");
  tower.tokens = tower.patches + 1;
  const std::int64_t hidden = tower.hidden;
  add_vision_tensor(model, tower, "class_embedding", {hidden});
  add_vision_tensor(model, tower, "positional_embedding_vlm", {tower.tokens, hidden});
  LayerBuilder stem = start_patches(tower, "patch_embedding.linear",
                                    {hidden, tower.channels * tower.patch * tower.patch}, false);
  stem.residual();
  stem.norm(Norm::kLayer, "layernorm_pre", hidden);
  append_layer(model, stem.take());
  append_layers(model, tower.layers, vision_block(kLlama4Blocks, tower, vision).take());

  const double ratio = vision.map().number_or("pixel_shuffle_ratio", 0.5, 1.0 / kLargestMerge, 1);
  const std::int64_t in = vision.positive_or({"projector_input_dim"}, 4096, kMaxHidden);
  const std::int64_t out = vision.positive_or({"projector_output_dim"}, 4096, kMaxHidden);
  const std::int64_t projected = vision.positive_or({"vision_output_dim"}, 7680, kMaxHidden);
  LayerBuilder adapter = start_projector(
      "", hidden, static_cast<std::int64_t>(as_double(tower.patches) * ratio * ratio));
  adapter.head_norm(Norm::kLayer, "vision_model.layernorm_post", hidden,
                    static_cast<std::int64_t>(1 / (ratio * ratio)));
  adapter.linear("vision_model.vision_adapter.mlp.fc1", tower.intermediate, in, false);
  adapter.activation(ChainKind::kActivation, as_double(in), 2);
  adapter.linear("vision_model.vision_adapter.mlp.fc2", out, out, false);
  adapter.activation(ChainKind::kActivation, as_double(out), 2);
  adapter.linear("multi_modal_projector.linear_1", projected, text.hidden, false);
  append_layer(model, adapter.take());
  read_decoder(text.config, *text.row, "language_model.model.", model, std::nullopt,
               "language_model.");
}

void read_mllama(HubConfig& config, ModelSpec& model) {
  config.check_class("Mllama", {"ForConditionalGeneration", "Model"});
  const std::string top = top_of(config);
  HubConfig vision = config.below_or_empty("vision_config", config.head());
  TextSide text = text_side(config, "mllama_text_model", true);
  VisionTower tower = read_vision(
      vision,
      {.hidden = 1280, .heads = 16, .layers = 32, .intermediate = 5120, .image = 448, .patch = 14},
      top + "vision_model.");
  tower.heads = vision.positive_or({"num_attention_heads", "attention_heads"}, 16, kMaxHeads);
  add_mllama_vision(vision, model, tower);
  const std::int64_t in = vision.positive_or({"vision_output_dim"}, 7680, kMaxIntermediate);
  LayerBuilder projector = start_projector(top, tower.hidden, tower.tokens);
  projector.linear("multi_modal_projector", in, text.hidden, true);
  append_layer(model, projector.take());
  finish_text(config, text, model, "language_model.", false);
  for (Layer& layer : model.kinds) {
    if (layer.name != kCrossBlock) continue;
    for (Attention& attention : layer.attention) attention.key_tokens = tower.tokens;
  }
}

void read_qwen2_audio(HubConfig& config, ModelSpec& model) {
  config.check_class("Qwen2Audio", {"ForConditionalGeneration", "Model"});
  const std::string top = top_of(config);
  HubConfig audio = config.below_or_empty("audio_config", config.head());
  TextSide text = text_side(config, "qwen2", false);
  VisionTower tower;
  tower.prefix = top + "audio_tower.";
  tower.hidden = audio.positive_or({"d_model"}, 1280, kMaxHidden);
  tower.heads = audio.positive_or({"encoder_attention_heads"}, 20, kMaxHeads);
  tower.layers = audio.positive_or({"encoder_layers"}, 32, kMaxLayers);
  tower.intermediate = audio.positive_or({"encoder_ffn_dim"}, 5120, kMaxIntermediate);
  tower.tokens = audio.positive_or({"max_source_positions"}, 1500, kMaxPositions);
  tower.act = plain_activation(audio.text_or("activation_function", "gelu"));
  const std::int64_t bins = audio.positive_or({"num_mel_bins"}, 128, kMaxHidden);
  add_vision_tensor(model, tower, "embed_positions.weight", {tower.tokens, tower.hidden});
  add_audio_stem(model, tower, bins);
  append_layers(model, tower.layers, audio_block(audio, tower));
  // Every two frames are averaged before the norm.
  LayerBuilder projector = start_projector(top, tower.hidden, tower.tokens / 2);
  projector.chain(ChainKind::kResidual, as_double(tower.hidden));
  projector.norm(Norm::kLayer, "audio_tower.layer_norm", tower.hidden);
  projector.linear("multi_modal_projector.linear", tower.hidden, text.hidden, true);
  append_layer(model, projector.take());
  finish_text(config, text, model, "language_model.", false);
}

}  // namespace zenflow::sim::hub
