#include "sim/engine/engine.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/engine/background_use.h"
#include "tests/support/offload_graph.h"
#include "tests/support/reference_dag.h"

namespace zenflow::sim {

/// For gtest's messages.
void PrintTo(const Span& span, std::ostream* out) {
  *out << span.start.count << ".." << span.end.count;
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::offload_graph;
using testing::OffloadGraph;

constexpr LaneId kCompute = 0;
constexpr LaneId kD2h = 1;
constexpr LaneId kCpu = 2;
constexpr LaneId kH2d = 3;

constexpr FlowId kCopyOut = 0;
constexpr FlowId kUpdate = 1;
constexpr FlowId kCopyIn = 2;

/// One DRAM of 60 GB/s; copies take 25 of it, an update 50; copies also share 40 GB/s of PCIe.
Machine offload_machine() {
  Machine machine;
  machine.lanes = {"compute", "d2h", "cpu", "h2d"};
  machine.links = {{"dram", BytesPerSecond(60e9)}, {"pcie", BytesPerSecond(40e9)}};
  machine.flows = {{BytesPerSecond(25e9), {{0, 1.0}, {1, 1.0}}},
                   {BytesPerSecond(50e9), {{0, 1.0}}},
                   {BytesPerSecond(25e9), {{0, 1.0}, {1, 1.0}}}};
  return machine;
}

Execution run(const std::vector<Task>& tasks, const std::vector<Dependency>& dependencies,
              const Machine& machine = offload_machine()) {
  return simulate(TaskGraph(machine, tasks, dependencies));
}

Span at(std::int64_t start, std::int64_t end) {
  return {{start}, {end}};
}

TEST(Simulate, NothingTakesNoTime) {
  const Execution execution = run({}, {});
  EXPECT_EQ(execution.makespan.count, 0);
  EXPECT_TRUE(execution.spans.empty());
  EXPECT_FALSE(execution.steady);
}

//   compute  |bwd0 |bwd1 |
//   d2h            |copy0 |copy1 |
TEST(Simulate, AGradientCopyOverlapsTheNextBackward) {
  const Execution execution = run({{{5}, kCompute},  // 0: bwd0
                                   {{5}, kCompute},  // 1: bwd1
                                   {{6}, kD2h},      // 2: copy of bwd0's gradient, hidden
                                   {{6}, kD2h}},     // 3: copy of bwd1's gradient, exposed
                                  {{0, 2}, {1, 3}});
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 5), at(5, 10), at(5, 11), at(11, 17)));
  EXPECT_EQ(execution.makespan.count, 17);
}

//   compute  |--0--|       |-3-|      3 is free to run at 0, but issued behind 2, which waits
//   d2h            |--1---|           for 1
TEST(Simulate, ALaneKeepsItsOrderWhenALaterTaskIsReadyFirst) {
  const Execution execution =
      run({{{5}, kCompute}, {{6}, kD2h}, {{0}, kCompute}, {{4}, kCompute}}, {{0, 1}, {1, 2}});
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 5), at(5, 11), at(11, 11), at(11, 15)));
}

//   d2h      |--0-----|               issued first, waits for a task issued later:
//   compute  |-1-|                    the event engine's work, not the recurrence's
TEST(Simulate, DependenciesMayPointBackInIssueOrder) {
  const Execution execution =
      run({{{8}, kD2h}, {{3}, kCompute}, {{2}, kCompute}}, {{1, 0}, {0, 2}});
  EXPECT_THAT(execution.spans, ElementsAre(at(3, 11), at(0, 3), at(11, 13)));
}

TEST(Simulate, ATaskWaitsForTheLastOfItsPredecessors) {
  const std::vector<Task> tasks = {{{4}, kCompute}, {{9}, kD2h}, {{6}, kCpu}, {{1}, kH2d}};
  const std::vector<Dependency> all = {{0, 3}, {1, 3}, {2, 3}};
  EXPECT_EQ(run(tasks, all).spans[3], at(9, 10));
  // The same through the event engine: task 3 is issued first.
  EXPECT_EQ(run({tasks[3], tasks[0], tasks[1], tasks[2]}, {{1, 0}, {2, 0}, {3, 0}}).spans[0],
            at(9, 10));
}

