// What survives in zenflow-train: stops, kills, damage and full disks, with the same weights after.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/support/suspension.h"
#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const Arguments kZenFlow = {"--topk-ratio", "0.3"};

std::string text(int number) {
  return std::to_string(number);
}

class TrainResume : public TrainProgram {
 protected:
  [[nodiscard]] static Arguments steps(int count) { return {"--steps", text(count)}; }
  /// What a run without a stop to `count` steps gives: losses, validations, weights.
  void run_in_one_go(const Arguments& settings, int count) {
    losses_ = result(basic() + settings + steps(count) +
                     Arguments{"--save-weights", "one_go.safetensors", "-f"});
    weights_ = content("one_go.safetensors");
  }
  void expect_as_in_one_go(const json& resumed, const std::string& weights) const {
    EXPECT_EQ(resumed["losses"], losses_["losses"]);
    EXPECT_EQ(resumed["validations"], losses_["validations"]);
    EXPECT_EQ(resumed["update_interval"], losses_["update_interval"]);
    EXPECT_TRUE(content(weights) == weights_) << "the weights differ";
  }

  /// Whether the program that runs has said so by now.
  [[nodiscard]] bool says(const std::string& words) const {
    return content(".stderr").find(words) != std::string::npos;
  }

  json losses_;
  std::string weights_;
};

struct Case {
  const char* name;
  Arguments settings;
};

class TrainResumeOf : public TrainResume, public ::testing::WithParamInterface<Case> {};

const Case kCases[] = {
    {"gpu_only", {"--schedule", "gpu-only"}},
    {"zero_offload", {"--schedule", "zero-offload", "--gradient-clipping", "0.5"}},
    {"zero_offload_dpu", {"--schedule", "zero-offload-dpu"}},
    {"zenflow", kZenFlow},
    {"zenflow_in_turn", {"--overlap-step", "false", "--select-interval", "4"}},
    {"zenflow_selecting",
     {"--topk-ratio", "0.3", "--update-interval", "2", "--select-interval", "4",
      "--lr-warmup-steps", "6"}},
    {"zenflow_warm_up_bf16",
     {"--dtype", "bf16", "--full-warm-up-rounds", "3", "--update-interval", "3",
      "--select-interval", "6", "--column-norm", "l1"}},
    {"zenflow_sums_on_device",
     {"--accumulate-on", "device", "--topk-ratio", "0.5", "--update-interval", "3"}},
};

