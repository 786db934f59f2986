// zenflow-sim check, and other commands, on a job's own files in place of a scenario.
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/file_content.h"
#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kDeepSpeed = R"({
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "overlap_comm": true},
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto"
})";

class CheckCli : public ::testing::Test {
 protected:
  CheckCli() { folder_.write("ds.json", kDeepSpeed); }

  [[nodiscard]] Outcome run(const Arguments& arguments) const {
    return run_program(Arguments{ZENFLOW_SIM} + arguments, {.folder = folder_.path()});
  }
  /// A job that fits, of which everything is said.
  [[nodiscard]] static Arguments job() {
    return {"--ds",
            "ds.json",
            "--model",
            "Qwen/Qwen2.5-1.5B",
            "--gpu",
            "A100-SXM4-80GB",
            "--gpus",
            "2",
            "--ram",
            "512GB",
            "--cores",
            "64",
            "--sockets",
            "2",
            "--sequence-length",
            "1024",
            "--micro-batch-size",
            "2",
            "--gradient-accumulation-steps",
            "4"};
  }
  [[nodiscard]] json checked(const Arguments& arguments, int code = 0) const {
    const Outcome outcome = run(Arguments{"check"} + arguments + Arguments{"--json"});
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return json::parse(outcome.out);
  }
  [[nodiscard]] json result_of(const char* command, const Arguments& arguments) const {
    const Outcome outcome = run(Arguments{command} + arguments + Arguments{"--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  }
  void expect_refused(const Arguments& arguments,
                      const ::testing::Matcher<std::string>& message) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, AllOf(StartsWith("zenflow-sim: "), message));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "job.yaml"));
  }

  TemporaryFolder folder_;
};

TEST_F(CheckCli, AnswersOnOneScreen) {
  const Outcome outcome = run(Arguments{"check"} + job());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("assumed: "));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("2 x NVIDIA A100-SXM4-80GB"), HasSubstr("\nfits: GPU memory: "),
                    HasSubstr("\nstep "), HasSubstr("4 micro steps are an optimizer step of "),
                    HasSubstr("the GPU computes "), HasSubstr("ZF084"),
                    HasSubstr("what would help most:\n  1. "), HasSubstr("--micro-batch-size"),
                    HasSubstr("next: ")));
  EXPECT_LE(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 45);
}

// As `run` warns of it.
TEST_F(CheckCli, SaysWhatHasNoEffect) {
  folder_.write("weights.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})");
  const json check = checked({"--ds", "weights.json", "--model", "meta-llama/Llama-3.2-1B", "--gpu",
                              "a100_sxm_80g", "--ram", "256GB"});
  EXPECT_THAT(check.at("notes").dump(),
              HasSubstr("offload_param has no effect below ZeRO stage 3"));
}

TEST_F(CheckCli, IsWhatTheOtherCommandsSay) {
  const json check = checked(job());
  const json run_result = result_of("run", job()).at("results").at(0);
  EXPECT_EQ(check.at("step_time_ms"), run_result.at("step_time_ms"));
  EXPECT_NEAR(check.at("tokens_per_second").get<double>(),
              run_result.at("tokens_per_second").get<double>(), 1e-6);
  EXPECT_EQ(check.at("schedule"), "deepspeed-zero-offload");
  EXPECT_EQ(check.at("memory").at("gpu_peak_bytes"), run_result.at("memory").at("gpu_peak_bytes"));
  const json fit = result_of("fit", job());
  const json explained = result_of("explain", job()).at("explanations").at(0);
  EXPECT_EQ(check.at("step_time_ms"), explained.at("step_time_ms"));
  EXPECT_EQ(
      run(Arguments{"sweep"} + job() + Arguments{"--vary", "training.sequence_length=512,1024"})
          .code,
      0);
  EXPECT_EQ(run(Arguments{"compare"} + job()).code, 0);
  EXPECT_EQ(run(Arguments{"steps"} + job()).code, 0);
}

TEST_F(CheckCli, ItsGainsAreThoseOfSimulatingThem) {
  const json check = checked(job());
  ASSERT_FALSE(check.at("changes").empty());
  for (const json& change : check.at("changes")) {
    Arguments changed = job();
    for (const json& set : change.at("set")) {
      changed = changed + Arguments{"--set", set.get<std::string>()};
    }
    const json again = checked(changed);
    EXPECT_EQ(again.at("step_time_ms"), change.at("step_time_ms")) << change.at("what");
    const double gain =
        again.at("tokens_per_second").get<double>() / check.at("tokens_per_second").get<double>();
    EXPECT_NEAR(gain, change.at("gain").get<double>(), 1e-9);
    EXPECT_GT(gain, 1.03);
  }
}

