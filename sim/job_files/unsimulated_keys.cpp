#include "sim/job_files/unsimulated_keys.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/text.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/lax_values.h"
#include "sim/job_files/training_reader.h"

namespace zenflow::sim {
namespace {

/// A key, and what is to be said of it.
struct Key {
  std::string_view name;
  std::string_view says;
  std::string_view words = "";  ///< only for these values, blanks around each; empty: if it is on
};

bool has(std::string_view words, std::string_view word) {
  return words.find(fmt::format(" {} ", word)) != std::string_view::npos;
}

/// The value, if the key applies.
const Node* applies(const Node& root, const Key& key) {
  const Node* const value = root.find(key.name);
  if (!is_on(value)) return nullptr;
  if (key.words.empty()) return value;
  const auto is_word = [&key](const Node& one) {
    return one.is_scalar() && has(key.words, one.scalar);
  };
  const bool any =
      is_word(*value) || std::any_of(value->items.begin(), value->items.end(), is_word);
  return any ? value : nullptr;
}

// Refused.

constexpr std::string_view kDivided = "is not simulated: data parallelism and DeepSpeed are";
constexpr std::string_view kGenerates =
    "training that generates text between its steps is not simulated: pre-training, supervised "
    "and preference training are";
constexpr std::string_view kOtherProgram = "is not simulated: LLaMA-Factory's own trainer is";
constexpr std::string_view kFrozen =
    "is not read: say what is frozen by --set 'training.freeze=[NAMES]' (* is any characters)";
constexpr std::string_view kPeft = "is not read: give PEFT's adapter_config.json by --adapter";
constexpr std::string_view kOldSwift =
    "is a key of ms-swift 2: ms-swift 4.6 has model, tuner_type, per_device_train_batch_size";

/// By more than one.
constexpr auto kSizes = std::to_array<std::string_view>(
    {"tensor_parallel_size", "context_parallel_size", "sequence_parallel_size",
     "sequence_parallel_degree", "pipeline_parallel_size", "expert_parallel_size", "dp_shard_size",
     "deepspeed_autotp_size", "tensor_model_parallel_size", "pipeline_model_parallel_size",
     "expert_model_parallel_size"});
constexpr auto kRefused =
    std::to_array<Key>({{"fsdp", kDivided},
                        {"parallelism_config", kDivided},
                        {"recompute_granularity", "is a key of Megatron, which is not simulated"},
                        {"use_mca", kOtherProgram},
                        {"use_kt", kOtherProgram},
                        {"use_hyper_parallel", kOtherProgram},
                        {"mixture_of_depths", kOtherProgram},
                        {"num_generations", kGenerates},
                        {"reward_funcs", kGenerates},
                        {"use_vllm", kGenerates},
                        {"stage", kGenerates, " ppo "},
                        {"rl", kGenerates, " grpo gdpo ebft "},
                        {"rlhf_type", kGenerates, " grpo ppo gkd "},
                        {"model_id_or_path", kOldSwift},
                        {"sft_type", kOldSwift}});
/// Unless training.freeze says it.
constexpr auto kFreezing = std::to_array<std::string_view>(
    {"unfrozen_parameters", "freeze_parameters", "freeze_parameters_regex",
     "freeze_parameters_ratio", "freeze_language_model", "freeze_llm", "trainable_parameters",
     "trainable_parameters_regex"});
/// Unless --adapter says it.
constexpr auto kAdapting = std::to_array<std::string_view>(
    {"lora_rank_pattern", "peft_layers_to_transform", "peft_layer_replication",
     "peft_trainable_token_indices", "use_llama_pro"});

// Simulated otherwise.

constexpr std::string_view kAdam = "the optimizer is simulated as AdamW with fp32 moments";
constexpr std::string_view kOffloaded =
    "what checkpointing keeps stays in GPU memory in the simulation";
constexpr std::string_view kUnfused =
    "attention is simulated as a fused kernel: this one also keeps a number for each pair of "
    "tokens";
constexpr std::string_view kPairs =
    "simulated is one sequence a sample, as in supervised training: preference training has two, "
    "and most of it a pass of a reference model (--micro-batch-size with twice the file's number "
    "counts the pairs)";
constexpr std::string_view kNoLogits =
    "simulated are logits, 12 bytes a token and word of the vocabulary: this loss keeps none";
constexpr std::string_view kFp8 = "products are simulated in the 16-bit type";
constexpr std::string_view kUnsloth = "its kernels are not simulated: transformers' are";

constexpr auto kNoted = std::to_array<Key>(
    {{"use_galore", kAdam},
     {"use_apollo", kAdam},
     {"use_badam", kAdam},
     {"use_adam_mini", kAdam},
     {"use_muon", kAdam},
     {"lisa_activated_layers", kAdam},
     {"gradient_checkpointing", kOffloaded, " offload offload_disk unsloth "},
     {"activation_offloading", kOffloaded},
     {"use_unsloth_gc", kOffloaded},
     {"selective_checkpointing", "simulated are layers that are recomputed whole"},
     {"layer_offloading", "weights stay in GPU memory in the simulation"},
     {"attn_implementation", kUnfused, " eager "},
     {"attn_impl", kUnfused, " eager "},
     {"flash_attn", kUnfused, " disabled "},
     {"eager_attention", kUnfused},
     {"stage", kPairs, " dpo kto rm "},
     {"rl", kPairs, " dpo ipo orpo simpo kto "},
     {"rlhf_type", kPairs, " dpo orpo simpo kto cpo rm "},
     {"reward_model", kPairs, " true True "},
     {"beta", kPairs},               // of TRL's preference trainers
     {"max_prompt_length", kPairs},  // before TRL 1
     {"enable_liger_kernel", kNoLogits},
     {"use_liger_kernel", kNoLogits},
     {"use_liger", kNoLogits},
     {"liger_fused_linear_cross_entropy", kNoLogits},
     {"plugins", kNoLogits, " axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin "},
     {"cut_cross_entropy", kNoLogits},
     {"fp8", kFp8},
     {"mixed_precision", kFp8, " fp8 "},
     {"use_unsloth", kUnsloth},
     {"tuner_backend", kUnsloth, " unsloth "},
     {"auto_find_batch_size", "simulated is the batch that is written"}});

/// Norms, positions and losses of one kernel each: training.framework.
constexpr auto kFused = std::to_array<Key>({{"torch_compile", ""},
                                            {"enable_liger_kernel", ""},
                                            {"use_liger_kernel", ""},
                                            {"use_liger", ""},
                                            {"liger_rms_norm", ""}});

void note_optimizer(const Node& root, std::vector<std::string>& notes) {
  for (const char* key : {"optim", "optimizer"}) {
    const Node* const name = root.find(key);
    if (name == nullptr || !name->is_scalar() || name->scalar.empty()) continue;
    if (has(" adamw adamw_torch adamw_torch_fused adamw_torch_xla adamw_torch_npu_fused adamw_hf "
            "adamw_apex_fused ",
            name->scalar)) {
      continue;
    }
    notes.push_back(fmt::format("{}: {}: {} is simulated as AdamW with fp32 moments",
                                name->at.text(), key, json_quoted(name->scalar)));
  }
}

/// Sequences are as long as the file allows only where several are packed into one, or padded.
void note_length(const Node& root, TrainingProgram program, const JobFacts& facts,
                 std::vector<std::string>& notes) {
  const JobFact* const length = facts.find("training.sequence_length");
  if (length == nullptr || length->source.line == 0) return;
  for (const char* key :
       {"packing", "neat_packing", "sample_packing", "pad_to_sequence_len", "block_size"}) {
    if (is_on(root.find(key))) return;
  }
  const Node* const stage = root.find("stage");
  const bool packs = program == TrainingProgram::kLlamaFactory && stage != nullptr &&
                     stage->scalar == "pt" && root.find("packing") == nullptr;
  if (packs) return;
  notes.push_back(fmt::format(
      "{}: all sequences are simulated as long as this allows; without packing they are as long "
      "as the data's",
      length->source.text()));
}

/// Whether weights, gradients and moments are all of the 16-bit type without DeepSpeed.
bool is_narrow(const Node& root, TrainingProgram program) {
  switch (program) {
    case TrainingProgram::kAxolotl:
    case TrainingProgram::kSwift: {
      const Node* const type = root.find("torch_dtype");
      return type == nullptr || type->scalar != "float32";
    }
    case TrainingProgram::kLlamaFactory:
      return is_on(root.find("pure_bf16"));
    default:
      for (const char* key : {"dtype", "torch_dtype"}) {
        const Node* const type = root.find(key);
        if (type != nullptr && (type->scalar == "bfloat16" || type->scalar == "auto")) return true;
      }
      return false;
  }
}

void note_narrow_weights(const Node& root, TrainingProgram program, JobFacts& facts,
                         std::vector<std::string>& notes) {
  const JobFact* const type = facts.find("training.dtype");
  const bool adapts = facts.find("training.lora") != nullptr || facts.find("adapter") != nullptr;
  if (type == nullptr || type->value != "bf16" || adapts || facts.find("deepspeed") != nullptr) {
    return;
  }
  if (!is_narrow(root, program)) return;
  notes.push_back(fmt::format(
      "{}: without DeepSpeed weights, gradients and moments are all bf16, 8 bytes a parameter; "
      "simulated are an fp32 copy of the weights and fp32 moments as well",
      type->source.text()));
  facts.state(kNarrowWeights, "true", type->source);
}

}  // namespace

void refuse_unsimulated(const Node& root, TrainingProgram program, const JobFacts& facts) {
  const auto refuse = [](const Node& value, std::string_view key, std::string_view says) {
    fail_at(value.at, std::string(key), std::string(says));
  };
  for (const std::string_view key : kSizes) {
    const Node* const value = root.find(key);
    if (is_on(value) && lax_integer(*value) != 1) refuse(*value, key, kDivided);
  }
  for (const Key& key : kRefused) {
    if (const Node* const value = applies(root, key)) refuse(*value, key.name, key.says);
  }
  // Of the others only `fsdp` turns it on.
  const Node* const fsdp = root.find("fsdp_config");
  if (program == TrainingProgram::kAxolotl && is_on(fsdp)) refuse(*fsdp, "fsdp_config", kDivided);
  for (const std::string_view key : kFreezing) {
    const Node* const value = root.find(key);
    const bool said = facts.find("training.freeze") != nullptr;
    if (is_on(value) && !said) refuse(*value, key, kFrozen);
  }
  for (const std::string_view key : kAdapting) {
    const Node* const value = root.find(key);
    if (is_on(value) && facts.find("adapter") == nullptr) refuse(*value, key, kPeft);
  }
}

void refuse_divided(const Node& deepspeed) {
  for (const char* key : {"tensor_parallel.autotp_size", "sequence_parallel_size"}) {
    const Node* const value = find_path(deepspeed, key);
    if (value != nullptr && lax_integer(*value).value_or(0) > 1) {
      fail_at(value->at, key, std::string(kDivided));
    }
  }
}

void note_unsimulated(const Node& root, TrainingProgram program, JobFacts& facts,
                      std::vector<std::string>& notes) {
  note_optimizer(root, notes);
  std::string_view last;
  for (const Key& key : kNoted) {
    const Node* const value = applies(root, key);
    if (value != nullptr && key.says == kNoLogits) facts.state(kWithoutLogits, "true", value->at);
    if (value == nullptr || key.says == last) continue;  // once for several keys that mean it
    notes.push_back(fmt::format("{}: {}: {}", value->at.text(), key.name, key.says));
    last = key.says;
  }
  for (const Key& key : kFused) {
    if (const Node* const value = applies(root, key)) {
      facts.state("training.framework", "fused", value->at);
    }
  }
  note_length(root, program, facts, notes);
  note_narrow_weights(root, program, facts, notes);
}

}  // namespace zenflow::sim
