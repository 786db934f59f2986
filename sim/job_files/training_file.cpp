#include "sim/job_files/training_file.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/accelerate.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/ds_fields.h"
#include "sim/deepspeed/lax_values.h"
#include "sim/job_files/known_keys.h"
#include "sim/job_files/training_programs.h"
#include "sim/job_files/training_reader.h"
#include "sim/job_files/unsimulated_keys.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

bool has_any(const Node& root, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&root](std::string_view key) { return root.find(key) != nullptr; });
}

}  // namespace

std::optional<TrainingProgram> recognise_training_file(const Node& root) {
  if (!root.is_map()) return std::nullopt;
  if (is_accelerate_config(root) || has_any(root, {"compute_environment", "distributed_type"})) {
    return TrainingProgram::kAccelerate;
  }
  if (has_any(root, {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu"})) {
    return TrainingProgram::kDeepSpeed;
  }
  for (const char* key : {"bf16", "fp16", "optimizer", "scheduler"}) {  // others have words there
    const Node* const block = root.find(key);
    if (block != nullptr && block->is_map()) return TrainingProgram::kDeepSpeed;
  }
  if (has_any(root, {"model_id_or_path", "sft_type"})) return TrainingProgram::kSwift;  // its 2
  if (root.find("base_model") != nullptr) return TrainingProgram::kAxolotl;
  if (root.find("model_name_or_path") != nullptr &&
      has_any(root, {"finetuning_type", "stage", "cutoff_len", "template", "dataset_dir"})) {
    return TrainingProgram::kLlamaFactory;
  }
  if (root.find("model") != nullptr &&
      has_any(root, {"tuner_type", "train_type", "max_length", "torch_dtype", "dataset",
                     "per_device_train_batch_size"})) {
    return TrainingProgram::kSwift;
  }
  if (has_any(root, {"per_device_train_batch_size", "output_dir", "gradient_checkpointing",
                     "num_train_epochs", "max_steps", "deepspeed", "model_name_or_path"})) {
    return TrainingProgram::kTrainer;
  }
  return std::nullopt;
}

namespace {

/// Only what DeepSpeed's file itself decides of the training.
void read_deepspeed(const Node& root, const fs::path& file, JobFacts& facts) {
  const auto at = [&file] { return source_named(file.generic_string()); };
  facts.state("deepspeed", fs::absolute(file).generic_string(), at());
  const Node* const micro = find_path(root, "train_micro_batch_size_per_gpu");
  if (micro != nullptr && is_number(*micro)) {
    facts.state("training.micro_batch_size_per_gpu", micro->scalar, micro->at);
  }
  for (const char* dtype : {"bf16", "fp16"}) {
    const Node* const enabled = find_path(root, fmt::format("{}.enabled", dtype));
    if (enabled != nullptr && enabled->scalar == "true") {
      facts.state("training.dtype", dtype, enabled->at);
    }
  }
  const Node* const autocast = find_path(root, "torch_autocast.enabled");
  const Node* const type = find_path(root, "torch_autocast.dtype");
  if (autocast == nullptr || autocast->scalar != "true" || type == nullptr ||
      facts.find("training.dtype") != nullptr)
    return;
  const std::string_view dtype = data_type(type->scalar);
  if (dtype == "bf16" || dtype == "fp16") {
    facts.state("training.dtype", std::string(dtype), type->at);
  }
}

/// Whether a launcher fills values in.
bool has_auto(const Node& node) {
  if (node.is_scalar()) return node.scalar == "auto";
  const auto is_auto = [](const auto& entry) { return has_auto(entry.value); };
  return std::any_of(node.entries.begin(), node.entries.end(), is_auto) ||
         std::any_of(node.items.begin(), node.items.end(), has_auto);
}

void read_accelerate_deepspeed(TrainingReader& from, std::vector<std::string>& notes) {
  JobFacts& facts = from.facts();
  const AccelerateConfig config = read_accelerate_config(from.root());
  for (const LocatedKey& key : config.refused) {
    notes.push_back(
        fmt::format("{}: {}: accelerate stops at it (ValueError) beside "
                    "deepspeed_config_file: leave it out, and set it in that file",
                    key.at.text(), key.path));
  }
  if (config.file) {
    constexpr const char* kFile = "deepspeed_config.deepspeed_config_file";
    const fs::path path =
        from.beside(ValueReader(*find_path(from.root(), kFile), kFile), config.file->string());
    read_deepspeed(load_ds_document(path).root, path, facts);
    return;
  }
  const Node& document = config.document.root;
  facts.state("deepspeed", one_line_json(document), source_named(from.file().generic_string()));
  read_deepspeed(document, from.file(), facts);
  const Node* const steps = document.find("gradient_accumulation_steps");
  if (steps != nullptr && is_number(*steps)) {
    facts.state("training.gradient_accumulation_steps", steps->scalar, steps->at);
  }
}

/// How the processes are started, and what DeepSpeed does in them.
void read_accelerate(const Node& root, const fs::path& file, JobFacts& facts,
                     std::vector<std::string>& notes) {
  const Location whole = source_named(file.generic_string());
  TrainingReader from(root, file, facts);
  const Node* const type = root.find("distributed_type");
  const std::string way = type != nullptr ? type->scalar : "DEEPSPEED";
  const bool has_deepspeed = way == "DEEPSPEED" && is_accelerate_config(root);
  if (!has_deepspeed && way != "MULTI_GPU" && way != "NO") {
    fail_at(type != nullptr ? type->at : root.at, "distributed_type",
            "expected DEEPSPEED with a deepspeed_config block, MULTI_GPU or NO: other ways to "
            "distribute are not simulated");
  }
  const std::int64_t machines = from.whole_number_or("num_machines", 1);
  if (const std::int64_t processes = from.whole_number_or("num_processes", 0); processes > 0) {
    if (processes % machines != 0) {
      fail_at(root.find("num_processes")->at, "num_processes",
              fmt::format("expected a multiple of the {} machines, found {}", machines, processes));
    }
    facts.state("gpus", std::to_string(processes / machines), whole);
  }
  if (machines > 1) facts.state("nodes", std::to_string(machines), whole);
  facts.state("launch.target", "accelerate", whole);
  if (has_deepspeed) read_accelerate_deepspeed(from, notes);
  const Node* const precision = root.find("mixed_precision");
  if (precision != nullptr && precision->is_scalar()) {
    const std::string& name = precision->scalar;
    const bool narrow = name == "bf16" || name == "fp16" || name == "fp8";
    facts.state("training.dtype", !narrow ? "fp32" : name == "fp8" ? "bf16" : name, precision->at);
  }
  const Node* const compiler = find_path(root, "dynamo_config.dynamo_backend");
  if (is_on(compiler)) facts.state("training.framework", "fused", compiler->at);
}

/// What TRL's commands hand to accelerate: numbers of processes, and a file or the name of one that
/// TRL brings along.
void read_trl_launch(TrainingReader& from, std::vector<std::string>& notes) {
  JobFacts& facts = from.facts();
  from.whole_number("num_processes", "gpus");
  const auto named = from.optional("accelerate_config");
  if (!named) return;
  facts.state("launch.target", "hf", named->node().at);  // Trainer fills "auto" in
  const auto [root, file] = trl_accelerate_config(from, *named);
  read_accelerate(root, file, facts, notes);
}

Node parse_any(std::string_view text, const fs::path& file) {
  const fs::path extension = file.extension();
  if (extension == ".yaml" || extension == ".yml")
    return parse_yaml_with_aliases(text, file.string());
  return parse_ds_document(text, file.string()).root;  // Hjson, of which JSON is a part
}

}  // namespace

std::string to_string(TrainingProgram program) {
  switch (program) {
    case TrainingProgram::kDeepSpeed:
      return "DeepSpeed";
    case TrainingProgram::kAccelerate:
      return "accelerate";
    case TrainingProgram::kTrainer:
      return "transformers' Trainer";
    case TrainingProgram::kLlamaFactory:
      return "LLaMA-Factory";
    case TrainingProgram::kAxolotl:
      return "axolotl";
    case TrainingProgram::kSwift:
      return "ms-swift";
  }
  return "";
}

TrainingProgram read_training_file(const fs::path& file, JobFacts& facts,
                                   std::vector<std::string>& notes) {
  return read_training_text(read_text_file(file), file, facts, notes);
}

TrainingProgram read_training_text(std::string_view text, const fs::path& file, JobFacts& facts,
                                   std::vector<std::string>& notes) {
  const Node root = parse_any(text, file);
  refuse_other_programs(root);
  const auto program = recognise_training_file(root);
  if (!program) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected a configuration of DeepSpeed (zero_optimization, ...), "
                            "accelerate (deepspeed_config), transformers' TrainingArguments "
                            "(per_device_train_batch_size, ...), LLaMA-Factory "
                            "(model_name_or_path with finetuning_type, ...), axolotl (base_model) "
                            "or ms-swift (model with tuner_type, ...); found none of their keys",
                            file.generic_string()));
  }
  TrainingReader from(root, file, facts);
  notes.push_back(
      fmt::format("{}: read as a file of {}", file.generic_string(), to_string(*program)));
  if (*program != TrainingProgram::kDeepSpeed) refuse_unsimulated(root, *program, facts);
  check_keys(root, *program, file, notes);
  switch (*program) {
    case TrainingProgram::kDeepSpeed:
      read_deepspeed(root, file, facts);
      if (has_auto(root)) {
        const std::string by = "transformers' Trainer, which fills \"auto\" in";
        facts.assume("launch.target", "hf", by);
        const Node* const micro = find_path(root, "train_micro_batch_size_per_gpu");
        if (micro == nullptr || micro->scalar == "auto") {
          facts.assume("training.micro_batch_size_per_gpu", "8", kTrainerDefaults);
        }
      }
      break;
    case TrainingProgram::kAccelerate:
      read_accelerate(root, file, facts, notes);
      break;
    case TrainingProgram::kTrainer:
      read_trainer(from);
      read_trl_launch(from, notes);
      assume_trainer_defaults(from);
      break;
    case TrainingProgram::kLlamaFactory:
      read_llama_factory(from);
      break;
    case TrainingProgram::kAxolotl:
      read_axolotl(from);
      break;
    case TrainingProgram::kSwift:
      read_swift(from);
      break;
  }
  if (*program != TrainingProgram::kDeepSpeed) note_unsimulated(root, *program, facts, notes);
  return *program;
}

}  // namespace zenflow::sim
