#include "sim/job_files/training_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/accelerate.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/lax_values.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMost = 1'000'000;
constexpr const char* kTrainerDefaults = "transformers 5.23's TrainingArguments";

bool has_any(const Node& root, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&root](std::string_view key) { return root.find(key) != nullptr; });
}

std::optional<TrainingProgram> recognise(const Node& root) {
  if (!root.is_map()) return std::nullopt;
  if (is_accelerate_config(root) || has_any(root, {"compute_environment", "distributed_type"})) {
    return TrainingProgram::kAccelerate;
  }
  if (has_any(root, {"zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu"})) {
    return TrainingProgram::kDeepSpeed;
  }
  for (const char* key : {"bf16", "fp16"}) {
    const Node* const block = root.find(key);
    if (block != nullptr && block->is_map()) return TrainingProgram::kDeepSpeed;
  }
  if (root.find("base_model") != nullptr) return TrainingProgram::kAxolotl;
  if (root.find("model_name_or_path") != nullptr &&
      has_any(root, {"finetuning_type", "stage", "cutoff_len", "template", "dataset_dir"})) {
    return TrainingProgram::kLlamaFactory;
  }
  if (root.find("model") != nullptr &&
      has_any(root, {"tuner_type", "train_type", "max_length", "torch_dtype", "dataset"})) {
    return TrainingProgram::kSwift;
  }
  if (has_any(root, {"per_device_train_batch_size", "output_dir", "gradient_checkpointing",
                     "num_train_epochs", "max_steps", "deepspeed"})) {
    return TrainingProgram::kTrainer;
  }
  return std::nullopt;
}

/// A training file: many keys, of which some matter here.
class TrainingReader {
 public:
  TrainingReader(const Node& root, const fs::path& file, JobFacts& facts)
      : map_(root, ""), file_(file), facts_(facts) {}

  [[nodiscard]] JobFacts& facts() { return facts_; }
  [[nodiscard]] std::optional<ValueReader> optional(const char* key) { return map_.optional(key); }

  void whole_number(const char* key, const char* path) {
    if (const auto value = map_.optional(key)) {
      facts_.state(path, std::to_string(value->integer(1, kMost)), value->node().at);
    }
  }
  [[nodiscard]] bool flag(const char* key) {
    const auto value = map_.optional(key);
    return value && is_on(*value);
  }
  /// As YAML 1.1 has it, which Python reads; or a word of these programs' own that means yes.
  [[nodiscard]] static bool is_on(const ValueReader& value) {
    const Node& node = value.node();
    std::string word = node.scalar;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto is_one_of = [&word](std::initializer_list<std::string_view> words) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    if (node.is_scalar() && is_one_of({"true", "yes", "on", "y", "1"})) return true;
    if (node.is_scalar() && is_one_of({"false", "no", "off", "n", "0", "", "none"})) return false;
    // bf16: auto, full; gradient_checkpointing: offload, offload_disk, unsloth.
    if (node.is_scalar() && is_one_of({"auto", "full", "offload", "offload_disk", "unsloth"})) {
      return true;
    }
    value.fail("expected true or false");
  }
  void checkpointing(const char* key) {
    if (const auto value = map_.optional(key)) {
      facts_.state("training.activation_checkpointing", is_on(*value) ? "true" : "false",
                   value->node().at);
    }
  }
  /// The first of these that is on.
  void precision() {
    for (const char* dtype : {"bf16", "fp16"}) {
      const auto value = map_.optional(dtype);
      if (!value || !is_on(*value)) continue;
      facts_.state("training.dtype", dtype, value->node().at);
    }
  }
  void model(const char* key) {
    if (const auto value = map_.optional(key)) {
      facts_.state("model", value->string(), value->node().at);
    }
  }
  /// A path, a name in `built_in`, or the configuration itself.
  void deepspeed(const char* key, std::optional<std::string> (*built_in)(const std::string&)) {
    const auto value = map_.optional(key);
    if (!value) return;
    if (value->node().is_map()) {
      return facts_.state("deepspeed", one_line(value->node()), value->node().at);
    }
    const std::string name = value->string();
    if (built_in != nullptr) {
      if (const auto known = built_in(name)) {
        return facts_.state("deepspeed", *known, value->node().at);
      }
    }
    facts_.state("deepspeed", beside(*value, name).generic_string(), value->node().at);
  }
  [[nodiscard]] static std::string one_line(const Node& node) {
    std::string text = render_json(node);
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  [[nodiscard]] fs::path beside(const ValueReader& value, const std::string& name) const {
    std::error_code missing;
    const fs::path given = name;
    for (const fs::path& path :
         {given, file_.parent_path() / given, file_.parent_path() / given.filename()}) {
      if (fs::is_regular_file(path, missing)) return fs::absolute(path);
    }
    value.fail(fmt::format("no such file \"{}\", here or beside {}", name, file_.generic_string()));
  }

  /// What LoRA adapts: "all-linear" for the program's word for that, or a list of names.
  [[nodiscard]] static std::string targets(const ValueReader& value,
                                           std::initializer_list<std::string_view> all) {
    const auto is_all = [&all](const std::string& name) {
      return std::find(all.begin(), all.end(), name) != all.end();
    };
    std::vector<std::string> names;
    if (value.node().is_scalar()) {
      const std::string text = value.string();
      for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        names.push_back(text.substr(at, end - at));
        at = end + 1;
      }
    } else {
      for (const ValueReader& item : value.items()) names.push_back(item.string());
    }
    if (names.size() == 1 && is_all(names.front())) return "all-linear";
    for (std::string& name : names) {
      name.erase(0, name.find_first_not_of(' '));
      name = json_quoted(name);
    }
    return fmt::format("[{}]", fmt::join(names, ", "));
  }
  void lora(std::int64_t rank, const std::string& targets, const std::string& base,
            const Location& at) {
    facts_.state("training.lora",
                 fmt::format("{{r: {}, targets: {}{}}}", rank, targets,
                             base.empty() ? "" : ", base: " + base),
                 at);
  }

