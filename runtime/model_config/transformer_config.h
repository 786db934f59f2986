/// What training needs to know of a transformer beyond its shapes, from the same config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/model_config/parameters.h"
#include "sim/config/document.h"
#include "sim/model/model_spec.h"

namespace zenflow::runtime {

enum class Activation : std::uint8_t {
  kSilu,      ///< x * sigmoid(x)
  kGelu,      ///< x * Phi(x), by the error function
  kGeluTanh,  ///< GPT-2's approximation: Hugging Face's gelu_new and gelu_pytorch_tanh
};

/// Rotary position embedding: how fast each pair of columns turns.
struct RotarySettings {
  enum class Scaling : std::uint8_t { kNone, kLinear, kLlama3 };
  double theta = 10000.0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  double low_frequency_factor = 1.0;  ///< kLlama3 only, as are those below
  double high_frequency_factor = 4.0;
  double original_max_positions = 0.0;
};

struct TransformerConfig {
  sim::ModelSpec model;
  Task task;
  double norm_epsilon = 0.0;
  double initializer_range = 0.02;  ///< standard deviation of initial weights
  Activation activation = Activation::kSilu;
  RotarySettings rotary;                       ///< unused with learned positions
  std::optional<std::int64_t> sliding_window;  ///< tokens that attention looks back on
  bool scales_attention = true;                ///< by 1 / sqrt(head_dim)
  bool scales_attention_by_layer = false;      ///< GPT-2: also by 1 / (layer + 1)
  /// One line for each dropout that Hugging Face would apply with this file. The runtime has no
  /// dropout; whoever trains says so.
  std::vector<std::string> unapplied_dropouts;

  /// RMSNorm, rotary positions and SwiGLU, against GPT-2's LayerNorm, learned positions and GELU.
  [[nodiscard]] bool is_llama_like() const { return !model.learned_positions; }
  /// The head multiplies by the token embedding, parameter 0, so both groups have its gradient.
  [[nodiscard]] bool has_tied_head() const {
    return model.tied_embeddings && !task.is_classification();
  }
};

/// Reads a config.json of the families llama, mistral, qwen2 and gpt2, with the defaults that
/// Hugging Face has for missing keys. Throws as sim::load_model does, and Error(kInput) at the
/// value for OPT, an unsupported activation, rotary scaling or partial rotary embedding.
[[nodiscard]] TransformerConfig load_transformer_config(const std::filesystem::path& path,
                                                        Task task);
[[nodiscard]] TransformerConfig read_transformer_config(const Node& root, const std::string& name,
                                                        Task task);

}  // namespace zenflow::runtime