// Ends that coincide release a task that waits for both exactly then, whichever comes first.
TEST(Simulate, EndsThatCoincideAreOneInstant) {
  const std::vector<Dependency> dependencies = {{1, 0}, {2, 0}, {3, 0}};
  const Execution execution =
      run({{{1}, kCompute}, {{7}, kD2h}, {{7}, kCpu}, {{7}, kH2d}}, dependencies);
  EXPECT_EQ(execution.spans[0], at(7, 8));
}

TEST(Simulate, TasksOfNoDurationChainWithinAnInstant) {
  const std::vector<Dependency> chain = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const std::vector<Task> tasks = {
      {{0}, kCompute}, {{0}, kD2h}, {{0}, kCpu}, {{5}, kCompute}, {{0}, kH2d}};
  EXPECT_THAT(run(tasks, chain).spans,
              ElementsAre(at(0, 0), at(0, 0), at(0, 0), at(0, 5), at(5, 5)));
}

// A latency is a task of its own in front of the copy: it keeps the lane, but no link. The
// other copy has the link to itself meanwhile.
//
//   d2h  |latency 100 |--- copy 250 at half speed -------------...
//   h2d  |copy: 100 done alone|---------- 150 at half speed ---...
TEST(Simulate, ALatencyDelaysACopyWithoutUsingTheLink) {
  Machine machine = offload_machine();
  machine.links[1].capacity = BytesPerSecond(25e9);
  const Execution execution =
      run({{{100}, kD2h}, {{250}, kD2h, kCopyOut}, {{250}, kH2d, kCopyIn}}, {{0, 1}}, machine);
  // h2d: 100 + 150 * 2 = 400. d2h: (400 - 100) / 2 = 150 done, the last 100 alone.
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 100), at(100, 500), at(0, 400)));
}

// Both directions of 25 GB/s on 40 GB/s of PCIe: 20 each, four fifths of full speed.
//
//   d2h  |-- 400 of work in 500 --|
//   h2d  |-- 800: 400 in 500 -----|-- 400 alone --|
TEST(Simulate, TwoCopiesShareALink) {
  const Execution execution = run({{{400}, kD2h, kCopyOut}, {{800}, kH2d, kCopyIn}}, {});
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 500), at(0, 900)));
}

// DRAM of 60: the copy has its 25 in full, the update 35 of 50, 0.7 of full speed. It does 147
// of its 700 beside the copy, which ends at 210, and the other 553 alone.
TEST(Simulate, ACopySlowsAnUpdateOnDram) {
  const Execution execution = run({{{700}, kCpu, kUpdate}, {{210}, kH2d, kCopyIn}}, {});
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 763), at(0, 210)));
}

// 1000 of work at 0.7 for 1 ps leaves 999.3, which alone end 999.3 later: rounded up, once.
TEST(Simulate, AnEndIsRoundedUpToAWholePicosecond) {
  const Execution execution = run({{{1000}, kCpu, kUpdate}, {{1}, kH2d, kCopyIn}}, {});
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 1001), at(0, 1)));
}

// The flow of a task that takes no time is gone before anybody could notice.
TEST(Simulate, AFlowOfNoDurationSlowsNobody) {
  const Execution execution =
      run({{{700}, kCpu, kUpdate}, {{0}, kH2d, kCopyIn}, {{0}, kD2h, kCopyOut}}, {{1, 2}});
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 700), at(0, 0), at(0, 0)));
}

// On its link alone, or beside flows that fit, a flow ends after exactly its duration, even one
// that a double cannot hold: 2^53 + 1 ps, with a change of rates every few of them.
TEST(Simulate, AFlowThatIsNeverSlowedTakesExactlyItsDuration) {
  constexpr std::int64_t kLong = (std::int64_t{1} << 53) + 1;
  std::vector<Task> tasks = {{{kLong}, kD2h, kCopyOut}};
  Machine machine = offload_machine();
  machine.links[1].capacity = BytesPerSecond(50e9);
  for (int i = 0; i < 50; ++i) tasks.push_back({{13}, kH2d, kCopyIn});
  const Execution execution = run(tasks, {}, machine);
  EXPECT_EQ(execution.spans[0], at(0, kLong));
  EXPECT_EQ(execution.spans[50], at(49 * 13, 50 * 13));
}

// A flow of coefficient 8 stands for eight ranks: 8 * 25 on 100 runs at half speed.
TEST(Simulate, ACoefficientMultipliesTheLoad) {
  Machine machine{
      {"d2h"}, {{"switch", BytesPerSecond(100e9)}}, {{BytesPerSecond(25e9), {{0, 8.0}}}}};
  EXPECT_EQ(run({{{300}, 0, 0}}, {}, machine).makespan.count, 600);
}

