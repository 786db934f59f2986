// Ranks that mpirun starts, as a user starts them.
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/rank_program.h"

namespace zenflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainRanks : public RankProgram {
 protected:
  /// A rank that gets a signal when the first checkpoint is there. The shell's process becomes it.
  [[nodiscard]] static Arguments signalled(const std::string& signal, const Arguments& arguments) {
    const std::string script =
        "(until ls saved 2>/dev/null | grep -qx 'checkpoint-[0-9]*'; do sleep 0.05; done; "
        "kill -" +
        signal + " $$) & exec \"$@\"";
    return Arguments{"-np", "1", "/bin/sh", "-c", script, "sh", ZENFLOW_TRAIN} + arguments;
  }
};

/// Nobody has a weight before its owner has begun to send it: a false clock would show that.
void expect_weights_come_after_their_owner(const nlohmann::json& trace) {
  std::map<int, std::vector<std::pair<double, double>>> stays;
  double uncertain = 0;
  for (const nlohmann::json& rank : trace.at("zenflow_ranks")) {
    uncertain += rank.at("clock_uncertainty_ns").get<double>() / 1e3;
  }
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.value("name", "") != "gather weights") continue;
    const double start = event.at("ts");
    stays[event.at("pid")].emplace_back(start, start + event.at("dur").get<double>());
  }
  ASSERT_EQ(stays.size(), 2U);
  ASSERT_EQ(stays[0].size(), stays[1].size());
  // The first group's first tensor is rank 0's, the last group's last one rank 1's.
  const std::size_t groups = stays[0].size() / 8;  // seven steps and a validation
  for (std::size_t i = 0; i < stays[0].size(); i += groups) {
    EXPECT_GE(stays[1][i].second + uncertain, stays[0][i].first);
    EXPECT_GE(stays[0][i + groups - 1].second + uncertain, stays[1][i + groups - 1].first);
  }
}

TEST_F(TrainRanks, GiveTheWeightsOfOneRankWithTheGlobalBatch) {
  for (const auto& [schedule, batch] : {std::pair("gpu-only", "1"), std::pair("zero-offload", "1"),
                                        std::pair("zenflow", "1"), std::pair("zenflow", "2")}) {
    const Arguments job =
        with(short_run(), "--micro-batch-size", batch) + Arguments{"--schedule", schedule};
    const Outcome two =
        mpirun(ranks(2, job + Arguments{"--save-weights", "two.safetensors", "-f", "--json"}));
    ASSERT_EQ(two.code, 0) << two.err;
    const Outcome one = run(job + Arguments{"--save-weights", "one.safetensors", "-f",
                                            "--gradient-accumulation-steps", "2"});
    ASSERT_EQ(one.code, 0) << one.err;
    EXPECT_TRUE(content("two.safetensors") == content("one.safetensors")) << schedule << batch;
    // One rank speaks, for all.
    const nlohmann::json document = nlohmann::json::parse(two.out);
    ASSERT_EQ(document.at("results").size(), 1U);
    EXPECT_EQ(document.at("hardware").at("gpus"), 2);
    const nlohmann::json& result = document.at("results").at(0);
    // Each gradient goes to its owner once a step, each weight to the other rank.
    const nlohmann::json& bytes = document.at("model").at("bytes");
    EXPECT_EQ(result.at("ranks").at("gradient_bytes_per_step"), bytes);
    EXPECT_EQ(result.at("ranks").at("weight_bytes_per_step"), bytes);
    if (std::string_view(schedule) == "zero-offload") {
      EXPECT_EQ(result.at("pcie").at("model_sizes_per_step"), 2.0);
    }
  }
}

TEST_F(TrainRanks, ThatWouldDoOtherStepsEndTheJob) {
  const Outcome outcome = mpirun(ranks(1, short_run()) + Arguments{":"} +
                                 ranks(1, short_run() + Arguments{"--evaluate-interval", "2"}));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1: trains something else than rank 0: "
                                     "--evaluate-interval is 2, there 0"));
}

