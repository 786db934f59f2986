#include "sim/job_files/given_deepspeed.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "sim/deepspeed/accelerate.h"
#include "sim/deepspeed/lax_values.h"
#include "sim/job_files/training_programs.h"
#include "sim/job_files/training_reader.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

/// As seen from the current folder, if it is in there.
fs::path shown(const fs::path& path) {
  fs::path near = path.lexically_proximate(fs::current_path());
  return near.begin() != near.end() && *near.begin() == ".." ? path : near;
}

void take_accelerate(const Node& root, const fs::path& file, GivenDeepSpeed& given) {
  given.key = "deepspeed_config";
  if (!is_accelerate_config(root)) return;
  JobFacts facts;
  TrainingReader from(root, file, facts);
  AccelerateConfig config = read_accelerate_config(root);
  given.processes = config.processes;
  given.machines = config.machines;
  given.refused = std::move(config.refused);
  if (!config.file) {
    given.document = std::move(config.document);
    return;
  }
  constexpr const char* kFile = "deepspeed_config.deepspeed_config_file";
  const ValueReader named(*find_path(root, kFile), kFile);
  given.file = shown(from.beside(named, config.file->string()));
  given.document = load_ds_document(*given.file);
}

/// The configuration itself, as a map or as a text, or a file's path or one's name.
void take_value(const TrainingReader& from, const ValueReader& value, GivenDeepSpeed& given) {
  if (value.node().is_map()) {
    given.document = DsDocument{value.node(), {}, {}};
    return;
  }
  const std::string name = value.string();
  if (name.starts_with('{')) {
    given.document = parse_ds_document(name, value.node().at.text());
    return;
  }
  if (given.program == TrainingProgram::kSwift) {
    if (const auto known = swift_deepspeed(name)) {
      given.built_in = name + " of ms-swift 4.6";
      given.document = parse_ds_document(*known, given.built_in);
      return;
    }
  }
  given.file = shown(from.beside(value, name));
  given.document = load_ds_document(*given.file);
}

/// TRL's commands hand a configuration of accelerate's on.
void take_trl_launch(TrainingReader& from, GivenDeepSpeed& given) {
  const auto named = from.optional("accelerate_config");
  if (given.program != TrainingProgram::kTrainer || given.document || !named) return;
  const auto [root, file] = trl_accelerate_config(from, *named);
  take_accelerate(root, file, given);
  if (given.file) return;
  if (fs::exists(file)) {
    given.file = shown(file);
  } else {
    given.built_in = file.string();
  }
}

/// What ms-swift and TRL say of their processes themselves.
void take_processes(const Node& root, GivenDeepSpeed& given) {
  const auto number = [&root](const char* path) -> std::optional<std::int64_t> {
    const Node* const node = find_path(root, path);
    const auto value = node == nullptr ? std::nullopt : lax_integer(*node);
    return value && *value >= 1 ? value : std::nullopt;
  };
  if (given.program == TrainingProgram::kTrainer) {
    if (const auto processes = number("num_processes")) given.processes = processes;
  }
  if (given.program != TrainingProgram::kSwift) return;
  const auto processes = number("ENV.NPROC_PER_NODE");
  given.machines = number("ENV.NNODES").value_or(1);
  if (processes && *processes <= 1'000'000 && given.machines <= 1'000'000) {
    given.processes = *processes * given.machines;
  }
}

bool is_on_in(const Node& root, const char* key) {
  return is_on(root.find(key));
}

/// Those that Trainer holds against DeepSpeed's file as they are written.
void take_arguments(const Node& root, GivenDeepSpeed& given) {
  constexpr std::array<const char*, 8> kNumbers = {"gradient_accumulation_steps",
                                                   "max_grad_norm",
                                                   "learning_rate",
                                                   "adam_beta1",
                                                   "adam_beta2",
                                                   "adam_epsilon",
                                                   "weight_decay",
                                                   "warmup_steps"};
  const auto take = [&](const char* key, const char* name) {
    const Node* const node = root.find(key);
    if (node != nullptr && (is_number(*node) || is_boolean(*node))) {
      given.arguments.push_back({name, *node});
    }
  };
  if (!is_on_in(root, "auto_find_batch_size")) {  // which tries others
    constexpr const char* kBatch = "per_device_train_batch_size";
    take(given.program == TrainingProgram::kAxolotl ? "micro_batch_size" : kBatch, kBatch);
  }
  for (const char* key : kNumbers) take(key, key);
  // A model evaluated in 16 bits is trained in them, whatever the flag says.
  for (const char* key : {"bf16", "fp16"}) {
    if (!is_on_in(root, fmt::format("{}_full_eval", key).c_str())) take(key, key);
  }
}

}  // namespace

GivenDeepSpeed given_deepspeed(const Node& root, TrainingProgram program, const fs::path& file) {
  GivenDeepSpeed given;
  given.program = program;
  if (program == TrainingProgram::kAccelerate) {
    given.target = LaunchTarget::kAccelerate;
    take_accelerate(root, file, given);
    return given;
  }
  JobFacts facts;
  TrainingReader from(root, file, facts);
  given.key = "deepspeed";
  if (const auto value = from.optional("deepspeed"); value && is_on(&value->node())) {
    take_value(from, *value, given);
  }
  take_trl_launch(from, given);
  take_processes(root, given);
  take_arguments(root, given);
  return given;
}

}  // namespace zenflow::sim
