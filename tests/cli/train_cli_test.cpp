// zenflow-train's usage, inputs and outputs: help, refusals, exit codes, files.
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <zlib.h>

#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::uint32_t crc_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

class TrainCli : public TrainProgram {
 protected:
  /// Exit 2 (or `code`) before anything is written, with nothing on standard output.
  void expect_refused(const Arguments& arguments, const ::testing::Matcher<std::string>& message,
                      int code = 2) const {
    const std::set<std::string> before = files();
    const Outcome outcome = run(arguments);
    std::string shown;
    for (const std::string& one : arguments) shown += one + " ";
    EXPECT_EQ(outcome.code, code) << shown << outcome.err;
    EXPECT_EQ(outcome.out, "") << shown;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("zenflow-train: "), message)) << shown;
    EXPECT_EQ(files(), before) << shown;
  }
  /// basic() and more flags.
  void expect_refused_with(const Arguments& more, const ::testing::Matcher<std::string>& message,
                           int code = 2) const {
    expect_refused(basic() + more, message, code);
  }
};

// ---- help and usage ----

TEST_F(TrainCli, HelpDescribesEveryFlag) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  // What the issue and the design promise; each has to be there with some words after it.
  for (const char* flag : {"--model",
                           "--data",
                           "--task",
                           "--weights",
                           "--save-weights",
                           "--dtype",
                           "--steps",
                           "--micro-batch-size",
                           "--sequence-length",
                           "--seed",
                           "--validation-fraction",
                           "--evaluate-interval",
                           "--schedule",
                           "--topk-ratio",
                           "--update-interval",
                           "--select-interval",
                           "--full-warm-up-rounds",
                           "--overlap-step",
                           "--max-staleness",
                           "--column-norm",
                           "--accumulate-on",
                           "--lr",
                           "--lr-decay",
                           "--lr-warmup-steps",
                           "--beta1",
                           "--beta2",
                           "--epsilon",
                           "--weight-decay",
                           "--gradient-clipping",
                           "--device",
                           "--threads",
                           "--optimizer-threads",
                           "--optimizer-cores",
                           "--link-bandwidth",
                           "--device-memory",
                           "--checkpoint",
                           "--checkpoint-interval",
                           "--checkpoints-kept",
                           "--resume",
                           "--trace",
                           "--importance",
                           "--json",
                           "--force",
                           "--quiet",
                           "--verbose",
                           "--version"}) {
    EXPECT_THAT(outcome.out, ::testing::ContainsRegex(std::string(flag) + "[ ,\n]")) << flag;
  }
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Exit codes"), HasSubstr("130/143")));
  EXPECT_EQ(run({"--version"}).code, 0);
}

/// A description is on the flag's line or, if the flag is long, on the next.
TEST_F(TrainCli, HelpSaysWhatEveryFlagDoes) {
  std::istringstream lines(run({"--help"}).out);
  std::string flag;
  std::size_t words = 0;
  std::size_t flags = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  -")) {
      if (!flag.empty()) {
        EXPECT_GE(words, 4U) << flag << ": no description";
      }
      flag = line;
      words = 0;
      ++flags;
    }
    std::istringstream text(line);
    for (std::string word; text >> word;) ++words;
  }
  EXPECT_GT(flags, 40U);
}

TEST_F(TrainCli, SuggestsFlagsAndValues) {
  expect_refused_with({"--scheduel", "zenflow"}, HasSubstr("did you mean \"--schedule\"?"));
  expect_refused_with({"--chekpoint=ck"}, HasSubstr("did you mean \"--checkpoint\"?"));
  expect_refused_with({"--schedule", "zenflw"}, HasSubstr("did you mean \"zenflow\"?"));
  expect_refused_with({"--dtype", "fp23"}, HasSubstr("did you mean \"fp32\"?"));
  expect_refused_with({"--update-interval", "atuo"}, HasSubstr("did you mean \"auto\"?"));
  expect_refused_with({"--device", "gpu"}, HasSubstr("expected one of cpu, cuda"));
  expect_refused_with({"more"}, HasSubstr("more"));
}

