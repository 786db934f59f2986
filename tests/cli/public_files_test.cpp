// Configuration files of public repositories, each answered by one command without a scenario.
//
// Of each file only what decides a step is written here, in our own words; its repository and path
// stand above. What is expected was worked out by hand: from the program's documentation and
// source (LLaMA-Factory 0.9.5, axolotl 0.19, ms-swift 4.6, accelerate 1.15, transformers 5.23,
// TRL 1.16), and parameters of adapters from the model's widths, rank * (in + out) a product.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kModel = "model";
constexpr const char* kBatch = "training.micro_batch_size_per_gpu";
constexpr const char* kSteps = "training.gradient_accumulation_steps";
constexpr const char* kLength = "training.sequence_length";
constexpr const char* kType = "training.dtype";
constexpr const char* kCheckpointing = "training.activation_checkpointing";
constexpr const char* kLora = "training.lora";

/// LLaMA-Factory's examples/deepspeed/ds_z*_config.json and axolotl's deepspeed_configs leave all
/// of this to the trainer.
std::string filled_in(const std::string& zero) {
  return R"({"zero_optimization": {)" + zero +
         R"(}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "zero_allow_untested_optimizer": true})";
}
constexpr const char* kOffloadAll =
    R"("stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true},
       "offload_param": {"device": "cpu", "pin_memory": true})";

class PublicFiles : public ::testing::Test {
 protected:
  /// Runs the one command; a job may or may not fit.
  json check(const std::string& file, const std::string& text, const Arguments& flags) {
    folder_.write(file, text);
    const Outcome outcome =
        run_program(Arguments{ZENFLOW_SIM, "check", "--ds", file, "--json"} + flags,
                    {.folder = folder_.path()});
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 3) << outcome.code << ": " << outcome.err;
    json answer = json::parse(outcome.out, nullptr, false);
    EXPECT_FALSE(answer.is_discarded()) << outcome.err;
    facts_.clear();
    notes_.clear();
    if (answer.is_discarded()) return json::object();
    for (const json& fact : answer.at("facts")) facts_[fact.at("path")] = fact.at("value");
    for (const json& note : answer.at("notes")) notes_.push_back(note);
    return answer;
  }
  void expect_refused(const std::string& file, const std::string& text, const Arguments& flags,
                      const ::testing::Matcher<std::string>& message) {
    folder_.write(file, text);
    const Outcome outcome =
        run_program(Arguments{ZENFLOW_SIM, "check", "--ds", file, "--save", "job.yaml"} + flags,
                    {.folder = folder_.path()});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, message);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "job.yaml"));
  }
  void expect_facts(const std::map<std::string, std::string>& expected) {
    for (const auto& [path, value] : expected) {
      const auto found = facts_.find(path);
      ASSERT_NE(found, facts_.end()) << path;
      EXPECT_EQ(found->second, value) << path;
    }
  }
  [[nodiscard]] bool has(const char* path) const { return facts_.count(path) != 0; }

  TemporaryFolder folder_;
  std::map<std::string, std::string> facts_;
  std::vector<std::string> notes_;
};

// hiyouga/LLaMA-Factory, examples/train_lora/llama3_lora_sft_ds0.yaml.
TEST_F(PublicFiles, LlamaFactoryLoraWithStageZero) {
  folder_.write("ds_z0_config.json", filled_in(R"("stage": 0)"));
  const json answer = check("llama3_lora_sft_ds0.yaml", R"(
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
finetuning_type: lora
lora_target: all
deepspeed: examples/deepspeed/ds_z0_config.json
template: llama3
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
fp16: true
)",
                            {"--gpu", "A100 80GB", "--gpus", "4"});
  expect_facts({{kModel, "meta-llama/Meta-Llama-3-8B-Instruct"},
                {kBatch, "1"},
                {kSteps, "2"},
                {kLength, "1024"},
                {kType, "fp16"},
                {kCheckpointing, "true"},
                {kLora, "{r: 8, targets: all-linear}"},
                {"launch.target", "hf"}});
  // 32 layers of q and o 8192, k and v 5120, three of the MLP 18432, times the rank of 8.
  EXPECT_EQ(answer.at("trained_parameters"), 32 * 8 * (2 * 8192 + 2 * 5120 + 3 * 18432));
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero");
}

