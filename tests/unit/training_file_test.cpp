// What a job's own file says, and what its program does where it says nothing: facts of public
// configuration files, checked against each program's documentation and source.
#include "sim/job_files/training_file.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/job_files/job_inputs.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using zenflow::testing::error_of;
using zenflow::testing::TemporaryFolder;

class TrainingFileTest : public ::testing::Test {
 protected:
  JobFacts read(const std::string& name, const std::string& text) {
    folder_.write(name, text);
    JobFacts facts;
    notes_.clear();
    program_ = read_training_file(folder_ / name, facts, notes_);
    return facts;
  }
  std::string refused(const std::string& name, const std::string& text) {
    return error_of([&] { read(name, text); }).second;
  }
  static std::string source(const JobFacts& facts, const char* path) {
    const JobFact* const fact = facts.find(path);
    return fact == nullptr ? "" : fact->source.text();
  }

  TemporaryFolder folder_;
  std::vector<std::string> notes_;
  TrainingProgram program_{};
};

constexpr const char* kBatch = "training.micro_batch_size_per_gpu";
constexpr const char* kAccumulation = "training.gradient_accumulation_steps";
constexpr const char* kLength = "training.sequence_length";
constexpr const char* kCheckpointing = "training.activation_checkpointing";

// LLaMA-Factory, examples/full_multi_gpu/llama3_full_sft.yaml.
TEST_F(TrainingFileTest, LlamaFactoryTrainsInFull) {
  folder_.write("ds_z3_config.json", R"({"zero_optimization": {"stage": 3}})");
  const JobFacts facts = read("llama3_full_sft.yaml", R"(
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
finetuning_type: full
deepspeed: examples/deepspeed/ds_z3_config.json
template: llama3
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
fp16: true
)");
  EXPECT_EQ(program_, TrainingProgram::kLlamaFactory);
  EXPECT_EQ(facts.value_or("model", ""), "meta-llama/Meta-Llama-3-8B-Instruct");
  EXPECT_EQ(facts.value_or(kBatch, ""), "1");
  EXPECT_EQ(facts.value_or(kAccumulation, ""), "2");
  EXPECT_EQ(facts.value_or(kLength, ""), "1024");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "fp16");
  EXPECT_EQ(facts.value_or("launch.target", ""), "hf");
  EXPECT_EQ(facts.find("training.lora"), nullptr);
  EXPECT_THAT(facts.value_or("deepspeed", ""), HasSubstr("ds_z3_config.json"));
  // It checkpoints unless told not to.
  EXPECT_EQ(facts.value_or(kCheckpointing, ""), "true");
  EXPECT_EQ(source(facts, kCheckpointing), "default of LLaMA-Factory 0.9.5");
  EXPECT_THAT(source(facts, kLength), HasSubstr("llama3_full_sft.yaml:7:"));
}

TEST_F(TrainingFileTest, LlamaFactoryAdaptsUnlessToldNotTo) {
  const JobFacts facts = read("lora.yaml", R"(
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
lora_target: q_proj,v_proj
quantization_bit: 4
bf16: true
disable_gradient_checkpointing: true
)");
  EXPECT_EQ(facts.value_or("training.lora", ""),
            R"({r: 8, targets: ["q_proj", "v_proj"], base: nf4})");
  EXPECT_EQ(facts.value_or(kBatch, ""), "8");  // Trainer's
  EXPECT_EQ(facts.value_or(kLength, ""), "2048");
  EXPECT_EQ(facts.value_or(kCheckpointing, ""), "false");
  EXPECT_THAT(refused("oft.yaml", "model_name_or_path: x\nstage: sft\nfinetuning_type: oft\n"),
              AllOf(HasSubstr("oft.yaml:3:18"), HasSubstr("\"oft\" is not simulated")));
}