/// Stops fall on the first step, before, in and after warm-up, at a window's end and inside one.
TEST_P(TrainResumeOf, ContinuesBitForBitAfterManyStops) {
  constexpr int kSteps = 15;
  const Arguments settings = with(basic(), "--optimizer-threads", "2") + GetParam().settings +
                             Arguments{"--evaluate-interval", "5"};
  const json whole =
      result(settings + steps(kSteps) + Arguments{"--save-weights", "one_go.safetensors"});
  Arguments resume;
  for (const int stop : {1, 4, 7, 10}) {
    const Outcome part = run(settings + steps(stop) + Arguments{"--checkpoint", "ck"} + resume);
    ASSERT_EQ(part.code, 0) << part.err;
    EXPECT_EQ(newest("ck"), stop);
    resume = {"--resume"};
  }
  const json resumed = result(settings + steps(kSteps) + resume +
                              Arguments{"--checkpoint", "ck", "--save-weights", "w.safetensors"});
  EXPECT_EQ(resumed["losses"], whole["losses"]);
  EXPECT_TRUE(content("w.safetensors") == content("one_go.safetensors"));

  // The last checkpoint is enough to have the weights again, without a step.
  const json again = result(settings + steps(kSteps) + resume +
                            Arguments{"--checkpoint", "ck", "--save-weights", "v.safetensors"});
  EXPECT_EQ(again["losses"], whole["losses"]);
  EXPECT_EQ(again["final_loss"], whole["final_loss"]);
  EXPECT_EQ(again["validations"].back(), whole["validations"].back());
  EXPECT_TRUE(content("v.safetensors") == content("one_go.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(, TrainResumeOf, ::testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

// ---- signals ----

class TrainSignal : public TrainResume, public ::testing::WithParamInterface<int> {};

/// A run without an end is stopped once it trains; what it says has to agree with what it left.
TEST_P(TrainSignal, FinishesTheStepWritesOneCheckpointAndGoesOn) {
  const Arguments settings = kZenFlow + Arguments{"--checkpoint", "ck"};
  int done = 0;
  {
    RunningProgram program(Arguments{ZENFLOW_TRAIN} + basic() + settings + steps(1 << 30) +
                               Arguments{"-v", "--json", "--save-weights", "w.safetensors",
                                         "--importance", "shares.csv"},
                           around());
    ASSERT_TRUE(program.wait_until([&] { return says("step 3/"); }));
    program.send(GetParam());
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.code, 128 + GetParam());
    done = newest("ck");
    EXPECT_EQ(checkpoints("ck").size(), 1);
    EXPECT_THAT(outcome.err, HasSubstr("stopped after step " + text(done)));
    const json document = json::parse(outcome.out)["results"][0];
    EXPECT_EQ(document["steps"]["done"], done);
    EXPECT_EQ(document["losses"].size(), done);
    EXPECT_TRUE(std::filesystem::exists(folder_ / "w.safetensors"));
    EXPECT_THAT(content("shares.csv"), HasSubstr("\n" + text(done - 1) + ","));
  }
  run_in_one_go(kZenFlow, done + 5);
  const json resumed = result(basic() + settings + steps(done + 5) +
                              Arguments{"--resume", "--save-weights", "w.safetensors", "-f"});
  expect_as_in_one_go(resumed, "w.safetensors");
}

INSTANTIATE_TEST_SUITE_P(, TrainSignal, ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGUSR1));

/// nohup: a terminal that goes away does not end the run.
TEST_F(TrainResume, ARunThatIgnoresHangUpsGoesOn) {
  RunningProgram program(
      Arguments{"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", ZENFLOW_TRAIN} + basic() +
          steps(1'000'000) + Arguments{"-v"},
      around());
  ASSERT_TRUE(program.wait_until([&] { return says("step 1/"); }));
  program.send(SIGHUP);
  ASSERT_TRUE(program.wait_until([&] { return says("step 100/"); }));
  program.send(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
}

TEST_F(TrainResume, SaysThatAStopWithoutACheckpointLosesTheRun) {
  RunningProgram program(Arguments{ZENFLOW_TRAIN} + basic() + steps(1 << 30) + Arguments{"-v"},
                         around());
  ASSERT_TRUE(program.wait_until([&] { return says("step 3/"); }));
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 143);
  EXPECT_THAT(outcome.err, HasSubstr("there is no --checkpoint to go on from"));
}

/// A byte a second: the initial weights alone would take hours. Before the first step there is
/// nothing to go on from, and nothing is kept.
TEST_P(TrainSignal, EndsAStartThatWaitsForTheLink) {
  RunningProgram program(Arguments{ZENFLOW_TRAIN} + basic() + kZenFlow + steps(12) +
                             Arguments{"--checkpoint", "ck", "--json", "--link-bandwidth", "1 B/s"},
                         around());
  ASSERT_TRUE(program.wait_until([&] { return program.handles(GetParam()); }));
  program.send(GetParam());
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 128 + GetParam()) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stopped by a signal"));
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(checkpoints("ck").size(), 0);
}

/// Steps that wait for the link, each for about as long as the start: whatever one is doing when
/// the signal comes, the run ends with what it has, and can be resumed.
TEST_P(TrainSignal, EndsARunThatWaitsForTheLink) {
  const Arguments settings = kZenFlow + Arguments{"--checkpoint", "ck"};
  RunningProgram program(Arguments{ZENFLOW_TRAIN} + basic() + settings + steps(1 << 30) +
                             Arguments{"-v", "--json", "--link-bandwidth", "1 MB/s"},
                         around());
  ASSERT_TRUE(program.wait_until([&] { return says("step 2/"); }));
  program.send(GetParam());
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 128 + GetParam()) << outcome.err;
  const int done = newest("ck");
  EXPECT_THAT(outcome.err, HasSubstr("stopped after step " + text(done)));
  EXPECT_EQ(json::parse(outcome.out)["results"][0]["steps"]["done"], done);
  run_in_one_go(kZenFlow, done + 5);
  const json resumed = result(basic() + settings + steps(done + 5) +
                              Arguments{"--resume", "--save-weights", "w.safetensors"});
  expect_as_in_one_go(resumed, "w.safetensors");
}