// hiyouga/LLaMA-Factory, examples/train_qlora/qwen3_lora_sft_otfq.yaml.
TEST_F(PublicFiles, LlamaFactoryQuantisesTheBase) {
  const json answer = check("qwen3_lora_sft_otfq.yaml", R"(
model_name_or_path: Qwen/Qwen3-4B-Instruct-2507
quantization_bit: 4
quantization_method: bnb
stage: sft
finetuning_type: lora
lora_rank: 8
lora_target: all
template: qwen3_nothink
cutoff_len: 2048
max_samples: 1000
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
)",
                            {"--gpu", "RTX 4090"});
  expect_facts({{kSteps, "8"}, {kType, "bf16"}, {kLora, "{r: 8, targets: all-linear, base: nf4}"}});
  EXPECT_FALSE(has("training.freeze"));  // a model of text alone
  EXPECT_EQ(answer.at("trained_parameters"),
            36 * 8 * (2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728)));
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("qwen3_lora_sft_otfq.yaml:10:13"),
                                     HasSubstr("without packing they are as long as the data's"))));
}

// hiyouga/LLaMA-Factory, examples/train_lora/qwen3_lora_pretrain.yaml and qwen3_lora_dpo.yaml:
// pre-training packs, preference training has two sequences a sample.
TEST_F(PublicFiles, LlamaFactoryStages) {
  const std::string job = R"(
model_name_or_path: Qwen/Qwen3-4B-Instruct-2507
finetuning_type: lora
lora_target: all
cutoff_len: 2048
per_device_train_batch_size: 1
bf16: true
)";
  check("pretrain.yaml", job + "stage: pt\n", {"--gpu", "RTX 4090"});
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("without packing"))));
  check("dpo.yaml", job + "stage: dpo\npref_beta: 0.1\n", {"--gpu", "RTX 4090"});
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("stage: "), HasSubstr("has two"))));
  expect_refused("ppo.yaml", job + "stage: ppo\n", {"--gpu", "RTX 4090"},
                 AllOf(HasSubstr("ppo.yaml:8:8: stage"), HasSubstr("generates text")));
}

// hiyouga/LLaMA-Factory, examples/train_full/qwen3_full_sft.yaml (a copy with a longer context).
TEST_F(PublicFiles, LlamaFactoryLongerThanTheModel) {
  folder_.write("ds_z3_offload_config.json", filled_in(kOffloadAll));
  const std::string job = R"(
model_name_or_path: Qwen/Qwen3-8B
rope_scaling: yarn
enable_liger_kernel: true
stage: sft
finetuning_type: full
deepspeed: examples/deepspeed/ds_z3_offload_config.json
cutoff_len: 131072
max_samples: null
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
bf16: true
gradient_checkpointing: true
)";
  const Arguments flags = {"--gpu", "H100 SXM", "--gpus", "8"};
  expect_refused("long.yaml", job, flags,
                 AllOf(HasSubstr("long.yaml:8:13"), HasSubstr("40960 positions"),
                       HasSubstr("--set model.config.max_position_embeddings=131072")));
  const json answer = check(
      "long.yaml", job, flags + Arguments{"--set", "model.config.max_position_embeddings=131072"});
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero-offload");
  EXPECT_EQ(answer.at("trained_parameters"), answer.at("parameters"));
  expect_facts({{kLength, "131072"}, {kCheckpointing, "true"}, {"training.framework", "fused"}});
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("enable_liger_kernel"), HasSubstr("logits"))));
}

// hiyouga/LLaMA-Factory, examples/train_full/qwen3_full_sft_autotp.yaml with its
// examples/deepspeed/ds_z2_autotp_config.json.
TEST_F(PublicFiles, TensorParallelismOfDeepSpeedIsRefused) {
  folder_.write("ds_z2_autotp_config.json",
                R"({"tensor_parallel": {"autotp_size": 2}, "bf16": {"enabled": "auto"},
                    "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}})");
  const std::string job = R"(
model_name_or_path: Qwen/Qwen3-32B
stage: sft
finetuning_type: full
deepspeed: examples/deepspeed/ds_z2_autotp_config.json
bf16: true
)";
  expect_refused("autotp.yaml", job, {"--gpu", "H100 SXM", "--gpus", "8"},
                 AllOf(HasSubstr("ds_z2_autotp_config.json:1:37: tensor_parallel.autotp_size"),
                       HasSubstr("data parallelism and DeepSpeed are")));
}

// hiyouga/LLaMA-Factory, examples/extras/galore/llama3_full_sft.yaml.
TEST_F(PublicFiles, LlamaFactoryGalore) {
  check("galore.yaml", R"(
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
finetuning_type: full
use_galore: true
galore_rank: 128
template: llama3
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
pure_bf16: true
)",
        {"--gpu", "H200"});
  expect_facts({{kType, "bf16"}, {kLength, "1024"}});
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("galore.yaml:5:13: use_galore"),
                                     HasSubstr("AdamW with fp32 moments"))));
  EXPECT_THAT(notes_,
              Contains(AllOf(HasSubstr("galore.yaml:11:12"), HasSubstr("8 bytes a parameter"))));
}

