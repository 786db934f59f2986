// The table of a setup's knobs: every row through a scenario, a recording and the runtime's words.
#include "sim/offload/knobs.h"

#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// Another value than the default.
double another(const SetupKnob& knob) {
  const double value = knob_value(knob, TrainingSetup());
  if (!knob.words.empty()) return value == 0 ? 1 : 0;
  if (is_switch(knob)) return 1 - value;
  return is_whole(knob) ? value + 3 : value / 2;
}

TEST(Knobs, AreCalledDifferentThings) {
  std::set<std::string_view> said;
  for (const SetupKnob& knob : setup_knobs()) {
    EXPECT_TRUE(said.insert(knob.name).second) << knob.name;
    for (const std::string_view other : {knob.flag, knob.path}) {
      EXPECT_TRUE(other.empty() || said.insert(other).second) << other;
    }
    EXPECT_EQ(&setup_knob(knob.name), &knob);
  }
}

TEST(Knobs, SayWhatTheyAreAndDo) {
  for (const SetupKnob& knob : setup_knobs()) {
    EXPECT_FALSE(knob.help.empty()) << knob.name;
    EXPECT_NE(knob.read_by, 0) << knob.name;
    EXPECT_NE(knob.affects, 0) << knob.name;
    // What changes weights must be known again by who goes on with a checkpoint, but for S, of
    // which the identity says auto or how many steps.
    const bool is_interval = knob.name.starts_with("update_interval");
    if ((knob.affects & SetupEffect::kWeights) != 0 && !is_interval) {
      EXPECT_FALSE(knob.identity.empty()) << knob.name;
    }
  }
}

TEST(Knobs, DefaultsAreInRange) {
  for (const SetupKnob& knob : setup_knobs()) {
    const double value = knob_value(knob, TrainingSetup());
    if (knob.words.empty()) {
      EXPECT_GE(value, knob.low) << knob.name;
      EXPECT_LE(value, knob.high) << knob.name;
    } else {
      EXPECT_LT(value, static_cast<double>(knob.words.size())) << knob.name;
      EXPECT_EQ(word_value(knob, knob_text(knob, TrainingSetup())), value) << knob.name;
    }
  }
}

TEST(Knobs, ComeBackFromARecording) {
  for (const SetupKnob& knob : setup_knobs()) {
    RecordedRun run;
    set_knob(knob, run, another(knob));
    EXPECT_NE(run, RecordedRun()) << knob.name;
    Timeline timeline;
    write_recorded_run(timeline, run);
    EXPECT_EQ(recorded_run(timeline), run) << knob.name;
  }
}

/// What no field holds is not taken for something else.
TEST(Knobs, AreNotReadFromNumbersThatAreTooLarge) {
  for (const SetupKnob& knob : setup_knobs()) {
    if (!is_whole(knob)) continue;
    for (const char* number : {"7", "18446744073709551615", "9223372036854775807"}) {
      Timeline timeline;
      RecordedRun run;
      set_knob(knob, run, 7);
      write_recorded_run(timeline, run);
      std::string& text = timeline.metadata.front().second;
      const std::string said = fmt::format("\"{}\":7", knob.name);
      ASSERT_NE(text.find(said), std::string::npos) << text;
      text.replace(text.find(said) + said.size() - 1, 1, number);
      EXPECT_EQ(recorded_run(timeline).has_value(), std::string(number) == "7")
          << knob.name << " " << number;
      std::string error;
      try {
        check_recorded_run(timeline, "run.json");
      } catch (const Error& thrown) {
        error = thrown.what();
      }
      const std::string refused =
          fmt::format("run.json: zenflow_train.{}: expected a whole number from {} to {}, found {}",
                      knob.name, knob.low, largest_value(knob), number);
      EXPECT_EQ(error, std::string(number) == "7" ? "" : refused);
    }
  }
}

/// However deep: to write such a value out in the message took a stack as deep.
TEST(Knobs, AreNotReadFromLists) {
  constexpr std::size_t kDeep = 500'000;
  Timeline timeline;
  timeline.metadata.emplace_back("zenflow_train", R"({"topk_ratio": )" + std::string(kDeep, '[') +
                                                      std::string(kDeep, ']') + "}");
  EXPECT_EQ(recorded_run(timeline), std::nullopt);
  try {
    check_recorded_run(timeline, "run.json");
    ADD_FAILURE() << "it is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_TRUE(std::string_view(error.what()).ends_with(", found a list")) << error.what();
  }
}

TEST(Knobs, OfOurOwnBlockHaveShortNames) {
  for (const SetupKnob& knob : setup_knobs()) {
    if (key_in("zenflow_train", knob).empty()) continue;
    EXPECT_EQ(expand_short_name(std::string(knob.name)), knob.path);
  }
}

// All four schedules are points of one rule, and only ZenFlow has its knobs.
TEST(OffloadSetup, OfOtherSchedulesIsWithoutZenFlowsKnobs) {
  OffloadSetup setup{.accumulate_on_device = true, .select_interval = 8, .full_warm_up_rounds = 5};
  EXPECT_EQ(as_scheduled(setup), setup);
  EXPECT_TRUE(setup.sums_on_device());
  setup.schedule = OffloadSchedule::kZeroOffloadDpu;
  const OffloadSetup delayed = as_scheduled(setup);
  EXPECT_EQ(delayed.update_interval, 1);
  EXPECT_EQ(delayed.topk_ratio, 0);
  EXPECT_TRUE(delayed.overlap_step);
  EXPECT_TRUE(delayed.keeps_sums());
  EXPECT_FALSE(delayed.sums_on_device());
  setup.schedule = OffloadSchedule::kZeroOffload;
  EXPECT_FALSE(as_scheduled(setup).keeps_sums());
}

}  // namespace
}  // namespace zenflow::sim
