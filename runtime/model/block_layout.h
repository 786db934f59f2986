/// One decoder layer of either family, as far as it does not depend on the device: its sizes, and
/// where its parameters are in the table.
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

  /// Throws as find_linear.
  BlockLayout(const TransformerConfig& config, const ParameterTable& table, std::int64_t layer);

  std::int64_t hidden;
  std::int64_t intermediate;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  float scale;                                 ///< of the scores
  std::array<NormPlaces, 2> norm_places = {};  ///< before attention, before feed-forward
  std::vector<QkvPart> qkv;
  LinearPlaces attention_out;
  std::optional<LinearPlaces> up;  ///< with a gate only
  LinearPlaces gate;               ///< without a gate the layer before the activation
  LinearPlaces down;

 private:
  void find_llama_parameters(const ParameterTable& table, const std::string& prefix);
  void find_gpt2_parameters(const ParameterTable& table, const std::string& prefix);
};

}  // namespace zenflow::runtime