// axolotl, examples/llama-2/fft_optimized.yml.
TEST_F(TrainingFileTest, AxolotlTrainsInFull) {
  const JobFacts facts = read("fft_optimized.yml", R"(
base_model: NousResearch/Llama-2-7b-hf
load_in_8bit: false
load_in_4bit: false
sequence_len: 4096
sample_packing: true
adapter:
lora_r:
gradient_accumulation_steps: 1
micro_batch_size: 1
optimizer: adamw_bnb_8bit
bf16: auto
fp16: false
gradient_checkpointing: true
deepspeed: #deepspeed/zero2.json # multi-gpu only
)");
  EXPECT_EQ(program_, TrainingProgram::kAxolotl);
  EXPECT_EQ(facts.value_or("model", ""), "NousResearch/Llama-2-7b-hf");
  EXPECT_EQ(facts.value_or(kLength, ""), "4096");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "bf16");
  EXPECT_EQ(facts.value_or(kCheckpointing, ""), "true");
  EXPECT_EQ(facts.find("deepspeed"), nullptr);
  EXPECT_EQ(facts.find("training.lora"), nullptr);
  EXPECT_THAT(notes_, ::testing::Contains(HasSubstr("\"adamw_bnb_8bit\" is simulated as AdamW")));
}

// axolotl, examples/cohere/command-r-7b-qlora.yml.
TEST_F(TrainingFileTest, AxolotlAdaptsAFourBitBase) {
  const JobFacts facts = read("command-r-7b-qlora.yml", R"(
base_model: CohereForAI/c4ai-command-r7b-12-2024
load_in_8bit: false
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_target_linear: true
sequence_len: 2048
gradient_accumulation_steps: 4
micro_batch_size: 1
bf16: auto
gradient_checkpointing: true
)");
  EXPECT_EQ(facts.value_or("training.lora", ""), "{r: 32, targets: all-linear, base: nf4}");
  EXPECT_EQ(facts.value_or(kAccumulation, ""), "4");
  const JobFacts bare = read("bare.yml", "base_model: a/b\n");
  EXPECT_EQ(bare.value_or(kBatch, ""), "1");
  EXPECT_EQ(bare.value_or(kLength, ""), "512");
  EXPECT_EQ(bare.value_or(kCheckpointing, ""), "false");
  EXPECT_EQ(source(bare, kLength), "default of axolotl 0.19");
  EXPECT_THAT(refused("lora.yml", "base_model: a\nadapter: lora\nlora_r: 8\n"),
              HasSubstr("expected lora_target_linear or lora_target_modules"));
}

// accelerate, examples/config_yaml_templates/deepspeed.yaml.
TEST_F(TrainingFileTest, AccelerateNamesAFile) {
  folder_.write("zero_stage1_config.json",
                R"({"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true},
                    "zero_optimization": {"stage": 1}})");
  const JobFacts facts = read("deepspeed.yaml", R"(
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: ../deepspeed_config_templates/zero_stage1_config.json
  zero3_init_flag: false
num_processes: 2
)");
  EXPECT_EQ(program_, TrainingProgram::kAccelerate);
  EXPECT_EQ(facts.value_or("gpus", ""), "2");
  EXPECT_EQ(facts.value_or("nodes", "1"), "1");
  EXPECT_EQ(facts.value_or("launch.target", ""), "accelerate");
  EXPECT_EQ(facts.value_or(kBatch, ""), "4");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "bf16");
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("ValueError"))));
  read("stage.yaml",
       "deepspeed_config: {deepspeed_config_file: zero_stage1_config.json, zero_stage: 1}\n");
  EXPECT_THAT(notes_, Contains(HasSubstr("stage.yaml:1:68: deepspeed_config.zero_stage: "
                                         "accelerate stops at it (ValueError)")));
  EXPECT_THAT(refused("fsdp.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"),
              AllOf(HasSubstr("fsdp.yaml:2:19"), HasSubstr("other ways to distribute")));
}

TEST_F(TrainingFileTest, AccelerateHasDeepSpeedInline) {
  const JobFacts facts = read("config.yaml", R"(
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 8
  offload_optimizer_device: cpu
  offload_param_device: none
  zero_stage: 2
mixed_precision: bf16
num_machines: 2
num_processes: 8
)");
  EXPECT_EQ(facts.value_or("gpus", ""), "4");
  EXPECT_EQ(facts.value_or("nodes", ""), "2");
  EXPECT_EQ(facts.value_or(kAccumulation, ""), "8");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "bf16");
  EXPECT_THAT(facts.value_or("deepspeed", ""),
              AllOf(HasSubstr("\"stage\": 2"), HasSubstr("\"device\": \"cpu\"")));
}