// The successor starts in the instant in which its predecessor ends: the set of flows is the
// same before and after, yet the new task must run at the shared speed as well.
TEST(Simulate, ACopyThatFollowsACopyIsSharedToo) {
  const Execution execution =
      run({{{400}, kD2h, kCopyOut}, {{400}, kD2h, kCopyOut}, {{800}, kH2d, kCopyIn}}, {});
  EXPECT_THAT(execution.spans, ElementsAre(at(0, 500), at(500, 1000), at(0, 1000)));
}

/// Two cores, a thread that wants one on each of three lanes, and threads of others beside them.
Machine cores_beside(std::size_t others) {
  Machine machine{{"compute", "d2h", "cpu"},
                  {{"cores", BytesPerSecond(2)}},
                  {{BytesPerSecond(1), {{0, 1.0}}}, {BytesPerSecond(1), {{0, 1.0}}}}};
  machine.background.assign(others, 1);
  return machine;
}

// Beside one other thread two tasks have 2/3 of a core each and do 200 of work in 300, the longer
// one's other 100 at full speed. A task without a flow minds nobody.
TEST(Simulate, TheBackgroundCompetesWithWhateverRuns) {
  const std::vector<Task> tasks = {{{200}, 0, 0}, {{300}, 1, 0}, {{50}, 2}};
  EXPECT_THAT(run(tasks, {}, cores_beside(0)).spans,
              ElementsAre(at(0, 200), at(0, 300), at(0, 50)));
  EXPECT_THAT(run(tasks, {}, cores_beside(1)).spans,
              ElementsAre(at(0, 300), at(0, 400), at(0, 50)));
  // Two others leave half of a core to each of two, 2/3 to one: 200 in 400, then 100 in 150.
  EXPECT_THAT(run(tasks, {}, cores_beside(2)).spans,
              ElementsAre(at(0, 400), at(0, 550), at(0, 50)));
}

TEST(BackgroundUse, IsWhatTheTasksLeave) {
  const std::vector<Task> tasks = {{{200}, 0, 0}, {{300}, 1, 0}, {{50}, 2}};
  const auto used = [&](std::size_t others, std::int64_t begin, std::int64_t end) {
    const TaskGraph graph(cores_beside(others), tasks, {});
    return background_rate(graph, simulate(graph).spans, {begin}, {end}).value();
  };
  EXPECT_EQ(used(0, 0, 400), 0);
  EXPECT_DOUBLE_EQ(used(1, 0, 300), 2.0 / 3);
  EXPECT_DOUBLE_EQ(used(1, 300, 400), 1);
  EXPECT_DOUBLE_EQ(used(1, 0, 400), 0.75);
  EXPECT_DOUBLE_EQ(used(1, 150, 350), (150 * 2.0 / 3 + 50) / 200);
  EXPECT_DOUBLE_EQ(used(2, 0, 400), 1);
  EXPECT_DOUBLE_EQ(used(2, 400, 550), 4.0 / 3);
  // Nothing runs any more: both have a core.
  EXPECT_DOUBLE_EQ(used(2, 550, 600), 2);
}

std::string error_of(const TaskGraph& graph) {
  try {
    static_cast<void>(simulate(graph));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    return error.what();
  }
  return "";
}

// compute: 0 before 2. 0 needs 1 on d2h, which needs 2.
TEST(Simulate, NamesTheTasksOfADeadlock) {
  const std::vector<Dependency> dependencies = {{2, 1}, {1, 0}};
  const std::vector<Task> tasks = {{{1}, kCompute}, {{1}, kD2h}, {{1}, kCompute}, {{1}, kCpu}};
  EXPECT_THAT(error_of(TaskGraph(offload_machine(), tasks, dependencies)), HasSubstr(": 0, 2, 1"));
}