// ---- suspended ----

/// Ctrl-Z, or a batch system: it is stopped between two steps, goes on, and nothing is different.
TEST_F(TrainResume, IsSuspendedBetweenStepsAndGoesOn) {
  const Arguments settings = kZenFlow + Arguments{"--checkpoint", "ck"};
  Surroundings surroundings = around();
  surroundings.own_process_group = true;
  RunningProgram program(
      Arguments{ZENFLOW_TRAIN} + basic() + settings + steps(1 << 30) + Arguments{"-v"},
      surroundings);
  ASSERT_TRUE(program.wait_until([&] { return program.blocks(SIGTSTP); }));
  for (int i = 0; i < 3; ++i) {
    program.send(SIGTSTP);
    ASSERT_TRUE(program.wait_until([&] { return is_suspended(program.number()); }));
    const std::string said = content(".stderr");
    EXPECT_TRUE(said.empty() || said.ends_with("\n"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(content(".stderr"), said);
    program.send(SIGCONT);
  }
  program.send(SIGTERM);
  const Outcome outcome = program.wait();
  ASSERT_EQ(outcome.code, 143) << outcome.err;
  const int done = newest("ck");
  run_in_one_go(kZenFlow, done + 5);
  const json resumed = result(basic() + settings + steps(done + 5) +
                              Arguments{"--resume", "--save-weights", "w.safetensors"});
  expect_as_in_one_go(resumed, "w.safetensors");
}

/// As nohup has it with its signal: what is ignored stays so.
TEST_F(TrainResume, ARunThatIgnoresSuspensionIsNotSuspended) {
  Surroundings surroundings = around();
  surroundings.own_process_group = true;
  RunningProgram program(
      Arguments{"/bin/sh", "-c", "trap '' TSTP; exec \"$@\"", "sh", ZENFLOW_TRAIN} + basic() +
          kZenFlow + steps(1'000'000) + Arguments{"-v"},
      surroundings);
  ASSERT_TRUE(program.wait_until([&] { return says("step 1/"); }));
  program.send(SIGTSTP);
  ASSERT_TRUE(program.wait_until([&] { return says("step 100/"); }));
  program.send(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
}

// ---- kill -9 ----

/// 100 kills: half of them at a random moment after the start, which is often before the first
/// step; the others a random moment after a checkpoint has been seen, so that the run gets on and
/// writing, reading back and removing are hit. Whatever the moments were, the weights are the same.
TEST_F(TrainResume, SurvivesAHundredKills) {
  constexpr int kNeverDone = 1'000'000;  // so that no run ends before it is killed
  const Arguments settings = {"--topk-ratio",      "0.3", "--update-interval",     "3",
                              "--select-interval", "6",   "--full-warm-up-rounds", "2"};
  const Arguments command =
      Arguments{ZENFLOW_TRAIN} + basic() + settings + steps(kNeverDone) +
      Arguments{
          "--checkpoint", "ck", "--checkpoint-interval", "1", "--checkpoints-kept", "2", "-q"};
  int furthest = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const int before = newest("ck");
    ASSERT_GE(before, furthest) << "a checkpoint was lost";
    furthest = before;
    RunningProgram program(before > 0 ? command + Arguments{"--resume"} : command, around());
    if (i % 2 == 0) {
      ::usleep(static_cast<useconds_t>(mix(i) % 60000));
    } else {
      (void)program.wait_until([&] { return newest("ck") > before; });
      ::usleep(static_cast<useconds_t>(mix(i) % 4000));
    }
    program.send(SIGKILL);
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.code, -1) << "kill " << i << ": " << outcome.err;
  }
  const int reached = newest("ck");
  RecordProperty("step reached", reached);
  ASSERT_GE(reached, 1);
  run_in_one_go(settings, reached + 10);
  const json resumed =
      result(basic() + settings + steps(reached + 10) +
             Arguments{"--checkpoint", "ck", "--resume", "--save-weights", "w.safetensors"});
  expect_as_in_one_go(resumed, "w.safetensors");
  for (const std::string& name : files()) EXPECT_THAT(name, Not(HasSubstr(".partial-")));
  EXPECT_LE(checkpoints("ck").size(), 3U);  // a kill may come before the oldest is removed
}

// ---- data that goes away ----

/// A disk or a share that fails in the middle looks like this: reads end early.
TEST_F(TrainResume, DataThatShrinksStopsTheRunAndCostsNothing) {
  const std::string text = content("text.txt");
  const Arguments settings =
      kZenFlow + Arguments{"--checkpoint", "ck", "--checkpoint-interval", "1"};
  RunningProgram program(Arguments{ZENFLOW_TRAIN} + basic() + settings + steps(1'000'000),
                         around());
  ASSERT_TRUE(program.wait_until([&] { return newest("ck") >= 3; }));
  truncate("text.txt", 20);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("text.txt: ends at byte "));
  const int reached = newest("ck");

  // It is not the file of the run any more, and that is said; with the old content all goes on.
  const Outcome other = run(basic() + settings + steps(reached + 5) + Arguments{"--resume"});
  EXPECT_EQ(other.code, 2) << other.err;
  folder_.write("text.txt", text);
  run_in_one_go(kZenFlow, reached + 5);
  const json resumed = result(basic() + settings + steps(reached + 5) +
                              Arguments{"--resume", "--save-weights", "w.safetensors"});
  expect_as_in_one_go(resumed, "w.safetensors");
}

