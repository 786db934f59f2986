// zenflow-train's usage, inputs and outputs: help, refusals, exit codes, files.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TrainCli : public TrainProgram {};

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
                           "--save-model",
                           "--tokenizer",
                           "--byte-tokens",
                           "--log-dir",
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
                           {"--activation-checkpointing=maybe"},
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
                           {"--epsilon", "inf"},
                           {"--weight-decay", "nan"},
                           {"--gradient-clipping", "-1"},
                           {"--gradient-clipping", "inf"},
                           {"--max-staleness", "3"},
                           {"--threads", "0"},
                           {"--optimizer-threads", "5000"},
                           {"--optimizer-cores", "-1"},
                           {"--optimizer-cores", "0,-1"},
                           {"--optimizer-cores", "100000"},
                           {"--optimizer-cores", "0,0"},
                           {"--link-bandwidth", "25"},
                           {"--link-bandwidth", "0 GB/s"},
                           {"--link-bandwidth", "25 GB"},
                           {"--device-memory", "80"},
                           {"--device-memory", "-1 GiB"},
                           {"--checkpoint-interval", "2"},
                           {"--task", ""},
                           {"--weights", ""},
                           {"--save-weights", ""},
                           {"--checkpoint", ""},
                           {"--trace", ""},
                           {"--importance", ""},
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

TEST_F(TrainCli, SaysNumbersAsTheyAreGiven) {
  for (const auto& [flag, number] :
       {std::pair("--lr", "1e300"), std::pair("--lr", "inf"), std::pair("--epsilon", "inf"),
        std::pair("--epsilon", "1e-60"), std::pair("--weight-decay", "1e39")}) {
    expect_refused_with({flag, number},
                        AllOf(HasSubstr(std::string(flag) + ": expected a number from "),
                              HasSubstr("to 3.4e+38, found \"" + std::string(number) + "\"")));
  }
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
                           "--skip-malformed-rows",
                           "--decay-vectors",
                           "--weight-decay",
                           "0",
                           "--zero-stage",
                           "1",
                           "--rank-timeout",
                           "60",
                           "--rank-binding",
                           "none"};
  const Outcome outcome = run(basic() + flags);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* flag : {"--topk-ratio", "--checkpoints-kept", "--skip-malformed-rows",
                           "--decay-vectors", "--zero-stage", "--rank-timeout", "--rank-binding"}) {
    EXPECT_THAT(outcome.err, HasSubstr(std::string(flag) + " has no effect")) << flag;
  }
  EXPECT_THAT(outcome.err, Not(HasSubstr("--schedule has")));

  const std::string nothing_selected =
      run(basic() + Arguments{"--steps", "1", "--topk-ratio", "0", "--select-interval", "4",
                              "--accumulate-on", "device", "--whole-step-gradients", "false",
                              "--sum-threads", "2"})
          .err;
  for (const char* flag : {"--select-interval", "--whole-step-gradients", "--sum-threads"}) {
    EXPECT_THAT(nothing_selected, HasSubstr(std::string(flag) + " has no effect")) << flag;
  }
  EXPECT_THAT(run(basic() + Arguments{"--steps", "1", "--validation-fraction", "0",
                                      "--evaluate-interval", "1"})
                  .err,
              HasSubstr("--evaluate-interval has no effect"));
}

TEST_F(TrainCli, SaysThatARunIsTooShortForItsWindows) {
  const auto notes = [&](const char* steps, const Arguments& more) {
    return run(basic() + Arguments{"--steps", steps} + more).err;
  };
  const auto too_short = HasSubstr("no update of deferred columns takes effect before the end");
  EXPECT_THAT(notes("7", {}), AllOf(too_short, HasSubstr("the first one does after 8 steps")));
  EXPECT_THAT(notes("8", {}), Not(too_short));
  EXPECT_THAT(notes("3", {"--overlap-step", "false"}), too_short);
  EXPECT_THAT(notes("4", {"--overlap-step", "false"}), Not(too_short));
  EXPECT_THAT(notes("9", {"--full-warm-up-rounds", "2"}), too_short);
  EXPECT_THAT(notes("2", {"--full-warm-up-rounds", "2"}), Not(too_short)) << "all are warm-up";
  EXPECT_THAT(notes("7", {"--topk-ratio", "1"}), Not(too_short)) << "nothing is deferred";
  EXPECT_THAT(notes("1", {"--schedule", "zero-offload"}), Not(too_short));
}