TEST_F(TrainCli, RefusesBadValues) {
  const Arguments bad[] = {{"--steps", "0"},
                           {"--steps", "-3"},
                           {"--steps", "1e3"},
                           {"--steps", "2.5"},
                           {"--steps", "9999999999999999999999"},
                           {"--steps"},
                           {"--steps", "1", "--steps", "2"},
                           {"--seed", "-1"},
                           {"--seed", "1.5"},
                           {"--seed", "18446744073709551616"},
                           {"--micro-batch-size", "0"},
                           {"--update-interval", "0"},
                           {"--update-interval", "4.5"},
                           {"--update-interval", "-4"},
                           {"--update-interval", "40"},
                           {"--select-interval", "3"},
                           {"--select-interval", "-4"},
                           {"--full-warm-up-rounds", "-1"},
                           {"--topk-ratio", "1.1"},
                           {"--topk-ratio", "-0.1"},
                           {"--topk-ratio", "nan"},
                           {"--auto-ratio", "nan"},
                           {"--validation-fraction", "1"},
                           {"--validation-fraction", "nan"},
                           {"--overlap-step", "maybe"},
                           {"--overlap-step", "2"},
                           {"--lr", "nan"},
                           {"--lr", "-1"},
                           {"--lr", "inf"},
                           {"--lr", "1e39"},
                           {"--lr", "fast"},
                           {"--beta1", "1"},
                           {"--beta2", "-0.1"},
                           {"--epsilon", "0"},
                           {"--epsilon", "1e-60"},
                           {"--weight-decay", "nan"},
                           {"--gradient-clipping", "-1"},
                           {"--gradient-clipping", "inf"},
                           {"--max-staleness", "3"},
                           {"--threads", "0"},
                           {"--optimizer-threads", "5000"},
                           {"--optimizer-cores", "-1"},
                           {"--optimizer-cores", "0,-1"},
                           {"--optimizer-cores", "100000"},
                           {"--link-bandwidth", "25"},
                           {"--link-bandwidth", "0 GB/s"},
                           {"--link-bandwidth", "25 GB"},
                           {"--device-memory", "80"},
                           {"--device-memory", "-1 GiB"},
                           {"--checkpoint-interval", "2"},
                           {"--task", ""},
                           {"--task", "sst-3"},
                           {"--importance", "i.csv", "--column-norm", "l1"},
                           {"--resume"},
                           {"--checkpoint", "text.txt"},
                           {"--checkpoint", "a/b/c"}};
  for (const Arguments& flags : bad) {
    Arguments arguments = basic();
    // A flag that basic() has is replaced: twice is another error.
    for (const char* twice : {"--threads", "--optimizer-threads"}) {
      if (flags[0] == twice) arguments = with(arguments, flags[0], flags[1]);
    }
    const bool replaced = arguments != basic();
    expect_refused(replaced ? arguments : arguments + flags, Not(HasSubstr("internal error")));
  }
  expect_refused({}, HasSubstr("--model is required"));
  expect_refused({"--model", "llama.json"}, HasSubstr("--data is required"));
}

TEST_F(TrainCli, NamesFlagsAsTheyAreGiven) {
  expect_refused_with({"--link-bandwidth", "25"},
                      StartsWith("zenflow-train: --link-bandwidth: expected a bandwidth"));
}

TEST_F(TrainCli, TakesUnderscoresInEveryFlag) {
  const Arguments dashes = {"--steps",           "2", "--save-weights",      "w.safetensors",
                            "--update-interval", "2", "--optimizer-threads", "1"};
  Arguments underscores = {"--model",           "llama.json", "--data",    "text.txt",
                           "--sequence_length", "8",          "--threads", "1"};
  for (std::string flag : dashes) {
    if (flag.starts_with("--")) std::replace(flag.begin() + 2, flag.end(), '-', '_');
    underscores.push_back(flag);
  }
  const Outcome outcome = run(underscores);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "w.safetensors"));
}

TEST_F(TrainCli, SaysWhatHasNoEffect) {
  const Arguments flags = {"--steps",
                           "1",
                           "--schedule",
                           "zero-offload",
                           "--topk-ratio",
                           "0.5",
                           "--checkpoints-kept",
                           "3",
                           "--skip-malformed-rows"};
  const Outcome outcome = run(basic() + flags);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* flag : {"--topk-ratio", "--checkpoints-kept", "--skip-malformed-rows"}) {
    EXPECT_THAT(outcome.err, HasSubstr(std::string(flag) + " has no effect")) << flag;
  }
  EXPECT_THAT(outcome.err, Not(HasSubstr("--schedule has")));
}