TEST_F(CheckCli, SavesTheScenarioThatItRan) {
  const json check = checked(job() + Arguments{"--save", "job.yaml"});
  EXPECT_EQ(result_of("run", {"job.yaml"}).at("results").at(0).at("step_time_ms"),
            check.at("step_time_ms"));
  EXPECT_THAT(file_content(folder_ / "job.yaml"),
              AllOf(HasSubstr("gpu: a100_sxm_80g  # --gpu"), HasSubstr("# estimated: ")));
  const Outcome again = run(Arguments{"check"} + job() + Arguments{"--save", "job.yaml"});
  EXPECT_EQ(again.code, 2);
  EXPECT_EQ(run(Arguments{"check"} + job() + Arguments{"--save", "job.yaml", "-f"}).code, 0);
}

TEST_F(CheckCli, SaysWhatDoesNotFitAndWhatDoes) {
  const Arguments small = {"--ds",
                           "ds.json",
                           "--model",
                           "meta-llama/Llama-3.1-8B",
                           "--gpu",
                           "RTX 4090",
                           "--gpus",
                           "2",
                           "--ram",
                           "256GB",
                           "--micro-batch-size",
                           "1",
                           "--gradient-accumulation-steps",
                           "16"};
  const json check = checked(small, 3);
  EXPECT_EQ(check.at("verdict"), "does_not_fit");
  EXPECT_THAT(check.at("decided_by").get<std::string>(), HasSubstr("GPU memory"));
  ASSERT_FALSE(check.at("changes").empty());
  for (const json& change : check.at("changes")) {
    Arguments changed = small;
    for (const json& set : change.at("set")) {
      changed = changed + Arguments{"--set", set.get<std::string>()};
    }
    EXPECT_NE(checked(changed).at("verdict"), "does_not_fit") << change.at("what");
  }
}

// 16 bytes a parameter of 8 billion are more than 64 GB: what they take is said, and what trains
// less.
TEST_F(CheckCli, SaysHowMuchIsMissingWhereNothingFits) {
  const Arguments small = {"--model", "meta-llama/Llama-3.1-8B", "--gpu", "RTX 3090", "--ram",
                           "64GB",    "--sequence-length",       "2048"};
  const json check = checked(small, 3);
  const json& nearest = check.at("nearest");
  EXPECT_THAT(nearest.at("exceeded").get<std::string>(),
              AllOf(HasSubstr("RAM of the node: 1"), HasSubstr("of 59.60 GiB"),
                    Not(HasSubstr("GPU memory"))));
  Arguments with_ram = small;
  with_ram[5] = "256GB";
  for (const json& set : nearest.at("set")) {
    with_ram = with_ram + Arguments{"--set", set.get<std::string>()};
  }
  EXPECT_NE(checked(with_ram).at("verdict"), "does_not_fit");
  ASSERT_FALSE(check.at("changes").empty());
  for (const json& change : check.at("changes")) {
    EXPECT_THAT(change.at("what").get<std::string>(), HasSubstr("LoRA"));
    EXPECT_THAT(change.at("but").get<std::string>(), HasSubstr("another training"));
  }
}

TEST_F(CheckCli, AGuessedHostDoesNotDecide) {
  // RAM that nobody has said is no reason to say no; what is missing has a range.
  const Arguments guessed = {"--ds",
                             "ds.json",
                             "--model",
                             "Qwen/Qwen2.5-7B",
                             "--gpu",
                             "RTX 4090",
                             "--sequence-length",
                             "512",
                             "--micro-batch-size",
                             "1",
                             "--set",
                             "deepspeed.zero_optimization.stage=3",
                             "--set",
                             "deepspeed.zero_optimization.offload_param={device: cpu}"};
  const json check = checked(guessed);
  EXPECT_EQ(check.at("verdict"), "uncertain");
  EXPECT_LT(check.at("step_time_range_ms").at(0), check.at("step_time_ms"));
  EXPECT_GT(check.at("step_time_range_ms").at(1), check.at("step_time_ms"));
  bool ram_is_estimated = false;
  for (const json& fact : check.at("facts")) {
    if (fact.at("path") == "hardware.host.memory") ram_is_estimated = fact.at("estimated");
  }
  EXPECT_TRUE(ram_is_estimated);
}

