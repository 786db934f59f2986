/// Fine-tuning of a part of a network: frozen tensors, and low-rank adapters beside frozen
/// products.
///
/// Source: LoRA (arXiv 2106.09685), DoRA (2402.09353), QLoRA (2305.14314); names and rules of PEFT
/// 0.21 (tuners/lora, tuners_utils.py: check_target_module_exists, LoraLayer).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/model/model_spec.h"
#include "sim/model/name_pattern.h"

namespace zenflow::sim {

/// How weights of a frozen base are stored.
enum class BaseStorage : std::uint8_t {
  kTrainingType,
  kNf4,        ///< with double quantization: scales are quantised, too
  kNf4Single,  ///< without
  kInt8,
  kFp8,
  kMxfp4,
  kGptq,  ///< and AWQ
};
/// Bytes of an element with its scales; 0 of the training type. GPTQ: 4 bits, groups of 128.
[[nodiscard]] double stored_bytes(BaseStorage storage);
/// Of GPTQ and AWQ: a group of elements of `bits` has an fp16 scale and a zero of as many bits.
[[nodiscard]] double grouped_bytes(std::int64_t bits, double group);

/// Which biases are trained beside adapters.
enum class TrainedBiases : std::uint8_t { kNone, kAll, kOfTargets };

/// Modules by their names ("model.layers.0.mlp.up_proj") or the ends of them after a dot ("q_proj",
/// "mlp.down_proj"), or by a pattern of the whole name. Layers' names have their number.
struct ModuleNames {
  std::vector<std::string> ends;
  std::optional<NamePattern> pattern{};

  [[nodiscard]] bool has(std::string_view module) const;
  /// By its whole name.
  [[nodiscard]] bool has_whole(std::string_view module) const;
};

struct LoraSettings {
  std::int64_t rank = 0;
  ModuleNames targets;
  bool all_linear = false;  ///< every product but the one that gives the logits
  ModuleNames excluded;
  /// Ends of the names of modules of which a copy is trained whole: "lm_head", "norm".
  std::vector<std::string> saved_modules;
  /// Parameters that are no modules' own weights, by the ends of their names: stacked experts.
  std::vector<std::string> target_parameters;
  /// Other ranks, by patterns of the ends of names after a dot; the first that matches counts.
  std::vector<std::pair<NamePattern, std::int64_t>> ranks;
  /// Which ones get adapters, of each stack, but for targets by their whole names; empty: all.
  std::vector<std::int64_t> layers;
  std::vector<std::string> stacks;  ///< what is in front of their number: "layers"; empty: any
  TrainedBiases biases = TrainedBiases::kNone;
  bool adapter_bias = false;  ///< B has one
  bool dora = false;
  double dropout = 0;
};

/// PEFT since transformers 5: modules that experts were before they were stacked, by the names that
/// they had, mean the stacks; of gate and up, which one tensor holds, with twice the rank. What
/// else has these names gets no adapter. Throws Error(kInput) if only one of the two is named.
void name_stacked_experts(const ModelSpec& model, LoraSettings& lora);

/// A target, or "" if there is none: what matches nothing in the model.
[[nodiscard]] std::string unmatched_target(const ModelSpec& model, const LoraSettings& lora);
/// A tensor of three dimensions or more that would get adapters, or nullptr.
[[nodiscard]] const Tensor* adapted_stack(const ModelSpec& model, const LoraSettings& lora);
/// Whether anything would.
[[nodiscard]] bool adapts_anything(const ModelSpec& model, const LoraSettings& lora);

/// Freezes the model and adds adapters. Preconditions: rank >= 1, unmatched_target() is "".
void add_lora(ModelSpec& model, const LoraSettings& lora);
/// Freezes the tensors for whose names, with their layer's number, `frozen` is true. Returns how
/// many there are.
std::int64_t freeze(ModelSpec& model, const std::function<bool(std::string_view)>& frozen);
/// After freezing: what is no longer kept, and where backward ends.
void drop_what_is_not_trained(ModelSpec& model);
/// Stores the frozen weights of products in layers so, but those of modules for whose names `kept`
/// is true; embeddings and the head stay as they are. `bytes`: of an element; default: as stored.
void quantise_base(ModelSpec& model, BaseStorage storage,
                   const std::function<bool(std::string_view)>& kept = {}, double bytes = 0);

}  // namespace zenflow::sim