// ---- damaged checkpoints ----

class TrainDamage : public TrainResume {
 protected:
  /// Checkpoints 4 and 6 of a run of 10 steps that the test compares with.
  void SetUp() override {
    run_in_one_go(kZenFlow, 10);
    const Outcome part = run(basic() + kZenFlow + steps(6) +
                             Arguments{"--checkpoint", "ck", "--checkpoint-interval", "2"});
    ASSERT_EQ(part.code, 0) << part.err;
    ASSERT_THAT(checkpoints("ck"), ElementsAre(4, 6));
    size_ = content("ck/checkpoint-6").size();
  }
  [[nodiscard]] Arguments resume() const {
    return basic() + kZenFlow + steps(10) +
           Arguments{"--checkpoint", "ck", "--resume", "--save-weights", "w.safetensors", "-f"};
  }
  void expect_older_is_used() {
    const Outcome outcome = run(resume() + Arguments{"--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("skipped a damaged checkpoint: ck/checkpoint-6"),
                                   HasSubstr("resumed from ck/checkpoint-4 after step 4")));
    expect_as_in_one_go(json::parse(outcome.out)["results"][0], "w.safetensors");
  }

  std::size_t size_ = 0;
};

TEST_F(TrainDamage, TakesTheOlderOneIfTheNewestIsTruncated) {
  truncate("ck/checkpoint-6", size_ / 2);
  expect_older_is_used();
}

TEST_F(TrainDamage, TakesTheOlderOneIfTheNewestIsEmpty) {
  truncate("ck/checkpoint-6", 0);
  expect_older_is_used();
}

TEST_F(TrainDamage, TakesTheOlderOneIfABitIsFlipped) {
  for (const std::size_t at : {std::size_t{3}, size_ / 3, size_ - 5}) {
    const std::string sound = content("ck/checkpoint-6");
    flip_bit("ck/checkpoint-6", at);
    expect_older_is_used();
    std::filesystem::remove_all(folder_ / "ck");
    const Outcome part = run(basic() + kZenFlow + steps(6) +
                             Arguments{"--checkpoint", "ck", "--checkpoint-interval", "2"});
    ASSERT_EQ(part.code, 0) << part.err;
    EXPECT_TRUE(content("ck/checkpoint-6") == sound) << "the same run, other bytes";
  }
}