TEST_F(TrainCli, SaysThatTheLearningRateNeverFalls) {
  const auto notes = [&](const char* decay, const char* rises) {
    return run(basic() + Arguments{"--steps", "4", "--lr-decay", decay, "--lr-warmup-steps", rises})
        .err;
  };
  const auto still_rises = HasSubstr("the learning rate still rises at the end, after 4 steps");
  EXPECT_THAT(notes("linear", "4"), still_rises);
  EXPECT_THAT(notes("cosine", "9"), still_rises);
  EXPECT_THAT(notes("linear", "3"), Not(still_rises));
  EXPECT_THAT(notes("constant", "9"), Not(still_rises));
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
  // Whatever the build and the machine: no GPU is visible.
  const Surroundings none{.folder = folder_.path(), .environment = {{"CUDA_VISIBLE_DEVICES", ""}}};
  const Outcome outcome = run_in(none, basic() + Arguments{"--device", "cuda"});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("zenflow-train: --device cuda: found "), HasSubstr("required: "),
                    ::testing::AnyOf(HasSubstr("install"), HasSubstr("CUDA_VISIBLE_DEVICES"),
                                     HasSubstr("driver"))));
}

TEST_F(TrainCli, CudaIsRefusedBeforeAnythingIsWritten) {
  const Surroundings none{.folder = folder_.path(), .environment = {{"CUDA_VISIBLE_DEVICES", ""}}};
  const std::set<std::string> before = files();
  const Outcome outcome =
      run_in(none, basic() + Arguments{"--device", "cuda", "--checkpoint", "run", "--trace",
                                       "trace.json", "--save-weights", "w.safetensors"});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_EQ(files(), before);
}

TEST_F(TrainCli, SaysWhoHoldsTheDevicesMemory) {
  for (const char* limit : {"1 KiB", "60 KiB"}) {
    expect_refused_with({"--device-memory", limit},
                        AllOf(HasSubstr("llama: --device-memory: the run needs "),
                              HasSubstr(std::string(limit) + " of " + limit + " are free; "),
                              HasSubstr("weights: 47.56 KiB")),
                        3);
  }
}

/// Sums of more gradients than bf16 can add up would be wrong without a word.
TEST_F(TrainCli, RefusesMoreMicroBatchesThanItsGradientsCanAddUp) {
  const auto of = [](const std::string& dtype, const std::string& count) {
    return Arguments{"--dtype", dtype, "--gradient-accumulation-steps", count, "--steps", "1"};
  };
  expect_refused_with(of("bf16", "129"),
                      AllOf(HasSubstr("--gradient-accumulation-steps: 129"),
                            HasSubstr("--micro-batch-size"), HasSubstr("--dtype fp32")));
  expect_refused_with(of("fp32", "4097"), HasSubstr("--gradient-accumulation-steps"));
  for (const Arguments& enough : {of("bf16", "128"), of("fp32", "129")}) {
    EXPECT_EQ(run(basic() + enough).code, 0);
  }
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
                      AllOf(HasSubstr("llama: this machine's memory: the run needs "),
                            HasSubstr("activations kept: ")),
                      3);
  folder_.write("huge.json", R"({"model_type": "llama", "vocab_size": 258, "hidden_size": 65536,
    "num_hidden_layers": 1000, "num_attention_heads": 64, "intermediate_size": 262144,
    "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  // Two of 258 x 65536; in a layer 4 x 65536^2, 3 x 65536 x 262144 and two norms; one more norm.
  expect_refused(
      with(basic(), "--model", "huge.json"),
      AllOf(HasSubstr("huge: this machine's memory: the run needs "), HasSubstr("weights: 250 TiB"),
            HasSubstr("weights, m and v, fp32, of all columns: 750 TiB")),
      3);
}

// ---- models and data ----

TEST_F(TrainCli, RefusesModels) {
  const auto model = [](const char* name) { return with(basic(), "--model", name); };
  folder_.write("bloom.json", R"({"model_type": "bloom", "hidden_size": 16, "n_layer": 1,
    "n_head": 2, "vocab_size": 258})");
  folder_.write("half.json", std::string(kTinyLlama).substr(0, 60));
  folder_.write("empty.json", "");
  folder_.write("small.json", [] {
    std::string text = kTinyLlama;
    return text.replace(text.find("258"), 3, "100");
  }());
  expect_refused(model("nope.json"), HasSubstr("nope.json: cannot read"));
  expect_refused(model("."), HasSubstr("directory"));
  expect_refused(model("bloom.json"), AllOf(HasSubstr("bloom.json:1:"),
                                            HasSubstr("bloom is simulated but not trained")));
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