// hiyouga/LLaMA-Factory, examples/train_lora/qwen2_5vl_lora_sft.yaml and
// examples/train_full/qwen2_5vl_full_sft.yaml: vision tower and projector are frozen unless it is
// told not to.
TEST_F(PublicFiles, LlamaFactoryTrainsTheTextOfAVisionModel) {
  const std::string job = R"(
model_name_or_path: Qwen/Qwen2.5-VL-7B-Instruct
image_max_pixels: 262144
stage: sft
template: qwen2_vl
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
)";
  const Arguments flags = {"--gpu", "A100 80GB", "--gpus", "4"};
  const json lora = check("lora.yaml", job + "finetuning_type: lora\nlora_target: all\n", flags);
  // As of Qwen2.5-7B, whose decoder it has: hidden 3584, k and v 512, MLP 18944.
  EXPECT_EQ(lora.at("trained_parameters"),
            28 * 8 * (2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18944)));
  folder_.write("ds_z3_config.json", filled_in(R"("stage": 3)"));
  const std::string in_full =
      job + "finetuning_type: full\ndeepspeed: examples/deepspeed/ds_z3_config.json\n";
  const json full = check("full.yaml", in_full, flags);
  EXPECT_EQ(full.at("trained_parameters"), 7'615'616'512);  // Qwen2.5-7B's
  EXPECT_GT(full.at("parameters"), full.at("trained_parameters"));
  const json all = check("all.yaml", in_full + "freeze_vision_tower: false\n", flags);
  EXPECT_EQ(all.at("trained_parameters"), all.at("parameters"));
}

// axolotl-ai-cloud/axolotl, examples/llama-3/fft-8b.yaml.
TEST_F(PublicFiles, AxolotlTrainsInFullWithoutDeepSpeed) {
  const json answer = check("fft-8b.yaml", R"(
base_model: meta-llama/Meta-Llama-3-8B
model_type: LlamaForCausalLM
load_in_8bit: false
load_in_4bit: false
sequence_len: 8192
sample_packing: true
pad_to_sequence_len: true
gradient_accumulation_steps: 8
micro_batch_size: 1
optimizer: paged_adamw_8bit
bf16: auto
fp16:
gradient_checkpointing: true
gradient_checkpointing_kwargs: {use_reentrant: false}
flash_attention: true
deepspeed:
fsdp:
fsdp_config:
)",
                            {"--gpu", "H200"});
  expect_facts({{kBatch, "1"}, {kSteps, "8"}, {kLength, "8192"}, {kType, "bf16"}});
  EXPECT_EQ(answer.at("trained_parameters"), 8'030'261'248);
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("without packing"))));
  EXPECT_THAT(notes_, Contains(HasSubstr("\"paged_adamw_8bit\" is simulated as AdamW")));
  EXPECT_THAT(notes_, Contains(HasSubstr("weights, gradients and moments are all bf16")));
  // 8 bytes a parameter are 59.8 GiB, with activations and logits of 8,192 tokens less than 141 GB:
  // that 16 bytes are not is no reason to say that it does not fit. On 80 GB it may, on 24 not.
  EXPECT_EQ(answer.at("verdict"), "uncertain");
  const auto on = [this](const char* card) {
    const Outcome outcome = run_program(
        {ZENFLOW_SIM, "check", "--ds", "fft-8b.yaml", "--json", "--gpu", card, "--quiet"},
        {.folder = folder_.path()});
    return json::parse(outcome.out);
  };
  const json smaller = on("A100 80GB");
  EXPECT_EQ(smaller.at("verdict"), "uncertain");
  EXPECT_THAT(smaller.at("decided_by").get<std::string>(),
              HasSubstr("; without fp32 weights, gradients and moments at least "));
  EXPECT_EQ(on("RTX 4090").at("verdict"), "does_not_fit");
}

// axolotl-ai-cloud/axolotl, examples/llama-3/lora-8b.yml.
TEST_F(PublicFiles, AxolotlTrainsEmbeddingsBesideAdapters) {
  const json answer = check("lora-8b.yml", R"(
base_model: NousResearch/Meta-Llama-3-8B
load_in_8bit: true
load_in_4bit: false
sequence_len: 4096
sample_packing: true
adapter: lora
lora_r: 32
lora_alpha: 16
lora_dropout: 0.05
lora_target_linear: true
lora_modules_to_save: [embed_tokens, lm_head]
gradient_accumulation_steps: 4
micro_batch_size: 2
optimizer: adamw_bnb_8bit
bf16: auto
gradient_checkpointing: true
flash_attention: true
)",
                            {"--gpu", "RTX 4090"});
  expect_facts({{kLora,
                 "{r: 32, targets: all-linear, base: int8, dropout: 0.05, modules_to_save: "
                 "[\"embed_tokens\", \"lm_head\"]}"},
                {kBatch, "2"},
                {kSteps, "4"}});
  EXPECT_EQ(answer.at("trained_parameters"),
            32LL * 32 * (2 * 8192 + 2 * 5120 + 3 * 18432) + 2LL * 128256 * 4096);
}

