// What breaks on one rank ends the job of all, with the rank and the reason said, and leaves the
// last checkpoint as it was. Faults come at calls, not at times: tests/support/failing_rank.cpp.
#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/rank_program.h"

namespace zenflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A step has four groups: embedding, two blocks, head. Windows of two steps: an update runs beside
// the next one. A checkpoint after each window.
constexpr const char* kInForward = "forward 19";    // of step 5
constexpr const char* kInBackward = "backward 18";  // of step 5
constexpr const char* kInUpdate = "update 12";      // of the second window, before checkpoint 4
constexpr const char* kInSaving = "rename 3";       // a file of checkpoint 6 gets its name
constexpr auto kLimit = std::chrono::seconds(120);

class TrainRankFaults : public RankProgram {
 protected:
  [[nodiscard]] static Arguments job(const Arguments& more = {}) {
    return basic() +
           Arguments{"--micro-batch-size", "1", "--update-interval", "2", "--steps", "8"} + more;
  }
  [[nodiscard]] static Arguments saving(const Arguments& more = {}) {
    return job(Arguments{"--checkpoint", "saved", "--checkpoint-interval", "2"} + more);
  }
  /// One rank of a job that breaks.
  [[nodiscard]] static Arguments breaking(const std::string& fault, const Arguments& arguments) {
    return Arguments{"-np", "1", "/usr/bin/env", "ZENFLOW_FAULT=" + fault, ZENFLOW_TRAIN_FAILING} +
           arguments;
  }
  /// Two ranks, one of which breaks.
  [[nodiscard]] Outcome broken(int rank, const std::string& fault, const Arguments& arguments) {
    const Arguments bad = breaking(fault, arguments);
    const Arguments good = ranks(1, arguments);
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome =
        mpirun((rank == 0 ? bad : good) + Arguments{":"} + (rank == 0 ? good : bad));
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLimit) << fault;
    return outcome;
  }
  [[nodiscard]] std::string uninterrupted() {
    const Outcome whole =
        mpirun(ranks(2, job(Arguments{"--save-weights", "whole.safetensors", "-f"})));
    EXPECT_EQ(whole.code, 0) << whole.err;
    return content("whole.safetensors");
  }
  /// From the checkpoint at `step`; leaves the folder without any.
  void expect_goes_on_from(int step, const std::string& whole, const std::string& fault) {
    EXPECT_EQ(newest("saved"), step) << fault;
    const Outcome rest =
        mpirun(ranks(2, saving(Arguments{"--resume", "--save-weights", "rest.safetensors", "-f"})));
    EXPECT_EQ(rest.code, 0) << fault << rest.err;
    EXPECT_THAT(rest.err, HasSubstr("checkpoint-" + std::to_string(step) + " after step")) << fault;
    EXPECT_TRUE(content("rest.safetensors") == whole) << fault;
    std::filesystem::remove_all(folder_ / "saved");
  }
};

TEST_F(TrainRankFaults, AKilledRankEndsTheJob) {
  struct Kill {
    int rank;
    const char* where;
    int left;  ///< the checkpoint
  };
  const std::string whole = uninterrupted();
  for (const Kill& kill : {Kill{1, kInForward, 4}, Kill{0, kInForward, 4}, Kill{1, kInBackward, 4},
                           Kill{1, kInUpdate, 2}, Kill{1, kInSaving, 4}, Kill{0, kInSaving, 4}}) {
    const std::string fault = std::string(kill.where) + " KILL";
    const Outcome outcome = broken(kill.rank, fault, saving());
    EXPECT_EQ(outcome.code, 137) << fault << outcome.err;  // by mpirun, as of a shell
    EXPECT_THAT(outcome.err, ContainsRegex("rank " + std::to_string(kill.rank) +
                                           " with PID .* exited on signal 9"))
        << fault;
    expect_goes_on_from(kill.left, whole, fault);
  }
}

TEST_F(TrainRankFaults, AStoppedRankEndsTheJob) {
  const std::string whole = uninterrupted();
  const Arguments impatient = saving(Arguments{"--rank-timeout", "5"});
  for (const auto& [rank, where, left] :
       {std::tuple(1, kInForward, 4), std::tuple(0, kInBackward, 4), std::tuple(1, kInUpdate, 2),
        std::tuple(1, kInSaving, 4)}) {
    const std::string fault = std::string(where) + " STOP";
    const Outcome outcome = broken(rank, fault, impatient);
    EXPECT_EQ(outcome.code, 1) << fault << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("zenflow-train: rank " + std::to_string(rank) +
                                       " has not answered for 5 s (--rank-timeout)"))
        << fault;
    expect_goes_on_from(left, whole, fault);
  }
}

TEST_F(TrainRankFaults, AFullDiskOfOneRankEndsTheJob) {
  const std::string whole = uninterrupted();
  for (const int rank : {0, 1}) {
    const std::string fault = std::string(rank == 0 ? "rename 3" : "fsync 5") + " ENOSPC";
    const Outcome outcome = broken(rank, fault, saving());
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("zenflow-train: rank " + std::to_string(rank) +
                                             ": saved/checkpoint-6"),
                                   HasSubstr("No space left on device")));
    expect_goes_on_from(4, whole, fault);
  }
}

TEST_F(TrainRankFaults, WhatRanksTrainDifferentlyIsSaid) {
  struct Other {
    Arguments arguments;
    const char* said;
  };
  const auto with_k = [](const char* k) { return job(Arguments{"--topk-ratio", k}); };
  for (const Other& other :
       {Other{with_k("0.2"), "topk_ratio is 0.2, there 0.1"},
        Other{with_k("0.1") + Arguments{"--seed", "3"}, "seed is 3, there 0"},
        Other{with(with_k("0.1"), "--model", "gpt2.json"), "model family is gpt2, there llama"},
        Other{with(with_k("0.1"), "--steps", "9"), "--steps is 9, there 8"}}) {
    const Outcome outcome =
        mpirun(ranks(1, with_k("0.1")) + Arguments{":"} + ranks(1, other.arguments));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err,
                HasSubstr("zenflow-train: rank 1: trains something else than rank 0: "));
    EXPECT_THAT(outcome.err, HasSubstr(other.said));
  }
}

}  // namespace
}  // namespace zenflow::testing
