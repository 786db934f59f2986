// Ranks that a launcher without MPI starts: each finds the others by its environment.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/comm/socket.h"
#include "tests/support/train_program.h"

namespace zenflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainLaunch : public TrainProgram {
 protected:
  struct Rank {
    Arguments arguments;
    std::string prefix = {};  ///< of the shell, before the program replaces it
  };

  /// As torchrun does: a process each, with its number in its environment. Their standard error is
  /// one; standard output is rank 0's. The exit code is the first of a rank that fails.
  [[nodiscard]] Outcome launch(const std::vector<Rank>& ranks) const {
    const int port = runtime::Listener(0, "127.0.0.1").port();
    std::string script = "ends() { wait $1 || { c=$?; [ $code -ne 0 ] || code=$c; }; }; code=0; ";
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      std::string command = ZENFLOW_TRAIN;
      for (const std::string& argument : ranks[r].arguments) command += " '" + argument + "'";
      script += "(" + ranks[r].prefix + " RANK=" + std::to_string(r) + " exec " + command + ") " +
                (r > 0 ? ">/dev/null" : "") + " & p" + std::to_string(r) + "=$!; ";
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) script += "ends $p" + std::to_string(r) + "; ";
    Surroundings surroundings = around();
    surroundings.environment = {{"WORLD_SIZE", std::to_string(ranks.size())},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", std::to_string(port)}};
    return run_program({"/bin/bash", "-c", script + "exit $code"}, surroundings);
  }
  [[nodiscard]] Outcome launch(int count, const Arguments& arguments) const {
    return launch(std::vector<Rank>(static_cast<std::size_t>(count), {arguments}));
  }
  [[nodiscard]] static Arguments short_run() {
    return basic() + Arguments{"--steps", "7", "--micro-batch-size", "1", "--update-interval", "2"};
  }
  /// Until somebody ends it. The prefix of a rank sends it a signal behind the first checkpoint.
  [[nodiscard]] static Arguments endless() {
    return basic() +
           Arguments{
               "--steps",        "100000000", "--checkpoint", "saved", "--checkpoint-interval", "1",
               "--rank-timeout", "5"};
  }
  [[nodiscard]] static std::string signalled(const std::string& signal) {
    return "own=$BASHPID; (until ls saved 2>/dev/null | grep -qx 'checkpoint-[0-9]*'; do sleep "
           "0.05; done; kill "
           "-" +
           signal + " $own) &";
  }
};

TEST_F(TrainLaunch, GiveTheWeightsOfOneRankWithTheGlobalBatch) {
  for (const int count : {2, 3}) {
    const Outcome several = launch(
        count, short_run() + Arguments{"--save-weights", "several.safetensors", "-f", "--json"});
    ASSERT_EQ(several.code, 0) << several.err;
    const Outcome one =
        run(short_run() + Arguments{"--save-weights", "one.safetensors", "-f",
                                    "--gradient-accumulation-steps", std::to_string(count)});
    ASSERT_EQ(one.code, 0) << one.err;
    EXPECT_EQ(content("several.safetensors"), content("one.safetensors")) << count;
    const nlohmann::json document = nlohmann::json::parse(several.out);
    const nlohmann::json& ranks = document.at("results").at(0).at("ranks");
    const auto bytes = document.at("model").at("bytes").get<std::uint64_t>();
    EXPECT_EQ(ranks.at("gradient_bytes_per_step"), bytes * static_cast<unsigned>(count - 1));
    EXPECT_EQ(ranks.at("weight_bytes_per_step"), bytes * static_cast<unsigned>(count - 1));
  }
}

TEST_F(TrainLaunch, SayWhereTheyCompute) {
  const Outcome outcome = launch({{short_run(), "OMP_NUM_THREADS=1"}, {short_run()}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 0: cores "),
                                 HasSubstr(", 1 optimizer threads (OMP_NUM_THREADS)"),
                                 HasSubstr("rank 1: cores ")));
  EXPECT_THAT(launch(2, short_run() + Arguments{"--rank-binding", "none"}).err,
              HasSubstr(", not bound, 1 optimizer threads"));
}