/// Bytes are no tokens of a tokenizer with so many ids.
TEST_F(TrainCli, TakesTextForBytesOnlyWhereTheVocabularyIsOfBytes) {
  std::string wide = kTinyLlama;
  folder_.write("wide.json", wide.replace(wide.find("258"), 3, "261"));
  folder_.write("rows.jsonl", some_text(500));
  const Arguments model = with(basic(), "--model", "wide.json") + Arguments{"--steps", "1"};
  expect_refused(model, AllOf(HasSubstr("text.txt: each byte of a text is a token"),
                              HasSubstr("the model's 261 ids"), HasSubstr("-o data.bin"),
                              HasSubstr("--byte-tokens")));
  expect_refused(with(model, "--data", "rows.jsonl"), HasSubstr("-o data.safetensors"));
  EXPECT_EQ(run(model + Arguments{"--byte-tokens"}).code, 0);
  folder_.write("tokenizer.json", "{}");
  expect_refused_with({"--tokenizer", "tokenizer.json"},
                      HasSubstr("text.txt holds no tokens; make some first: script/tokenize"));
  expect_refused_with({"--tokenizer", "none"}, HasSubstr("none: no such file"));
  expect_refused_with({"--task", "sst-2", "--tokenizer", "tokenizer.json"},
                      AllOf(HasSubstr("the tokens of a GLUE task are the bytes"),
                            Not(HasSubstr("script/tokenize"))));
}

TEST_F(TrainCli, NamesTheRowsThatItLeavesOut) {
  std::string rows = "sentence\tlabel\ngood\t1\nbad\t0\n";
  folder_.write("glue/dev.tsv", rows);
  for (int i = 0; i < 12; ++i) rows += "odd\t7\n";
  folder_.write("glue/train.tsv", rows);
  const Arguments task =
      with(basic(), "--data", "glue") + Arguments{"--task", "sst-2", "--steps", "1"};
  expect_refused(task, HasSubstr("glue/train.tsv:4: expected a label"));
  const std::string err = run(task + Arguments{"--skip-malformed-rows"}).err;
  EXPECT_THAT(err,
              AllOf(HasSubstr("left out glue/train.tsv:4: expected a label among \"0\", \"1\""),
                    HasSubstr("glue/train.tsv:13: "), Not(HasSubstr("glue/train.tsv:14: ")),
                    HasSubstr("left out 2 rows more")));
}

TEST_F(TrainCli, SaysWhenThreadsTakeTurns) {
  const Outcome outcome =
      run(with(basic(), "--optimizer-threads", "600") + Arguments{"--steps", "1"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--optimizer-threads: 600 threads on "),
                                 HasSubstr("take turns"), Not(HasSubstr("--threads: "))));
}

TEST_F(TrainCli, RefusesTokensBeyondTheVocabulary) {
  const Arguments arguments = with(with(basic(), "--data", "ids.bin"), "--sequence-length", "4") +
                              Arguments{"--steps", "1"};
  // Ids of the model are 0 to 257.
  folder_.write("ids.bin", token_file({1, 2, 258, 4, 5, 6, 7, 8, 9, 10}));
  expect_refused(arguments, HasSubstr("token 2 is 258, the vocabulary has 258 ids"));
  const std::string good = token_file({1, 2, 257, 4, 5, 6, 7, 8, 9, 10});
  folder_.write("ids.bin", good);
  const Outcome taken = run(arguments + Arguments{"--byte-tokens"});
  EXPECT_EQ(taken.code, 0);
  EXPECT_THAT(taken.err, HasSubstr("--byte-tokens has no effect: --data has tokens, not bytes"));
  folder_.write("ids.bin", good.substr(0, good.size() - 2));
  expect_refused(arguments, HasSubstr("ids.bin: "));
  for (const std::size_t byte : {9U, 17U, 25U, 29U, 44U}) {
    folder_.write("ids.bin", good);
    flip_bit("ids.bin", byte);
    expect_refused(arguments, HasSubstr("checksum"));
  }
}

}  // namespace
}  // namespace zenflow::testing
