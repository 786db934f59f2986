// What is found in training logs.
#include "sim/trace/import/timer_log.h"

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/import/import_trace.h"
#include "tests/support/error_of.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ImportedTrace import(const std::string& text) {
  const auto source = memory_bytes({text.data(), text.size()});
  return import_timer_log(*source, "run.log", {});
}

const std::string kHead = "[2024-11-21 02:14:39,317] [INFO] [logging.py:96:log_dist] [Rank 0] ";

TEST(TimerLog, ReadsRecordsAndMeans) {
  const ImportedTrace trace =
      import("loading\n" + kHead +
             "time (ms) | fwd_microstep: 10.00 | bwd_microstep: 20.00 | step_microstep: 5.00\n" +
             kHead + "time (ms) | fwd: 10.01 | bwd: 20.50 | bwd_inner: 20.00 | step: 5.00\n" +
             " elapsed_time 0.04 | elapsed time per iteration (ms): 40.5 | lm loss: 1.2E+01 |\n" +
             kHead + "time (ms) | fwd: 12.01 | bwd: 21.50 | bwd_inner: 21.00 | step: 7.00\n" +
             " elapsed_time 0.04 | elapsed time per iteration (ms): 41.5 | lm loss: 1.2E+01 |\n");
  const TimerLog& log = *trace.timers;
  EXPECT_EQ(log.records, 3U);
  EXPECT_EQ(log.not_at_line_start, 0U);
  EXPECT_THAT(log.find("bwd_inner")->values, ElementsAre(20.0, 21.0));
  EXPECT_DOUBLE_EQ(log.forward_ms, 11.01);
  EXPECT_DOUBLE_EQ(log.backward_ms, 21.0);
  EXPECT_DOUBLE_EQ(log.optimizer_ms, 6.0);
  EXPECT_DOUBLE_EQ(log.step_ms, 41.0);
  EXPECT_THAT(trace.timeline.steps, SizeIs(2));
  EXPECT_EQ(trace.step_source, StepSource::kTimers);
  EXPECT_EQ((trace.timeline.steps[0].end - trace.timeline.steps[0].start).count, 40'500'000'000);
}

// tqdm returns to the line's start and colours what it writes; the logger's line comes behind it.
TEST(TimerLog, FindsRecordsBehindAProgressBar) {
  const ImportedTrace trace =
      import("\r  0%|          | 0/10 [00:00<?, ?it/s]\x1B[32m" + kHead +
             "time (ms) | fwd: 1.50 | \x1B[1mbwd: 2.50\x1B[0m\r 10%|# | 1/10\n" +
             "Epoch 1:  50%|##| " + kHead + "time (ms) | fwd: 2.50 | bwd: 3.50\r\n");
  EXPECT_EQ(trace.timers->records, 2U);
  EXPECT_EQ(trace.timers->not_at_line_start, 2U);
  EXPECT_THAT(trace.timers->find("fwd")->values, ElementsAre(1.5, 2.5));
  EXPECT_THAT(trace.timers->find("bwd")->values, ElementsAre(2.5, 3.5));
}

TEST(TimerLog, SaysThatRecordsOfSeveralRanksAreAveragedTogether) {
  const std::string first = "[INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 1.00\n";
  const std::string last = "[INFO] [logging.py:96:log_dist] [Rank 11] time (ms) | fwd: 3.00\n";
  EXPECT_THAT(import(first + first + "time (ms) | fwd: 4.00\n").problems, IsEmpty());
  const ImportedTrace trace = import(first + last + first + last);
  EXPECT_DOUBLE_EQ(trace.timers->forward_ms, 2.0);
  EXPECT_THAT(trace.problems, ElementsAre(HasSubstr(":2: records of rank 0 and of rank 11: ")));
  EXPECT_THAT(import("rank=0 time (ms) | forward: 1.0\nrank=1 time (ms) | forward: 1.0\n").problems,
              SizeIs(1));
}

TEST(TimerLog, KnowsTheNamesOfOtherVersions) {
  // DeepSpeed 0.3 to 0.9, and Megatron's own timers.
  const TimerLog old =
      *import(
           "[INFO] time (ms) | forward_microstep: 4.00 | backward_microstep: 8.00 | "
           "step_microstep: 1.00\n[Rank 0] time (ms) | forward: 5.00 | backward: 9.00 "
           "| step: 2.00\n")
           .timers;
  EXPECT_EQ(old.forward_ms, 5.0);
  EXPECT_EQ(old.backward_ms, 9.0);
  EXPECT_EQ(old.optimizer_ms, 2.0);
  EXPECT_EQ(old.step_ms, 16.0);
  const TimerLog megatron = *import(
                                 "time (ms) | forward-compute: 4.00 | backward-compute: 8.00 | "
                                 "batch generator: 1.25 | optimizer: 3.00\n")
                                 .timers;
  EXPECT_EQ(megatron.find("batch generator")->values.at(0), 1.25);
  EXPECT_EQ(megatron.forward_ms, 4.0);
  EXPECT_EQ(megatron.optimizer_ms, 3.0);
  EXPECT_TRUE(std::isnan(import("time (ms) | init_optimizer_state: 3.00\n").timers->forward_ms));
}

TEST(TimerLog, LeavesOutWhatIsNoDurationAndSaysWhere) {
  const ImportedTrace trace = import(
      "x\ntime (ms) | fwd: nan | bwd: 2.00 | step\ntime (ms) is a unit\ntime (ms) | fwd: -1\n"
      "elapsed time per iteration (ms): soon\n");
  EXPECT_THAT(trace.timers->timers, SizeIs(1));
  EXPECT_THAT(trace.left_out, SizeIs(3));
  EXPECT_EQ(trace.left_out[1].what, "timers whose value is no duration");
  EXPECT_EQ(trace.left_out[1].count, 2U);
  EXPECT_EQ(trace.left_out[1].first, "line 2");
  EXPECT_THAT(trace.problems,
              ::testing::Contains(HasSubstr("not used: timers whose value is no duration (2, the "
                                            "first at line 2)")));
}

// Before 0.9 the rank was said twice; layers of experts add their own times in parentheses.
TEST(TimerLog, ReadsTheLinesOfOldReleases) {
  const std::string head = "[2023-02-27 23:34:53,987] [INFO] [logging.py:60:log_dist] [Rank 0] ";
  const TimerLog log = *import(head +
                               "rank=0 time (ms) | train_batch: 0.00 | forward: 519.08 | "
                               "backward: 1814.87 | reduce_tied_grads: 0.33 | step: 18.64\n" +
                               head +
                               "rank=0 time (ms) | forward: 521.08 (forward_moe: 9.00, 1st "
                               "alltoall: 1.00, top-k: 2.00)\n")
                            .timers;
  EXPECT_EQ(log.records, 2U);
  EXPECT_EQ(log.not_at_line_start, 0U);
  EXPECT_EQ(log.forward_ms, 520.08);
  EXPECT_EQ(log.backward_ms, 1814.87);
  EXPECT_EQ(log.optimizer_ms, 18.64);
  EXPECT_THAT(log.timers, SizeIs(5));
}

// Launchers number the lines of their ranks; terminals colour them.
TEST(TimerLog, ReadsLinesBehindAnyPrefix) {
  const TimerLog log =
      *import("worker-0: " + kHead + "time (ms) | fwd: 1.00 | bwd: 2.00\n0: " + kHead +
              "time (ms) | fwd: 2.00 | bwd: 4.00\n[rank0]: \x1B[0;32m" + kHead +
              "\x1B[0mtime (ms) | fwd: 3.00 | bwd: 6.00\x1B[K\r\n"
              "[Rank 0] time (ms) | fwd: 4.00 | bwd: 8.00")
           .timers;
  EXPECT_THAT(log.find("fwd")->values, ElementsAre(1.0, 2.0, 3.0, 4.0));
  EXPECT_THAT(log.find("bwd")->values, ElementsAre(2.0, 4.0, 6.0, 8.0));
  EXPECT_EQ(log.not_at_line_start, 0U);
}

// "elapsed time per iteration" of forks that count in seconds.
// Megatron prints a record, then what it does before the next one.
TEST(TimerLog, TellsApartWhatIsNoUsualStep) {
  std::string text =
      "  eval_interval ................................... 1000\n"
      "  save ............................................ saving checkpoint\n"
      "{\"train\": {\"eval_loss\": 1}}\n";
  const auto iteration = [](int ms) {
    return " iteration 1/ 9 | elapsed time per iteration (ms): " + std::to_string(ms) + ".0 |\n";
  };
  text += iteration(900) + iteration(100) + iteration(102) +
          " validation loss at iteration 3 | lm loss value: 1.2E+00 |\n" + iteration(400) +
          "saving checkpoint at iteration 4 to /x\n  successfully saved checkpoint at 4\n" +
          iteration(300) + iteration(101);
  const ImportedTrace trace = import(text);
  const UsualSteps steps = trace.timers->usual_steps();
  EXPECT_THAT(steps.usual, ElementsAre(100, 102, 101));
  EXPECT_THAT(steps.first, ElementsAre(900));
  EXPECT_THAT(steps.evaluating, ElementsAre(400));
  EXPECT_THAT(steps.saving, ElementsAre(300));
  EXPECT_EQ(steps.text(),
            "3 steps, without the first (900.00 ms) and 1 with an evaluation (mean 400.00 ms) and "
            "1 with saving (mean 300.00 ms)");
  // Of one step nothing can be left out.
  EXPECT_THAT(import(iteration(900)).timers->usual_steps().usual, ElementsAre(900));
  // Without iterations, those of the three phases.
  const std::string record = "time (ms) | fwd: 1.00 | bwd: 2.00 | step: 4.00\n";
  EXPECT_THAT(import(record + record).timers->usual_steps().usual, ElementsAre(7));
}

// fp16's loss scale is too large at first: the optimizer's step is over at once.
TEST(TimerLog, StepsWhoseUpdateIsSkippedAreNotLikeTheOthers) {
  const std::string record = "time (ms) | fwd: 1.00 | bwd: 2.00 | step: 4.00\n";
  const std::string skipped =
      "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
      "time (ms) | fwd: 1.00 | bwd: 2.00 | step: 0.10\n";
  const UsualSteps steps =
      import(record + skipped + skipped + record + record).timers->usual_steps();
  EXPECT_THAT(steps.usual, ElementsAre(7, 7));
  EXPECT_THAT(steps.skipping, ::testing::Each(::testing::DoubleNear(3.1, 1e-9)));
  EXPECT_THAT(steps.skipping, ::testing::SizeIs(2));
}

// Where all evaluate, the first is left out all the same.
TEST(TimerLog, LeavesOutTheFirstOfStepsThatAllEvaluate) {
  std::string text;
  for (const int ms : {1500, 1000, 1002}) {
    text += " iteration 1/ 9 | elapsed time per iteration (ms): " + std::to_string(ms) +
            ".0 |\n validation loss at iteration 3 | lm loss value: 1.2E+00 |\n";
  }
  EXPECT_THAT(import(text).timers->usual_steps().usual, ElementsAre(1000, 1002));
}

// DeepSpeed's timers of a step: what is evaluated before it is in its forward, saving in none.
TEST(TimerLog, TellsStepsOfTimersApart) {
  const auto step = [](double forward, double backward) {
    return kHead +
           fmt::format(
               "time (ms) | fwd_microstep: {0:.2f} | bwd_microstep: {1:.2f} | "
               "step_microstep: 5.00\n",
               forward, backward) +
           kHead +
           fmt::format("time (ms) | fwd: {0:.2f} | bwd: {1:.2f} | step: 5.00\n", forward, backward);
  };
  const std::string text = step(90, 40) + step(20, 40) + "{'eval_loss': '4.86'}\n" + step(25, 40) +
                           "[Torch] Saving /x/model_states.pt...\n" + step(21, 41) + step(70, 40) +
                           step(22, 80) + step(60, 120) + step(20, 40);
  const UsualSteps steps = import(text).timers->usual_steps();
  EXPECT_THAT(steps.first, ElementsAre(135));
  EXPECT_THAT(steps.evaluating, ElementsAre(70)) << "the log says so";
  EXPECT_THAT(steps.long_forward, ElementsAre(115));
  EXPECT_THAT(steps.usual, ElementsAre(65, 67, 107, 185, 65)) << "backward takes longer as well";
  EXPECT_EQ(steps.text(),
            "5 steps, without the first (135.00 ms) and 1 with an evaluation (mean 70.00 ms) and 1 "
            "with a long forward, as an evaluation makes it (mean 115.00 ms)");
}

// Sums are of as many micro steps as the log has of them; under ZenFlow an update interval.
TEST(TimerLog, SaysHowManyMicroStepsAStepHas) {
  const auto steps_of = [](const std::string& text) { return import(text).timers->usual_steps(); };
  const std::string micro =
      "rank=0 time (ms) | fwd_microstep: 1.00 | bwd_microstep: 2.00 | step_microstep: 0.50\n";
  const std::string sum = "rank=0 time (ms) | fwd: 3.00 | bwd: 6.00 | step: 1.50\n";
  const std::string step = micro + micro + micro + sum;
  EXPECT_EQ(steps_of(micro + micro).text(), "1 micro steps, without the first (3.50 ms)");
  EXPECT_EQ(steps_of(step + step + micro).text(),
            "1 steps of 3 micro steps, without the first (10.50 ms)");
  EXPECT_EQ(steps_of(sum + sum).text(), "1 steps, without the first (10.50 ms)");
  EXPECT_EQ(steps_of(micro + "elapsed time per iteration (ms): 9.0\n").text(), "1 steps");
}

// DeepSpeed's memory lines, of which the one with the largest share says most; its report of the
// environment; Megatron's settings and transformers'.
TEST(TimerLog, TakesWhatIsPrintedOfTheMachineAndOfRecomputing) {
  const auto machine_of = [](const std::string& text) {
    return import(text + "time (ms) | fwd: 1.00\n").timers->machine;
  };
  const std::string memory = "[INFO] [utils.py:808:see_memory_usage] CPU Virtual Memory:  used = ";
  const PrintedMachine machine =
      machine_of(memory + "10.05 GB, percent = 2.0%\n" + memory + "372.49 GB, percent = 74.1%\n" +
                 memory + "243.66 GB, percent = 48.4%\n" +
                 "shared memory (/dev/shm) size .... 251.49 GB\n"
                 "  checkpoint_activations .......................... True\n"
                 "  deepspeed_activation_checkpointing .............. False\n");
  EXPECT_NEAR(machine.host_memory / 0x1p30, 502.7, 0.05);
  EXPECT_NEAR(machine.shared_memory / 0x1p30, 251.49, 1e-6);
  EXPECT_EQ(machine.checkpoints_activations, true);
  EXPECT_EQ(machine.checkpointing_setting, "checkpoint_activations");
  EXPECT_EQ(machine_of("TrainingArguments(gradient_checkpointing=True,\n").checkpoints_activations,
            true);
  EXPECT_EQ(machine_of("  recompute_granularity ....... full\n").checkpoints_activations, true);
  EXPECT_EQ(machine_of("  checkpoint_activations ...... False\n").checkpoints_activations, false);
  const PrintedMachine nothing = machine_of("  recompute_granularity ....... None\n");
  EXPECT_FALSE(nothing.checkpoints_activations.has_value());
  EXPECT_EQ(nothing.host_memory, 0);
}

TEST(TimerLog, TakesIterationsInSeconds) {
  const TimerLog log =
      *import(
           " iteration 1/ 10 | elapsed time per iteration (s): 1.25 | lm loss: 2 |\n"
           " iteration 2/ 10 | elapsed time per iteration (s): 0.75 | lm loss: 2 |\n")
           .timers;
  EXPECT_THAT(log.iterations.values, ElementsAre(1250.0, 750.0));
  EXPECT_EQ(log.step_ms, 1000.0);
}

TEST(TimerLog, TakesIterationsOfNanotronAndOfKeysAndValues) {
  const ImportedTrace trace = import(
      "[default0]:07/24/2024 10:00:00 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 9 | "
      "elapsed_time_per_iteration_ms: 2.51K | tokens_per_sec: 1.64K |\n"
      "iteration: 2 / 9 | elapsed_time_per_iteration_ms: 313 | tokens_per_sec: 13K\n"
      "step=3 elapsed_time_per_iteration_ms=314.5 loss=2.0\n");
  EXPECT_THAT(trace.timers->iterations.values, ElementsAre(2510, 313, 314.5));
  EXPECT_THAT(trace.problems, ElementsAre(HasSubstr("run.log:1: times in thousands (K)")));
}

TEST(TimerLog, ReadsMegatronsListsOfAllRanks) {
  const ImportedTrace trace = import(
      "done with setup ...\n"
      "(min, max) time across ranks (ms):\n"
      "    model-and-optimizer-setup ......................: (63763.34, 63857.25)\n"
      "    train/valid/test-data-iterators-setup ..........: (12936.53, 13432.64)\n"
      "[before the start of training step] datetime: 2024-06-21 10:48:53\n"
      " elapsed time per iteration (ms): 40.5 | lm loss: 1.2E+01 |\n"
      "[default0]:(min, max) time across ranks (ms):\n"
      "[default0]:    forward-compute ................................: (10.00, 12.00)\n"
      "[default0]:    optimizer ......................................: (1.00, 3.00)\n"
      " elapsed time per iteration (ms): 41.5 | lm loss: 1.2E+01 |\n"
      "max time across ranks (ms):\n"
      "    forward-compute ................................: 14.00\n"
      "\n"
      "not-a-timer ................................: 14.00\n"
      "saved (min, max) time across ranks (ms): save-checkpoint .......: (24895.07, 24895.13)\n");
  const TimerLog& log = *trace.timers;
  EXPECT_THAT(log.timers, IsEmpty());
  EXPECT_EQ(log.records, 0U);
  ASSERT_THAT(log.across_ranks, SizeIs(5));
  EXPECT_EQ(log.across_ranks[0].name, "model-and-optimizer-setup");
  EXPECT_THAT(log.across_ranks[1].longest, ElementsAre(13432.64));
  EXPECT_EQ(log.across_ranks[2].name, "forward-compute");
  EXPECT_THAT(log.across_ranks[2].shortest, ElementsAre(10.0));
  EXPECT_THAT(log.across_ranks[2].longest, ElementsAre(12.0, 14.0));
  EXPECT_EQ(log.across_ranks[4].name, "save-checkpoint");
  EXPECT_EQ(log.forward_ms, 13.0) << "of the slowest rank";
  EXPECT_EQ(log.optimizer_ms, 3.0);
  EXPECT_TRUE(std::isnan(log.backward_ms));
  EXPECT_EQ(log.step_ms, 41.0);
}

// Every rank's time below the timer's name; of one rank, neither ranks nor their extremes.
TEST(TimerLog, ReadsMegatronsOtherLists) {
  const TimerLog log = *import(
                            "times across ranks (ms):\n"
                            "  forward-compute:\n"
                            "     rank  0: 10.50\n"
                            "     rank  1: 12.25\n"
                            "     rank 10: 9.00\n"
                            "  backward-compute:\n"
                            "     rank  0: 20.00\n"
                            "training ...\n"
                            "     rank  3: 99.00\n"
                            "time (ms):\n"
                            "    optimizer ......................................: 2.50\n")
                            .timers;
  ASSERT_THAT(log.across_ranks, SizeIs(3));
  EXPECT_THAT(log.across_ranks[0].shortest, ElementsAre(9.0));
  EXPECT_THAT(log.across_ranks[0].longest, ElementsAre(12.25));
  EXPECT_THAT(log.across_ranks[1].longest, ElementsAre(20.0));
  EXPECT_THAT(log.across_ranks[2].longest, ElementsAre(2.5));
  EXPECT_EQ(log.forward_ms, 12.25);
  EXPECT_EQ(log.backward_ms, 20.0);
  EXPECT_EQ(log.optimizer_ms, 2.5);
}

// Where the engine's own records tell a phase, its lists of all ranks are beside it.
TEST(TimerLog, RecordsGoBeforeListsOfAllRanks) {
  const TimerLog log = *import(
                            "time (ms) | forward-compute: 4.00 | optimizer: 3.00\n"
                            "(min, max) time across ranks (ms):\n"
                            "    forward-compute .....: (10.00, 12.00)\n"
                            "    optimizer: (1e308, 1e308)\n")
                            .timers;
  EXPECT_EQ(log.forward_ms, 4.0);
  EXPECT_THAT(log.across_ranks, SizeIs(1));
}

TEST(TimerLog, DurationsBeyondTheClockAreLeftOut) {
  const ImportedTrace trace = import(
      "time (ms) | fwd: 1e308 | bwd: 5000000000.00 | step: 2.00\n"
      "elapsed time per iteration (ms): 9223372036854775807\n");
  EXPECT_THAT(trace.timers->timers, SizeIs(1));
  EXPECT_THAT(trace.left_out, SizeIs(1));
  EXPECT_EQ(trace.left_out[0].what, "timers of more than 26 days");
  EXPECT_EQ(trace.left_out[0].count, 3U);
  EXPECT_EQ(trace.left_out[0].first, "line 1");
}

// Twenty days each: the sixth would end after what 64 bits of picoseconds count.
TEST(TimerLog, TheTimelineEndsWhereTheClockDoes) {
  std::string text;
  for (int i = 0; i < 7; ++i) text += "elapsed time per iteration (ms): 1728000000\n";
  const ImportedTrace trace = import(text);
  EXPECT_THAT(trace.timeline.steps, SizeIs(5));
  EXPECT_THAT(trace.problems,
              ElementsAre(HasSubstr("the timeline ends after 106 days, with step 5 of 7")));
  EXPECT_EQ(trace.timers->step_ms, 1.728e9) << "of all seven";
}

TEST(TimerLog, RefusesALogWithoutTimers) {
  EXPECT_THAT(
      testing::error_of([] { static_cast<void>(import("loss 1.0\nloss 0.9\n")); }).second,
      HasSubstr("run.log: no trace: neither Chrome JSON nor SQLite, and none of its 2 lines"));
}

}  // namespace
}  // namespace zenflow::sim