// alignment-handbook, recipes/zephyr-7b-beta/sft/config_full.yaml and dpo/config_qlora.yaml.
TEST_F(TrainingFileTest, TrainerArgumentsInYaml) {
  const JobFacts facts = read("config_full.yaml", R"(
model_name_or_path: mistralai/Mistral-7B-v0.1
torch_dtype: bfloat16
bf16: true
gradient_accumulation_steps: 1
gradient_checkpointing: true
max_seq_length: 2048
output_dir: data/zephyr-7b-sft-full
per_device_train_batch_size: 16
)");
  EXPECT_EQ(program_, TrainingProgram::kTrainer);
  EXPECT_EQ(facts.value_or("model", ""), "mistralai/Mistral-7B-v0.1");
  EXPECT_EQ(facts.value_or(kBatch, ""), "16");
  EXPECT_EQ(facts.value_or(kLength, ""), "2048");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "bf16");
  const JobFacts qlora = read("config_qlora.yaml", R"(
model_name_or_path: alignment-handbook/zephyr-7b-sft-qlora
use_peft: true
load_in_4bit: true
lora_r: 16
lora_target_modules: [q_proj, k_proj]
bf16: true
max_length: 1024
output_dir: data
)");
  EXPECT_EQ(qlora.value_or("training.lora", ""),
            R"({r: 16, targets: ["q_proj", "k_proj"], base: nf4-single, dropout: 0.05})");  // TRL's
  const JobFacts nested = read("nested.yaml", R"(
model_name_or_path: alignment-handbook/zephyr-7b-sft-qlora
use_peft: true
load_in_4bit: true
use_bnb_nested_quant: true
max_length: 1024
output_dir: data
)");
  EXPECT_THAT(nested.value_or("training.lora", ""), HasSubstr("base: nf4,"));
  EXPECT_EQ(qlora.value_or(kLength, ""), "1024");
}

TEST_F(TrainingFileTest, TrainerArgumentsInJson) {
  const JobFacts facts = read("args.json", R"({
  "output_dir": "out",
  "deepspeed": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
})");
  EXPECT_EQ(facts.value_or(kBatch, ""), "8");
  EXPECT_EQ(facts.value_or(kAccumulation, ""), "1");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "fp32");
  EXPECT_EQ(facts.value_or(kCheckpointing, ""), "false");
  EXPECT_EQ(source(facts, kBatch), "default of transformers 5.23's TrainingArguments");
  EXPECT_THAT(facts.value_or("deepspeed", ""), HasSubstr("\"offload_optimizer\""));
}

TEST_F(TrainingFileTest, SwiftAdaptsAndHasConfigurationsOfItsOwn) {
  const JobFacts facts = read("sft.yaml", R"(
model: Qwen/Qwen2.5-7B-Instruct
train_type: lora
torch_dtype: bfloat16
max_length: 2048
deepspeed: zero2_offload
)");
  EXPECT_EQ(program_, TrainingProgram::kSwift);
  EXPECT_EQ(facts.value_or("training.lora", ""), "{r: 8, targets: all-linear, dropout: 0.05}");
  EXPECT_EQ(facts.value_or(kBatch, ""), "1");
  EXPECT_EQ(facts.value_or(kAccumulation, ""), "16");  // of one rank: 16 sequences
  EXPECT_EQ(facts.value_or(kCheckpointing, ""), "true");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "bf16");
  EXPECT_THAT(facts.value_or("deepspeed", ""),
              AllOf(HasSubstr("\"stage\": 2"), HasSubstr("\"offload_optimizer\""),
                    HasSubstr("\"overlap_comm\": false")));
}

TEST_F(TrainingFileTest, SwiftFillsUpToSixteenSequences) {
  folder_.write("full.yaml", "model: a/b\ntuner_type: full\nper_device_train_batch_size: 2\n");
  JobFacts facts;
  facts.state("gpus", "4", source_named("--gpus"));
  read_training_file(folder_ / "full.yaml", facts, notes_);
  EXPECT_EQ(facts.value_or(kAccumulation, ""), "2");
  EXPECT_EQ(facts.find("training.lora"), nullptr);
}

// ms-swift trains weights of float32 in mixed precision of fp16, unless fp16 is off.
TEST_F(TrainingFileTest, SwiftChoosesMixedPrecisionByTheWeights) {
  const auto type = [this](const std::string& keys) {
    return read("type.yaml", "model: a/b\ntuner_type: full\n" + keys)
        .value_or("training.dtype", "");
  };
  EXPECT_EQ(type(""), "bf16");
  EXPECT_EQ(type("torch_dtype: float16\n"), "fp16");
  EXPECT_EQ(type("torch_dtype: float32\n"), "fp16");
  EXPECT_EQ(type("torch_dtype: float32\nfp16: false\n"), "fp32");
  EXPECT_EQ(type("torch_dtype: float32\nbf16: true\n"), "bf16");
}

