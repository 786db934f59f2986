/// Parameters as the headers of their files have them, whatever they are stored as.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/safetensors_header.h"

namespace zenflow::sim::hub {

struct WeightTensor {
  std::string name;
  std::string type;                 ///< as stored: "BF16"
  std::vector<std::int64_t> shape;  ///< before it was quantised; empty if only its size is known
  std::int64_t elements = 0;
  const SafetensorsHeader* file = nullptr;
};

struct Weights {
  std::vector<WeightTensor> tensors;  ///< by name; those of integers and booleans, too
  std::string quantization;  ///< how the first quantised one is stored: "GPTQ"; empty: none
  std::string quantised;     ///< its name
};

/// Tensors of all files. Those that a quantised weight is stored as (packed values, scales, zero
/// points) are one tensor of the shape that it had: bitsandbytes' absmax and quant_map, GPTQ's and
/// AWQ's qweight, FP8's and compressed-tensors' scales, MXFP4's blocks.
/// The headers have to live as long as the result. Throws Error(kInput) at names that are longer
/// than any module's.
[[nodiscard]] Weights weight_tensors(std::span<const SafetensorsHeader> files);

/// What checkpoints store that is no parameter: rotary frequencies, masks, ids of positions,
/// statistics that routing corrects itself by.
[[nodiscard]] bool is_buffer(const WeightTensor& tensor);

/// "model.layers.12.mlp.up_proj.weight" around its first number.
struct NumberedName {
  std::string_view before;  ///< "model.layers."
  std::int64_t number = 0;
  std::string_view after;  ///< ".mlp.up_proj.weight"
};
/// `from`: where in the name to begin to look. Nothing of a name without a component that is a
/// number below 10^18.
[[nodiscard]] std::optional<NumberedName> split_at_number(std::string_view name,
                                                          std::size_t from = 0);
/// Its parts between dots.
[[nodiscard]] std::vector<std::string_view> components(std::string_view name);
/// Whether one of its parts is one of `known`.
[[nodiscard]] bool has_component(std::string_view name, std::span<const std::string_view> known);
/// Whether one of `words` is anywhere in it.
[[nodiscard]] bool mentions(std::string_view name, std::initializer_list<std::string_view> words);

}  // namespace zenflow::sim::hub
