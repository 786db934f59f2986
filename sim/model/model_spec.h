/// A network without its family: tensors, products, attention and element-wise chains of its
/// layers.
///
/// Costs, memory, traffic and schedules are computed from this alone; which model it is, is known
/// only to who reads it (sim/config/hub).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::sim {

/// A parameter tensor.
struct Tensor {
  std::string name;                 ///< Hugging Face's, with the layer's number as "{}"
  std::vector<std::int64_t> shape;  ///< as PyTorch has it; at least one dimension
  bool trained = true;              ///< false: frozen, so without gradient and optimizer state
  double stored_bytes = 0;          ///< of an element of a quantised one; 0: of the training type

  [[nodiscard]] std::int64_t parameters() const;
  /// Product of all dimensions but the last: 1 of a vector.
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t columns() const { return shape.back(); }
  /// Bytes of an element, with `b` of the training type.
  [[nodiscard]] double width(double b) const { return stored_bytes > 0 ? stored_bytes : b; }
  /// Two dimensions: what ZenFlow may select columns of.
  [[nodiscard]] bool is_matrix() const { return shape.size() == 2; }
};

/// A matrix product: [tokens, in] x [in, out], or several alike in one kernel. Experts are `count`
/// products, each of a share of the tokens: top_k / experts on average.
struct Linear {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t count = 1;
  double share = 1;   ///< tokens that each sees, of the layer's
  double needed = 0;  ///< share of them whose result counts, if that is less; 0: all
  /// Of Layer::inputs: what it reads, which is kept for its weight's gradient only; -1: kept
  /// anyway.
  std::int32_t input = -1;
  bool trained = true;      ///< false: its weight has no gradient
  bool no_grad = false;     ///< runs under torch.no_grad: in forward alone
  double stored_bytes = 0;  ///< of an element of its weight if quantised: dequantised for each use

  /// Weights that a token needs to be multiplied by.
  [[nodiscard]] double active() const {
    return static_cast<double>(in * out) * (needed > 0 ? needed : share) *
           static_cast<double>(count);
  }
};

/// Attention of queries over keys and values of the same sequence, or over another one's.
struct Attention {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;   ///< of queries and keys
  std::int64_t value_dim = 0;  ///< of values
  std::int64_t window = 0;     ///< tokens that a query looks back on; 0: all
  bool causal = true;
  /// Recurrent or chunked linear attention (Mamba, gated delta rule): a state of head_dim x
  /// value_dim a head in place of the keys before.
  bool linear = false;
  std::int64_t key_tokens = 0;  ///< of a sequence, if they are another stream's; 0: the layer's
  bool no_grad = false;         ///< runs under torch.no_grad: in forward alone

  /// Pairs of a query and a key that it sees, of a sequence of `length` queries.
  [[nodiscard]] double pairs(double length) const;
};

/// What a chain of element-wise kernels does.
enum class ChainKind : std::uint8_t {
  kRmsNorm,
  kLayerNorm,
  kResidual,  ///< a sum
  kDropout,
  kRotary,
  kGate,        ///< of a gated MLP: activation(gate) * up
  kActivation,  ///< one kernel: ReLU, GELU, SiLU
  kNewGelu,     ///< GPT-2's tanh, written out in eager code
  kEmbedding,
  kRouting,  ///< of tokens to experts: its width is the number of experts
};

struct Chain {
  ChainKind kind = ChainKind::kResidual;
  double width = 0;  ///< elements a token
};

/// What autograd keeps of a layer for its backward pass.
struct SavedPerToken {
  double elements = 0;  ///< of the training type
  double bytes = 0;     ///< whatever the training type: statistics, masks, fp32 inputs of norms
  /// Bytes a pair of a query and a key: scores of attention that is not fused.
  double pair_bytes = 0;
};

/// What would not be kept if weights were frozen; part of SavedPerToken.
struct SavedForWeights {
  std::vector<double> inputs;  ///< elements a token that products read, `Linear::input`
  SavedPerToken norms;         ///< for the gradients of norms' weights
};

struct Layer {
  std::string name;  ///< "block", "dense block", "encoder block"
  std::vector<Tensor> tensors;
  std::vector<Linear> products;
  std::vector<Attention> attention;
  std::vector<Chain> chains;
  SavedPerToken saved;
  SavedForWeights for_weights;
  std::int64_t width = 0;  ///< elements a token of the stream that enters it
  /// Tokens of a sequence in this layer's stream if they are not the training's sequence length: of
  /// images, of audio.
  std::int64_t tokens = 0;
  /// false: nothing in it nor before it is trained, so that autograd neither keeps anything of it
  /// nor comes back to it.
  bool runs_backward = true;

  [[nodiscard]] std::int64_t parameters() const;
  /// The first one whose name ends so, or nullptr.
  [[nodiscard]] const Tensor* tensor_ending(std::string_view ending) const;
  /// Those that are trained.
  [[nodiscard]] std::int64_t trained() const;
  [[nodiscard]] std::int64_t trained_tensors() const;
  /// Trained ones in matrices.
  [[nodiscard]] std::int64_t trained_in_matrices() const;
};

struct ModelSpec {
  std::string name;  ///< "llama2_7b"
  std::string type;  ///< Hugging Face's model_type
  /// How the weights are stored: "bitsandbytes"; empty: as they are.
  std::string quantization;
  /// A sentence on what is estimated, and on what assumptions; empty: nothing is.
  std::string estimate;
  Layer embedding;                  ///< token and position embeddings, projections into the stack
  std::vector<Layer> kinds;         ///< the layers that differ
  std::vector<std::int32_t> order;  ///< the kind of each layer, from the first to the last
  Layer head;                       ///< final norm, projections out, untied LM head
  /// Columns of the logits: the vocabulary, labels; 0 of a model without a head.
  std::int64_t outputs = 0;
  /// Whether the loss is of logits in the training type; else they are cast to fp32 before it.
  bool narrow_loss = false;
  std::int64_t max_positions = 0;

  // Of decoders whose layers are all alike: what zenflow-train's blocks are built from.
  std::int64_t hidden = 0;  ///< of every model: Hugging Face's hidden_size
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocab = 0;
  std::int64_t embedding_dim = 0;  ///< width of the token embedding; OPT-350M's is not hidden
  bool tied_embeddings = false;
  bool gated_mlp = false;  ///< SwiGLU: three matrices
  bool learned_positions = false;
  bool post_norm = false;  ///< OPT-350M

  [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(order.size()); }
  /// Precondition: 0 <= i < layers().
  [[nodiscard]] const Layer& layer(std::int64_t i) const {
    return kinds[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
  }
  /// Embedding, layers, head: in the order of forward. `i` from 0 to layers() + 1.
  [[nodiscard]] const Layer& part(std::int64_t i) const;
  /// How many layers are of each kind.
  [[nodiscard]] std::vector<std::int64_t> kind_counts() const;

  [[nodiscard]] std::int64_t parameters() const;
  /// Parameters that are trained: those with gradients and optimizer states.
  [[nodiscard]] std::int64_t trained() const;
  /// Trained ones in matrices, of which ZenFlow may select columns.
  [[nodiscard]] std::int64_t trained_in_matrices() const;
  /// Bytes of the weights that are frozen, with `b` bytes an element of the training type.
  [[nodiscard]] double frozen_bytes(double b) const;
  /// The first tensor of three dimensions or more, stacked experts or a convolution; or nullptr.
  [[nodiscard]] const Tensor* stacked_tensor() const;
  /// Trained tensors of all layers.
  [[nodiscard]] std::int64_t trained_tensors() const;
};

}  // namespace zenflow::sim