TEST(Simulate, RefusesAFlowThatWouldNeverEnd) {
  const Machine machine{
      {"d2h"}, {{"pcie", BytesPerSecond(1e-9)}}, {{BytesPerSecond(25e9), {{0, 1.0}}}}};
  const std::vector<Task> tasks = {{{1'000'000'000}, 0, 0}};
  EXPECT_THAT(error_of(TaskGraph(machine, tasks, {})), HasSubstr("task 0 on lane d2h is so slow"));
}

TEST(Simulate, TheReferenceDagHasThePublishedMakespan) {
  for (const std::uint32_t count : {9984U, 200000U}) {
    testing::ReferenceDag dag = testing::reference_dag(count);
    const TaskGraph graph(std::move(dag.machine), std::move(dag.tasks), dag.dependencies);
    EXPECT_EQ(simulate(graph).makespan.count, testing::reference_makespan_ps(count));
    // Windows, though none alike, send the same graph through the event engine.
    const std::vector<Window> windows = {{0, 0, 0}, {64, 64, 1}};
    EXPECT_EQ(simulate_until_steady(graph, windows).makespan.count,
              testing::reference_makespan_ps(count));
  }
}

// ---- steady state --------------------------------------------------------------------------

struct Periodic {
  Machine machine = offload_machine();
  std::vector<Task> tasks;
  std::vector<Dependency> dependencies;
  std::vector<Window> windows;

  TaskId add(std::int64_t duration, LaneId lane, FlowId flow = kNoFlow) {
    tasks.push_back({{duration}, lane, flow});
    return static_cast<TaskId>(tasks.size() - 1);
  }
  void open(std::uint32_t phase = 0) {
    const auto first = static_cast<TaskId>(tasks.size());
    windows.push_back({first, first, phase});
  }
  [[nodiscard]] TaskGraph build() const { return {machine, tasks, dependencies}; }
  [[nodiscard]] Execution until_steady() const { return simulate_until_steady(build(), windows); }
};

/// All that ended before the simulation stopped, it says as the whole simulation does; and it
/// stopped, so that something did not end.
void expect_prefix_of_whole(const TaskGraph& graph, const Execution& steady) {
  const Execution whole = simulate(graph);
  std::int64_t last = 0;
  std::size_t ended = 0;
  ASSERT_EQ(steady.spans.size(), whole.spans.size());
  for (std::size_t task = 0; task < whole.spans.size(); ++task) {
    const Span& span = steady.spans[task];
    if (span.start.count >= 0) {
      EXPECT_EQ(span.start, whole.spans[task].start) << "task " << task;
    }
    if (span.end.count < 0) continue;
    EXPECT_EQ(span, whole.spans[task]) << "task " << task;
    last = std::max(last, span.end.count);
    ++ended;
  }
  EXPECT_EQ(steady.makespan.count, last);
  EXPECT_GT(ended, 0U);
  EXPECT_LT(ended, whole.spans.size());
}

/// In the whole simulation the windows from the first period on are shifted copies of it, but
/// for the last `tail` windows, where the graph's end shows.
void expect_periodic(const TaskGraph& graph, const std::vector<Window>& windows,
                     const SteadyState& steady, std::size_t tail) {
  const Execution whole = simulate(graph);
  const TaskId shift = windows[steady.end].first - windows[steady.begin].first;
  const auto period = whole.spans[windows[steady.end].marker].start -
                      whole.spans[windows[steady.begin].marker].start;
  const TaskId last = windows[windows.size() - tail].first;
  ASSERT_GT(last, windows[steady.end].first);
  for (TaskId task = windows[steady.begin].first; task + shift < last; ++task) {
    EXPECT_EQ(whole.spans[task + shift].start, whole.spans[task].start + period) << "task " << task;
    EXPECT_EQ(whole.spans[task + shift].end, whole.spans[task].end + period) << "task " << task;
  }
}

//   compute |--5--|     |--5--|     ...   each window's copy holds up the next window: the
//   d2h           |-3-|       |-3-|       state at its start is that at time 0
TEST(UntilSteady, StopsAtTheFirstRepetition) {
  Periodic graph;
  TaskId copy = kNoTask;
  for (int window = 0; window < 5; ++window) {
    graph.open();
    const TaskId step = graph.add(5, kCompute);
    if (copy != kNoTask) graph.dependencies.push_back({copy, step});
    copy = graph.add(3, kD2h);
    graph.dependencies.push_back({step, copy});
  }
  const Execution execution = graph.until_steady();
  ASSERT_TRUE(execution.steady);
  EXPECT_EQ(execution.steady_state.begin, 0U);
  EXPECT_EQ(execution.steady_state.end, 1U);
  EXPECT_EQ(execution.makespan.count, 8);
  EXPECT_EQ(execution.spans[0], at(0, 5));
  EXPECT_EQ(execution.spans[1], at(5, 8));
  EXPECT_EQ(execution.spans[2], at(8, -1));  // started, not ended
  EXPECT_EQ(execution.spans[3], at(-1, -1));
  expect_prefix_of_whole(graph.build(), execution);
}

// The copy of a window (8) is longer than its compute (5) and throttles it through a buffer of
// two: compute waits for the copy of two windows ago. Steady once the buffer is full.
TEST(UntilSteady, ATransientComesFirst) {
  Periodic graph;
  std::vector<TaskId> copies;
  for (std::size_t window = 0; window < 10; ++window) {
    graph.open();
    const TaskId step = graph.add(5, kCompute);
    if (window >= 2) graph.dependencies.push_back({copies[window - 2], step});
    copies.push_back(graph.add(8, kD2h));
    graph.dependencies.push_back({step, copies.back()});
  }
  // compute: 0, 5, 13, 21, 29: the first starts with 8 between them are those of windows 1, 2.
  const Execution execution = graph.until_steady();
  ASSERT_TRUE(execution.steady);
  EXPECT_EQ(execution.steady_state.end - execution.steady_state.begin, 1U);
  EXPECT_GE(execution.steady_state.begin, 1U);
  EXPECT_LE(execution.steady_state.begin, 3U);
  const auto& windows = graph.windows;
  EXPECT_EQ((execution.spans[windows[execution.steady_state.end].marker].start -
             execution.spans[windows[execution.steady_state.begin].marker].start)
                .count,
            8);
  expect_prefix_of_whole(graph.build(), execution);
  expect_periodic(graph.build(), windows, execution.steady_state, 1);
}

TEST(UntilSteady, AnOffloadScheduleWithContendedLinks) {
  for (const std::uint32_t ranks : {1U, 3U}) {
    const OffloadGraph parts =
        offload_graph({.ranks = ranks, .layers = 6, .steps = 24, .dram_gb_per_second = 70.0});
    const TaskGraph graph(parts.machine, parts.tasks, parts.dependencies);
    const Execution execution = simulate_until_steady(graph, parts.windows);
    ASSERT_TRUE(execution.steady) << ranks << " ranks";
    EXPECT_LT(execution.steady_state.end, 12U);
    expect_prefix_of_whole(graph, execution);
    expect_periodic(graph, parts.windows, execution.steady_state, 2);
  }
}

TEST(UntilSteady, RunsToTheEndIfNothingRepeats) {
  Periodic graph;
  for (int window = 0; window < 6; ++window) {
    graph.open();
    graph.add(5 + window, kCompute);
  }
  const Execution execution = graph.until_steady();
  EXPECT_FALSE(execution.steady);
  EXPECT_EQ(execution.spans, simulate(graph.build()).spans);
  EXPECT_EQ(execution.makespan.count, 5 + 6 + 7 + 8 + 9 + 10);
}

// A lane that nothing holds back is at the end of the graph long before the others. That it has
// nothing to do in windows 2 and 3 is due to the graph's end: with more windows it would be
// copying, and slow the update of the cpu lane down.
TEST(UntilSteady, ALaneThatRanAheadToTheEndIsNotSteady) {
  Periodic graph;
  for (int window = 0; window < 8; ++window) {
    graph.open();
    graph.add(1000, kCpu, kUpdate);
    graph.add(10, kH2d, kCopyIn);
  }
  EXPECT_FALSE(graph.until_steady().steady);
}

// What only a prologue does, no later window can miss.
TEST(UntilSteady, ALaneOfThePrologueOnlyIsSteady) {
  Periodic graph;
  const TaskId load = graph.add(10, kH2d);
  for (int window = 0; window < 4; ++window) {
    graph.open();
    graph.add(5, kCompute);
    if (window == 0) graph.dependencies.push_back({load, 1});
  }
  const Execution execution = graph.until_steady();
  ASSERT_TRUE(execution.steady);
  EXPECT_EQ(execution.steady_state.begin, 0U);
  EXPECT_EQ(execution.steady_state.end, 1U);
}

// Lanes are in the same state at every window; what comes next is not, and the phases say so.
TEST(UntilSteady, PhasesThatAlternateMakeAPeriodOfTheirCycle) {
  Periodic graph;
  for (std::uint32_t window = 0; window < 9; ++window) {
    graph.open(window % 3 == 2 ? 1 : 0);
    graph.add(window % 3 == 2 ? 50 : 5, kCompute);
  }
  const Execution execution = graph.until_steady();
  ASSERT_TRUE(execution.steady);
  EXPECT_EQ(execution.steady_state.begin, 0U);
  EXPECT_EQ(execution.steady_state.end, 3U);
  expect_prefix_of_whole(graph.build(), execution);
}

// Windows that claim to be alike and are not: a longer task, another lane, another flow, a
// dependency more or less. Each starts with everything before it done, so that the states of
// the lanes do not tell.
TEST(UntilSteady, WindowsThatDifferAreNotAlikeWhateverTheirPhase) {
  const auto steady_with = [](auto change) {
    Periodic graph;
    for (int window = 0; window < 2; ++window) {
      graph.open();
      const TaskId step = graph.add(5, kCompute);
      const TaskId copy = graph.add(3, kD2h);
      const TaskId end = graph.add(1, kCompute);
      graph.dependencies.push_back({step, copy});
      graph.dependencies.push_back({copy, end});
      if (window == 0) graph.dependencies.push_back({copy, end + 1});
    }
    change(graph);
    return graph.until_steady().steady;
  };
  EXPECT_TRUE(steady_with([](Periodic&) {}));
  EXPECT_FALSE(steady_with([](Periodic& graph) { graph.tasks[4].duration = {4}; }));
  EXPECT_FALSE(steady_with([](Periodic& graph) { graph.tasks[4].lane = kH2d; }));
  EXPECT_FALSE(steady_with([](Periodic& graph) { graph.tasks[5].lane = kD2h; }));
  EXPECT_FALSE(steady_with([](Periodic& graph) { graph.tasks[4].flow = kCopyOut; }));
  EXPECT_FALSE(steady_with([](Periodic& graph) { graph.dependencies.pop_back(); }));
  EXPECT_FALSE(steady_with([](Periodic& graph) { graph.dependencies.push_back({3, 5}); }));
  EXPECT_FALSE(steady_with([](Periodic& graph) {
    graph.dependencies.erase(graph.dependencies.begin() + 1);  // window 0: copy -> end
    graph.dependencies.push_back({0, 4});  // an ended predecessor more counts for nothing
  }));
  EXPECT_TRUE(steady_with([](Periodic& graph) { graph.dependencies.push_back({0, 4}); }));
}

// The windows before count as far as they have not ended. At the starts of windows 1 and 2 the
// copy of the window before runs. Task x of window 0 is done; those of windows 1 and 2, if they
// are behind their copies instead, are not, and what d2h does next differs.
TEST(UntilSteady, WhatIsLeftOfTheWindowBeforeCounts) {
  const auto steady_with = [](LaneId lane_of_x) {
    Periodic graph;
    for (int window = 0; window < 3; ++window) {
      graph.open();
      const TaskId step = graph.add(8, kCompute);
      graph.add(1, kCompute);
      const TaskId copy = graph.add(8, kD2h);
      graph.dependencies.push_back({step, copy});
      graph.add(0, window == 0 ? kCompute : lane_of_x);
    }
    return graph.until_steady().steady;
  };
  EXPECT_TRUE(steady_with(kCompute));
  EXPECT_FALSE(steady_with(kD2h));
}

//   compute |---10---|---10---|---10---|---10---|---10---|
//   d2h     |--load 13--|copy0 9 |copy1 9 |copy2 9 |copy3 9 |    late by 3, 2, 1, 0, 0
TEST(UntilSteady, WhatIsLeftOfARunningTaskCounts) {
  Periodic graph;
  graph.add(13, kD2h);
  for (int window = 0; window < 8; ++window) {
    graph.open();
    const TaskId step = graph.add(10, kCompute);
    graph.dependencies.push_back({step, graph.add(9, kD2h)});
  }
  const Execution execution = graph.until_steady();
  ASSERT_TRUE(execution.steady);
  EXPECT_EQ(execution.steady_state.begin, 4U);
  EXPECT_EQ(execution.steady_state.end, 5U);
}

// Each window's update is running when the next window starts, 31 ps before its end. In window
// 0 it lost 0.9 ps to copies, in the others 0.6: the ends, rounded up, do not show it.
TEST(UntilSteady, AFractionOfAPicosecondLeftCounts) {
  Periodic graph;
  graph.add(60, kD2h);
  graph.add(1, kD2h, kCopyOut);
  for (int window = 0; window < 6; ++window) {
    graph.open();
    const TaskId step = graph.add(50, kCompute);
    const TaskId update = graph.add(80, kCpu, kUpdate);
    const TaskId copy = graph.add(2, kH2d, kCopyIn);
    graph.add(50, kCompute);
    graph.dependencies.push_back({step, update});
    graph.dependencies.push_back({step, copy});
  }
  const Execution execution = graph.until_steady();
  ASSERT_TRUE(execution.steady);
  EXPECT_EQ(execution.spans[3], at(50, 131));
  EXPECT_EQ(execution.spans[7], at(150, 231));
  EXPECT_EQ(execution.steady_state.begin, 2U);
  EXPECT_EQ(execution.steady_state.end, 3U);
}

TEST(UntilSteady, RefusesWindowsThatDoNotAscendOrMissTheirMarker) {
  const TaskGraph graph(offload_machine(), std::vector<Task>(4, Task{{5}}), {});
  const auto run_with = [&](const std::vector<Window>& windows) {
    return simulate_until_steady(graph, windows);
  };
  EXPECT_NO_THROW(static_cast<void>(run_with({{0, 1, 0}, {2, 3, 0}})));
  EXPECT_THROW(static_cast<void>(run_with({{2, 2, 0}, {0, 0, 0}})), Error);
  EXPECT_THROW(static_cast<void>(run_with({{0, 2, 0}, {2, 3, 0}})), Error);
  EXPECT_THROW(static_cast<void>(run_with({{1, 0, 0}})), Error);
  EXPECT_THROW(static_cast<void>(run_with({{0, 4, 0}})), Error);
  EXPECT_THROW(static_cast<void>(run_with({{4, 4, 0}})), Error);
}

// Steps of 5 on the compute lane, each with a copy of 3. The CPU has one task in all, at the end:
//   compute  |s0   |s1   | ... |s5   |
//   d2h            |c0 | ...   |c4 |  |c5 |
//   cpu                                    |u |
TEST(Windows, ALaneWithOneTaskFurtherOnRepeats) {
  std::vector<Task> tasks;
  std::vector<Dependency> dependencies;
  std::vector<Window> steps;
  for (TaskId step = 0; step < 6; ++step) {
    steps.push_back({2 * step, 2 * step, 0});
    tasks.push_back({{5}, kCompute});
    tasks.push_back({{3}, kD2h});
    dependencies.push_back({2 * step, 2 * step + 1});
  }
  tasks.push_back({{2}, kCpu});
  dependencies.push_back({11, 12});
  const TaskGraph graph(offload_machine(), tasks, dependencies);
  // s0 begins with no copy under way.
  EXPECT_THAT(simulate_windows(graph, steps).repeats,
              ElementsAre(false, false, true, true, true, true));
  // Two steps before; what is compared with nothing repeats nothing.
  const std::vector<std::uint32_t> with = {kNoWindow, kNoWindow, 0, 1, kNoWindow, kNoWindow};
  EXPECT_THAT(simulate_windows(graph, steps, with).repeats,
              ElementsAre(false, false, false, true, false, false));
}

// The same with an update of 12 that begins with s1 and lasts into s3: until it is done no step
// repeats another, although nothing waits for it.
TEST(Windows, WhatARunningTaskHasLeftTellsStepsApart) {
  std::vector<Task> tasks;
  std::vector<Dependency> dependencies;
  std::vector<Window> steps;
  for (TaskId step = 0; step < 6; ++step) {
    const auto first = static_cast<TaskId>(tasks.size());
    steps.push_back({first, first, 0});
    tasks.push_back({{5}, kCompute});
    if (step != 1) continue;
    tasks.push_back({{12}, kCpu});
    dependencies.push_back({0, first + 1});
  }
  const TaskGraph graph(offload_machine(), tasks, dependencies);
  EXPECT_THAT(simulate_windows(graph, steps).repeats,
              ElementsAre(false, false, false, false, false, true));
}

TEST(UntilSteady, WithoutWindowsItIsTheWholeSimulation) {
  const TaskGraph graph(offload_machine(), std::vector<Task>(4, Task{{5}}), {});
  const Execution execution = simulate_until_steady(graph, {});
  EXPECT_FALSE(execution.steady);
  EXPECT_EQ(execution.makespan.count, 20);
}

}  // namespace
}  // namespace zenflow::sim
