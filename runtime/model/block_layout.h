/// One decoder layer, as far as it does not depend on the device: its sizes, which norms it has,
/// and where its parameters are in the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/model_config/parameters.h"
#include "runtime/model_config/transformer_config.h"

namespace zenflow::runtime {

/// The weights, or the gradients, of a whole table, by the parameter's place in it.
using WeightPointers = std::span<const void* const>;
using GradientPointers = std::span<void* const>;

/// A matrix applied to every row: torch.nn.Linear, and GPT-2's Conv1D, which is stored transposed.
struct LinearShape {
  std::int64_t in;
  std::int64_t out;
  bool is_conv1d = false;  ///< weight [in, out]; otherwise [out, in]
};

/// Places of a norm's or a linear layer's parameters in the table.
struct NormPlaces {
  std::size_t weight = 0;
  std::optional<std::size_t> bias;
};
struct LinearPlaces {
  LinearShape shape = {};
  std::size_t weight = 0;
  std::optional<std::size_t> bias;
  /// Row of the stored weight [*, in] at which this layer's begin: of a gate and what it multiplies
  /// in one tensor. Such layers have no bias.
  std::int64_t first_row = 0;

  /// The layer's own weight or gradient, in a table of `Stored`.
  template <class Stored>
  [[nodiscard]] const Stored* weight_in(WeightPointers weights) const {
    return static_cast<const Stored*>(weights[weight]) + first_row * shape.in;
  }
  template <class Stored>
  [[nodiscard]] Stored* gradient_in(GradientPointers gradients) const {
    return static_cast<Stored*>(gradients[weight]) + first_row * shape.in;
  }
};
/// The places of PREFIX.weight and, if the table has it, PREFIX.bias.
/// Throws Error(kRuntime) if there is no such weight.
[[nodiscard]] NormPlaces find_norm(const ParameterTable& table, const std::string& prefix);
[[nodiscard]] LinearPlaces find_linear(const ParameterTable& table, const std::string& prefix,
                                       LinearShape shape);

struct BlockLayout {
  /// A linear layer that writes columns of qkv from `column` on.
  struct QkvPart {
    LinearPlaces linear;
    std::int64_t column;
  };

  /// A norm of queries or keys, before they turn: `rows` of each token, from `column` of qkv on.
  /// They are its heads, or one row with all of them.
  struct QkNorm {
    NormPlaces places;
    std::int64_t column;
    std::int64_t rows;
    std::int64_t columns;
  };

  /// Throws as find_linear.
  BlockLayout(const TransformerConfig& config, const ParameterTable& table, std::int64_t layer);

  std::int64_t hidden;
  std::int64_t intermediate;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  float scale;                  ///< of the scores
  float cap;                    ///< of the scores; 0: none
  std::int64_t window;          ///< keys that a token sees; 0: all
  bool uses_window_rotary;      ///< TransformerConfig::window_rotary
  std::int64_t rotary_columns;  ///< of a head; 0 with learned positions
  using BranchNorms = std::array<std::optional<NormPlaces>, 2>;  ///< of attention, of feed-forward
  BranchNorms before;                                            ///< of what enters a branch
  BranchNorms after;             ///< of what leaves it, before it is added to the stream
  std::vector<QkNorm> qk_norms;  ///< of queries and of keys, or none
  std::vector<QkvPart> qkv;
  LinearPlaces attention_out;
  std::optional<LinearPlaces> up;  ///< with a gate only
  LinearPlaces gate;               ///< without a gate the layer before the activation
  LinearPlaces down;

  [[nodiscard]] bool has_norms_after() const { return after[0].has_value(); }
  /// Columns of queries and keys, which come before values.
  [[nodiscard]] std::int64_t qk_columns() const { return (heads + kv_heads) * head_dim; }

 private:
  void find_llama_parameters(const ParameterTable& table, const std::string& prefix);
  void find_gpt2_parameters(const ParameterTable& table, const std::string& prefix);
  void find_opt_parameters(const ParameterTable& table, const std::string& prefix);
  void find_llama_norms(const ParameterTable& table, const std::string& prefix);
  void find_qk_norms(const ParameterTable& table, const std::string& prefix);
};

}  // namespace zenflow::runtime
