/// Decoders that are put together as Llama is: what their families do differently, a row each.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/hub/hub_config.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim::hub {

/// Where a block has its norms.
enum class NormPlace : std::uint8_t {
  kBefore,    ///< of attention and of the MLP
  kSandwich,  ///< before and after both
  kAfter,     ///< after both, before the sum
  kShared,    ///< one, and attention and MLP side by side
};

enum class QkNorm : std::uint8_t {
  kNone,
  kHead,     ///< of each head, one weight for all: [head_dim]
  kWhole,    ///< of all heads at once
  kPerHead,  ///< of each head, a weight of its own: [heads, head_dim]
};

enum class Mlp : std::uint8_t {
  kGated,       ///< gate_proj, up_proj, down_proj
  kGatedFused,  ///< gate_up_proj, down_proj
  kPlain,
};

/// Which layers see a window only.
enum class Windows : std::uint8_t {
  kNone,
  kAll,   ///< if sliding_window is set
  kQwen,  ///< with use_sliding_window, layers from max_window_layers on
  kLate,  ///< layers from max_window_layers on
  kMost,  ///< all but every `period`-th
};

/// Latent attention (DeepSeek-V2), with the sparse indexer of V3.2.
enum class Latent : std::uint8_t { kNone, kLatent, kSparse };

/// Sizes of latent attention where their keys are missing.
struct LatentSizes {
  std::int64_t query_rank = 1536;
  std::int64_t rank = 512;
  std::int64_t rotated = 64;
  std::string_view rotated_alias = {};  ///< a key that outweighs qk_rope_head_dim
  std::int64_t plain = 128;
  std::int64_t values = 128;  ///< 0: hidden / heads
  std::int64_t index_heads = 64;
};

/// What attention's result is multiplied by.
enum class AttentionGate : std::uint8_t {
  kNone,
  kInQueries,  ///< q_proj gives queries and gates
  kOwn,        ///< gate_proj
};

/// A layer that attends to another stream.
inline constexpr std::string_view kCrossBlock = "cross block";

/// Which layers are of a kind: one flag a layer.
using LayerChoice = std::vector<bool> (*)(HubConfig& config, std::int64_t layers);

/// What stands in for attention in some layers: a state space, linear attention, a convolution.
struct Mixer {
  std::string_view name;  ///< of a layer that has it: "mamba block"
  LayerChoice layers = nullptr;
  void (*add)(HubConfig& config, const ModelSpec& model, LayerBuilder& b) = nullptr;
  bool beside = false;       ///< attention, too, on the same input
  bool norms_first = false;  ///< where attention's layers have their norms after
};

/// Mixture of experts in place of a block's MLP.
struct Experts {
  std::array<std::string_view, 3> count_keys = {"num_local_experts", "num_experts",
                                                "n_routed_experts"};
  std::string_view top_k_key = "num_experts_per_tok";
  std::string_view top_k_alias = {};                     ///< a key that outweighs it
  std::string_view width_key = "moe_intermediate_size";  ///< else intermediate_size
  std::int64_t width = 0;                                ///< where the key is missing
  std::int64_t top_k = 0;                                ///< where the key is missing
  std::int64_t experts = 0;                              ///< where the key is missing
  std::string_view module = "mlp";                       ///< what holds router and experts
  std::string_view router = "gate";                      ///< its name below the module
  bool router_bias = false;
  bool biases = false;       ///< of the experts
  bool wide_router = false;  ///< computed in fp32
  bool see_all = false;      ///< every expert is run on every token, and the sum weighted
  bool transposed = false;   ///< [experts, in, out]
  /// gate_up_proj and down_proj, or Granite's input_linear and output_linear.
  std::string_view up = "experts.gate_up_proj";
  std::string_view down = "experts.down_proj";
  /// A learnt term of the experts' scores, one each, and whether as a row of a matrix.
  std::string_view correction = {};
  bool correction_row = false;
  /// Experts that see all tokens, as one MLP: a number of them, or their width.
  std::string_view shared_count_key = {};
  std::string_view shared_count_alias = {};  ///< a key that outweighs it
  std::string_view shared_width_key = {};
  std::int64_t shared_width = 0;  ///< where the key is missing
  std::string_view shared = "shared_experts";
  /// Granite's: input_linear, of gate and up, and output_linear, beside the module.
  bool shared_beside = false;
  bool shared_gate = false;
  bool shared_by_default = false;  ///< a count of 0: one as wide as intermediate_size
  std::int64_t shared_count = 0;   ///< where the key is missing
  /// Layers without experts.
  std::string_view first_dense_key = {};
  std::int64_t first_dense = 0;
  bool sparse_step = false;              ///< decoder_sparse_step and mlp_only_layers
  std::string_view interleave_key = {};  ///< experts in every n-th layer
  std::string_view dense_width_key = "intermediate_size";  ///< of layers without experts
  std::int64_t dense_width = 0;  ///< where that key is missing or null; 0: intermediate_size
  std::string_view layer_types_key = {};  ///< "sparse" or not, a layer each
  LayerChoice layers = nullptr;           ///< where no key above says it
  bool everywhere = false;                ///< in all layers: there is no intermediate_size
  bool may_lack = false;                  ///< no experts, but what is shared
};

