/// Fine-tuning of a part of a network: frozen tensors, and low-rank adapters beside frozen
/// products.
///
/// Source: LoRA (arXiv 2106.09685), DoRA (2402.09353), QLoRA (2305.14314); names and rules of PEFT
/// 0.19 (tuners/lora, tuners_utils.py: check_target_module_exists, LoraLayer).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/model_spec.h"

namespace zenflow::sim {

/// How weights of a frozen base are stored.
enum class BaseStorage : std::uint8_t { kTrainingType, kNf4, kInt8, kFp8, kMxfp4, kGptq4 };
/// Bytes of an element with its scales; 0 of the training type.
[[nodiscard]] double stored_bytes(BaseStorage storage);

struct LoraSettings {
  std::int64_t rank = 0;
  /// Modules by their names or the ends of them: "q_proj", "mlp.down_proj".
  std::vector<std::string> targets;
  bool all_linear = false;  ///< every product but the head's
  /// Modules of which a copy is trained whole: "lm_head", "embed_tokens".
  std::vector<std::string> saved_modules;
  /// Parameters that are no modules' own weights, by the ends of their names: stacked experts.
  std::vector<std::string> target_parameters;
  std::vector<std::int64_t> layers;  ///< which ones get adapters; empty: all
  bool dora = false;
  double dropout = 0;
};

/// A target, or "" if there is none: what matches nothing in the model.
[[nodiscard]] std::string unmatched_target(const ModelSpec& model, const LoraSettings& lora);

/// Freezes the model and adds adapters. Preconditions: rank >= 1, unmatched_target() is "".
void add_lora(ModelSpec& model, const LoraSettings& lora);
/// Freezes the tensors for whose names `frozen` is true; layers of one kind have one name, with
/// "{}" for their number. Returns how many of these names there are.
std::int64_t freeze(ModelSpec& model, const std::function<bool(std::string_view)>& frozen);
/// After freezing: what is no longer kept, and where backward ends.
void drop_what_is_not_trained(ModelSpec& model);
/// Stores the frozen weights of products in layers so; embeddings and the head stay as they are.
void quantise_base(ModelSpec& model, BaseStorage storage);

}  // namespace zenflow::sim