TEST_F(TrainRanks, ThatBeginWithOtherWeightsEndTheJob) {
  const auto weights = [](const char* name) {
    return short_run() + Arguments{"--weights", name, "--seed", "5"};
  };
  for (const auto& [seed, name] :
       {std::pair("1", "a.safetensors"), std::pair("2", "b.safetensors")}) {
    const Arguments saved{"--seed", seed, "--save-weights", name};
    ASSERT_EQ(run(short_run() + saved).code, 0);
  }
  EXPECT_EQ(mpirun(ranks(2, weights("a.safetensors"))).code, 0);
  Outcome outcome = mpirun(ranks(1, weights("a.safetensors")) + Arguments{":"} +
                           ranks(1, weights("b.safetensors")));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1: trains something else than rank 0: --weights "
                                     "b.safetensors differs from what it has there in 21 of 21 "
                                     "tensors, the first is model.embed_tokens.weight"));
  outcome = mpirun(ranks(1, weights("a.safetensors")) + Arguments{":"} +
                   ranks(1, short_run() + Arguments{"--seed", "5"}));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1: trains something else than rank 0: "
                                     "--weights is false, there true"));
}

TEST_F(TrainRanks, ThatGoOnFromOtherCheckpointsEndTheJob) {
  ASSERT_EQ(run(short_run() + Arguments{"--seed", "1", "--save-weights", "w.safetensors"}).code, 0);
  const Arguments two{"--gradient-accumulation-steps", "2"};
  ASSERT_EQ(run(short_run() + two + Arguments{"--checkpoint", "a"}).code, 0);
  ASSERT_EQ(
      run(short_run() + two + Arguments{"--checkpoint", "b", "--weights", "w.safetensors"}).code,
      0);
  const auto resume = [](const char* folder) {
    return with(short_run(), "--steps", "9") + Arguments{"--resume", "--checkpoint", folder};
  };
  const Outcome outcome = mpirun(ranks(1, resume("a")) + Arguments{":"} + ranks(1, resume("b")));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1: b/checkpoint-7: is another one than rank 0's"));
  EXPECT_EQ(mpirun(ranks(2, resume("a"))).code, 0);
}

