// zenflow-train --tune live as its user meets it.
#include "tests/support/train_program.h"

namespace zenflow {
namespace {

using ::testing::AllOf;
using testing::Arguments;
using testing::operator+;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Surroundings;
using testing::TrainProgram;

class TrainTune : public TrainProgram {};

TEST_F(TrainTune, TheResultHasEveryWindowAndEvent) {
  const nlohmann::json result =
      this->result(basic() + Arguments{"--steps", "60", "--update-interval", "auto", "--tune",
                                       "live", "--start-interval", "2", "--max-staleness", "9"});
  EXPECT_EQ(result.at("update_interval_is_auto"), true);
  EXPECT_FALSE(result.contains("decisions")) << "those are Zen-auto's";
  const nlohmann::json& tuning = result.at("tuning");
  ASSERT_FALSE(tuning.at("windows").empty());
  EXPECT_EQ(tuning.at("windows").at(0).at("update_interval"), 2);
  std::int64_t before = 2;
  for (const nlohmann::json& window : tuning.at("windows")) {
    const std::int64_t now = window.at("update_interval");
    EXPECT_LE(before + now - 1, 9);
    before = now;
    EXPECT_GT(window.at("step_time_ms"), 0);
    EXPECT_EQ(window.at("topk_ratio"), 0.1);
    EXPECT_TRUE(window.contains("window") && window.contains("first_step"));
    EXPECT_TRUE(window.contains("recorded"));
    EXPECT_TRUE(window.contains("importance_due"));
  }
  EXPECT_LE(result.at("staleness_steps").at("max"), 9);
  for (const nlohmann::json& event : tuning.at("events")) {  // how many depends on the machine
    for (const char* key :
         {"window", "kind", "previous", "next", "measured_ms", "predicted_ms", "noise", "reason"}) {
      EXPECT_TRUE(event.contains(key)) << key;
    }
    const bool is_fit = event.at("kind") == "fitted";
    for (const char* key : {"fit_ms", "predictions", "other_cores", "other_threads"}) {
      EXPECT_EQ(is_fit, event.contains(key)) << key;
    }
    if (!is_fit) continue;
    const nlohmann::json& cores = event.at("other_cores");  // null: not known
    EXPECT_TRUE(cores.is_null() || cores >= 0) << cores;
    EXPECT_GE(event.at("other_threads"), 0);
  }
}

TEST_F(TrainTune, TunesWithSumsOnTheDevice) {
  const nlohmann::json result =
      this->result(basic() + Arguments{"--steps", "60", "--update-interval", "auto", "--tune",
                                       "live", "--start-interval", "2", "--max-staleness", "9",
                                       "--accumulate-on", "device"});
  const nlohmann::json& tuning = result.at("tuning");
  ASSERT_FALSE(tuning.at("windows").empty());
  for (const nlohmann::json& event : tuning.at("events")) {
    EXPECT_NE(event.at("kind"), "failed") << event;
  }
}

TEST_F(TrainTune, TheRatioStaysWithinItsRange) {
  const nlohmann::json result = this->result(
      basic() + Arguments{"--steps", "60", "--update-interval", "auto", "--tune", "live",
                          "--max-staleness", "3", "--topk-ratio", "0.2", "--topk-range", "0.1:0.6",
                          "--max-deferred-share", "0.95", "--select-interval", "8"});
  EXPECT_EQ(result.at("topk_range"), (nlohmann::json{0.1, 0.6}));
  EXPECT_GE(result.at("topk_ratio"), 0.1);
  EXPECT_LE(result.at("topk_ratio"), 0.6);
  EXPECT_EQ(result.at("tuning").at("windows").at(0).at("topk_ratio"), 0.2);
  for (const nlohmann::json& window : result.at("tuning").at("windows")) {
    EXPECT_GE(window.at("topk_ratio"), 0.1);
    EXPECT_LE(window.at("topk_ratio"), 0.6);
    EXPECT_GE(window.at("deferred_share"), 0);
    EXPECT_LE(window.at("deferred_share"), 1);
    EXPECT_TRUE(window.contains("selection_ms"));
  }
  for (const nlohmann::json& event : result.at("tuning").at("events")) {
    const bool moves = event.at("previous").at("topk_ratio") != event.at("next").at("topk_ratio");
    EXPECT_EQ(event.contains("selection_ms"), moves);
  }
}

TEST_F(TrainTune, RefusesARangeThatMeansNothing) {
  const Arguments live = {"--update-interval", "auto", "--tune", "live"};
  const Arguments range = {"--topk-range", "0.05:0.3"};
  for (const Arguments& other :
       {Arguments{}, Arguments{"--tune", "live"}, Arguments{"--update-interval", "auto"},
        live + Arguments{"--schedule", "zero-offload"}}) {
    expect_refused_with(other + range, HasSubstr("--topk-range: only --tune live with"));
  }
  for (const char* bad : {"", "0.1", "0.1:", ":0.3", "0.1:0.3:0.5", "a:b", "0.1-0.3", "0.1: 0.3"}) {
    expect_refused_with(live + Arguments{"--topk-range", bad},
                        HasSubstr("--topk-range: expected LOW:HIGH"));
  }
  for (const char* bad : {"0:0.3", "0.3:0.1", "0.1:1", "nan:0.3", "0.1:nan"}) {
    expect_refused_with(live + Arguments{"--topk-range", bad},
                        HasSubstr("topk_range: expected two numbers above 0 and below 1"));
  }
  expect_refused_with(live + Arguments{"--topk-range", "1e-310:0.5"},
                      HasSubstr("topk_range: expected at least 1e-06"));
  expect_refused_with(live + range + Arguments{"--topk-ratio", "0.4"},
                      HasSubstr("topk_ratio: expected a number from 0.05 to 0.3 (topk_range)"));
  expect_refused_with(live + Arguments{"--max-deferred-share", "0.5"},
                      HasSubstr("--max-deferred-share: it limits what --topk-range may choose"));
  expect_refused_with(live + range + Arguments{"--max-deferred-share", "1.5"},
                      HasSubstr("--max-deferred-share"));
  expect_refused_with(live + range + Arguments{"--max-deferred-share", "nan"},
                      HasSubstr("--max-deferred-share"));
  expect_refused_with(
      live + range + Arguments{"--max-deferred-share", "0.5", "--column-norm", "l1"},
      HasSubstr("which --column-norm l1 does not measure"));
}

TEST_F(TrainTune, ACheckpointBelongsToTheSameRange) {
  const Arguments kept = basic() + Arguments{"--steps", "4",    "--update-interval", "auto",
                                             "--tune",  "live", "--checkpoint",      "kept"};
  ASSERT_EQ(run(kept + Arguments{"--topk-range", "0.1:0.3"}).code, 0);
  const auto other = run(kept + Arguments{"--resume", "--topk-range", "0.1:0.4"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("topk_range was 0.1 0.3, is 0.1 0.4 here"));
}

TEST_F(TrainTune, RefusesWhatCannotBePredicted) {
  const Arguments live = {"--update-interval", "auto", "--tune", "live"};
  expect_refused_with(live + Arguments{"--whole-step-gradients", "false"},
                      HasSubstr("--tune live: steps with --whole-step-gradients false"));
  expect_refused_with(live + Arguments{"--topk-scope", "global"},
                      HasSubstr("--tune live: steps with --topk-scope global cannot be predicted"));
  expect_refused_with(live + Arguments{"--topk-ratio", "1"}, HasSubstr("nothing is deferred"));
  expect_refused_with(live + Arguments{"--tune-slack", "2"}, HasSubstr("--tune-slack"));
  expect_refused_with({"--tune", "dead"}, HasSubstr("--tune"));
  expect_refused_with({"--start-interval", "0"}, HasSubstr("--start-interval"));
  const Arguments late{"--update-interval", "auto", "--max-staleness", "9", "--start-interval"};
  expect_refused_with(late + Arguments{"6"}, HasSubstr("--start-interval: expected at most 5, by "
                                                       "--max-staleness 9 with overlap; found 6"));
  expect_refused_with(late + Arguments{"11", "--overlap-step", "false"},
                      HasSubstr("expected at most 10, by --max-staleness 9; found 11"));
  EXPECT_EQ(run(basic() + late + Arguments{"5", "--steps", "1"}).code, 0);
}

TEST_F(TrainTune, WithoutAGpuItIsFiveAndNothingIsWritten) {
  // Whatever the build and the machine: no GPU is visible.
  const Surroundings none{.folder = folder_.path(), .environment = {{"CUDA_VISIBLE_DEVICES", ""}}};
  const std::set<std::string> before = files();
  const auto outcome =
      run_in(none, basic() + Arguments{"--update-interval", "auto", "--tune", "live", "--device",
                                       "cuda", "--checkpoint", "run"});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("zenflow-train: --device cuda: found "));
  EXPECT_EQ(files(), before);
}

TEST_F(TrainTune, SaysWhatHasNoEffect) {
  const auto notes = [&](const Arguments& more) {
    return run(basic() + Arguments{"--steps", "1"} + more).err;
  };
  EXPECT_THAT(notes({"--tune", "live"}),
              HasSubstr("--tune has no effect: it belongs to --update-interval auto"));
  EXPECT_THAT(notes({"--start-interval", "2"}), HasSubstr("--start-interval has no effect"));
  EXPECT_THAT(notes({"--update-interval", "auto", "--tune-slack", "0.1"}),
              HasSubstr("--tune-slack has no effect: it belongs to --tune live"));
  EXPECT_THAT(notes({"--update-interval", "auto", "--tune", "live", "--tune-slack", "0.1"}),
              Not(HasSubstr("has no effect")));
}

/// Not from the S of the command line, which is where Zen-auto began.
TEST_F(TrainTune, AResumedRunSaysTheIntervalThatItGoesOnWith) {
  const Arguments kept = {"--update-interval", "auto", "--checkpoint", "kept"};
  const auto first = run(basic() + kept + Arguments{"--steps", "40"});
  ASSERT_EQ(first.code, 0) << first.err;
  const std::string change = "S = 4 -> ";
  const std::size_t at = first.out.find(change);
  ASSERT_NE(at, std::string::npos) << first.out;
  const std::size_t begin = at + change.size();
  const std::string last = first.out.substr(begin, first.out.find(',', begin) - begin);
  const auto resumed = run(basic() + kept + Arguments{"--steps", "41", "--resume"});
  EXPECT_THAT(resumed.err, HasSubstr("S = " + last + " at first, by Zen-auto"));
}

TEST_F(TrainTune, ACheckpointBelongsToTheSameTuning) {
  const Arguments kept =
      basic() + Arguments{"--steps", "4", "--update-interval", "auto", "--checkpoint", "kept"};
  ASSERT_EQ(run(kept).code, 0);
  const auto other = run(kept + Arguments{"--resume", "--tune", "live"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("tuned while training was false, is true here"));
}

}  // namespace
}  // namespace zenflow
