#include "sim/graph/algorithms.h"

#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/random_graph.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using testing::GraphParts;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::random_graph;
using testing::reissued;

constexpr LaneId kGpu = 0;
constexpr LaneId kD2h = 1;

TaskGraph graph_of(std::vector<Task> tasks, const std::vector<Dependency>& dependencies) {
  return {Machine{{"gpu", "d2h"}, {}, {}}, std::move(tasks), dependencies};
}

TEST(FindCycle, AGraphInIssueOrderHasNone) {
  EXPECT_THAT(find_cycle(graph_of({{{1}}, {{1}}}, {{0, 1}})), IsEmpty());
}

TEST(FindCycle, ABackwardDependencyAloneIsNone) {
  EXPECT_THAT(find_cycle(graph_of({{{1}, kGpu}, {{1}, kD2h}}, {{1, 0}})), IsEmpty());
}

TEST(FindCycle, ATaskThatWaitsForItself) {
  EXPECT_THAT(find_cycle(graph_of({{{1}}, {{1}}}, {{1, 1}})), ElementsAre(1));
}

//   4 -> 1 -> 3 -> 4, besides 0 -> 1 and 4 -> 2
TEST(FindCycle, NamesTheTasksInOrderOfExecution) {
  std::vector<Task> tasks(5, Task{{1}});
  Machine machine;
  for (LaneId lane = 0; lane < 5; ++lane) {
    machine.lanes.push_back("lane");
    tasks[lane].lane = lane;
  }
  const std::vector<Dependency> edges = {{0, 1}, {4, 1}, {1, 3}, {3, 4}, {4, 2}};
  EXPECT_THAT(find_cycle(TaskGraph(machine, tasks, edges)), ElementsAre(1, 3, 4));
}

// Dependencies alone are acyclic; the gpu lane issues 0 before 2, which 0 needs through 1.
TEST(FindCycle, LaneOrderCounts) {
  const TaskGraph graph = graph_of({{{1}, kGpu}, {{1}, kD2h}, {{1}, kGpu}}, {{2, 1}, {1, 0}});
  EXPECT_THAT(find_cycle(graph), ElementsAre(0, 2, 1));
}