TEST_F(TrainDamage, SaysSoHoweverQuietTheRunIs) {
  truncate("ck/checkpoint-6", size_ / 2);
  const Outcome outcome = run(resume() + Arguments{"-q"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, StartsWith("zenflow-train: warning: skipped a damaged checkpoint: "
                                      "ck/checkpoint-6: "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST_F(TrainDamage, RefusesIfAllAreDamagedAndSaysWhy) {
  flip_bit("ck/checkpoint-6", size_ / 2);
  truncate("ck/checkpoint-4", 100);
  const std::set<std::string> before = files();
  const Outcome outcome = run(resume() + Arguments{"-q"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(StartsWith("zenflow-train: ck: no valid checkpoint"),
                                 HasSubstr("ck/checkpoint-6"), HasSubstr("ck/checkpoint-4")));
  EXPECT_EQ(files(), before);
}

TEST_F(TrainDamage, AFullDiskLeavesTheOlderCheckpoints) {
  Surroundings full = around();
  full.largest_file = 20000;
  const Outcome outcome = run_in(full, resume() + Arguments{"--checkpoint-interval", "1"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("ck/checkpoint-7"), HasSubstr("File too large")));
  EXPECT_THAT(checkpoints("ck"), ElementsAre(4, 6));
  for (const std::string& name : files()) EXPECT_THAT(name, Not(HasSubstr(".partial-")));
  const json resumed = result(resume());
  expect_as_in_one_go(resumed, "w.safetensors");
}

// ---- other settings ----

TEST_F(TrainDamage, RefusesOtherSettingsAndNamesThem) {
  folder_.write("theta.json", [] {
    std::string other = kTinyLlama;
    return other.insert(other.find("\"rms"), "\"rope_theta\": 500.0, ");
  }());
  folder_.write("other.txt", some_text(3001));
  struct Change {
    Arguments flags;
    const char* names;
  };
  const Change changes[] = {
      {{"--lr", "0.5"}, "learning rate was 0.001, is 0.5 here"},
      {{"--lr-decay", "cosine"}, "decay of the learning rate was constant, is cosine here"},
      {{"--lr-warmup-steps", "3"}, "warm-up steps of the learning rate was 0, is 3 here"},
      {{"--beta1", "0.8"}, "betas was"},
      {{"--epsilon", "1e-6"}, "epsilon was"},
      {{"--weight-decay", "0.5"}, "weight decay was"},
      {{"--decay-vectors"}, "weight decay of norms and biases was 0, is that of matrices here"},
      {{"--gradient-clipping", "1"}, "gradient clipping was 0, is 1 here"},
      {{"--seed", "1"}, "seed was 0, is 1 here"},
      {{"--micro-batch-size", "2"}, "micro-batch size was 1, is 2 here"},
      {{"--gradient-accumulation-steps", "2"}, "gradient accumulation steps was 1, is 2 here"},
      {{"--validation-fraction", "0.2"}, "validation fraction was"},
      {{"--dtype", "bf16"}, "dtype was fp32, is bf16 here"},
      {{"--update-interval", "2"}, "update_interval was 4, is 2 here"},
      {{"--update-interval", "auto"}, "update_interval was 4, is auto here"},
      {{"--select-interval", "4"}, "select_interval was 0, is 4 here"},
      {{"--full-warm-up-rounds", "2"}, "full_warm_up_rounds was 0, is 2 here"},
      {{"--overlap-step", "false"}, "overlap_step was true, is false here"},
      {{"--column-norm", "l1"}, "column norm was l2, is l1 here"},
      {{"--deferred-scaling", "linear"}, ", is linear here"},
      {{"--accumulate-on", "device"}, "accumulation on the device was false, is true here"},
      {{"--schedule", "zero-offload"}, "schedule was zenflow, is zero-offload here"},
  };
  const auto expect_refused = [&](const Arguments& arguments, const char* names) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << names;
    EXPECT_EQ(outcome.out, "") << names;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("ck/checkpoint-6: it belongs to another run"), HasSubstr(names)));
  };
  for (const Change& change : changes) expect_refused(resume() + change.flags, change.names);
  const auto replaced = [&](const char* flag, const char* value) {
    return with(resume(), flag, value);
  };
  expect_refused(replaced("--model", "theta.json"), "rope_theta was 10000, is 500 here");
  expect_refused(replaced("--model", "gpt2.json"), "model family was llama, is gpt2 here");
  expect_refused(replaced("--data", "other.txt"), "data bytes was");
  expect_refused(replaced("--sequence-length", "16"), "sequence length was 8, is 16 here");
  expect_refused(replaced("--topk-ratio", "0.4"), "topk_ratio was 0.3, is 0.4 here");
  EXPECT_THAT(checkpoints("ck"), ElementsAre(4, 6));
}

TEST_F(TrainDamage, MayChangeWhatDoesNotChangeNumbers) {
  const json resumed =
      result(with(resume(), "--threads", "2") +
             Arguments{"--max-staleness", "20", "--sum-threads", "2", "--trace", "trace.json"});
  expect_as_in_one_go(resumed, "w.safetensors");
}

TEST_F(TrainDamage, RefusesFewerStepsThanAreDone) {
  const Outcome outcome = run(with(resume(), "--steps", "5"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--steps: 5 are asked for, the checkpoint has 6"));
}

// ---- the directory ----

TEST_F(TrainDamage, ANewRunDoesNotMixWithAnOldOne) {
  for (const Arguments& force : {Arguments{}, Arguments{"-f"}}) {
    const Outcome outcome = run(basic() + steps(3) + Arguments{"--checkpoint", "ck"} + force);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("is a checkpoint of another run"));
  }
  EXPECT_THAT(checkpoints("ck"), ElementsAre(4, 6));
}

TEST_F(TrainResume, TwoProcessesCannotShareADirectory) {
  RunningProgram first(Arguments{ZENFLOW_TRAIN} + basic() + steps(1 << 30) +
                           Arguments{"--checkpoint", "ck", "--checkpoint-interval", "1"},
                       around());
  ASSERT_TRUE(first.wait_until([&] { return newest("ck") > 0; }));
  folder_.write("second/llama.json", kTinyLlama);
  folder_.write("second/text.txt", content("text.txt"));
  for (const Arguments& resume : {Arguments{"--resume"}, Arguments{}}) {
    const Outcome second =
        run_in({.folder = folder_ / "second"},
               basic() + steps(1 << 30) + resume + Arguments{"--checkpoint", "../ck"});
    EXPECT_EQ(second.code, 2);
    EXPECT_THAT(second.err, HasSubstr("another process writes its checkpoints there"));
  }
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().code, 143);
}

/// Whoever goes on saving removes old checkpoints: what is read meanwhile may look damaged.
TEST_F(TrainResume, ReadsNoCheckpointOfADirectoryInUse) {
  ASSERT_EQ(run(basic() + steps(2) + Arguments{"--checkpoint", "ck"}).code, 0);
  truncate("ck/checkpoint-2", 100);
  const int lock = ::open((folder_ / "ck/.lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(lock, 0);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  const Arguments resume = basic() + Arguments{"--resume", "--checkpoint", "ck"};
  const Outcome used = run(resume + steps(4));
  EXPECT_EQ(used.code, 2);
  EXPECT_THAT(used.err, HasSubstr("another process writes its checkpoints there"));
  ::close(lock);
  EXPECT_THAT(run(resume + steps(4)).err, HasSubstr("no valid checkpoint to resume from"));
}

TEST_F(TrainResume, RefusesToResumeFromNothing) {
  EXPECT_THAT(run(basic() + Arguments{"--resume"}).err, HasSubstr("--checkpoint says where from"));
  const Outcome none = run(basic() + Arguments{"--resume", "--checkpoint", "ck"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("ck: no such directory"));
  folder_.write("ck/notes.txt", "mine");
  const Outcome empty = run(basic() + Arguments{"--resume", "--checkpoint", "ck"});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, HasSubstr("ck: no valid checkpoint to resume from"));
  EXPECT_EQ(content("ck/notes.txt"), "mine");
}

/// With a decay the rate ends at --steps: a longer run has another one, and says so.
TEST_F(TrainResume, SaysThatMoreStepsMoveTheEndOfTheDecay) {
  const Arguments settings = {"--lr-decay", "linear", "--checkpoint", "ck"};
  ASSERT_EQ(run(basic() + settings + steps(4)).code, 0);
  const Outcome longer = run(basic() + settings + steps(8) + Arguments{"--resume"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_THAT(longer.err, HasSubstr("falls to zero at step 8, not 4"));
}

}  // namespace
}  // namespace zenflow::testing
