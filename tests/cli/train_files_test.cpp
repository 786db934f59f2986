// What zenflow-train is given and leaves: weights, outputs, full disks.
#include <cstring>
#include <limits>
#include <string>

#include <gmock/gmock.h>

#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainFiles : public TrainProgram {};

// ---- weights ----

class TrainWeights : public TrainFiles {
 protected:
  void SetUp() override {
    const Outcome outcome =
        run(basic() + Arguments{"--steps", "4", "--save-weights", "w.safetensors"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  [[nodiscard]] static Arguments weights(const char* file = "w.safetensors") {
    return {"--steps", "3", "--weights", file};
  }
  /// Overwrites one fp32 of a tensor of the saved weights.
  void poison(const std::string& tensor, std::size_t element, float value) const {
    std::string bytes = content("w.safetensors");
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    const json table = json::parse(bytes.substr(8, header));
    const auto begin = table.at(tensor).at("data_offsets").at(0).get<std::size_t>();
    std::memcpy(bytes.data() + 8 + header + begin + 4 * element, &value, sizeof value);
    folder_.write("w.safetensors", bytes);
  }
};

/// The weights of a run are what its last validation was computed with.
TEST_F(TrainWeights, GoOutAndComeBackUnchanged) {
  const Arguments still = {"--lr", "0", "--weight-decay", "0", "--steps", "1"};
  const json first = result(
      basic() + still + Arguments{"--weights", "w.safetensors", "--save-weights", "v.safetensors"});
  EXPECT_TRUE(content("v.safetensors") == content("w.safetensors"));
  const json trained = result(basic() + Arguments{"--steps", "4"});
  EXPECT_EQ(first["validations"][0]["loss"], trained["validations"][0]["loss"]);
}

TEST_F(TrainWeights, DamagedFilesAreRefused) {
  const std::string sound = content("w.safetensors");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, std::size_t{200}, sound.size() - 4}) {
    folder_.write("w.safetensors", sound.substr(0, size));
    expect_refused_with(weights(), HasSubstr("w.safetensors: "));
  }
  folder_.write("w.safetensors", sound + "more");
  expect_refused_with(weights(), HasSubstr("w.safetensors: "));
  // Any flipped bit of the header's length, and names, types, shapes and offsets of tensors.
  for (const char* word : {"model.norm.weight", "F32", "shape", "data_offsets"}) {
    folder_.write("w.safetensors", sound);
    flip_bit("w.safetensors", sound.find(word));
    expect_refused_with(weights(), HasSubstr("w.safetensors: "));
  }
  for (const std::size_t byte : {0U, 3U, 7U}) {
    folder_.write("w.safetensors", sound);
    flip_bit("w.safetensors", byte);
    expect_refused_with(weights(), HasSubstr("w.safetensors: "));
  }
}

TEST_F(TrainWeights, OfAnotherModelAreRefusedByTensor) {
  folder_.write("wide.json", [] {
    std::string text = kTinyLlama;
    return text.replace(text.find("24"), 2, "28");
  }());
  expect_refused(with(basic(), "--model", "wide.json") + weights(),
                 AllOf(HasSubstr("w.safetensors: "), HasSubstr("mlp")));
  expect_refused(with(basic(), "--model", "gpt2.json") + weights(), HasSubstr("wte.weight"));
}

TEST_F(TrainWeights, NanAndInfinityAreRefusedByTensorAndElement) {
  poison("model.layers.1.mlp.up_proj.weight", 17, std::numeric_limits<float>::quiet_NaN());
  expect_refused_with(weights(),
                      HasSubstr("w.safetensors: model.layers.1.mlp.up_proj.weight: element 17 is"));
  poison("model.layers.1.mlp.up_proj.weight", 17, 0);
  poison("model.embed_tokens.weight", 3, -std::numeric_limits<float>::infinity());
  expect_refused_with(weights(), HasSubstr("model.embed_tokens.weight: element 3 is -inf"));
}

/// Finite weights whose products are not: found at the first step, before a weight changes.
TEST_F(TrainWeights, AnOverflowStopsTheRunWithTheParametersName) {
  poison("model.layers.1.mlp.down_proj.weight", 5, 3e38F);
  poison("model.layers.1.mlp.up_proj.weight", 5, 3e38F);
  for (const char* schedule : {"gpu-only", "zero-offload", "zero-offload-dpu", "zenflow"}) {
    const Outcome outcome = run(basic() + weights() +
                                Arguments{"--schedule", schedule, "--checkpoint", "ck",
                                          "--checkpoint-interval", "1", "--save-weights", "v"});
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("step 1: "), HasSubstr(".weight is not finite"),
                                   HasSubstr("; loss nan; no weight has been changed")));
    EXPECT_EQ(newest("ck"), 0);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "v"));
  }
}