TEST_F(TrainingFileTest, SwiftAdaptsByOtherKeys) {
  const JobFacts facts = read("sft.yaml", R"(
model: a/b
tuner_type: lora
quant_bits: 8
target_regex: 'model[.]layers[.].*'
modules_to_save: [lm_head]
use_dora: true
lora_dropout: 0
ENV: {NPROC_PER_NODE: '2', NNODES: 3}
)");
  EXPECT_EQ(facts.value_or("training.lora", ""),
            R"({r: 8, targets: "model[.]layers[.].*", base: int8, dora: true, )"
            R"(modules_to_save: ["lm_head"]})");
  EXPECT_EQ(facts.value_or("gpus", ""), "2");
  EXPECT_EQ(facts.value_or("nodes", ""), "3");
  EXPECT_EQ(facts.value_or(kAccumulation, ""), "3");  // 16 sequences of six ranks
}

// axolotl takes bf16 where the file has no such key; with the key and no value it does not.
TEST_F(TrainingFileTest, AxolotlTakesBf16UnlessToldNotTo) {
  const auto type = [this](const std::string& keys) {
    return read("type.yml", "base_model: a/b\n" + keys).value_or("training.dtype", "");
  };
  EXPECT_EQ(type(""), "bf16");
  EXPECT_EQ(type("bf16:\n"), "fp32");
  EXPECT_EQ(type("bf16: false\n"), "fp32");
  EXPECT_EQ(type("bf16:\nfp16: true\n"), "fp16");
}

TEST_F(TrainingFileTest, LlamaFactoryFreezesWhatTheUserSays) {
  const std::string text = "model_name_or_path: a/b\nstage: sft\nfinetuning_type: freeze\n";
  EXPECT_THAT(refused("freeze.yaml", text),
              AllOf(HasSubstr("freeze.yaml:3:18"), HasSubstr("--set 'training.freeze=[NAMES]'")));
  JobFacts facts;
  facts.state("training.freeze", "[x]", source_named("--set"));
  read_training_file(folder_ / "freeze.yaml", facts, notes_);
  EXPECT_EQ(facts.find("training.lora"), nullptr);
  EXPECT_THAT(
      refused("bits.yaml", "model_name_or_path: a\nfinetuning_type: full\nquantization_bit: 4\n"),
      AllOf(HasSubstr("bits.yaml:3:19"), HasSubstr("expected finetuning_type: lora")));
}

// TRL, trl/accelerate_configs.
TEST_F(TrainingFileTest, TrlStartsAccelerate) {
  const auto started = [this](const std::string& how) {
    return read("trl.yaml", "model_name_or_path: a\nmax_length: 512\nfp16: true\n" + how);
  };
  const JobFacts stage2 = started("accelerate_config: zero2\nnum_processes: 4\n");
  EXPECT_EQ(stage2.value_or("gpus", ""), "4");
  EXPECT_THAT(stage2.value_or("deepspeed", ""), HasSubstr("\"stage\": 2"));
  EXPECT_EQ(stage2.value_or("training.dtype", ""), "fp16");  // Trainer's word holds
  EXPECT_EQ(started("accelerate_config: multi_gpu\n").value_or("gpus", ""), "8");
  EXPECT_EQ(started("accelerate_config: single_gpu\n").find("deepspeed"), nullptr);
  folder_.write("own.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1}\n");
  EXPECT_THAT(started("accelerate_config: own.yaml\n").value_or("deepspeed", ""),
              HasSubstr("\"stage\": 1"));
  EXPECT_THAT(refused("fsdp.yaml", "model_name_or_path: a\naccelerate_config: fsdp2\n"),
              HasSubstr("other ways to distribute are not simulated"));
  EXPECT_THAT(refused("none.yaml", "model_name_or_path: a\naccelerate_config: zero9\n"),
              HasSubstr("no such file \"zero9\""));
}