// axolotl-ai-cloud/axolotl, examples/llama-3/lora-1b.yml.
TEST_F(PublicFiles, AxolotlAdaptsNamedModules) {
  const json answer = check("lora-1b.yml", R"(
base_model: NousResearch/Llama-3.2-1B
adapter: lora
lora_model_dir:
sequence_len: 2048
sample_packing: true
lora_r: 16
lora_dropout: 0.05
lora_target_modules: [gate_proj, down_proj, up_proj, q_proj, v_proj, k_proj, o_proj]
gradient_accumulation_steps: 2
micro_batch_size: 2
optimizer: adamw_8bit
bf16: auto
fp16:
gradient_checkpointing: true
)",
                            {"--gpu", "RTX 4090"});
  EXPECT_EQ(answer.at("parameters").get<std::int64_t>() -
                answer.at("trained_parameters").get<std::int64_t>(),
            1'235'814'400);  // the base
  EXPECT_EQ(answer.at("trained_parameters"),
            16 * 16 * (2 * (2048 + 2048) + 2 * (2048 + 512) + 3 * (2048 + 8192)));
  EXPECT_THAT(facts_[kLora], Not(HasSubstr("base:")));
}

// axolotl-ai-cloud/axolotl, examples/qwen3/32b-qlora.yaml.
TEST_F(PublicFiles, AxolotlOffloadsCheckpointsAndCutsTheLoss) {
  const json answer = check("32b-qlora.yaml", R"(
base_model: Qwen/Qwen3-32B
plugins:
  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin
sequence_len: 2048
sample_packing: true
load_in_4bit: true
adapter: qlora
lora_r: 16
lora_target_modules: [q_proj, k_proj, v_proj, o_proj, down_proj, up_proj]
gradient_accumulation_steps: 2
micro_batch_size: 1
optimizer: adamw_torch_4bit
bf16: auto
gradient_checkpointing: offload
flash_attention: true
)",
                            {"--gpu", "RTX 4090"});
  EXPECT_EQ(answer.at("trained_parameters"),
            64 * 16 * (2 * (5120 + 8192) + 2 * (5120 + 1024) + 2 * (5120 + 25600)));
  expect_facts({{kCheckpointing, "true"}});
  EXPECT_THAT(notes_, Contains(HasSubstr("\"adamw_torch_4bit\" is simulated as AdamW")));
  EXPECT_THAT(notes_, Contains(HasSubstr("stays in GPU memory")));
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("plugins"), HasSubstr("logits"))));
}

// axolotl-ai-cloud/axolotl, examples/mistral/mistral-small-3.1-24B-lora.yml, of the text model:
// one regular expression.
TEST_F(PublicFiles, AxolotlAdaptsByARegularExpression) {
  const json answer = check("mistral-small.yml", R"(
base_model: mistralai/Mistral-Small-24B-Instruct-2501
load_in_8bit: true
adapter: lora
sequence_len: 2048
lora_r: 32
lora_target_modules: 'model.layers.[\d]+.(mlp|cross_attn|self_attn).(up|down|gate|q|k|v|o)_proj'
micro_batch_size: 1
bf16: true
gradient_checkpointing: true
)",
                            {"--gpu", "A100 40GB"});
  EXPECT_EQ(answer.at("trained_parameters"),
            40 * 32 * (2 * (5120 + 4096) + 2 * (5120 + 1024) + 3 * (5120 + 32768)));
}

// axolotl-ai-cloud/axolotl, examples/mistral/mixtral.yml: of transformers 5's model the program
// finds the attention's products; experts are stacked tensors.
TEST_F(PublicFiles, AxolotlFindsLinearModulesAmongExperts) {
  folder_.write("zero2.json", filled_in(R"("stage": 2, "overlap_comm": true)"));
  const json answer = check("mixtral.yml", R"(
base_model: mistralai/Mixtral-8x7B-v0.1
load_in_4bit: true
unfrozen_parameters:
adapter: qlora
sequence_len: 4096
sample_packing: true
lora_r: 32
lora_target_linear: true
gradient_accumulation_steps: 2
micro_batch_size: 1
optimizer: adamw_bnb_8bit
bf16: auto
gradient_checkpointing: true
deepspeed: deepspeed/zero2.json
fsdp:
)",
                            {"--gpu", "H100 SXM", "--gpus", "2"});
  EXPECT_EQ(answer.at("trained_parameters"), 32 * 32 * (2 * 8192 + 2 * 5120));
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero");
}