/// Training that blows up keeps what it had saved before.
TEST_F(TrainWeights, ADivergingRunKeepsItsCheckpoints) {
  const Arguments hot = {
      "--steps", "500", "--lr", "1e36", "--checkpoint", "ck", "--checkpoint-interval", "1"};
  const Outcome outcome = run(basic() + hot);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("not finite"));
  ASSERT_GE(newest("ck"), 1);
  const int saved = newest("ck");
  const Outcome again =
      run(with(basic() + hot, "--steps", std::to_string(saved)) + Arguments{"--resume"});
  EXPECT_THAT(again.err, HasSubstr("after step " + std::to_string(saved)));
}

// ---- outputs ----

TEST_F(TrainFiles, OutputsAreNotOverwrittenWithoutForce) {
  for (const char* flag : {"--save-weights", "--trace", "--importance"}) {
    folder_.write("mine", "mine");
    expect_refused_with({"--steps", "2", flag, "mine"}, HasSubstr("give -f to overwrite"));
    EXPECT_EQ(content("mine"), "mine");
    const Outcome forced = run(basic() + Arguments{"--steps", "2", flag, "mine", "-f"});
    EXPECT_EQ(forced.code, 0) << forced.err;
    EXPECT_NE(content("mine"), "mine") << flag;
    expect_refused_with({"--steps", "2", flag, "no/such"}, HasSubstr("no such directory"));
    expect_refused_with({"--steps", "2", flag, "."}, HasSubstr("is not the name of a file"));
    expect_refused_with({"--steps", "2", flag, "/dev/full", "-f"}, HasSubstr("regular file"));
  }
}

TEST_F(TrainFiles, TwoOutputsCannotBeOneFile) {
  expect_refused_with({"--save-weights", "x", "--trace", "./x"}, HasSubstr("are one file"));
  expect_refused_with({"--importance", "text.txt", "-f"}, HasSubstr("--data and --importance"));
  expect_refused_with({"--trace", "llama.json", "-f"}, HasSubstr("--model and --trace"));
}

TEST_F(TrainFiles, OutputsCannotBeCheckpoints) {
  const Arguments ck = {"--checkpoint", "ck"};
  ASSERT_EQ(run(basic() + ck + Arguments{"--steps", "2"}).code, 0);
  for (const char* name : {"ck/checkpoint-2", "./ck/../ck/checkpoint-9", "ck/.lock"}) {
    expect_refused_with(ck + Arguments{"--steps", "4", "--resume", "-f", "--save-weights", name},
                        HasSubstr("is a name that --checkpoint uses for itself"));
  }
  EXPECT_EQ(run(basic() + ck +
                Arguments{"--steps", "4", "--resume", "--save-weights", "ck/final.safetensors",
                          "--trace", "ck/trace.json"})
                .code,
            0);
}

TEST_F(TrainFiles, AFullDiskIsAnErrorAndLeavesNothingHalf) {
  Surroundings full = around();
  full.largest_file = 4000;
  for (const char* flag : {"--save-weights", "--save-model", "--trace", "--importance"}) {
    const std::set<std::string> before = files();
    const Outcome outcome =
        run_in(full, basic() + Arguments{"--steps", "40", flag, "big", "-q", "--json"});
    EXPECT_EQ(outcome.code, 1) << flag;
    EXPECT_EQ(json::parse(outcome.out)["results"][0]["losses"].size(), 40U) << flag;
    EXPECT_THAT(outcome.err, HasSubstr("cannot write: File too large")) << flag;
    EXPECT_EQ(files(), before) << flag;
  }
}

// ---- models ----