TEST_F(TrainLaunch, TakeTheirThreadsFromOmpNumThreads) {
  Surroundings surroundings = around();
  surroundings.environment = {{"OMP_NUM_THREADS", "several"}};
  const Outcome outcome = run_in(surroundings, short_run());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("OMP_NUM_THREADS in the environment: expected a number of "
                                     "threads, found \"several\""));
}

TEST_F(TrainLaunch, AKilledRankEndsTheJob) {
  const Outcome outcome = launch({{endless()}, {endless(), signalled("KILL")}, {endless()}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 has ended unexpectedly"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("rank 2 has")));
  // What was saved last is whole: two steps more give the weights of a run that nobody killed.
  const int saved = checkpoints("saved").back();
  const Arguments steps = with(endless(), "--steps", std::to_string(saved + 2));
  const Outcome resumed =
      launch(3, steps + Arguments{"--resume", "--save-weights", "resumed.safetensors"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const Outcome whole = launch(
      3, with(steps, "--checkpoint", "others") + Arguments{"--save-weights", "whole.safetensors"});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(content("resumed.safetensors"), content("whole.safetensors"));
}

TEST_F(TrainLaunch, RankZeroIsNoException) {
  const Outcome outcome = launch({{endless(), signalled("KILL")}, {endless()}});
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 has ended unexpectedly"));
}

TEST_F(TrainLaunch, ARankThatStopsAnsweringEndsTheJob) {
  // It is woken up to hear of it: else nobody would wait for it.
  const std::string stopped =
      signalled("STOP") +
      " (while kill -0 $own && ! grep -q 'has not answered' .stderr; do sleep 0.05; done; "
      "kill -CONT $own) 2>/dev/null &";
  const Outcome outcome = launch({{endless()}, {endless(), stopped}});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 has not answered for 5 s (--rank-timeout)"));
}

TEST_F(TrainLaunch, ARankThatFailsSaysWhyForAll) {
  const Outcome outcome =
      launch({{short_run() + Arguments{"--seed", "1"}}, {short_run() + Arguments{"--seed", "2"}}});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("rank 1: trains something else than rank 0: seed is 2, there 1"));
}

TEST_F(TrainLaunch, ThatBeginWithOtherWeightsAreRefused) {
  ASSERT_EQ(run(short_run() + Arguments{"--seed", "1", "--save-weights", "w.safetensors"}).code, 0);
  const Arguments weights{"--weights", "w.safetensors"};
  Outcome outcome = launch({{short_run() + weights}, {short_run()}});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1: trains something else than rank 0: "
                                     "--weights is false, there true"));
  // One number of one tensor: the file's last.
  std::string other = content("w.safetensors");
  other[other.size() - 4] = static_cast<char>(other[other.size() - 4] ^ 1);
  folder_.write("x.safetensors", other);
  outcome =
      launch({{short_run() + weights}, {short_run() + Arguments{"--weights", "x.safetensors"}}});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("x.safetensors differs from what it has there in 1 of 21"));
}

TEST_F(TrainLaunch, StopAfterTheStepInWhichOneWasAskedTo) {
  const Outcome outcome = launch({{endless()}, {endless(), signalled("INT")}});
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stopped after step"));
}

TEST_F(TrainLaunch, VariablesThatAreMissingAreNamed) {
  for (const char* variable : {"WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    Surroundings surroundings = around();
    surroundings.environment = {{variable, "4"}};
    const Outcome outcome = run_in(surroundings, short_run());
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr(std::string(variable) + " is 4 in the environment, but "),
                      HasSubstr("is missing: start ranks with mpirun")));
    surroundings.environment["OMPI_COMM_WORLD_SIZE"] = "1";  // one rank in a larger job
    EXPECT_EQ(run_in(surroundings, short_run()).code, 0);
  }
}

}  // namespace
}  // namespace zenflow::testing