// axolotl-ai-cloud/axolotl, examples/alst/llama3-8b-deepspeed-alst.yaml with
// deepspeed_configs/zero3_bf16_cpuoffload_all.json.
TEST_F(PublicFiles, AxolotlWithAllOffloaded) {
  folder_.write("zero3_bf16_cpuoffload_all.json",
                R"({"zero_force_ds_cpu_optimizer": false, "zero_allow_untested_optimizer": true,
    "zero_optimization": {)" +
                    std::string(kOffloadAll) + R"(, "overlap_comm": true},
    "bf16": {"enabled": true}, "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto"})");
  const std::string job = R"(
base_model: meta-llama/Llama-3.1-8B
sequence_len: 8_192
sample_packing: true
gradient_accumulation_steps: 1
micro_batch_size: 1
optimizer: adamw_torch_8bit
bf16: auto
gradient_checkpointing: true
activation_offloading: legacy
deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json
)";
  const Arguments flags = {"--gpu", "H100 SXM", "--gpus", "8"};
  const json answer = check("alst.yaml", job, flags);
  expect_facts({{kLength, "8192"}, {kBatch, "1"}, {kSteps, "1"}});
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero-offload");
  EXPECT_THAT(notes_, Contains(HasSubstr("\"adamw_torch_8bit\" is simulated as AdamW")));
  EXPECT_THAT(notes_, Contains(HasSubstr("activation_offloading")));
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("8 bytes a parameter"))));  // DeepSpeed has a copy
  expect_refused("parallel.yaml", job + "sequence_parallel_degree: 8\n", flags,
                 AllOf(HasSubstr("parallel.yaml:12:27"), HasSubstr("sequence_parallel_degree")));
}

// axolotl-ai-cloud/axolotl, examples/llama-3/qlora-fsdp-70b.yaml and
// examples/mistral/bigstral-ds-zero3.yaml.
TEST_F(PublicFiles, AxolotlRefusesWhatMakesAnotherJob) {
  expect_refused("fsdp.yaml", R"(
base_model: meta-llama/Meta-Llama-3-70B
load_in_4bit: true
adapter: qlora
lora_r: 8
lora_target_linear: true
fsdp: [full_shard, auto_wrap]
fsdp_config: {fsdp_offload_params: true}
)",
                 {"--gpu", "RTX 4090"},
                 AllOf(HasSubstr("fsdp.yaml:7:7: fsdp"), HasSubstr("is not simulated")));
  const std::string part = R"(
base_model: mistralai/Mixtral-8x7B-v0.1
unfrozen_parameters: ["^lm_head.weight$", "^model.embed_tokens.weight$"]
sequence_len: 2048
micro_batch_size: 1
gradient_checkpointing: true
)";
  const Arguments card = {"--gpu", "H200"};
  expect_refused("part.yaml", part, card,
                 AllOf(HasSubstr("part.yaml:3:22"), HasSubstr("--set 'training.freeze=")));
  const json answer =
      check("part.yaml", part,
            card + Arguments{"--set", "training.freeze=[\"model.layers.*\", model.norm.weight]"});
  EXPECT_EQ(answer.at("trained_parameters"), 2LL * 32000 * 4096);
}

// huggingface/alignment-handbook, recipes/accelerate_configs/deepspeed_zero3.yaml.
TEST_F(PublicFiles, AccelerateWithAllOffloaded) {
  const json answer = check(
      "deepspeed_zero3.yaml", R"(
compute_environment: LOCAL_MACHINE
deepspeed_config:
  deepspeed_multinode_launcher: standard
  offload_optimizer_device: cpu
  offload_param_device: cpu
  zero3_init_flag: true
  zero3_save_16bit_model: true
  zero_stage: 3
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 1
)",
      {"--model", "mistralai/Mistral-7B-v0.1", "--gpu", "H100 SXM", "--sequence-length", "2048"});
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero-offload");
  expect_facts({{"gpus", "1"}, {kType, "bf16"}, {"launch.target", "accelerate"}});
  EXPECT_THAT(facts_["deepspeed"], AllOf(HasSubstr("\"stage\": 3"), HasSubstr("offload_param")));
}

// huggingface/accelerate, examples/config_yaml_templates/deepspeed.yaml, which names a file, with
// examples/deepspeed_config_templates/zero_stage3_offload_config.json.
TEST_F(PublicFiles, AccelerateNamesADeepSpeedFile) {
  folder_.write("zero_stage3_offload_config.json",
                R"({"fp16": {"enabled": true}, "zero_optimization": {)" + std::string(kOffloadAll) +
                    R"(, "sub_group_size": 1e9},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "gradient_accumulation_steps": 1, "train_micro_batch_size_per_gpu": "auto"})");
  const json answer = check("deepspeed.yaml", R"(
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: ../deepspeed_config_templates/zero_stage3_offload_config.json
  zero3_init_flag: false
num_processes: 2
)",
                            {"--model", "mistralai/Mistral-7B-v0.1", "--gpu", "H100 SXM"});
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero-offload");
  EXPECT_EQ(answer.at("gradient_accumulation_steps"), 1);
  expect_facts({{"gpus", "2"}, {kType, "fp16"}});
}

