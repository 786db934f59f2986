/// Does SimGrid, a simulator by others, see the same makespans and spans?
///
/// A lane is a host of 1 flop/s, a task an execution of as many flops as it has ns, chained
/// behind the task before it on its lane. One of our nanoseconds is a second there, because
/// SimGrid takes times less than 1 ns apart for equal; it counts in doubles, so agreement is
/// within rounding. One SimGrid engine a process is possible, so all graphs run in one, each
/// on hosts of its own.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <simgrid/s4u.hpp>

#include "sim/engine/engine.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_dag.h"

namespace zenflow::sim::testing {
namespace {

namespace s4u = simgrid::s4u;

/// Random graphs in whole nanoseconds, without the zero durations that SimGrid rejects.
GraphParts nanosecond_graph(std::uint64_t seed) {
  GraphParts graph = random_graph(seed, false);
  for (Task& task : graph.tasks) task.duration.count = (task.duration.count / 1000 + 1) * 1000;
  return graph;
}

std::vector<GraphParts> graphs_to_compare() {
  std::vector<GraphParts> graphs;
  for (const std::uint32_t count : {64U, 200U, 500U}) {
    ReferenceDag dag = reference_dag(count);
    graphs.push_back({std::move(dag.machine), std::move(dag.tasks), std::move(dag.dependencies)});
  }
  for (std::uint64_t seed = 0; seed < 12; ++seed) graphs.push_back(nanosecond_graph(seed));
  return graphs;
}

/// SimGrid's seconds, our nanoseconds.
struct Times {
  double start;
  double end;
};

double nanoseconds(Picoseconds time) {
  return static_cast<double>(time.count) / 1000.0;
}

class SimGridRun {
 public:
  explicit SimGridRun(const std::vector<GraphParts>& graphs) {
    zone_ = s4u::create_full_zone("machine");
    for (std::size_t i = 0; i < graphs.size(); ++i) activities_.push_back(add(graphs[i], i));
    zone_->seal();
    for (const auto& graph : activities_) {
      for (const auto& activity : graph) activity->vetoable_start();
    }
  }
  /// The activities must outlive the run: SimGrid 3.32 crashes on those that nobody holds.
  [[nodiscard]] std::vector<std::vector<Times>> times() const {
    std::vector<std::vector<Times>> result;
    for (const auto& graph : activities_) {
      result.emplace_back();
      for (const auto& activity : graph) {
        result.back().push_back({activity->get_start_time(), activity->get_finish_time()});
      }
    }
    return result;
  }

 private:
  std::vector<s4u::ExecPtr> add(const GraphParts& graph, std::size_t index) {
    std::vector<s4u::Host*> hosts;
    for (std::size_t lane = 0; lane < graph.machine.lanes.size(); ++lane) {
      const std::string name = "g" + std::to_string(index) + "l" + std::to_string(lane);
      hosts.push_back(zone_->create_host(name, 1.0));
      hosts.back()->seal();
    }
    std::vector<s4u::ExecPtr> tasks;
    std::vector<TaskId> last(hosts.size(), kNoTask);
    for (const Task& task : graph.tasks) {
      s4u::ExecPtr exec = s4u::Exec::init();
      exec->set_name("t" + std::to_string(tasks.size()));
      exec->set_flops_amount(nanoseconds(task.duration));
      exec->set_host(hosts[task.lane]);
      if (last[task.lane] != kNoTask) tasks[last[task.lane]]->add_successor(exec);
      last[task.lane] = static_cast<TaskId>(tasks.size());
      tasks.push_back(exec);
    }
    add_dependencies(graph, tasks);
    return tasks;
  }
  /// Twice the same edge, by dependency and by lane, would be an error to SimGrid.
  static void add_dependencies(const GraphParts& graph, const std::vector<s4u::ExecPtr>& tasks) {
    const TaskGraph built = graph.build();
    std::vector<TaskId> last(graph.machine.lanes.size(), kNoTask);
    for (TaskId task = 0; task < tasks.size(); ++task) {
      const LaneId lane = graph.tasks[task].lane;
      for (const TaskId before : built.predecessors(task)) {
        if (before != last[lane]) tasks[before]->add_successor(tasks[task]);
      }
      last[lane] = task;
    }
  }

  s4u::NetZone* zone_ = nullptr;
  std::vector<std::vector<s4u::ExecPtr>> activities_;
};

std::vector<std::vector<Times>> simgrid_times(const std::vector<GraphParts>& graphs) {
  std::string name = "engine_simgrid_test";
  std::string quiet = "--log=root.thres:warning";
  std::vector<char*> arguments = {name.data(), quiet.data(), nullptr};
  int count = 2;
  const s4u::Engine engine(&count, arguments.data());
  const SimGridRun run(graphs);
  engine.run();
  return run.times();
}

TEST(EngineSimGrid, SpansAgree) {
  const std::vector<GraphParts> graphs = graphs_to_compare();
  const auto theirs = simgrid_times(graphs);
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const Execution ours = simulate(graphs[i].build());
    double last = 0;
    for (std::size_t task = 0; task < ours.spans.size(); ++task) {
      const Span& span = ours.spans[task];
      const Times& times = theirs[i][task];
      const double tolerance = 1e-9 * nanoseconds(ours.makespan);
      EXPECT_NEAR(times.start, nanoseconds(span.start), tolerance) << i << ": " << task;
      EXPECT_NEAR(times.end, nanoseconds(span.end), tolerance) << i << ": " << task;
      last = std::max(last, times.end);
    }
    EXPECT_NEAR(last / nanoseconds(ours.makespan), 1.0, 1e-9) << "graph " << i;
  }
}

}  // namespace
}  // namespace zenflow::sim::testing