// What is not simulated as it stands there is said once, with its place; keys that are off are
// not spoken of.
TEST_F(TrainingFileTest, KeysThatAreOffAreNoMatter) {
  read("off.yaml", R"(
base_model: a/b
sample_packing: true
tensor_parallel_size: 1
context_parallel_size:
sequence_parallel_degree: 1
fsdp: []
fsdp_config: {}
unfrozen_parameters: []
optimizer: adamw_torch_fused
gradient_checkpointing: true
activation_offloading: false
plugins: [axolotl.integrations.other.OtherPlugin]
rl:
torch_compile: false
deepspeed: {zero_optimization: {stage: 1}}
)");
  EXPECT_THAT(notes_, ::testing::ElementsAre(HasSubstr("read as a file of axolotl")));
  EXPECT_THAT(refused("size.yml", "base_model: a\ntensor_parallel_size: 2\n"),
              HasSubstr("size.yml:2:23: tensor_parallel_size: is not simulated"));
  EXPECT_THAT(refused("fsdp.yml", "base_model: a\nfsdp_config: {offload_params: true}\n"),
              HasSubstr("fsdp_config: is not simulated"));
  EXPECT_THAT(refused("freeze.yaml", "model: a\ntrain_type: full\nfreeze_parameters_ratio: 0.5\n"),
              HasSubstr("--set 'training.freeze="));
}

TEST_F(TrainingFileTest, DeepSpeedSaysWhatItHas) {
  const JobFacts facts = read("ds.json", R"({
  // Hjson, as DeepSpeed reads it
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 3}
})");
  EXPECT_EQ(program_, TrainingProgram::kDeepSpeed);
  EXPECT_EQ(facts.value_or(kBatch, ""), "4");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "bf16");
  EXPECT_EQ(facts.find("launch.target"), nullptr);
  const JobFacts filled = read("auto.json", R"({
  "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}})");
  EXPECT_EQ(filled.value_or(kBatch, ""), "8");
  EXPECT_EQ(filled.value_or("launch.target", ""), "hf");
}

TEST_F(TrainingFileTest, FlagsComeFirst) {
  folder_.write("full.yaml", "base_model: a/b\nmicro_batch_size: 2\n");
  JobFacts facts;
  facts.state(kBatch, "7", source_named("--micro-batch-size"));
  read_training_file(folder_ / "full.yaml", facts, notes_);
  EXPECT_EQ(facts.value_or(kBatch, ""), "7");
}

TEST_F(TrainingFileTest, MisspeltKeysAreNamed) {
  EXPECT_THAT(refused("typo.yaml",
                      "model_name_or_path: a\nstage: sft\nfinetuning_type: full\n"
                      "cutoff_length: 16384\nper_device_train_batchsize: 1\nbf16: true\n"
                      "gradient_accumulation: 8\nmine: 1\n"),
              AllOf(HasSubstr("typo.yaml:4:1: expected keys of LLaMA-Factory, which stops at "),
                    HasSubstr("cutoff_length: did you mean cutoff_len?"),
                    HasSubstr("batchsize: did you mean per_device_train_batch_size?"),
                    HasSubstr("gradient_accumulation: did you mean gradient_accumulation_steps?"),
                    HasSubstr("; mine")));
  EXPECT_THAT(refused("args.json", R"({"output_dir": "o", "gradient_checkpoint": true, "bf16": 1,
                                       "per_device_train_batch_size": 1})"),
              HasSubstr("gradient_checkpoint: did you mean gradient_checkpointing?"));
}

// axolotl reads on; what decides nothing stops nobody; no value is no key.
TEST_F(TrainingFileTest, UnknownKeysAreNamed) {
  read("axolotl.yml",
       "base_model: a\nsequence_length: 16384\nmicro_batch_size: 4\nmine: 1\nother:\nfp16: true\n");
  EXPECT_THAT(notes_, ::testing::ElementsAre(
                          HasSubstr("read as a file of axolotl"),
                          AllOf(HasSubstr("axolotl.yml:2:1: sequence_length: no key of axolotl"),
                                HasSubstr("ignores it: did you mean sequence_len?")),
                          HasSubstr("axolotl.yml: no keys of axolotl, not read: mine")));
  read("args.yaml", "output_dir: o\nlogging_step: 1\nbf16: true\nmax_steps: 1\n");
  EXPECT_THAT(notes_, ::testing::Contains(HasSubstr("did you mean logging_steps?")));
}