 private:
  MapReader map_;
  const fs::path& file_;
  JobFacts& facts_;
};

[[noreturn]] void refuse_tuner(const ValueReader& value, const std::string& what) {
  value.fail(fmt::format("\"{}\" is not simulated: full fine-tuning and LoRA are", what));
}

void take_trainer_defaults(JobFacts& facts, const char* batch) {
  facts.assume("training.micro_batch_size_per_gpu", batch, kTrainerDefaults);
  facts.assume("training.gradient_accumulation_steps", "1", kTrainerDefaults);
  facts.assume("training.activation_checkpointing", "false", kTrainerDefaults);
  facts.assume("training.dtype", "fp32", kTrainerDefaults);
  facts.assume("launch.target", "hf", "transformers' Trainer");
}

void read_trainer(TrainingReader& from) {
  from.model("model_name_or_path");
  from.whole_number("per_device_train_batch_size", "training.micro_batch_size_per_gpu");
  from.whole_number("gradient_accumulation_steps", "training.gradient_accumulation_steps");
  from.whole_number("max_length", "training.sequence_length");  // TRL's SFTConfig
  from.whole_number("max_seq_length", "training.sequence_length");
  from.checkpointing("gradient_checkpointing");
  from.precision();
  from.deepspeed("deepspeed", nullptr);
  if (from.flag("use_peft")) {  // TRL's ModelConfig
    const Location at = from.optional("use_peft")->node().at;
    const auto rank = from.optional("lora_r");
    const auto modules = from.optional("lora_target_modules");
    std::string base;
    if (from.flag("load_in_4bit")) base = "nf4";
    if (from.flag("load_in_8bit")) base = "int8";
    from.lora(rank ? rank->integer(1, kMost) : 16,
              modules ? TrainingReader::targets(*modules, {"all-linear"}) : "[q_proj, v_proj]",
              base, at);
  }
  take_trainer_defaults(from.facts(), "8");
}

void read_llama_factory(TrainingReader& from) {
  constexpr const char* kDefaults = "LLaMA-Factory 0.9.5";
  from.model("model_name_or_path");
  from.whole_number("per_device_train_batch_size", "training.micro_batch_size_per_gpu");
  from.whole_number("gradient_accumulation_steps", "training.gradient_accumulation_steps");
  from.whole_number("cutoff_len", "training.sequence_length");
  from.precision();
  if (from.flag("pure_bf16")) {
    from.facts().state("training.dtype", "bf16", from.optional("pure_bf16")->node().at);
  }
  from.deepspeed("deepspeed", nullptr);
  const auto type = from.optional("finetuning_type");
  const std::string tuner = type ? type->string() : "lora";
  if (tuner == "lora") {
    const auto rank = from.optional("lora_rank");
    const auto target = from.optional("lora_target");
    const auto bits = from.optional("quantization_bit");
    std::string base;
    if (bits) base = bits->integer(4, 8) == 4 ? "nf4" : "int8";
    from.lora(rank ? rank->integer(1, kMost) : 8,
              target ? TrainingReader::targets(*target, {"all"}) : "all-linear", base,
              type ? type->node().at : source_named("default of LLaMA-Factory 0.9.5"));
  } else if (tuner != "full") {
    refuse_tuner(*type, tuner);
  }
  const bool without = from.flag("disable_gradient_checkpointing");
  from.facts().assume("training.activation_checkpointing", without ? "false" : "true", kDefaults);
  from.facts().assume("training.sequence_length", "2048", kDefaults);
  take_trainer_defaults(from.facts(), "8");
}

