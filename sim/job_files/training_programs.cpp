#include "sim/job_files/training_programs.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "sim/deepspeed/lax_values.h"

namespace zenflow::sim {
namespace {

constexpr const char* kBatch = "training.micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "training.gradient_accumulation_steps";
constexpr const char* kLength = "training.sequence_length";
constexpr const char* kCheckpointing = "training.activation_checkpointing";
constexpr const char* kType = "training.dtype";

[[noreturn]] void refuse_tuner(const ValueReader& value, const std::string& what) {
  value.fail(fmt::format("\"{}\" is not simulated: full fine-tuning and LoRA are", what));
}

/// What all of them have, under keys of their own.
void take_sizes(TrainingReader& from, const char* model, const char* batch, const char* length) {
  from.model(model);
  from.whole_number(batch, kBatch);
  from.whole_number("gradient_accumulation_steps", kAccumulation);
  from.whole_number(length, kLength);
}

void take_trainer_defaults(JobFacts& facts) {
  facts.assume(kBatch, "8", kTrainerDefaults);
  facts.assume(kAccumulation, "1", kTrainerDefaults);
  facts.assume(kCheckpointing, "false", kTrainerDefaults);
  facts.assume(kType, "fp32", kTrainerDefaults);
  facts.assume("launch.target", "hf", "transformers' Trainer");
}

/// Text of a number; empty: none, or 0.
std::string number_text(TrainingReader& from, const char* key, const char* otherwise = "") {
  const auto value = from.optional(key);
  if (!value) return otherwise;
  const double number = value->number(0, 1);
  return number > 0 ? value->node().scalar : "";
}

/// bitsandbytes, as transformers' and axolotl's keys have it. `is_double`: whether scales are
/// quantised, too.
std::string stored_base(TrainingReader& from, bool is_double) {
  if (from.flag("load_in_4bit")) return is_double ? "nf4" : "nf4-single";
  return from.flag("load_in_8bit") ? "int8" : "";
}

/// Of fewer bits than four, too: what those take is not described. `double_key`: true if it is
/// missing.
std::string base_of_bits(TrainingReader& from, const char* key, const char* double_key) {
  const auto bits = from.optional(key);
  const bool is_double = !from.optional(double_key) || from.flag(double_key);
  if (!bits) return "";
  if (bits->integer(2, 8) > 4) return "int8";
  return is_double ? "nf4" : "nf4-single";
}

void refuse_without_adapter(TrainingReader& from, std::initializer_list<const char*> keys,
                            const char* expected) {
  for (const char* key : keys) {
    const auto value = from.optional(key);
    if (!value || !is_on(&value->node())) continue;
    value->fail(fmt::format(
        "expected {} beside it: quantised weights are trained through adapters only", expected));
  }
}

/// Whether TRL reads it: it has defaults of its own.
bool is_trl(const Node& root) {
  for (const char* key :
       {"max_length", "max_seq_length", "packing", "use_peft", "accelerate_config",
        "dataset_mixture", "max_prompt_length", "completion_only_loss", "assistant_only_loss"}) {
    if (root.find(key) != nullptr) return true;
  }
  // The scripts among transformers' examples name model and data, too.
  return root.find("model_name_or_path") != nullptr && root.find("dataset_name") != nullptr &&
         root.find("block_size") == nullptr;
}

}  // namespace

void read_trainer(TrainingReader& from) {
  JobFacts& facts = from.facts();
  take_sizes(from, "model_name_or_path", "per_device_train_batch_size", "max_length");
  for (const char* key : {"max_seq_length", "block_size"}) from.whole_number(key, kLength);
  from.checkpointing("gradient_checkpointing");
  from.precision({"bf16"}, {"fp16"});
  from.deepspeed("deepspeed", nullptr);
  if (from.flag("use_peft")) {
    from.lora({.rank = from.whole_number_or("lora_r", 16),
               .targets = from.targets("lora_target_modules", {"all-linear"}, "[q_proj, v_proj]"),
               .by_name = false,
               .base = stored_base(from, from.flag("use_bnb_nested_quant")),
               .dropout = number_text(from, "lora_dropout", "0.05"),
               .dora = from.flag("use_dora"),
               .saved = from.module_names("lora_modules_to_save"),
               .parameters = from.module_names("lora_target_parameters")},
              from.optional("use_peft")->node().at);
  } else if (facts.find("adapter") == nullptr) {
    refuse_without_adapter(from, {"load_in_4bit", "load_in_8bit"}, "use_peft");
  }
}

void assume_trainer_defaults(TrainingReader& from) {
  JobFacts& facts = from.facts();
  if (is_trl(from.root())) {
    constexpr const char* kDefaults = "TRL 1.16";
    facts.assume(kCheckpointing, "true", kDefaults);
    if (!from.optional("bf16")) facts.assume(kType, "bf16", kDefaults);
    facts.assume(kLength, "1024", kDefaults);
  }
  take_trainer_defaults(facts);
}

std::pair<Node, std::filesystem::path> trl_accelerate_config(const TrainingReader& from,
                                                             const ValueReader& named) {
  const std::string name = named.string();
  std::string text;
  if (name == "single_gpu") text = "{distributed_type: NO, num_processes: 1}";
  if (name == "multi_gpu") text = "{distributed_type: MULTI_GPU, num_processes: 8}";
  if (name == "fsdp1" || name == "fsdp2") text = "{distributed_type: FSDP}";
  for (const char* stage : {"1", "2", "3"}) {
    if (name != fmt::format("zero{}", stage)) continue;
    text = fmt::format(
        "{{distributed_type: DEEPSPEED, deepspeed_config: {{zero_stage: {}}}, num_processes: 8}}",
        stage);
  }
  std::filesystem::path file = fmt::format("{}.yaml of TRL 1.16", name);
  if (!text.empty()) return {parse_yaml(text, file.string()), file};
  file = from.beside(named, name);
  return {parse_yaml_with_aliases(read_text_file(file), file.string()), file};
}

void read_llama_factory(TrainingReader& from) {
  constexpr const char* kDefaults = "LLaMA-Factory 0.9.5";
  JobFacts& facts = from.facts();
  take_sizes(from, "model_name_or_path", "per_device_train_batch_size", "cutoff_len");
  from.precision({"bf16", "pure_bf16"}, {"fp16"});
  from.deepspeed("deepspeed", nullptr);
  const auto type = from.optional("finetuning_type");
  const std::string tuner = type ? type->string() : "lora";
  if (tuner == "lora") {
    from.lora({.rank = from.whole_number_or("lora_rank", 8),
               .targets = from.targets("lora_target", {"all"}, "all-linear"),
               .by_name = true,
               .base = base_of_bits(from, "quantization_bit", "double_quantization"),
               .dropout = number_text(from, "lora_dropout"),
               .dora = from.flag("use_dora"),
               .saved = from.module_names("additional_target")},
              type ? type->node().at : source_named("default of LLaMA-Factory 0.9.5"));
  } else {
    // What "freeze" freezes, the user has said.
    const bool frozen = tuner == "freeze" && facts.find("training.freeze") != nullptr;
    if (tuner == "freeze" && !frozen) {
      type->fail("say what is frozen by --set 'training.freeze=[NAMES]' (* is any characters)");
    }
    if (tuner != "full" && !frozen) refuse_tuner(*type, tuner);
    refuse_without_adapter(from, {"quantization_bit"}, "finetuning_type: lora");
  }
  // It checkpoints on its own account; Trainer's flag can only add to that.
  const bool without =
      from.flag("disable_gradient_checkpointing") && !from.flag("gradient_checkpointing");
  facts.assume(kCheckpointing, without ? "false" : "true", kDefaults);
  facts.assume(kLength, "2048", kDefaults);
  from.frozen_towers({"freeze_vision_tower", "freeze_multi_modal_projector"}, kDefaults);
  take_trainer_defaults(facts);
}

void read_axolotl(TrainingReader& from) {
  constexpr const char* kDefaults = "axolotl 0.19";
  JobFacts& facts = from.facts();
  take_sizes(from, "base_model", "micro_batch_size", "sequence_len");
  from.checkpointing("gradient_checkpointing");
  from.precision({"bf16", "bfloat16"}, {"fp16", "float16"});
  from.deepspeed("deepspeed", nullptr);
  if (const auto adapter = from.optional("adapter")) {
    const std::string tuner = adapter->string();
    if (tuner != "lora" && tuner != "qlora") refuse_tuner(*adapter, tuner);
    const bool linear = from.flag("lora_target_linear");
    const auto rank = from.optional("lora_r");
    if (!rank) adapter->fail("expected lora_r beside it");
    if (tuner == "qlora" && !from.flag("load_in_4bit")) {
      adapter->fail("expected load_in_4bit: true beside it");
    }
    const std::string parameters = from.module_names("lora_target_parameters");
    if (!linear && !from.optional("lora_target_modules") && parameters.empty()) {
      adapter->fail("expected lora_target_linear or lora_target_modules beside it");
    }
    from.lora({.rank = from.whole_number_or("lora_r", 0),
               .targets = linear ? "all-linear"
                                 : from.targets("lora_target_modules", {"all-linear"}, "[]"),
               .by_name = linear,
               .base = stored_base(from, true),
               .dropout = number_text(from, "lora_dropout"),
               .dora = from.flag("peft_use_dora"),
               .saved = from.module_names("lora_modules_to_save"),
               .parameters = parameters},
              adapter->node().at);
  } else if (facts.find("adapter") == nullptr) {
    refuse_without_adapter(from, {"load_in_4bit", "load_in_8bit"}, "adapter");
  }
  facts.assume(kBatch, "1", kDefaults);
  facts.assume(kAccumulation, "1", kDefaults);
  facts.assume(kLength, "512", kDefaults);
  if (from.flag("freeze_mm_modules")) from.frozen_towers({}, "axolotl 0.19, freeze_mm_modules");
  if (!from.names("bf16")) facts.assume(kType, "bf16", kDefaults);
  if (from.flag("load_in_8bit")) facts.assume(kType, "fp16", kDefaults);
  take_trainer_defaults(facts);
}

std::optional<std::string> swift_deepspeed(const std::string& name) {
  const std::set<std::string> known = {"zero0", "zero1",         "zero2",
                                       "zero3", "zero2_offload", "zero3_offload"};
  if (!known.contains(name)) return std::nullopt;
  const char stage = name[4];
  std::string zero = fmt::format("\"stage\": {}", stage);
  const char* const host = R"({"device": "cpu", "pin_memory": true})";
  if (name.ends_with("_offload")) zero += fmt::format(", \"offload_optimizer\": {}", host);
  if (name == "zero3_offload") zero += fmt::format(", \"offload_param\": {}", host);
  if (stage >= '1') zero += R"(, "overlap_comm": false, "contiguous_gradients": true)";
  if (stage == '1' || stage == '2') {
    zero += R"(, "allgather_bucket_size": 200000000, "reduce_bucket_size": 200000000)";
  }
  if (stage == '3') {
    zero +=
        R"(, "sub_group_size": 1000000000, "reduce_bucket_size": "auto",)"
        R"( "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",)"
        R"( "stage3_gather_16bit_weights_on_model_save": true)";
  }
  return fmt::format(
      R"({{"bf16": {{"enabled": "auto"}}, "fp16": {{"enabled": "auto"}}, "zero_optimization": {{{}}}, )"
      R"("gradient_accumulation_steps": "auto", "gradient_clipping": "auto", )"
      R"("train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"}})",
      zero);
}

namespace {

/// Mixed precision follows from the type of the weights, unless the flags say it.
void take_swift_type(TrainingReader& from) {
  JobFacts& facts = from.facts();
  if (from.precision({"bf16"}, {"fp16"})) return;
  const auto dtype = from.optional("torch_dtype");
  if (!dtype) return;
  const std::array<std::string, 3> names = {"bfloat16", "float16", "float32"};
  const std::string name = dtype->choice(names);
  const bool plain = name == "float32" && from.names("fp16");  // and it is off
  facts.state(kType, name == "bfloat16" ? "bf16" : plain ? "fp32" : "fp16", dtype->node().at);
}

/// `swift sft FILE` sets these in the environment, where it looks for the number of its processes.
void take_swift_environment(TrainingReader& from) {
  const auto block = from.optional("ENV");
  if (!block || !block->node().is_map()) return;
  for (const auto& [name, path] : {std::pair{"NPROC_PER_NODE", "gpus"}, {"NNODES", "nodes"}}) {
    const Node* const value = block->node().find(name);
    const auto number = value == nullptr ? std::nullopt : lax_integer(*value);
    if (number && *number >= 1) from.facts().state(path, std::to_string(*number), value->at);
  }
}

}  // namespace

void read_swift(TrainingReader& from) {
  constexpr const char* kDefaults = "ms-swift 4.6";
  JobFacts& facts = from.facts();
  take_swift_environment(from);
  take_sizes(from, "model", "per_device_train_batch_size", "max_length");
  from.checkpointing("gradient_checkpointing");
  take_swift_type(from);
  from.deepspeed("deepspeed", swift_deepspeed);
  auto type = from.optional("tuner_type");
  if (!type) type = from.optional("train_type");  // before 4.0
  const std::string tuner = type ? type->string() : "lora";
  if (tuner == "lora") {
    const char* const targets = from.optional("target_regex") ? "target_regex" : "target_modules";
    from.lora({.rank = from.whole_number_or("lora_rank", 8),
               .targets = from.targets(targets, {"all-linear"}, "all-linear"),
               .by_name = true,
               .base = base_of_bits(from, "quant_bits", "bnb_4bit_use_double_quant"),
               .dropout = number_text(from, "lora_dropout", "0.05"),
               .dora = from.flag("use_dora"),
               .saved = from.module_names("modules_to_save"),
               .parameters = from.module_names("target_parameters")},
              type ? type->node().at : source_named("default of ms-swift 4.6"));
  } else if (tuner != "full") {
    refuse_tuner(*type, tuner);
  } else {
    refuse_without_adapter(from, {"quant_bits"}, "tuner_type: lora");
  }
  facts.assume(kBatch, "1", kDefaults);
  // A global batch of 16, if it says nothing. What --set says is judged later.
  std::int64_t sequences = 1;
  for (const char* path : {"gpus", "nodes", kBatch}) {
    const std::int64_t value = std::strtoll(facts.value_or(path, "1").c_str(), nullptr, 10);
    sequences *= std::clamp<std::int64_t>(value, 1, 16);
  }
  facts.assume(kAccumulation,
               std::to_string(std::max<std::int64_t>(1, (16 + sequences - 1) / sequences)),
               kDefaults);
  facts.assume(kCheckpointing, "true", kDefaults);
  from.frozen_towers({"freeze_vit", "freeze_aligner"}, kDefaults);
  facts.assume(kType, "bf16", "ms-swift 4.6 (the model's own type)");
  take_trainer_defaults(facts);
}

}  // namespace zenflow::sim