// huggingface/trl, examples/accelerate_configs/deepspeed_zero3.yaml and multi_gpu.yaml, and
// huggingface/alignment-handbook, recipes/accelerate_configs/fsdp.yaml.
TEST_F(PublicFiles, AccelerateDistributesInOtherWays) {
  const Arguments job = {"--model", "Qwen/Qwen2.5-1.5B", "--gpu", "H100 SXM"};
  const json sharded = check("zero3.yaml", R"(
deepspeed_config: {zero_stage: 3, offload_optimizer_device: none, offload_param_device: none}
distributed_type: DEEPSPEED
mixed_precision: 'fp16'
num_processes: 8
)",
                             job);
  EXPECT_EQ(sharded.at("schedule"), "deepspeed-zero");
  expect_facts({{"gpus", "8"}, {kType, "fp16"}});
  // What accelerate's own questions leave behind: a block that this way does not read.
  const json plain = check("multi_gpu.yaml", R"(
deepspeed_config: {}
fsdp_config: {}
distributed_type: MULTI_GPU
gpu_ids: all
mixed_precision: 'no'
num_machines: 2
num_processes: 8
)",
                           job);
  EXPECT_EQ(plain.at("schedule"), "deepspeed-zero");
  expect_facts({{"gpus", "4"}, {"nodes", "2"}, {kType, "fp32"}});
  EXPECT_THAT(facts_["deepspeed"], HasSubstr("\"stage\": 0"));
  expect_refused("fsdp.yaml", "distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: false}\n",
                 job, AllOf(HasSubstr("fsdp.yaml:1:19"), HasSubstr("MULTI_GPU or NO")));
}

// huggingface/open-r1, recipes/OlympicCoder-7B/sft/config_v00.00.yaml, as TRL's commands take it.
TEST_F(PublicFiles, TrlTrainsWithStageThree) {
  const json answer = check("config_v00.00.yaml", R"(
model_name_or_path: Qwen/Qwen2.5-Coder-7B-Instruct
torch_dtype: bfloat16
attn_implementation: flash_attention_2
dataset_name: open-r1/codeforces-cots
bf16: true
gradient_accumulation_steps: 8
gradient_checkpointing: true
packing: false
max_length: 32768
max_steps: -1
per_device_train_batch_size: 2
use_liger: true
accelerate_config: zero3
)",
                            {"--gpu", "H100 SXM"});
  expect_facts({{"gpus", "8"},
                {kBatch, "2"},
                {kSteps, "8"},
                {kLength, "32768"},
                {kType, "bf16"},
                {"training.framework", "fused"},
                {"launch.target", "hf"}});
  EXPECT_THAT(facts_["deepspeed"], HasSubstr("\"stage\": 3"));
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero");
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("use_liger"), HasSubstr("logits"))));
}

// huggingface/trl, examples/cli_configs/example_config.yaml: nearly all is left to TRL.
TEST_F(PublicFiles, TrlHasDefaultsOfItsOwn) {
  check("example_config.yaml", R"(
model_name_or_path:
  Qwen/Qwen2.5-0.5B
dataset_name:
  stanfordnlp/imdb
learning_rate:
  0.0001
)",
        {"--gpu", "RTX 4090"});
  expect_facts(
      {{kBatch, "8"}, {kSteps, "1"}, {kLength, "1024"}, {kType, "bf16"}, {kCheckpointing, "true"}});
}

// huggingface/alignment-handbook, recipes/zephyr-7b-beta/sft/config_qlora.yaml and
// dpo/config_full.yaml, and huggingface/open-r1, recipes/Qwen2.5-1.5B-Instruct/grpo.
TEST_F(PublicFiles, TrlAdaptsPrefersAndGenerates) {
  const json answer = check("config_qlora.yaml", R"(
model_name_or_path: mistralai/Mistral-7B-v0.1
torch_dtype: bfloat16
load_in_4bit: true
use_peft: true
lora_r: 16
lora_dropout: 0.05
lora_target_modules: [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]
bf16: true
gradient_accumulation_steps: 2
gradient_checkpointing: true
max_length: 2048
per_device_train_batch_size: 4
)",
                            {"--gpu", "RTX 4090"});
  EXPECT_EQ(answer.at("trained_parameters"), 32 * 16 * (2 * 8192 + 2 * 5120 + 3 * 18432));
  EXPECT_THAT(facts_[kLora], AllOf(HasSubstr("base: nf4"), HasSubstr("dropout: 0.05")));
  check("config_full.yaml", R"(
model_name_or_path: HuggingFaceH4/zephyr-7b-beta
bf16: true
beta: 0.01
gradient_accumulation_steps: 2
max_length: 1024
max_prompt_length: 512
optim: adamw_torch
per_device_train_batch_size: 8
)",
        {"--gpu", "H100 SXM", "--gpus", "8"});
  EXPECT_EQ(std::count_if(notes_.begin(), notes_.end(),
                          [](const std::string& note) {
                            return note.find("preference training has two") != std::string::npos;
                          }),
            1);  // both keys say it
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("is simulated as AdamW"))));
  expect_refused("grpo.yaml",
                 "model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct\nuse_vllm: true\n"
                 "num_generations: 7\nper_device_train_batch_size: 16\n",
                 {"--gpu", "H100 SXM"}, HasSubstr("generates text"));
}

