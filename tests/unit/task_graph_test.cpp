#include "sim/graph/task_graph.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Machine two_lanes() {
  return {{"gpu", "d2h"}, {{"pcie", BytesPerSecond(25e9)}}, {}};
}

std::vector<Task> tasks_on_gpu(std::size_t count) {
  return std::vector<Task>(count, Task{{5}});
}

/// The message of the error that building the graph throws; empty if it does not.
std::string error_of(const Machine& machine, const std::vector<Task>& tasks,
                     const std::vector<Dependency>& dependencies) {
  try {
    const TaskGraph graph(machine, tasks, dependencies);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    return error.what();
  }
  return "";
}

TEST(TaskGraph, PredecessorsAreSortedAndUnique) {
  const std::vector<Dependency> edges = {{4, 5}, {0, 2}, {1, 5}, {4, 5}, {1, 2}, {0, 5}, {1, 5}};
  const TaskGraph graph(two_lanes(), tasks_on_gpu(6), edges);
  EXPECT_THAT(graph.predecessors(0), ElementsAre());
  EXPECT_THAT(graph.predecessors(2), ElementsAre(0, 1));
  EXPECT_THAT(graph.predecessors(3), ElementsAre());
  EXPECT_THAT(graph.predecessors(5), ElementsAre(0, 1, 4));
  EXPECT_EQ(graph.dependency_count(), 5U);
}

TEST(TaskGraph, ManyPredecessorsOfOneTask) {
  std::vector<Dependency> edges;
  for (TaskId task = 0; task < 100; ++task) edges.push_back({(task * 37) % 100, 100});
  for (TaskId task = 0; task < 100; ++task) edges.push_back({task, 100});
  const TaskGraph graph(two_lanes(), tasks_on_gpu(101), edges);
  ASSERT_EQ(graph.predecessors(100).size(), 100U);
  for (TaskId task = 0; task < 100; ++task) EXPECT_EQ(graph.predecessors(100)[task], task);
}

TEST(TaskGraph, SaysWhetherIssueOrderIsTopological) {
  EXPECT_TRUE(TaskGraph(two_lanes(), tasks_on_gpu(2), {}).issue_order_is_topological());
  const std::vector<Dependency> forward = {{0, 1}};
  EXPECT_TRUE(TaskGraph(two_lanes(), tasks_on_gpu(2), forward).issue_order_is_topological());
  const std::vector<Dependency> backward = {{0, 1}, {2, 1}};
  EXPECT_FALSE(TaskGraph(two_lanes(), tasks_on_gpu(3), backward).issue_order_is_topological());
  const std::vector<Dependency> itself = {{1, 1}};
  EXPECT_FALSE(TaskGraph(two_lanes(), tasks_on_gpu(2), itself).issue_order_is_topological());
}

TEST(TaskGraph, AnEmptyGraphHasNoTasks) {
  const TaskGraph graph({}, {}, {});
  EXPECT_EQ(graph.tasks().size(), 0U);
  EXPECT_EQ(graph.dependency_count(), 0U);
}

TEST(TaskGraph, SurvivesMoving) {
  const std::vector<Dependency> edges = {{0, 1}};
  TaskGraph first(two_lanes(), tasks_on_gpu(2), edges);
  TaskGraph second = std::move(first);
  EXPECT_THAT(second.predecessors(1), ElementsAre(0));
  TaskGraph third(two_lanes(), tasks_on_gpu(1), {});
  third = std::move(second);
  EXPECT_THAT(third.predecessors(1), ElementsAre(0));
  EXPECT_EQ(third.machine().lanes.size(), 2U);
}

TEST(TaskGraph, NamesTheTaskThatIsWrong) {
  EXPECT_THAT(error_of(two_lanes(), {Task{{5}}, Task{{5}, 2}}, {}),
              HasSubstr("task 1 is on lane 2, but there are 2 lanes"));
  EXPECT_THAT(error_of(two_lanes(), {Task{{5}}, Task{{-1}}}, {}),
              HasSubstr("task 1 has a negative duration: -1 ps"));
  EXPECT_THAT(error_of(two_lanes(), {Task{{5}, 0, 3}}, {}),
              HasSubstr("task 0 belongs to flow 3, but there are 0 flows"));
  EXPECT_THAT(error_of(two_lanes(), tasks_on_gpu(2), {{0, 2}}), HasSubstr("dependency 0 -> 2"));
  EXPECT_THAT(error_of(two_lanes(), tasks_on_gpu(2), {{7, 1}}), HasSubstr("dependency 7 -> 1"));
}

TEST(TaskGraph, RefusesDurationsThatOverflowTheClock) {
  const Picoseconds half{std::numeric_limits<std::int64_t>::max() / 2};
  EXPECT_EQ(error_of(two_lanes(), {Task{half}, Task{half}}, {}), "");
  EXPECT_THAT(error_of(two_lanes(), {Task{half}, Task{half}, Task{half}}, {}),
              HasSubstr("up to task 2 add up to more than"));
}

TEST(TaskGraph, RefusesMachinesThatCannotWork) {
  const auto with_link = [](double capacity) {
    return Machine{{"gpu"}, {{"pcie", BytesPerSecond(capacity)}}, {}};
  };
  const auto with_flow = [](double solo_rate, LinkUse use) {
    return Machine{{"gpu"}, {{"pcie", BytesPerSecond(1)}}, {{BytesPerSecond(solo_rate), {use}}}};
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double bad : {0.0, -1.0, kNan, kInfinity}) {
    EXPECT_THAT(error_of(with_link(bad), {}, {}), HasSubstr("link pcie: capacity"));
    EXPECT_THAT(error_of(with_flow(bad, {0, 1.0}), {}, {}), HasSubstr("flow 0: solo_rate"));
    EXPECT_THAT(error_of(with_flow(1.0, {0, bad}), {}, {}),
                HasSubstr("flow 0 on link pcie: coefficient"));
  }
  EXPECT_THAT(error_of(with_flow(1.0, {1, 1.0}), {}, {}), HasSubstr("flow 0 uses link 1"));
  EXPECT_EQ(error_of(with_flow(1.0, {0, 1.0}), {}, {}), "");
}

TEST(TaskGraph, RefusesABackgroundOfFlowsThatDoNotExist) {
  Machine machine{{"gpu"}, {{"pcie", BytesPerSecond(1)}}, {{BytesPerSecond(1), {{0, 1.0}}}}};
  machine.background = {0, 0};
  EXPECT_EQ(error_of(machine, {}, {}), "");
  machine.background = {0, 1};
  EXPECT_THAT(error_of(machine, {}, {}), HasSubstr("the background has flow 1, but there are 1"));
}

}  // namespace
}  // namespace zenflow::sim