TEST_F(CheckCli, ReadsTrainingFilesOfOtherPrograms) {
  folder_.write("lf.yaml", R"(
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
finetuning_type: lora
lora_target: all
deepspeed: ds.json
cutoff_len: 1024
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
)");
  const json check = checked({"--ds", "lf.yaml", "--gpu", "RTX 4090", "--gpus", "2"});
  EXPECT_EQ(check.at("gradient_accumulation_steps"), 8);
  folder_.write("axolotl.yml", R"(
base_model: NousResearch/Llama-2-7b-hf
adapter: qlora
load_in_4bit: true
lora_r: 32
lora_target_linear: true
sequence_len: 2048
micro_batch_size: 1
bf16: auto
gradient_checkpointing: true
)");
  EXPECT_EQ(checked({"--ds", "axolotl.yml", "--gpu", "RTX 4090"}).at("schedule"), "deepspeed-zero");
  folder_.write("swift.yaml",
                "model: Qwen/Qwen3-8B\ntuner_type: full\nmax_length: 2048\ndeepspeed: "
                "zero3_offload\n");
  EXPECT_EQ(checked({"--ds", "swift.yaml", "--gpu", "A100 80GB", "--gpus", "4"}).at("schedule"),
            "deepspeed-zero-offload");
}

// A loss of Liger's keeps no logits, which would take 111 GiB here.
TEST_F(CheckCli, LogitsThatTheLossDoesNotKeepDoNotDecide) {
  const std::string file =
      "model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct\nbf16: true\ngradient_checkpointing: true\n"
      "packing: true\nmax_length: 16384\nper_device_train_batch_size: 4\n";
  const Arguments flags = {"--gpu", "H100 SXM", "--gpus", "2", "--ram", "512GB"};
  folder_.write("plain.yaml", file);
  EXPECT_EQ(checked(Arguments{"--ds", "plain.yaml"} + flags, 3).at("verdict"), "does_not_fit");
  folder_.write("liger.yaml", file + "use_liger_kernel: true\n");
  const json check = checked(Arguments{"--ds", "liger.yaml"} + flags);
  EXPECT_EQ(check.at("verdict"), "uncertain");
  EXPECT_THAT(check.at("decided_by").get<std::string>(), HasSubstr("; without logits at least "));
}

TEST_F(CheckCli, ChangesOfAnUncertainJobHelp) {
  const json check =
      checked({"--model", "Qwen/Qwen2.5-1.5B", "--gpu", "A100-SXM4-80GB", "--gpus", "2", "--ram",
               "512GB", "--sequence-length", "2048", "--micro-batch-size", "6", "--set",
               "deepspeed.zero_optimization.stage=0"});
  ASSERT_EQ(check.at("verdict"), "uncertain");
  int slower = 0;
  for (const json& change : check.at("changes")) {
    if (change.at("gain") > 1) continue;
    ++slower;
    EXPECT_THAT(change.at("but").get<std::string>(), HasSubstr("it fits with room to spare"));
  }
  EXPECT_EQ(slower, 1);
}

TEST_F(CheckCli, CardsWithoutATypeSayWhereItStands) {
  folder_.write("bf16.yaml",
                "output_dir: o\nper_device_train_batch_size: 1\nbf16: true\nmax_length: 512\n");
  const Arguments job = {"check", "--ds", "bf16.yaml", "--model", "meta-llama/Llama-3.2-1B",
                         "--gpu", "T4"};
  expect_refused(job, AllOf(HasSubstr("bf16.yaml:3:7: training.dtype: profile t4_x1 has no "
                                      "gpu.peak.bf16"),
                            HasSubstr("fp16"), HasSubstr("--dtype"), Not(HasSubstr("--set"))));
  EXPECT_NE(run(job + Arguments{"--dtype", "fp16"}).code, 2);
}

TEST_F(CheckCli, FindingsOnInlineDeepSpeedAreInTheJobsFile) {
  folder_.write("inline.yaml",
                "output_dir: o\nper_device_train_batch_size: 1\nbf16: true\nmax_length: 512\n"
                "deepspeed: {zero_optimization: {stage: 2, offload_optimizer: {device: cpu}}}\n");
  const json check = checked({"--ds", "inline.yaml", "--model", "gpt2", "--gpu", "RTX 4090"});
  ASSERT_FALSE(check.at("findings").empty());
  for (const json& finding : check.at("findings")) EXPECT_EQ(finding.at("at"), "inline.yaml:5:12");
}

TEST_F(CheckCli, FlagsAreRefusedInTheirOwnWords) {
  const auto refused = [this](const Arguments& flags, const ::testing::Matcher<std::string>& what) {
    expect_refused(Arguments{"check", "--model", "gpt2", "--gpu", "H100"} + flags, what);
  };
  refused({"--gpus", "1", "--gpus", "2"}, HasSubstr("--gpus: given twice"));
  refused({"--gpus", "1.5"},
          HasSubstr("expected a whole number from 1 to 16777216, found \"1.5\""));
  refused({"--gpus", "0"}, HasSubstr("expected a whole number"));
  refused({"--ram", ""}, AllOf(HasSubstr("--ram: expected a size"), Not(HasSubstr("--set"))));
  refused({"--ram", "1XB"}, AllOf(HasSubstr("--ram: "), Not(HasSubstr("did you mean"))));
  refused({"--ram", "1e30GB"}, HasSubstr("--ram: expected at most 1024 TiB"));
  expect_refused({"check", "--model", "lama2_7b", "--gpu", "H100"},
                 HasSubstr("did you mean \"llama2_7b\"?"));
}