TEST_F(TrainingFileTest, FilesOfOtherProgramsAreRefused) {
  EXPECT_THAT(
      refused("recipe.yaml",
              "output_dir: o\nmodel:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
              "batch_size: 2\ngradient_accumulation_steps: 8\n"),
      AllOf(HasSubstr("recipe.yaml:3:16: model._component_: expected a file of DeepSpeed"),
            HasSubstr("found a recipe of torchtune")));
  EXPECT_THAT(
      refused("scenario.yaml", "name: a\nhardware: b\ngpus: 1\ntraining: {dtype: bf16}\n"),
      HasSubstr("scenario.yaml:2:11: hardware: expected a job's own file, found a scenario"));
  EXPECT_THAT(refused("own.yaml", "output_dir: o\nlayers: 3\nwidth: 4\nheads: 5\n"),
              AllOf(HasSubstr("own.yaml: expected a file of a program that is known here"),
                    HasSubstr("which has no layers, width, heads")));
}

TEST_F(TrainingFileTest, AnchorsAndMergesAreResolved) {
  const JobFacts facts = read("aliases.yml", R"(
common: &common
  micro_batch_size: 4
  bf16: true
base_model: a/b
sequence_len: &length 4096
eval_sequence_len: *length
<<: *common
)");
  EXPECT_EQ(facts.value_or(kBatch, ""), "4");
  EXPECT_EQ(facts.value_or("training.dtype", ""), "bf16");
}

TEST_F(TrainingFileTest, DeepSpeedSaysTheTypeOfAutocast) {
  const char* const text = R"({"train_micro_batch_size_per_gpu": 1,
      "torch_autocast": {"enabled": true, "dtype": "float16"}})";
  EXPECT_EQ(read("autocast.json", text).value_or("training.dtype", ""), "fp16");
}

TEST_F(TrainingFileTest, DeepSpeedIsJsonTextInArguments) {
  const JobFacts facts = read("args.yaml",
                              "output_dir: o\nper_device_train_batch_size: 1\n"
                              "deepspeed: '{\"zero_optimization\": {\"stage\": 2}}'\n");
}

TEST_F(TrainingFileTest, FilesOfNoneAreRefused) {
  EXPECT_THAT(refused("other.yaml", "name: x\nsteps: [a, b]\n"),
              AllOf(HasSubstr("other.yaml: expected a configuration of DeepSpeed"),
                    HasSubstr("found none of their keys")));
  EXPECT_THAT(refused("list.yaml", "- a\n"), HasSubstr("expected a configuration of DeepSpeed"));
  EXPECT_THAT(refused("batch.yaml", "base_model: a\nmicro_batch_size: many\n"),
              AllOf(HasSubstr("batch.yaml:2:19"), HasSubstr("whole number")));
  EXPECT_THAT(refused("ds.yaml", "base_model: a\ndeepspeed: no/such.json\n"),
              AllOf(HasSubstr("ds.yaml:2:12"), HasSubstr("no such file \"no/such.json\"")));
}

TEST(ScheduleFor, IsWhatDeepSpeedMakesOfTheBlock) {
  const auto schedule = [](const std::string& stage, const std::string& offload) {
    const std::string text = R"({"zero_optimization": {"stage": )" + stage +
                             R"(, "offload_optimizer": {"device": )" + offload + "}}}";
    return schedule_for(parse_ds_document(text, "ds.json").root);
  };
  EXPECT_EQ(schedule("3", R"("nvme")"), "deepspeed-zero-infinity");
  EXPECT_EQ(schedule("2", R"("nvme")"), "deepspeed-zero-offload");
  EXPECT_EQ(schedule("\"3\"", R"("cpu", "super_offload": 1)"), "deepspeed-super-offload");
  EXPECT_EQ(schedule("2", R"("cpu", "super_offload": true)"), "deepspeed-zero-offload");
  EXPECT_EQ(schedule("3", R"("nvme", "super_offload": true)"), "deepspeed-zero-infinity");
  EXPECT_EQ(schedule("3", R"("cpu", "ratio": 0.5)"), "deepspeed-twin-flow");
  EXPECT_EQ(schedule("2", R"("cpu", "ratio": 0.5)"), "deepspeed-zero-offload");
  EXPECT_EQ(schedule("3", R"("none")"), "deepspeed-zero");
}

}  // namespace
}  // namespace zenflow::sim