void read_axolotl(TrainingReader& from) {
  constexpr const char* kDefaults = "axolotl 0.19";
  from.model("base_model");
  from.whole_number("micro_batch_size", "training.micro_batch_size_per_gpu");
  from.whole_number("gradient_accumulation_steps", "training.gradient_accumulation_steps");
  from.whole_number("sequence_len", "training.sequence_length");
  from.checkpointing("gradient_checkpointing");
  from.precision();
  from.deepspeed("deepspeed", nullptr);
  const auto adapter = from.optional("adapter");
  if (adapter) {
    const std::string tuner = adapter->string();
    if (tuner != "lora" && tuner != "qlora") refuse_tuner(*adapter, tuner);
    const auto rank = from.optional("lora_r");
    const auto modules = from.optional("lora_target_modules");
    std::string base;
    if (tuner == "qlora" || from.flag("load_in_4bit")) base = "nf4";
    if (from.flag("load_in_8bit")) base = "int8";
    if (!modules && !from.flag("lora_target_linear")) {
      adapter->fail("expected lora_target_linear or lora_target_modules beside it");
    }
    if (!rank) adapter->fail("expected lora_r beside it");
    const bool all = from.flag("lora_target_linear");
    from.lora(rank->integer(1, kMost),
              all ? "all-linear" : TrainingReader::targets(*modules, {"all-linear"}), base,
              adapter->node().at);
  }
  from.facts().assume("training.micro_batch_size_per_gpu", "1", kDefaults);
  from.facts().assume("training.gradient_accumulation_steps", "1", kDefaults);
  from.facts().assume("training.sequence_length", "512", kDefaults);
  take_trainer_defaults(from.facts(), "1");
}

/// The configurations that ms-swift brings along, as far as they decide how a step runs.
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

std::string swift_dtype(const ValueReader& value) {
  const std::array<std::string, 3> names = {"bfloat16", "float16", "float32"};
  const std::string name = value.choice(names);
  return name == "bfloat16" ? "bf16" : name == "float16" ? "fp16" : "fp32";
}

void read_swift(TrainingReader& from, std::int64_t ranks) {
  constexpr const char* kDefaults = "ms-swift 4.6";
  from.model("model");
  from.whole_number("per_device_train_batch_size", "training.micro_batch_size_per_gpu");
  from.whole_number("gradient_accumulation_steps", "training.gradient_accumulation_steps");
  from.whole_number("max_length", "training.sequence_length");
  from.checkpointing("gradient_checkpointing");
  from.precision();
  if (const auto dtype = from.optional("torch_dtype")) {
    from.facts().state("training.dtype", swift_dtype(*dtype), dtype->node().at);
  }
  from.deepspeed("deepspeed", swift_deepspeed);
  auto type = from.optional("tuner_type");
  if (!type) type = from.optional("train_type");  // before 4.0
  const std::string tuner = type ? type->string() : "lora";
  if (tuner == "lora") {
    const auto rank = from.optional("lora_rank");
    const auto modules = from.optional("target_modules");
    const auto bits = from.optional("quant_bits");
    std::string base;
    if (bits) base = bits->integer(4, 8) == 4 ? "nf4" : "int8";
    from.lora(rank ? rank->integer(1, kMost) : 8,
              modules ? TrainingReader::targets(*modules, {"all-linear"}) : "all-linear", base,
              type ? type->node().at : source_named("default of ms-swift 4.6"));
  } else if (tuner != "full") {
    refuse_tuner(*type, tuner);
  }
  JobFacts& facts = from.facts();
  facts.assume("training.micro_batch_size_per_gpu", "1", kDefaults);
  const std::int64_t micro = std::stoll(facts.value_or("training.micro_batch_size_per_gpu", "1"));
  // A global batch of 16, if it says nothing.
  const std::int64_t sequences = micro * ranks;
  facts.assume("training.gradient_accumulation_steps",
               std::to_string(std::max<std::int64_t>(1, (16 + sequences - 1) / sequences)),
               kDefaults);
  facts.assume("training.activation_checkpointing", "true", kDefaults);
  facts.assume("training.dtype", "bf16", "ms-swift 4.6 (the model's own type)");
  take_trainer_defaults(facts, "1");
}

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
}