// TrainingArguments as transformers writes them with a checkpoint: all keys, most of them off.
TEST_F(PublicFiles, TrainingArgumentsAsTheyAreSaved) {
  check("args.json",
        R"({"output_dir": "out", "per_device_train_batch_size": 4, "bf16": true, "fp16": false,
    "gradient_accumulation_steps": 8, "gradient_checkpointing": false, "deepspeed": null,
    "fsdp": [], "fsdp_config": {"min_num_params": 0, "xla": false}, "optim": "adamw_torch_fused",
    "use_liger_kernel": false, "torch_compile": true, "auto_find_batch_size": false})",
        {"--model", "Qwen/Qwen2.5-1.5B", "--gpu", "H100 SXM"});
  expect_facts({{kBatch, "4"},
                {kSteps, "8"},
                {kType, "bf16"},
                {kCheckpointing, "false"},
                {"training.framework", "fused"}});
  EXPECT_EQ(notes_.size(), 1U) << ::testing::PrintToString(notes_);  // which program's it is
}

// modelscope/ms-swift, examples/yaml/deepspeed/sft.yaml, and sft.json, which is the same.
TEST_F(PublicFiles, SwiftHasADeepSpeedFileOfThatName) {
  const json answer = check("sft.json",
                            R"({"model": "Qwen/Qwen2.5-7B-Instruct", "torch_dtype": "bfloat16",
    "tuner_type": "lora", "lora_rank": 8, "target_modules": "all-linear", "max_length": 2048,
    "dataset": ["swift/self-cognition#500"], "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 8, "deepspeed": "zero2", "ENV": {"NPROC_PER_NODE": "4"}})",
                            {"--gpu", "A100 40GB"});
  expect_facts({{"gpus", "4"},
                {kSteps, "8"},
                {kType, "bf16"},
                {kCheckpointing, "true"},
                {kLora, "{r: 8, targets: all-linear, dropout: 0.05}"}});
  EXPECT_EQ(answer.at("trained_parameters"),
            28 * 8 * (2 * (3584 + 3584) + 2 * (3584 + 512) + 3 * (3584 + 18944)));
}

// modelscope/ms-swift, examples/yaml/sft.yaml (with the name of 3.x),
// examples/yaml/megatron/sft.yaml and, of release 2,
// examples/pytorch/llm/scripts/baichuan2_7b_chat/lora_ddp/sft.json.
TEST_F(PublicFiles, SwiftOfOtherReleases) {
  check("sft.yaml", R"(
model: Qwen/Qwen2.5-7B-Instruct
train_type: lora
torch_dtype: bfloat16
attn_impl: flash_attn
gradient_accumulation_steps: 8
deepspeed: zero3
)",
        {"--gpu", "A100 40GB", "--gpus", "2"});
  expect_facts({{kBatch, "1"}, {kLength, "2048"}});
  EXPECT_THAT(facts_["deepspeed"], HasSubstr("\"stage\": 3"));
  expect_refused("megatron.yaml",
                 "model: Qwen/Qwen3-30B-A3B\ntuner_type: lora\nmicro_batch_size: 1\n"
                 "expert_model_parallel_size: 4\nrecompute_granularity: full\n",
                 {"--gpu", "H100 SXM"},
                 AllOf(HasSubstr("megatron.yaml:4:29"), HasSubstr("expert_model_parallel_size")));
  expect_refused("old.json",
                 R"({"model_id_or_path": "baichuan-inc/Baichuan2-7B-Chat", "sft_type": "lora",
    "batch_size": 1, "output_dir": "o"})",
                 {"--gpu", "H100 SXM"}, HasSubstr("is a key of ms-swift 2"));
}