TEST_F(TrainCli, QuietSaysNothingAndVerboseEveryStep) {
  EXPECT_EQ(run(basic() + Arguments{"--steps", "4", "-q"}).err, "");
  const std::string err = run(basic() + Arguments{"--steps", "4", "-v"}).err;
  for (const char* step : {"step 1/4", "step 2/4", "step 3/4", "step 4/4"}) {
    EXPECT_THAT(err,
                ::testing::ContainsRegex(std::string(step) +
                                         "  loss [0-9.]+  [0-9]+ tokens/s  .*stall [0-9.]+ ms"));
  }
}

// ---- device and memory ----

TEST_F(TrainCli, CudaIsRefusedWithFive) {
  expect_refused_with({"--device", "cuda"}, HasSubstr("use --device cpu"), 5);
}

TEST_F(TrainCli, SaysWhoHoldsTheDevicesMemory) {
  expect_refused_with({"--device-memory", "1 KiB"},
                      HasSubstr("weights needs 49920 bytes, 1024 of 1024 are free; held: nothing"),
                      3);
  expect_refused_with({"--device-memory", "60 KiB"},
                      AllOf(HasSubstr("of 61440 are free"), HasSubstr("weights: 49920")), 3);
}

/// What a run held at most is enough for it, and is not a byte more than needed.
TEST_F(TrainCli, ThePeakOfDeviceMemoryIsExact) {
  for (const char* schedule : {"gpu-only", "zero-offload", "zero-offload-dpu", "zenflow"}) {
    const Arguments flags = {"--steps", "5", "--schedule", schedule};
    const auto peak = result(basic() + flags)["memory"]["gpu_peak_bytes"].get<std::int64_t>();
    const Arguments enough = {"--device-memory", std::to_string(peak) + " B"};
    EXPECT_EQ(result(basic() + flags + enough)["memory"]["gpu_capacity_bytes"], peak);
    const Outcome short_by_one =
        run(basic() + flags + Arguments{"--device-memory", std::to_string(peak - 1) + " B"});
    EXPECT_EQ(short_by_one.code, 3) << schedule << short_by_one.err;
  }
}

TEST_F(TrainCli, WhatTheMachineCannotHoldIsInfeasible) {
  expect_refused_with({"--micro-batch-size", "100000000000"},
                      HasSubstr("do not fit this machine's memory"), 3);
  folder_.write("huge.json", R"({"model_type": "llama", "vocab_size": 258, "hidden_size": 65536,
    "num_hidden_layers": 1000, "num_attention_heads": 64, "intermediate_size": 262144,
    "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  // Two of 258 x 65536; in a layer 4 x 65536^2, 3 x 65536 x 262144 and two norms; one more norm.
  expect_refused(with(basic(), "--model", "huge.json"),
                 HasSubstr("huge: weights and optimizer state of 68719641690112 parameters need "
                           "1099514267041792 bytes at least, this machine has "),
                 3);
}

// ---- models and data ----

TEST_F(TrainCli, RefusesModels) {
  const auto model = [](const char* name) { return with(basic(), "--model", name); };
  folder_.write("opt.json", R"({"model_type": "opt", "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "ffn_dim": 32, "vocab_size": 258, "max_position_embeddings": 32})");
  folder_.write("half.json", std::string(kTinyLlama).substr(0, 60));
  folder_.write("empty.json", "");
  folder_.write("small.json", [] {
    std::string text = kTinyLlama;
    return text.replace(text.find("258"), 3, "100");
  }());
  expect_refused(model("nope.json"), HasSubstr("nope.json: cannot read"));
  expect_refused(model("."), HasSubstr("directory"));
  expect_refused(model("opt.json"), AllOf(HasSubstr("opt.json:1:"), HasSubstr("opt")));
  expect_refused(model("half.json"), HasSubstr("half.json:"));
  expect_refused(model("empty.json"), HasSubstr("empty.json: "));
  expect_refused(model("text.txt"), HasSubstr("text.txt:1:"));
  expect_refused(model("small.json"), HasSubstr("needs a vocabulary of 256; the model has 100"));
  for (const char* name : {"llama.json", "gpt2.json"}) {
    expect_refused(with(model(name), "--sequence-length", "33"), HasSubstr("32"));
  }
}

