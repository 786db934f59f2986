/// What a row of the table of knobs brings, shown by adding one: its key in scenarios or
/// DeepSpeed's file, its short name, its flag, the flag's help and the commands that have it, its
/// place in recordings and in a checkpoint's identity.
#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/train/run_identity.h"
#include "sim/base/error.h"
#include "sim/config/scenario.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/offload/knob_rows.h"
#include "sim/trace/recorded_run.h"
#include "tests/support/scenario_files.h"
#include "tools/train/options.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr SetupKnob kAdded = {.name = "spare_threads",
                              .path = "zenflow_train.spare_threads",
                              .flag = "--spare-threads",
                              .identity = "spare threads",
                              .field = &TrainingSetup::sum_threads,
                              .low = 2,
                              .high = 64,
                              .most_trained = 32,
                              .help = "that wait for something to do",
                              .read_by = SetupReader::kZenFlowTrain,
                              .affects = SetupEffect::kTime};
constexpr SetupKnob kAddedToDeepSpeed = {.name = "first_rounds",
                                         .path = "deepspeed.zero_optimization.zenflow.first_rounds",
                                         .flag = "",
                                         .identity = "",
                                         .field = &TrainingSetup::full_warm_up_rounds,
                                         .high = 9,
                                         .help = "that are another word for full_warm_up_rounds",
                                         .read_by = SetupReader::kDeepSpeed,
                                         .affects = SetupEffect::kWeights};

}  // namespace

/// In place of the library's.
std::span<const SetupKnob> setup_knobs() {
  static const auto kKnobs = [] {
    std::array<SetupKnob, kSetupKnobs.size() + 2> all;
    std::copy(kSetupKnobs.begin(), kSetupKnobs.end(), all.begin());
    all[kSetupKnobs.size()] = kAdded;
    all.back() = kAddedToDeepSpeed;
    return all;
  }();
  return kKnobs;
}

namespace {

Scenario scenario_with(const SetupKnob& knob, const std::string& value) {
  const zenflow::testing::TemporaryFolder folder;
  const LoadOptions options{.profile_directories = {folder / "profiles"},
                            .profile = {},
                            .overrides = {{std::string(knob.path), value}}};
  return load_scenario(zenflow::testing::write_scenario(folder), options);
}

TEST(AddedKnob, IsAKeyOfScenariosWithAShortName) {
  EXPECT_EQ(scenario_with(kAdded, "5").offload.sum_threads, 5);
  EXPECT_THROW(static_cast<void>(scenario_with(kAdded, "65")), Error);
  EXPECT_EQ(expand_short_name("spare_threads"), kAdded.path);
}

TEST(AddedKnob, IsAKeyOfDeepSpeedsBlock) {
  const auto rounds = [](const std::string& value) {
    const Scenario scenario = scenario_with(kAddedToDeepSpeed, value);
    return read_deepspeed_config(scenario.deepspeed).zenflow->full_warm_up_rounds;
  };
  EXPECT_EQ(rounds("5"), 5);
  EXPECT_EQ(rounds("auto"), 0);
  EXPECT_THROW(static_cast<void>(rounds("10")), Error);
}

TEST(AddedKnob, IsAFlagWithItsHelp) {
  tools::TrainCommand command;
  CLI::App app;
  add_train_options(app, command);
  EXPECT_THAT(app.help(), AllOf(HasSubstr("--spare-threads INT:INT in [2 - 32]"),
                                HasSubstr("that wait for something to do")));
  app.parse("--model m --data d --spare-threads 7");
  EXPECT_EQ(command.setup.sum_threads, 7);
}

TEST(AddedKnob, IsInCommandsWhichSayTheWholeSetup) {
  TrainingSetup setup;
  setup.topk_ratio = 0.25;
  setup.full_warm_up_rounds = 3;
  setup.overlap_step = false;
  setup.accumulate_on_device = true;
  setup.micro_batch_size_per_gpu = 5;
  setup.activation_checkpointing = true;
  setup.sequence_length = 96;
  setup.sum_threads = 7;
  EXPECT_THAT(setup_flags(setup), HasSubstr(" --spare-threads 7"));
  tools::TrainCommand command;
  CLI::App app;
  add_train_options(app, command);
  app.parse("--model m --data d" + setup_flags(setup));
  EXPECT_EQ(command.setup, setup);
  setup.schedule = OffloadSchedule::kZeroOffload;
  setup.optimizer_threads = 0;
  EXPECT_THAT(setup_flags(setup), Not(AnyOf(HasSubstr("topk"), HasSubstr("optimizer"))));
}

TEST(AddedKnob, IsInRecordings) {
  RecordedRun run;
  run.sum_threads = 9;
  Timeline timeline;
  write_recorded_run(timeline, run);
  EXPECT_EQ(recorded_run(timeline), run);
}

TEST(AddedKnob, IsInACheckpointsIdentity) {
  runtime::TrainOptions options;
  options.offload.sum_threads = 9;
  EXPECT_THAT(run_identity(options, {}, {}, {}), HasSubstr("spare threads: 9\n"));
}

}  // namespace
}  // namespace zenflow::sim