// lm-sys/FastChat, playground/deepspeed_config_s3.json.
TEST_F(PublicFiles, DeepSpeedLeftToTheTrainer) {
  const json answer = check("deepspeed_config_s3.json", R"({
  "fp16": {"enabled": "auto", "loss_scale": 0},
  "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "offload_param": {"device": "cpu", "pin_memory": true}, "overlap_comm": true,
    "stage3_prefetch_bucket_size": 5e8, "stage3_param_persistence_threshold": 1e6,
    "sub_group_size": 1e12},
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto"})",
                            {"--model", "lmsys/vicuna-7b-v1.5", "--gpu", "A100 80GB", "--gpus", "4",
                             "--micro-batch-size", "2", "--gradient-accumulation-steps", "16"});
  EXPECT_EQ(answer.at("schedule"), "deepspeed-zero-offload");
  EXPECT_EQ(answer.at("gradient_accumulation_steps"), 16);
  EXPECT_EQ(answer.at("parameters"), 6'738'415'616);
  expect_facts({{kBatch, "2"}, {"launch.target", "hf"}});
}

// microsoft/DeepSpeedExamples, Megatron-LM/scripts/ds_zero3_config.json: the micro-batch is what
// DeepSpeed works out.
TEST_F(PublicFiles, DeepSpeedWithTheWholeBatchAlone) {
  const std::string config = R"({"train_batch_size": 16, "gradient_accumulation_steps": 1,
  "zero_optimization": {"stage": 3}, "optimizer": {"type": "Adam", "params": {"lr": 0.00015}},
  "fp16": {"enabled": true}, "activation_checkpointing": {"partition_activations": true}})";
  const Arguments job = {"--model", "meta-llama/Llama-2-7b-hf", "--gpu", "A100 80GB"};
  check("ds_zero3_config.json", config, job + Arguments{"--gpus", "8"});
  expect_facts({{kBatch, "2"}, {kType, "fp16"}});
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("not modelled"),
                                     HasSubstr("activation_checkpointing.partition_activations"))));
  expect_refused("ds_zero3_config.json", config, job + Arguments{"--gpus", "3"},
                 HasSubstr("train_batch_size"));
}

// microsoft/DeepSpeedExamples, Megatron-LM/scripts/ds_zero-offload_10B_config.json: DeepSpeed
// refuses its "comm_overlap", too.
TEST_F(PublicFiles, DeepSpeedWithAKeyThatItDoesNotKnow) {
  expect_refused("ds_zero-offload.json",
                 R"({"train_batch_size": 30, "zero_optimization": {"stage": 2,
  "cpu_offload": true, "comm_overlap": true}, "fp16": {"enabled": true}})",
                 {"--model", "gpt2-xl", "--gpu", "V100"},
                 AllOf(HasSubstr("comm_overlap"), HasSubstr("unknown key")));
}

TEST_F(PublicFiles, WhatContradictsItselfIsRefused) {
  const Arguments card = {"--gpu", "RTX 4090"};
  expect_refused("bare.yml", "base_model: gpt2\nload_in_4bit: true\n", card,
                 AllOf(HasSubstr("bare.yml:2:15"), HasSubstr("expected adapter beside it")));
  expect_refused("qlora.yml",
                 "base_model: gpt2\nadapter: qlora\nlora_r: 8\nlora_target_linear: true\n", card,
                 HasSubstr("expected load_in_4bit: true beside it"));
  expect_refused("peft.yaml",
                 "model_name_or_path: gpt2\nper_device_train_batch_size: 1\nload_in_8bit: true\n",
                 card, HasSubstr("expected use_peft beside it"));
  expect_refused("unknown.yml", "base_model: some/model-of-nobody\n", card,
                 AllOf(HasSubstr("unknown.yml:1:13"), HasSubstr("fetch config.json")));
  expect_refused("card.yml", "base_model: gpt2\n", {"--gpu", "RTX 4099"},
                 HasSubstr("no card \"RTX 4099\""));
  folder_.write("ds.json", R"({"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true},
                               "zero_optimization": {"stage": 1}})");
  expect_refused("batch.yml", "base_model: gpt2\nmicro_batch_size: 2\ndeepspeed: ds.json\n", card,
                 HasSubstr("train_micro_batch_size_per_gpu"));
}

// An adapter's own file stands in for what the training file says of it.
TEST_F(PublicFiles, AnAdapterByFlagHolds) {
  folder_.write("adapter/adapter_config.json",
                R"({"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"]})");
  const json answer = check("lora.yml",
                            "base_model: NousResearch/Llama-3.2-1B\nadapter: lora\nlora_r: 16\n"
                            "lora_target_linear: true\nlora_rank_pattern: {q_proj: 4}\n",
                            {"--gpu", "RTX 4090", "--adapter", "adapter"});
  EXPECT_EQ(answer.at("trained_parameters"), 16 * 4 * (2048 + 2048));
  expect_refused("pattern.yml",
                 "base_model: NousResearch/Llama-3.2-1B\nadapter: lora\nlora_r: 16\n"
                 "lora_target_linear: true\nlora_rank_pattern: {q_proj: 4}\n",
                 {"--gpu", "RTX 4090"},
                 AllOf(HasSubstr("pattern.yml:5:20"), HasSubstr("--adapter")));
}

}  // namespace
}  // namespace zenflow::testing