/// A folder that is read as one: several files of weights, a tokenizer's, and the class that has
/// them.
TEST_F(TrainFiles, AModelIsSavedWithItsConfigurationAndTokenizer) {
  folder_.write("tokenizer.json", "{\"version\": \"1.0\"}");
  folder_.write("tokens.bin", token_file(std::vector<std::uint64_t>(2000, 1)));
  const Arguments tokens = with(basic(), "--data", "tokens.bin") + Arguments{"--steps", "3"};
  const Outcome saved = run(tokens + Arguments{"--save-model", "m", "--shard-size", "12 kB",
                                               "--save-weights", "w.safetensors"});
  ASSERT_EQ(saved.code, 0) << saved.err;
  const json config = json::parse(content("m/config.json"));
  EXPECT_EQ(config["architectures"], json::array({"LlamaForCausalLM"}));
  EXPECT_EQ(config["hidden_size"], 16);
  EXPECT_EQ(content("m/tokenizer.json"), content("tokenizer.json"));
  const json index = json::parse(content("m/model.safetensors.index.json"));
  const std::string first = index["weight_map"]["model.embed_tokens.weight"];
  EXPECT_THAT(first, ::testing::StartsWith("model-00001-of-0000"));
  EXPECT_NE(first, index["weight_map"]["lm_head.weight"].get<std::string>());
  const Outcome again =
      run(tokens + Arguments{"--lr", "0", "--weights", "m", "--save-weights", "v"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(content("v") == content("w.safetensors"));
}

TEST_F(TrainFiles, AClassifierIsSavedWithItsLabels) {
  for (const char* name : {"glue/train.tsv", "glue/dev.tsv"}) {
    folder_.write(name, "sentence\tlabel\ngood\t1\nbad\t0\n");
  }
  const Outcome saved = run(with(basic(), "--data", "glue") +
                            Arguments{"--task", "sst-2", "--steps", "1", "--save-model", "m/"});
  ASSERT_EQ(saved.code, 0) << saved.err;
  const json config = json::parse(content("m/config.json"));
  EXPECT_EQ(config["architectures"], json::array({"LlamaForSequenceClassification"}));
  EXPECT_EQ(config["id2label"].size(), 2U);
}

TEST_F(TrainFiles, AModelFillsAFolderThatIsThere) {
  std::filesystem::create_directories(folder_ / "m/model.partial-1");  // of a run that was killed
  ASSERT_EQ(run(basic() + Arguments{"--steps", "1", "--save-model", "m", "-f"}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "m/config.json"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "m/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m/model.partial-1"));
  for (const char* flag : {"--log-dir", "--checkpoint", "--save-weights", "--trace"}) {
    expect_refused_with({"--save-model", "n", flag, "n/beside"},
                        HasSubstr(std::string(flag) + ": n/beside is in the folder of"));
  }
  std::filesystem::create_symlink("loop", folder_ / "loop");
  const Outcome looped = run(basic() + Arguments{"--save-model", "loop"});
  EXPECT_EQ(looped.code, 2);
  EXPECT_THAT(looped.err, HasSubstr("Too many levels"));
}

/// Only a saved model is replaced, and only with -f.
TEST_F(TrainFiles, AModelTakesNoOtherFolder) {
  const Arguments save = {"--steps", "1", "--save-model", "m"};
  ASSERT_EQ(run(basic() + save).code, 0);
  expect_refused_with(save, HasSubstr("m: is there and not empty; give -f"));
  EXPECT_EQ(run(basic() + save + Arguments{"-f"}).code, 0);
  EXPECT_EQ(files().size(), 5U) << "2 models, a text, and what was saved";
  folder_.write("m/notes.txt", "mine");
  expect_refused_with(save + Arguments{"-f"},
                      HasSubstr("more in it than a saved model: notes.txt"));
  expect_refused_with({"--save-model", "."}, HasSubstr("the folder that the model is read from"));
  expect_refused_with({"--save-model", "no/m"}, HasSubstr("no such directory"));
  expect_refused_with({"--save-model", "gpt2.json"}, HasSubstr("is not a folder"));
  std::string yaml = kTinyLlama;
  std::erase(yaml, '"');
  folder_.write("llama.yaml", yaml);
  expect_refused(with(basic(), "--model", "llama.yaml") + Arguments{"--save-model", "n"},
                 HasSubstr("expected JSON"));
}

TEST_F(TrainFiles, AFullStandardOutputIsAnErrorAfterEverythingIsSaved) {
  Surroundings full = around();
  full.standard_output = "/dev/full";
  for (const Arguments& format : {Arguments{"--json"}, Arguments{}}) {
    const Outcome outcome =
        run_in(full, basic() + format +
                         Arguments{"--steps", "3", "--save-weights", "w.safetensors", "-f"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("cannot write to standard output"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "w.safetensors"));
  }
}

}  // namespace
}  // namespace zenflow::testing
