/// The offload rule's lists, worked by hand from docs/training.md, "The rule".
#include "sim/offload/offload_rule.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string name_of(const IssuedOperation& operation) {
  std::string name(recorded_name(operation.kind));
  if (operation.kind == Operation::kPackGradients) name = "pack";
  if (operation.kind == Operation::kEnqueue) name = "enqueue";
  if (operation.kind == Operation::kGpuAccumulate) name += " on device";
  return operation.group == kAllGroups ? name : name + " " + std::to_string(operation.group);
}

/// "gradients down 1 (8 B) < pack 1, sum gradients 1".
std::vector<std::string> text(std::span<const OffloadOperation> operations) {
  std::vector<std::string> lines;
  for (const OffloadOperation& operation : operations) {
    std::string line = name_of(operation);
    if (operation.bytes > 0) line += " (" + std::to_string(operation.bytes) + " B)";
    for (const IssuedOperation& one : operation.after) {
      line += (&one == operation.after.data() ? " < " : ", ") + name_of(one);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

OffloadSetup zenflow(std::int64_t steps, bool overlap, bool on_device = false) {
  return {.topk_ratio = 0.5,
          .update_interval = steps,
          .overlap_step = overlap,
          .accumulate_on_device = on_device};
}

/// Two groups of 3 and 5 deferred elements of 2 bytes.
OffloadRule rule_of(const OffloadSetup& setup, std::size_t buffers = 0) {
  return {setup, {3, 5}, 2, buffers};
}

TEST(OffloadRule, AStepOfZeroOffload) {
  OffloadRule rule = rule_of(as_scheduled({.schedule = OffloadSchedule::kZeroOffload}));
  rule.begin_window(false, 1);
  EXPECT_THAT(
      text(rule.step(true, false)),
      ElementsAre("forward 0", "forward 1", "backward 1", "gradient norm 1", "pack 1",
                  "gradients down 1 (10 B) < pack 1", "backward 0", "gradient norm 0", "pack 0",
                  "gradients down 0 (6 B) < pack 0", "gradient norms", "enqueue < gradient norms"));
  EXPECT_THAT(text(rule.send_sums()), IsEmpty());
  EXPECT_THAT(text(rule.take_update()), IsEmpty());
  EXPECT_THAT(text(rule.update()),
              ElementsAre("update 0 < gradients down 0, gradient norms",
                          "weights up 0 (6 B) < update 0, gradient norms", "scatter weights 0",
                          "update 1 < gradients down 1, gradient norms",
                          "weights up 1 (10 B) < update 1, gradient norms", "scatter weights 1"));
  // The next step waits group by group, for uploads and for what the update has read.
  rule.begin_window(false, 1);
  EXPECT_THAT(
      text(rule.step(true, false)),
      ElementsAre("forward 0 < scatter weights 0", "forward 1 < scatter weights 1", "backward 1",
                  "gradient norm 1", "pack 1 < gradients down 1",
                  "gradients down 1 (10 B) < pack 1, update 1", "backward 0", "gradient norm 0",
                  "pack 0 < gradients down 0", "gradients down 0 (6 B) < pack 0, update 0",
                  "gradient norms", "enqueue < gradient norms"));
}

TEST(OffloadRule, AWindowThatOverlapsWithSumsOnTheHost) {
  OffloadRule rule = rule_of(zenflow(2, true));
  rule.begin_window(false, 2);
  const std::vector<std::string> first = text(rule.step(true, true));
  EXPECT_THAT(
      first,
      ElementsAre("forward 0", "forward 1", "backward 1", "gradient norm 1", "column norms 1",
                  "gather selected 1", "pack 1", "gradients down 1 (10 B) < pack 1", "backward 0",
                  "gradient norm 0", "column norms 0", "gather selected 0", "pack 0",
                  "gradients down 0 (6 B) < pack 0", "gradient norms", "enqueue < gradient norms",
                  "sum gradients 1 < gradients down 1, gradient norms",
                  "sum gradients 0 < gradients down 0, gradient norms", "update selected"));
  // Staging is read by the sums; the copies before have left the device's buffers.
  EXPECT_EQ(text(rule.step(false, false)).at(5), "pack 1 < gradients down 1");
  EXPECT_EQ(text(rule.step(false, false)).at(6),
            "gradients down 1 (10 B) < pack 1, sum gradients 1");
  EXPECT_THAT(text(rule.send_sums()), IsEmpty());
  EXPECT_THAT(text(rule.take_update()), IsEmpty());  // there is none yet
  EXPECT_FALSE(rule.update_under_way());
  EXPECT_EQ(text(rule.update()).front(), "update 0 < sum gradients 0, gradient norms");
  EXPECT_TRUE(rule.update_under_way());
  rule.begin_window(false, 2);
  EXPECT_EQ(text(rule.step(true, false)).front(), "forward 0");  // has its own weights
  (void)rule.step(false, false);
  EXPECT_THAT(text(rule.take_update()),
              ElementsAre("carry selected < scatter weights 1, scatter weights 0"));
  EXPECT_FALSE(rule.update_under_way());
  EXPECT_EQ(text(rule.update()).at(1), "weights up 0 (6 B) < update 0, carry selected");
}

TEST(OffloadRule, SumsOnTheDeviceComeDownOnceAWindow) {
  OffloadRule rule = rule_of(zenflow(2, false, true));
  rule.begin_window(false, 2);
  EXPECT_THAT(
      text(rule.step(true, false)),
      ElementsAre("forward 0", "forward 1", "backward 1", "gradient norm 1", "gather selected 1",
                  "pack 1", "backward 0", "gradient norm 0", "gather selected 0", "pack 0",
                  "gradient norms", "enqueue < gradient norms", "sum gradients on device",
                  "update selected"));
  EXPECT_EQ(text(rule.step(false, false)).at(12), "sum gradients on device");
  EXPECT_THAT(text(rule.send_sums()), ElementsAre("gradient sums down 0 (12 B) < update selected",
                                                  "gradient sums down 1 (20 B) < update selected"));
  EXPECT_EQ(text(rule.update()).front(), "update 0 < gradient sums down 0, gradient norms");
  // The next window's first sums overwrite them.
  rule.begin_window(false, 2);
  EXPECT_EQ(text(rule.step(true, false)).at(12), "sum gradients on device < gradient sums down 1");
  EXPECT_EQ(text(rule.step(false, false)).at(12), "sum gradients on device");
}

TEST(OffloadRule, MicroBatchesLeaveInTheLastBackward) {
  OffloadSetup setup = as_scheduled({.schedule = OffloadSchedule::kZeroOffload});
  setup.gradient_accumulation_steps = 2;
  OffloadRule rule = rule_of(setup);
  rule.begin_window(false, 1);
  const std::vector<std::string> operations = text(rule.step(true, false));
  EXPECT_EQ(
      std::vector<std::string>(operations.begin(), operations.begin() + 9),
      (std::vector<std::string>{"forward 0", "forward 1", "backward 1", "backward 0", "forward 0",
                                "forward 1", "backward 1", "gradient norm 1", "pack 1"}));
}

TEST(OffloadRule, BuffersThatTakeTurnsAreWaitedFor) {
  OffloadRule rule({zenflow(2, true)}, {3, 0, 5, 7}, 2, 2);
  rule.begin_window(false, 2);
  std::vector<std::string> packs;
  std::vector<std::int32_t> buffers;
  for (int step = 0; step < 2; ++step) {
    const std::span<const OffloadOperation> operations = rule.step(step == 0, false);
    const std::vector<std::string> lines = text(operations);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (operations[i].kind != Operation::kPackGradients) continue;
      packs.push_back(lines[i]);
      if (operations[i].group != 1) buffers.push_back(operations[i].buffer);
    }
  }
  // Group 1 has nothing to pack, and takes no turn.
  EXPECT_THAT(packs, ElementsAre("pack 3", "pack 2", "pack 1", "pack 0 < gradients down 3",
                                 "pack 3 < gradients down 2", "pack 2 < gradients down 0", "pack 1",
                                 "pack 0 < gradients down 3"));
  EXPECT_THAT(buffers, ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(OffloadRule, WarmUpDefersEverythingAndOverlapsNothing) {
  OffloadSetup setup = zenflow(2, true);
  setup.full_warm_up_rounds = 1;
  OffloadRule rule({setup}, {0, 5}, 2);
  rule.set_warm_up({4, 9});
  rule.begin_window(true, 1);
  EXPECT_FALSE(rule.overlaps());
  const std::vector<std::string> step = text(rule.step(true, false));
  EXPECT_EQ(step.at(5), "gradients down 1 (18 B) < pack 1");
  EXPECT_EQ(step.back(), "enqueue < gradient norms");  // nothing is selected
  EXPECT_EQ(text(rule.update()).size(), 6U);
  rule.begin_window(false, 2);
  EXPECT_TRUE(rule.overlaps());
  const std::vector<std::string> regular = text(rule.step(true, true));
  EXPECT_EQ(regular.at(0), "forward 0 < scatter weights 0");
  // What came down in warm-up was read by its update; group 0 has nothing to send any more.
  EXPECT_EQ(regular.at(7), "gradients down 1 (10 B) < pack 1, update 1");
  EXPECT_EQ(regular.at(12), "pack 0");
  EXPECT_FALSE(rule.update_under_way());
}

TEST(OffloadRule, GpuOnlyMovesNothing) {
  OffloadRule rule({as_scheduled({.schedule = OffloadSchedule::kGpuOnly})}, {0, 0}, 2);
  rule.begin_window(false, 1);
  for (const OffloadOperation& operation : rule.step(true, false)) EXPECT_EQ(operation.bytes, 0);
  EXPECT_EQ(text(rule.step(true, false)).back(), "update selected");
  EXPECT_THAT(text(rule.update()), IsEmpty());
}

/// Bytes of a window's lists by direction.
WindowBytes listed(OffloadRule& rule, std::int64_t steps) {
  WindowBytes bytes;
  const auto add = [&](std::span<const OffloadOperation> operations) {
    for (const OffloadOperation& operation : operations) {
      const bool up = issuing_lane(operation.kind) == LaneKind::kH2D;
      (up ? bytes.up : bytes.down) += operation.bytes;
    }
  };
  rule.begin_window(false, steps);
  for (std::int64_t step = 0; step < steps; ++step) add(rule.step(step == 0, false));
  add(rule.send_sums());
  add(rule.take_update());
  add(rule.update());
  return bytes;
}

TEST(OffloadRule, WindowsMoveWhatTheFormulaSays) {
  for (const bool overlap : {false, true}) {
    for (const bool on_device : {false, true}) {
      for (const std::int64_t steps : {1, 2, 5}) {
        const OffloadSetup setup = zenflow(steps, overlap, on_device);
        OffloadRule rule = rule_of(setup);
        const WindowBytes found = listed(rule, steps);
        const WindowBytes expected = window_bytes(setup, steps, 8, 2);
        EXPECT_EQ(found.down, expected.down) << to_string(setup);
        EXPECT_EQ(found.up, expected.up) << to_string(setup);
        const bool sums_come_down = on_device && (overlap || steps > 1);
        EXPECT_EQ(expected.down, sums_come_down ? 4 * 8 : steps * 2 * 8);
        EXPECT_EQ(expected.up, 2 * 8);
      }
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