//   a(3) -> b(4) -> d(1)      3 + 4 + 1 = 8
//     \--> c(2) ---/          3 + 2 + 1 = 6; lanes do not count
TEST(CriticalPath, TakesTheLongerBranch) {
  const TaskGraph graph =
      graph_of({{{3}}, {{4}}, {{2}}, {{1}}, {{7}}}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  const CriticalPath path = critical_path(graph);
  EXPECT_EQ(path.length.count, 8);
  EXPECT_THAT(path.tasks, ElementsAre(0, 1, 3));
}

TEST(CriticalPath, BetweenTwoTasksLeavesOutTheLast) {
  const TaskGraph graph =
      graph_of({{{3}}, {{4}}, {{2}}, {{1}}, {{7}}}, {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  const CriticalPath path = critical_path(graph, 0, 3);
  EXPECT_EQ(path.length.count, 7);
  EXPECT_THAT(path.tasks, ElementsAre(0, 1, 3));
  const CriticalPath other = critical_path(graph, 2, 3);
  EXPECT_EQ(other.length.count, 2);
  EXPECT_THAT(other.tasks, ElementsAre(2, 3));
}

TEST(CriticalPath, BetweenTasksThatDoNotDependIsEmpty) {
  const TaskGraph graph = graph_of({{{3}}, {{4}}, {{2}}}, {{0, 1}, {0, 2}});
  for (const auto& [first, last] : {std::pair{1U, 2U}, std::pair{2U, 0U}, std::pair{1U, 1U}}) {
    const CriticalPath path = critical_path(graph, first, last);
    EXPECT_EQ(path.length.count, 0);
    EXPECT_THAT(path.tasks, IsEmpty());
  }
  EXPECT_THROW(static_cast<void>(critical_path(graph, 0, 3)), Error);
}

TEST(CriticalPath, OfNothingIsNothing) {
  EXPECT_EQ(critical_path(graph_of({}, {})).length.count, 0);
}

TEST(CriticalPath, NamesACycleOfDependencies) {
  const TaskGraph graph = graph_of({{{1}}, {{1}}, {{1}}}, {{0, 1}, {1, 2}, {2, 1}});
  try {
    static_cast<void>(critical_path(graph));
    FAIL() << "a cycle has no critical path";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_THAT(error.what(), HasSubstr("cycle through tasks 1, 2"));
  }
}

/// Longest distances from `source` by Boost's own algorithm: shortest paths of negated weights,
/// where the weight of an edge is the duration of the task it leaves.
std::vector<std::int64_t> boost_longest(const GraphParts& parts, TaskId source) {
  using Weight = boost::property<boost::edge_weight_t, std::int64_t>;
  using Graph =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Weight>;
  Graph graph(parts.tasks.size());
  for (const Dependency& edge : parts.dependencies) {
    add_edge(edge.before, edge.after, Weight(-parts.tasks[edge.before].duration.count), graph);
  }
  std::vector<std::int64_t> distance(parts.tasks.size());
  boost::dag_shortest_paths(graph, source, boost::distance_map(distance.data()));
  for (std::int64_t& value : distance) {
    value = value == std::numeric_limits<std::int64_t>::max() ? -1 : -value;
  }
  return distance;
}

std::int64_t sum_of_durations(const GraphParts& parts, const std::vector<TaskId>& tasks) {
  return std::accumulate(tasks.begin(), tasks.end(), std::int64_t{0}, [&](auto sum, TaskId task) {
    return sum + parts.tasks[task].duration.count;
  });
}

void expect_chain(const TaskGraph& graph, const std::vector<TaskId>& tasks) {
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    EXPECT_THAT(graph.predecessors(tasks[i]), ::testing::Contains(tasks[i - 1]));
  }
}

class CriticalPathDifferential : public ::testing::TestWithParam<std::uint64_t> {};

void compare_with_boost(const GraphParts& parts) {
  const TaskGraph graph = parts.build();
  std::int64_t longest = 0;
  for (TaskId source = 0; source < parts.tasks.size(); ++source) {
    const auto distance = boost_longest(parts, source);
    for (TaskId target = 0; target < parts.tasks.size(); ++target) {
      if (distance[target] >= 0) {
        longest = std::max(longest, distance[target] + parts.tasks[target].duration.count);
      }
      if ((source + target) % 7 != 0) continue;
      const CriticalPath path = critical_path(graph, source, target);
      EXPECT_EQ(path.length.count, std::max<std::int64_t>(0, distance[target]));
      EXPECT_EQ(path.tasks.empty(), source == target || distance[target] < 0);
      if (path.tasks.empty()) continue;
      EXPECT_EQ(path.tasks.front(), source);
      EXPECT_EQ(path.tasks.back(), target);
      EXPECT_EQ(sum_of_durations(parts, path.tasks) - parts.tasks[target].duration.count,
                path.length.count);
      expect_chain(graph, path.tasks);
    }
  }
  const CriticalPath path = critical_path(graph);
  EXPECT_EQ(path.length.count, longest);
  EXPECT_EQ(sum_of_durations(parts, path.tasks), longest);
  expect_chain(graph, path.tasks);
}

TEST_P(CriticalPathDifferential, AgreesWithBoostDagShortestPaths) {
  const GraphParts parts = random_graph(GetParam(), false);
  compare_with_boost(parts);
  compare_with_boost(reissued(parts, GetParam()).first);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CriticalPathDifferential, ::testing::Range<std::uint64_t>(0, 20));

TEST(WriteGraphviz, OneNodeATaskOneClusterALaneArrowsForward) {
  const TaskGraph graph = graph_of({{{3}, kGpu}, {{4}, kD2h}, {{2}, kGpu}}, {{0, 1}, {1, 2}});
  std::ostringstream out;
  write_graphviz(out, graph, [](TaskId task) {
    return task == 1 ? std::string("a \"quoted\\name\"\nline") : "task " + std::to_string(task);
  });
  EXPECT_EQ(out.str(), R"(digraph G {
rankdir=LR;
node [shape=box, style=filled, colorscheme=set312];
subgraph cluster_0 {
label="gpu";
0; 2;
}
subgraph cluster_1 {
label="d2h";
1;
}
0[label="task 0", fillcolor=1];
1[label="a \"quoted\\name\"\nline", fillcolor=2];
2[label="task 2", fillcolor=1];
0->1 ;
1->2 ;
}
)");
}

}  // namespace
}  // namespace zenflow::sim