TEST_F(TrainRanks, SendGradientsOfMicroBatchesByTheirZeroStage) {
  const Arguments job = short_run() + Arguments{"--gradient-accumulation-steps", "3", "--json"};
  const auto sent = [&](const char* stage) {
    const Outcome outcome = mpirun(ranks(2, job + Arguments{"--zero-stage", stage}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const nlohmann::json document = nlohmann::json::parse(outcome.out);
    const nlohmann::json& result = document.at("results").at(0);
    return result.at("ranks").at("gradient_bytes_per_step").get<double>() /
           document.at("model").at("bytes").get<double>();
  };
  EXPECT_EQ(sent("2"), 3);
  EXPECT_EQ(sent("1"), 1);
  const Outcome mixed =
      mpirun(ranks(1, job + Arguments{"--zero-stage", "1"}) + Arguments{":"} + ranks(1, job));
  EXPECT_EQ(mixed.code, 2) << mixed.err;
  EXPECT_THAT(mixed.err, HasSubstr("--zero-stage is 2, there 1"));
  EXPECT_EQ(run(job + Arguments{"--zero-stage", "3"}).code, 2);
}

TEST_F(TrainRanks, OfAnotherMpiAreNotTakenForOne) {
  Surroundings surroundings = around();
  surroundings.environment = {
      {"PMI_SIZE", "4"}, {"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  const Outcome outcome = run_in(surroundings, short_run());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("PMI_SIZE is 4 in the environment, but MPI finds 1"));
}

TEST_F(TrainRanks, ThatFailAloneEndTheJob) {
  // Only one rank may not write its weights: it fails when the others have begun nothing.
  const Outcome outcome =
      mpirun(ranks(1, short_run()) + Arguments{":"} +
             ranks(1, short_run() + Arguments{"--save-weights", "no/such/folder.safetensors"}));
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("zenflow-train: rank 1: "));
}

TEST_F(TrainRanks, ThatStopAnsweringEndTheJob) {
  const Arguments job =
      basic() +
      Arguments{
          "--steps",        "100000000", "--checkpoint", "saved", "--checkpoint-interval", "1",
          "--rank-timeout", "5"};
  const Outcome outcome = mpirun(ranks(1, job) + Arguments{":"} + signalled("STOP", job));
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 has not answered for 5 s (--rank-timeout)"));
}

TEST_F(TrainRanks, GoOnFromCheckpointsOfAnyNumberOfThem) {
  const auto part = [](const char* steps) {
    return basic() +
           Arguments{"--micro-batch-size", "1",      "--update-interval", "3", "--steps", steps,
                     "--schedule",         "zenflow"};
  };
  const Arguments alone{"--gradient-accumulation-steps", "2"};
  const Arguments save{"--save-weights", "whole.safetensors", "-f"};
  ASSERT_EQ(run(part("9") + alone + save).code, 0);
  const std::string whole = content("whole.safetensors");

  // Two ranks, one, two again; each time in the middle of a window.
  const Arguments checkpoint{"--checkpoint", "saved", "--checkpoint-interval", "2"};
  const Arguments resume = checkpoint + Arguments{"--resume"};
  Outcome outcome = mpirun(ranks(2, part("4") + checkpoint));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(files().contains("saved/checkpoint-2.rank-1"));
  EXPECT_TRUE(files().contains("saved/checkpoint-4.rank-1"));
  outcome = run(part("5") + alone + resume);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_FALSE(files().contains("saved/checkpoint-2.rank-1"));  // two are kept
  EXPECT_FALSE(files().contains("saved/checkpoint-5.rank-1"));
  outcome = mpirun(ranks(2, part("9") + resume + save));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("checkpoint-5 after step 5"));
  EXPECT_EQ(content("whole.safetensors"), whole);
}

TEST_F(TrainRanks, DoNotGoOnFromACheckpointWithoutAllShards) {
  const Arguments job =
      short_run() + Arguments{"--checkpoint", "saved", "--checkpoint-interval", "3"};
  ASSERT_EQ(mpirun(ranks(2, job)).code, 0);
  ASSERT_TRUE(std::filesystem::remove(folder_ / "saved/checkpoint-7.rank-1"));
  Outcome outcome = mpirun(ranks(2, job + Arguments{"--resume"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("skipped a damaged checkpoint"),
                                 HasSubstr("checkpoint-6 after step 6")));
  // The global batch is a run's own.
  outcome = run(job + Arguments{"--resume"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("another run: ranks times gradient accumulation steps was 2, is 1 here"));
}

TEST_F(TrainRanks, ThatCannotWriteTheirShardEndTheJobAndLeaveTheLastCheckpoint) {
  const Arguments job = basic() + Arguments{"--micro-batch-size", "1",    "--update-interval", "2",
                                            "--checkpoint",       "saved"};
  ASSERT_EQ(mpirun(ranks(2, job + Arguments{"--steps", "3"})).code, 0);
  const Arguments more = job + Arguments{"--steps", "6", "--resume"};
  const Arguments full =  // a file of more than some KiB is too large
      Arguments{"-np", "1", "/bin/sh", "-c", "ulimit -f 8; exec \"$@\"", "sh", ZENFLOW_TRAIN} +
      more;
  Outcome outcome = mpirun(ranks(1, more) + Arguments{":"} + full);
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("zenflow-train: rank 1: saved/checkpoint-6.rank-1"));
  EXPECT_FALSE(files().contains("saved/checkpoint-6"));
  outcome = mpirun(ranks(2, more));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("checkpoint-3 after step 3"));
}

TEST_F(TrainRanks, DoNotSaveToFoldersOfTheirOwn) {
  const Arguments job = short_run() + Arguments{"--checkpoint"};
  std::filesystem::create_directory(folder_ / "other");
  const Outcome outcome = mpirun(ranks(1, job + Arguments{"saved"}) + Arguments{":"} +
                                 ranks(1, job + Arguments{"other"}));
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("--checkpoint has to be a folder that all ranks see"));
}

TEST_F(TrainRanks, StopAllAfterTheStepInWhichOneWasAskedTo) {
  const Arguments job =
      basic() +
      Arguments{"--steps", "100000000", "--checkpoint", "saved", "--checkpoint-interval", "1"};
  const Outcome outcome = mpirun(ranks(1, job) + Arguments{":"} + signalled("INT", job));
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("stopped after step"));
}