// What a checkpoint says of its own storage: bits and groups of GPTQ, scales of bitsandbytes.
TEST_F(CheckCli, ReadsHowABaseIsQuantised) {
  folder_.write("adapter/adapter_config.json", R"({"peft_type": "LORA", "r": 8,
    "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"]})");
  const auto frozen_bytes = [&](const std::string& quantization) {
    folder_.write("model/config.json", R"({"model_type": "llama", "hidden_size": 256,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512,
      "vocab_size": 512, "max_position_embeddings": 512, "quantization_config": {)" +
                                           quantization + "}}");
    const json found =
        result_of("fit", {"--ds", "ds.json", "--model", "model", "--adapter", "adapter", "--gpu",
                          "H100", "--sequence-length", "64", "--micro-batch-size", "1",
                          "--gradient-accumulation-steps", "1"});
    for (const json& buffer : found["results"][0]["gpu"]["buffers"]) {
      if (buffer["name"] == "frozen weights") return buffer["largest_bytes"].get<double>();
    }
    return 0.0;
  };
  // Four products of 256 x 256 and three of 256 x 512, twice; the rest are two embeddings and
  // norms.
  constexpr double kProducts = 2 * (4 * 256 * 256 + 3 * 256 * 512);
  constexpr double kRest = 2 * (2 * 512 * 256 + 5 * 256);
  const std::string nf4 = R"("quant_method": "bitsandbytes", "load_in_4bit": true)";
  EXPECT_NEAR(frozen_bytes(nf4), kProducts * 0.5625 + kRest, 1);
  EXPECT_NEAR(frozen_bytes(nf4 + R"(, "bnb_4bit_use_double_quant": true)"),
              kProducts * (0.5 + 1.0 / 64 + 1.0 / 4096) + kRest, 1);
  const std::string gptq = R"("quant_method": "gptq", "bits": )";
  EXPECT_NEAR(frozen_bytes(gptq + R"(8, "group_size": 128)"), kProducts * (1 + 3.0 / 128) + kRest,
              1);
  EXPECT_NEAR(frozen_bytes(gptq + R"(2, "group_size": 64)"), kProducts * (0.25 + 2.25 / 64) + kRest,
              1);
}

TEST_F(CheckCli, WrongInputIsRefusedAndNothingWritten) {
  const auto with = [](const Arguments& more) { return Arguments{"check"} + job() + more; };
  const Arguments save = {"--save", "job.yaml"};
  expect_refused({"check"}, HasSubstr("check: expected a job: --model M --gpu NAME"));
  expect_refused(Arguments{"check", "--gpu", "H100"} + save, HasSubstr("--model: required"));
  expect_refused(Arguments{"check", "--model", "gpt2"} + save, HasSubstr("--gpu: required"));
  expect_refused(Arguments{"check", "--model", "gpt2", "--gpu", "RTX 4091"} + save,
                 HasSubstr("no card \"RTX 4091\""));
  expect_refused(Arguments{"check", "--model", "no/such-model", "--gpu", "H100"} + save,
                 HasSubstr("fetch config.json"));
  folder_.write("none.yaml", "name: x\n");
  expect_refused(Arguments{"check", "--ds", "none.yaml", "--model", "gpt2", "--gpu", "H100"} + save,
                 HasSubstr("none.yaml: expected a configuration of DeepSpeed"));
  folder_.write("batch.json", R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 1}})");
  expect_refused(Arguments{"check", "--ds", "batch.json", "--model", "gpt2", "--gpu", "H100",
                           "--sequence-length", "512"} +
                     save,
                 HasSubstr("train_batch_size"));
  expect_refused(
      Arguments{"check", "--model", "gpt2", "--gpu", "H100", "--sequence-length", "4096"} + save,
      AllOf(HasSubstr("--sequence-length"), HasSubstr("1024 positions")));
  expect_refused(with(save + Arguments{"--ram", "much"}), HasSubstr("--ram"));
  expect_refused(with(Arguments{"--save", "no/folder/job.yaml"}), HasSubstr("no/folder"));
  folder_.write("adapter/adapter_config.json", R"({"peft_type": "LORA", "r": 8})");
  expect_refused(with(save + Arguments{"--adapter", "nowhere"}), HasSubstr("--adapter"));
  expect_refused({"run", "scenario.yaml", "--model", "gpt2"},
                 HasSubstr("a scenario and flags that describe a job"));
  expect_refused({"run"}, HasSubstr("run: expected a scenario, or a job in its place"));
}

}  // namespace
}  // namespace zenflow::testing
