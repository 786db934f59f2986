/// What training needs to know of a transformer beyond its shapes, from the same config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model_config/parameters.h"
#include "sim/config/document.h"
#include "sim/model/model_spec.h"

namespace zenflow::runtime {

enum class Activation : std::uint8_t {
  kSilu,      ///< x * sigmoid(x)
  kGelu,      ///< x * Phi(x), by the error function
  kGeluTanh,  ///< GPT-2's approximation: Hugging Face's gelu_new and gelu_pytorch_tanh
  kRelu,
};

/// Rotary position embedding: how fast each pair of columns turns.
struct RotarySettings {
  enum class Scaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn, kLongRope };
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_frequency_factor = 1.0;  ///< kLlama3
  double high_frequency_factor = 4.0;
  double original_max_positions = 0.0;     ///< kLlama3, kYarn, kLongRope
  double fast_turns = 32.0;                ///< kYarn: of a column that is not scaled, and of one
  double slow_turns = 1.0;                 ///< that is scaled whole
  bool rounds_range = true;                ///< kYarn: the columns between, to whole ones
  std::vector<double> short_factors = {};  ///< kLongRope, of each pair of columns
  std::vector<double> long_factors = {};   ///< the same for more than the original positions
  double attention_factor = 1.0;           ///< of cosines and sines

  friend bool operator==(const RotarySettings&, const RotarySettings&) = default;
};

/// What a norm does besides dividing by the root of the mean square (kernels/norm/norm.h).
struct NormSettings {
  double epsilon = 0.0;
  bool is_layer_norm = false;     ///< subtracts the mean, too
  bool rounds_normalized = true;  ///< before it is multiplied by the weight
  double offset = 0.0;            ///< of the weight

  [[nodiscard]] double initial_weight() const { return 1.0 - offset; }
};

/// How Hugging Face names the tensors of a family.
struct TensorNames {
  std::string_view base;       ///< prefix that checkpoints without a head leave out
  std::string_view layers;     ///< prefix of a layer's number
  std::string_view embedding;  ///< without ".weight", as below
  std::string_view final_norm;
};

struct TransformerConfig {
  sim::ModelSpec model;
  Task task;
  TensorNames names;
  std::string_view class_name;  ///< Hugging Face's, of the model with its head
  NormSettings norm;
  double initializer_range = 0.02;  ///< standard deviation of initial weights
  Activation activation = Activation::kSilu;
  RotarySettings rotary;                        ///< unused with learned positions
  std::optional<RotarySettings> window_rotary;  ///< of layers with a window, if it is another
  std::int64_t rotary_columns = 0;              ///< of a head
  std::int64_t first_position = 0;  ///< row of the learned positions that the first token has
  double embedding_scale = 1.0;
  double attention_scale = 0.0;            ///< of scores; 0: 1 / sqrt(head_dim)
  bool scales_attention = true;            ///< false: scores are the products
  bool scales_attention_by_layer = false;  ///< GPT-2: also by 1 / (layer + 1)
  double attention_cap = 0.0;              ///< of scores, cap * tanh(score / cap); 0: none
  double logit_cap = 0.0;                  ///< the same of a language model's logits
  /// One line for each dropout that Hugging Face would apply with this file. The runtime has no
  /// dropout; whoever trains says so.
  std::vector<std::string> unapplied_dropouts;

  [[nodiscard]] bool has_rotary() const { return !model.learned_positions; }
  /// Tokens that a layer's attention looks back on, the own one among them; 0: all.
  [[nodiscard]] std::int64_t window(std::int64_t layer) const {
    return model.layer(layer).attention.front().window;
  }
  /// The largest of these.
  [[nodiscard]] std::int64_t largest_window() const;
  /// The head multiplies by the token embedding, parameter 0, so both groups have its gradient.
  [[nodiscard]] bool has_tied_head() const {
    return model.tied_embeddings && !task.is_classification();
  }
};

/// The values of model_type that are trained.
[[nodiscard]] std::vector<std::string_view> trained_families();

/// Reads a config.json of one of these families, with the defaults that Hugging Face has for
/// missing keys. Throws as sim::load_model does, and Error(kInput) at the value for another family,
/// an unsupported activation or rotary scaling, or what the blocks do not compute (OPT-350M's norms
/// and projections, attention to later tokens).
[[nodiscard]] TransformerConfig load_transformer_config(const std::filesystem::path& path,
                                                        Task task);
[[nodiscard]] TransformerConfig read_transformer_config(const Node& root, const std::string& name,
                                                        Task task);

}  // namespace zenflow::runtime