TEST_F(TrainRanks, LogTheImportanceOfAllMatricesAsOneDoes) {
  const auto with_log = [](const char* file) {
    return short_run() + Arguments{"--importance", file, "--select-interval", "2"};
  };
  Outcome outcome = mpirun(ranks(2, with_log("two.csv")));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  outcome = run(with_log("one.csv") + Arguments{"--gradient-accumulation-steps", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(content("two.csv"), content("one.csv"));
  EXPECT_THAT(content("two.csv"), HasSubstr("\n6,lm_head.weight,16,"));
}

TEST_F(TrainRanks, SelectFromAllMatricesByNormsAlone) {
  const Arguments job =
      short_run() + Arguments{"--topk-scope", "global", "--select-interval", "2", "--json"};
  const Outcome two = mpirun(ranks(2, job + Arguments{"--save-weights", "two.safetensors", "-f"}));
  ASSERT_EQ(two.code, 0) << two.err;
  const Outcome one = run(job + Arguments{"--save-weights", "one.safetensors", "-f",
                                          "--gradient-accumulation-steps", "2"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(content("two.safetensors") == content("one.safetensors"));
  const nlohmann::json sent = nlohmann::json::parse(two.out).at("results").at(0).at("ranks");
  // Of 272 columns with 12096 elements, at the ends of three windows in seven steps.
  EXPECT_NEAR(sent.at("selection_bytes_per_step"), 3 * 4 * 272 / 7.0, 1e-9);
  EXPECT_NEAR(sent.at("selection_by_gradients_bytes_per_step"), 3 * 4 * 12096 / 7.0, 1e-9);
  const Outcome local = mpirun(ranks(
      2, with(job, "--topk-scope", "matrix") + Arguments{"--save-weights", "local.safetensors"}));
  ASSERT_EQ(local.code, 0) << local.err;
  EXPECT_FALSE(content("local.safetensors") == content("two.safetensors"));
  const nlohmann::json none = nlohmann::json::parse(local.out).at("results").at(0).at("ranks");
  EXPECT_EQ(none.at("selection_bytes_per_step"), 0);
}

TEST_F(TrainRanks, ThatSelectFromAllMatricesAreNotFittedTo) {
  Outcome outcome =
      run(short_run() + Arguments{"--topk-scope", "global", "--trace", "global.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  folder_.write("ds.json", R"({"zero_optimization": {"stage": 2, "zenflow":
      {"topk_ratio": 0.1, "update_interval": 2}}})");
  folder_.write("scenario.yaml", "name: tiny\nmodel: llama.json\nhardware: " ZENFLOW_SOURCE_DIR
                                 "/profiles/this_host.yaml\ndeepspeed: ds.json\nschedules: "
                                 "[live-zenflow]\ntraining: {micro_batch_size_per_gpu: 1, "
                                 "sequence_length: 8, dtype: fp32}\n");
  outcome = run_program({ZENFLOW_CALIBRATE, "fit", "global.json", "--scenario", "scenario.yaml",
                         "--setting", "zenflow:0.1:2", "-o", "fitted.yaml"},
                        around());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("global.json: recorded with --topk-scope global"));
}

TEST_F(TrainRanks, TuneWhileTheyTrain) {
  const Outcome outcome = mpirun(
      ranks(2, basic() + Arguments{"--steps", "60", "--update-interval", "auto", "--tune", "live",
                                   "--topk-range", "0.1:0.6", "--max-staleness", "9", "--json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json tuning = nlohmann::json::parse(outcome.out).at("results").at(0).at("tuning");
  EXPECT_FALSE(tuning.at("windows").empty());
  for (const nlohmann::json& event : tuning.at("events")) {  // how many depends on the machine
    EXPECT_NE(event.at("kind"), "failed") << event;
  }
}

TEST_F(TrainRanks, AgreeOnAnIntervalThatTheyChoose) {
  const Outcome outcome =
      mpirun(ranks(2, basic() + Arguments{"--steps", "40", "--update-interval", "auto", "--json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json result = nlohmann::json::parse(outcome.out).at("results").at(0);
  EXPECT_TRUE(result.at("update_interval_is_auto"));
  EXPECT_GT(result.at("decisions").size(), 1U);
}

TEST_F(TrainRanks, WriteATraceEachThatMergeOnOneClock) {
  Outcome outcome =
      mpirun(ranks(2, short_run() + Arguments{"--schedule", "zenflow", "--trace", "t.json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string merge = ZENFLOW_CALIBRATE;
  outcome = run_program({merge, "merge", "t.rank-1.json", "t.json", "-o", "both.json"}, around());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  outcome = run_program({ZENFLOW_SIM, "explain", "--trace", "both.json", "--json"}, around());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json trace = nlohmann::json::parse(outcome.out).at("traces").at(0);
  ASSERT_EQ(trace.at("devices").size(), 2U);
  EXPECT_EQ(trace.at("steps").at("count"), 7);
  const nlohmann::json& waits = trace.at("rank_waits");
  ASSERT_EQ(waits.size(), 2U);
  // Embedding, two blocks and head: weights in seven steps and a validation, gradients in steps.
  EXPECT_EQ(waits.at(0).at("collectives"), 4 * (8 + 7));
  expect_weights_come_after_their_owner(nlohmann::json::parse(content("both.json")));
  outcome = run_program({merge, "merge", "t.json", "-o", "one.json"}, around());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("of 2 ranks, but that of rank 1 is not among the 1 files"));
}

}  // namespace
}  // namespace zenflow::testing