/// Whether a launcher fills values in.
bool has_auto(const Node& node) {
  if (node.is_scalar()) return node.scalar == "auto";
  const auto is_auto = [](const auto& entry) { return has_auto(entry.value); };
  return std::any_of(node.entries.begin(), node.entries.end(), is_auto) ||
         std::any_of(node.items.begin(), node.items.end(), has_auto);
}

void read_accelerate(const Node& root, const fs::path& file, JobFacts& facts) {
  const Location whole = source_named(file.generic_string());
  if (!is_accelerate_config(root)) {
    const Node* const type = root.find("distributed_type");
    fail_at(type != nullptr ? type->at : root.at, "distributed_type",
            "expected DEEPSPEED with a deepspeed_config block: other ways to distribute are not "
            "simulated");
  }
  const AccelerateConfig config = read_accelerate_config(root);
  if (config.processes) {
    const std::int64_t nodes = std::max<std::int64_t>(1, config.machines);
    if (*config.processes % nodes != 0) {
      fail_at(root.find("num_processes")->at, "num_processes",
              fmt::format("expected a multiple of the {} machines, found {}", nodes,
                          *config.processes));
    }
    facts.state("gpus", std::to_string(*config.processes / nodes), whole);
  }
  if (config.machines > 1) facts.state("nodes", std::to_string(config.machines), whole);
  facts.state("launch.target", "accelerate", whole);
  if (config.file) {
    TrainingReader reader(root, file, facts);
    const Node* const named = find_path(root, "deepspeed_config.deepspeed_config_file");
    const fs::path path = reader.beside(
        ValueReader(*named, "deepspeed_config.deepspeed_config_file"), config.file->string());
    read_deepspeed(load_ds_document(path).root, path, facts);
  } else {
    facts.state("deepspeed", TrainingReader::one_line(config.document.root), whole);
    read_deepspeed(config.document.root, file, facts);
    const Node* const steps = find_path(config.document.root, "gradient_accumulation_steps");
    if (steps != nullptr && is_number(*steps)) {
      facts.state("training.gradient_accumulation_steps", steps->scalar, steps->at);
    }
  }
}

/// Ways to divide a job that are not simulated.
void refuse_other_parallelism(const Node& root) {
  for (const char* key :
       {"fsdp", "fsdp_config", "tensor_parallel_size", "context_parallel_size",
        "sequence_parallel_size", "sequence_parallel_degree", "pipeline_parallel_size"}) {
    const Node* const found = root.find(key);
    if (found == nullptr || found->kind == Node::Kind::kNull) continue;
    const bool none = found->is_scalar() && (found->scalar.empty() || found->scalar == "1" ||
                                             found->scalar == "false" || found->scalar == "False");
    const bool empty = found->is_scalar() ? none : found->items.empty() && found->entries.empty();
    if (!empty) fail_at(found->at, key, "is not simulated: data parallelism and DeepSpeed are");
  }
}

/// A trainer's optimizer that is simulated as AdamW with fp32 moments; empty: it is one.
std::string other_optimizer(const Node& root) {
  for (const char* key : {"optim", "optimizer"}) {
    const Node* const name = root.find(key);
    if (name == nullptr || !name->is_scalar() || name->scalar.empty()) continue;
    if (name->scalar.starts_with("adamw_torch") || name->scalar.starts_with("adamw_hf") ||
        name->scalar == "adamw") {
      continue;
    }
    return fmt::format("{}: {}: \"{}\" is simulated as AdamW with fp32 moments", name->at.text(),
                       key, name->scalar);
  }
  return "";
}

Node parse_any(std::string_view text, const fs::path& file) {
  const fs::path extension = file.extension();
  if (extension == ".yaml" || extension == ".yml") return parse_yaml(text, file.string());
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
  const auto program = recognise(root);
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
  const std::int64_t ranks =
      std::stoll(facts.value_or("gpus", "1")) * std::stoll(facts.value_or("nodes", "1"));
  notes.push_back(
      fmt::format("{}: read as a file of {}", file.generic_string(), to_string(*program)));
  if (const std::string found = other_optimizer(root); !found.empty()) notes.push_back(found);
  if (*program != TrainingProgram::kDeepSpeed) refuse_other_parallelism(root);
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
      read_accelerate(root, file, facts);
      break;
    case TrainingProgram::kTrainer:
      read_trainer(from);
      break;
    case TrainingProgram::kLlamaFactory:
      read_llama_factory(from);
      break;
    case TrainingProgram::kAxolotl:
      read_axolotl(from);
      break;
    case TrainingProgram::kSwift:
      read_swift(from, ranks);
      break;
  }
  return *program;
}

}  // namespace zenflow::sim