inline constexpr Switch kYes{"", true};

struct DecoderRow {
  std::string_view type;
  std::string_view classes;                   ///< prefix of its classes' names: "Llama"
  std::string_view other_classes = {};        ///< and of the code that its repositories had
  std::string_view answer_prefix = "model.";  ///< of ForQuestionAnswering's decoder
  Norm norm = Norm::kRms;
  NormPlace place = NormPlace::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  Switch qk_norm_if = kYes;  ///< false there: none
  std::array<std::string_view, 2> qk_norms = {"q_norm", "k_norm"};
  std::string_view rms_key = {};  ///< RMSNorm if it is set, whatever `norm` says
  Switch norms_after = kYes;      ///< of NormPlace::kSandwich: false leaves out those after
  Switch qkv_bias = {};
  std::string_view qkv_bias_alias = {};  ///< a key that outweighs it
  Switch output_bias = {};
  Switch mlp_bias = {};
  Switch tied = {"tie_word_embeddings", false};
  std::string_view tied_alias = {};  ///< a key that outweighs it
  Switch head_bias = {};
  bool fused_qkv = false;
  Mlp mlp = Mlp::kGated;
  std::array<std::string_view, 3> gated = {"gate_proj", "up_proj", "down_proj"};
  std::string_view up = "up_proj";  ///< of a plain MLP
  std::string_view down = "down_proj";
  std::string_view attention = "self_attn";
  std::string_view output = "o_proj";
  AttentionGate gate = AttentionGate::kNone;
  bool causal = true;
  std::string_view feed_forward = "mlp";
  std::array<std::string_view, 4> norms = {"input_layernorm", "post_attention_layernorm", "", ""};
  std::string_view final_norm = "norm";
  Windows windows = Windows::kNone;
  std::string_view window_key = "sliding_window";
  std::int64_t window = 0;  ///< where its key is missing
  std::int64_t period = 0;
  std::string_view period_key = {};
  bool full_first = false;  ///< the first of each period sees all, not the last
  /// The rotated part of queries and keys is joined with the rest (torch.cat).
  bool joins_rotary = false;
  bool sinks = false;  ///< a learnt logit a head
  /// Bytes a pair of tokens and head that attention keeps, where it is not fused: with sinks, with
  /// capped logits.
  double pair_bytes = 0;
  Latent latent = Latent::kNone;
  LatentSizes latent_sizes = {};
  LayerChoice indexers = nullptr;  ///< layers with one; others take the choice of those before
  std::int64_t head_dim = 0;       ///< where the key is missing; 0: hidden / heads
  bool reads_head_dim = true;      ///< false: hidden / heads, whatever the key says
  bool rounds_head_dim = false;    ///< hidden / heads without a remainder's error
  bool square = false;             ///< all heads together must be as wide as the stream
  std::int64_t kv_heads = 0;       ///< where the key is missing; 0: heads
  const Experts* experts = nullptr;
  const Mixer* mixer = nullptr;
  std::int64_t more_vocab = 0;           ///< rows of the embedding that the head does not have
  std::string_view head_vocab_key = {};  ///< rows of an untied head, if it is set
  std::string_view layers_alias = {};    ///< a key that outweighs num_hidden_layers
  /// The MLP's columns by what the config says: LFM2 rounds them.
  std::int64_t (*mlp_width)(HubConfig& config, std::int64_t intermediate) = nullptr;
  /// Tensors of a block that no field above describes.
  void (*extra)(HubConfig& config, const ModelSpec& model, LayerBuilder& b) = nullptr;
  // What transformers fills in where a nested config leaves it out.
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;
};

[[nodiscard]] std::span<const DecoderRow> decoder_rows();
/// The row of this model_type, or nullptr.
[[nodiscard]] const DecoderRow* find_decoder_row(std::string_view type);

/// Of the decoder's tensors in a class with this head: "model.".
[[nodiscard]] std::string decoder_prefix(const DecoderRow& row, Head head);

/// Adds embedding, layers and head. `prefix`: of the decoder's tensors, "model.". `tied`: what a
/// map around this one says of tied embeddings, if there is one. `top`: of the head's tensors, with
/// which the prefix begins.
/// Throws Error(kInput) at values outside what a model of this family may have.
void read_decoder(HubConfig& config, const DecoderRow& row, const std::string& prefix,
                  ModelSpec& model, std::optional<bool> tied = std::nullopt,
                  const std::string& top = "");

/// The projection to the vocabulary, or to `vocab` rows if it is set, or a classifier, on a stream
/// of `width` columns: `top` stands above the decoder's prefix. Sets `model.outputs`.
void add_head(HubConfig& config, ModelSpec& model, LayerBuilder& head, std::int64_t width,
              bool has_bias = false, std::int64_t vocab = 0);

/// The layer's kind: an equal one that `model` has already, or a new one.
void append_layer(ModelSpec& model, Layer layer);
/// `count` of them.
void append_layers(ModelSpec& model, std::int64_t count, Layer layer);

/// What an activation of this name runs and keeps.
struct PlainActivation {
  ChainKind kind = ChainKind::kActivation;
  double kept = 2;  ///< of its width: input and result
};
[[nodiscard]] PlainActivation plain_activation(std::string_view name);

}  // namespace zenflow::sim::hub