TEST_F(TrainCli, RefusesData) {
  const auto data = [](const char* name) { return with(basic(), "--data", name); };
  folder_.write("empty.txt", "");
  folder_.write("short.txt", "sixteen letters.");
  folder_.write("enough.txt", "seventeen letters");
  folder_.write("text.bin", some_text(500));
  expect_refused(data("nope.txt"), HasSubstr("nope.txt: cannot read"));
  expect_refused(data("."), HasSubstr("not a regular file"));
  expect_refused(data("/dev/zero"), HasSubstr("not a regular file"));
  expect_refused(data("empty.txt"), HasSubstr("too few"));
  // Two sequences of 8, one to validate, need 17 tokens.
  expect_refused(data("short.txt"), HasSubstr("16 tokens are too few"));
  expect_refused(data("text.bin"), HasSubstr("is not a token file"));
  EXPECT_EQ(run(data("enough.txt") + Arguments{"--steps", "2"}).code, 0);
  // As another user: root may read everything.
  if (::geteuid() != 0) {
    std::filesystem::permissions(folder_ / "text.txt", std::filesystem::perms::none);
    expect_refused(basic(), HasSubstr("Permission denied"));
  }
}

TEST_F(TrainCli, RefusesTokensBeyondTheVocabulary) {
  const auto little_endian = [](std::uint64_t value, std::size_t count) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  // The format of docs/training.md.
  const auto token_file = [&](const std::vector<std::uint64_t>& ids) {
    std::string tokens;
    for (const std::uint64_t id : ids) tokens += little_endian(id, 2);
    std::string head = "ZFTOKEN\n" + little_endian(1, 4) + little_endian(2, 4) +
                       little_endian(ids.size(), 8) + little_endian(crc_of(tokens), 4);
    head += little_endian(crc_of(head), 4);
    return head + tokens;
  };
  const Arguments arguments = with(with(basic(), "--data", "ids.bin"), "--sequence-length", "4") +
                              Arguments{"--steps", "1"};
  // Ids of the model are 0 to 257.
  folder_.write("ids.bin", token_file({1, 2, 258, 4, 5, 6, 7, 8, 9, 10}));
  expect_refused(arguments, HasSubstr("token 2 is 258, the vocabulary has 258 ids"));
  const std::string good = token_file({1, 2, 257, 4, 5, 6, 7, 8, 9, 10});
  folder_.write("ids.bin", good);
  EXPECT_EQ(run(arguments).code, 0);
  folder_.write("ids.bin", good.substr(0, good.size() - 2));
  expect_refused(arguments, HasSubstr("ids.bin: "));
  for (const std::size_t byte : {9U, 17U, 25U, 29U, 44U}) {
    folder_.write("ids.bin", good);
    flip_bit("ids.bin", byte);
    expect_refused(arguments, HasSubstr("checksum"));
  }
}

// ---- weights ----

class TrainWeights : public TrainCli {
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
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("step 0: "), HasSubstr(".weight is not finite"),
                                   HasSubstr("no weight has been changed")));
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

TEST_F(TrainCli, OutputsAreNotOverwrittenWithoutForce) {
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

TEST_F(TrainCli, TwoOutputsCannotBeOneFile) {
  expect_refused_with({"--save-weights", "x", "--trace", "./x"}, HasSubstr("are one file"));
  expect_refused_with({"--importance", "text.txt", "-f"}, HasSubstr("--data and --importance"));
  expect_refused_with({"--trace", "llama.json", "-f"}, HasSubstr("--model and --trace"));
}

TEST_F(TrainCli, AFullDiskIsAnErrorAndLeavesNothingHalf) {
  Surroundings full = around();
  full.largest_file = 4000;
  for (const char* flag : {"--save-weights", "--trace", "--importance"}) {
    const std::set<std::string> before = files();
    const Outcome outcome = run_in(full, basic() + Arguments{"--steps", "40", flag, "big", "-q"});
    EXPECT_EQ(outcome.code, 1) << flag;
    EXPECT_THAT(outcome.err, HasSubstr("big: cannot write: File too large")) << flag;
    EXPECT_EQ(files(), before) << flag;
  }
}

TEST_F(TrainCli, AFullStandardOutputIsAnErrorAfterEverythingIsSaved) {
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
