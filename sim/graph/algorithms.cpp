#include "sim/graph/algorithms.h"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <utility>

#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/graph/topological_sort.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/graph/csr.h"

namespace zenflow::sim {
namespace {

/// Thrown out of depth_first_search, which has no other way to stop early.
struct CycleFound {
  std::vector<TaskId> tasks;
};

/// Remembers the path of the search; the first edge back into it closes a cycle.
class CycleVisitor : public boost::default_dfs_visitor {
 public:
  explicit CycleVisitor(std::vector<TaskId>& parents) : parents_(&parents) {}

  template <class Edge>
  void tree_edge(Edge edge, const Csr& graph) const {
    (*parents_)[target(edge, graph)] = source(edge, graph);
  }
  template <class Edge>
  void back_edge(Edge edge, const Csr& graph) const {
    // Edges run from a task to what it waits for; walking back up gives execution order.
    CycleFound found;
    const TaskId top = target(edge, graph);
    for (TaskId task = source(edge, graph); task != top; task = (*parents_)[task]) {
      found.tasks.push_back(task);
    }
    found.tasks.push_back(top);
    throw found;
  }

 private:
  std::vector<TaskId>* parents_;
};

std::vector<TaskId> some_cycle(const Csr& graph) {
  std::vector<TaskId> parents(num_vertices(graph));
  try {
    boost::depth_first_search(graph, boost::visitor(CycleVisitor(parents)));
  } catch (CycleFound& found) {
    auto& tasks = found.tasks;
    std::rotate(tasks.begin(), std::min_element(tasks.begin(), tasks.end()), tasks.end());
    return std::move(tasks);
  }
  return {};
}

/// Predecessors before their successors, or empty if there is a cycle.
std::vector<TaskId> topological_order(const Csr& graph) {
  std::vector<TaskId> order;
  order.reserve(num_vertices(graph));
  try {
    // It lists the target of each edge before its source: exactly what we want, as our
    // edges run from a task to its predecessors.
    boost::topological_sort(graph, std::back_inserter(order));
  } catch (const boost::not_a_dag&) {
    order.clear();
  }
  return order;
}

/// Dependencies together with each task's predecessor on its lane.
Csr with_lane_order(const TaskGraph& graph) {
  const auto tasks = graph.tasks();
  std::vector<std::pair<TaskId, TaskId>> edges;
  edges.reserve(graph.dependency_count() + tasks.size());
  std::vector<TaskId> lane_last(graph.machine().lanes.size(), kNoTask);
  for (TaskId task = 0; task < tasks.size(); ++task) {
    for (const TaskId before : graph.predecessors(task)) edges.emplace_back(task, before);
    TaskId& last = lane_last[tasks[task].lane];
    if (last != kNoTask) edges.emplace_back(task, last);
    last = task;
  }
  return {boost::edges_are_sorted, edges.begin(), edges.end(),
          static_cast<std::uint32_t>(tasks.size()), static_cast<std::uint32_t>(edges.size())};
}

/// Tasks in an order in which predecessors come first; throws if there is none.
std::vector<TaskId> dependency_order(const TaskGraph& graph) {
  std::vector<TaskId> order = topological_order(graph.impl().graph);
  if (order.size() == graph.tasks().size()) return order;
  throw Error(ErrorKind::kRuntime,
              fmt::format("critical path: dependencies form a cycle through tasks {}",
                          fmt::join(some_cycle(graph.impl().graph), ", ")));
}

constexpr std::int64_t kUnreached = -1;

/// Longest times from the start of a chain to the start of each task of [first, last], by
/// task id from `first`; kUnreached where no chain from an allowed origin leads.
struct Distances {
  const TaskGraph& graph;
  TaskId first;
  std::vector<std::int64_t> to_start;

  [[nodiscard]] bool covers(TaskId task) const {
    return task >= first && task - first < to_start.size();
  }
  [[nodiscard]] std::int64_t to_end(TaskId task) const {
    const std::int64_t start = to_start[task - first];
    return start == kUnreached ? kUnreached : start + graph.tasks()[task].duration.count;
  }
  /// The predecessor on the longest chain to `task` (the lowest id if several), or kNoTask.
  [[nodiscard]] TaskId heaviest_predecessor(TaskId task) const {
    TaskId best = kNoTask;
    std::int64_t best_end = kUnreached;
    for (const TaskId before : graph.predecessors(task)) {
      if (!covers(before) || to_end(before) <= best_end) continue;
      best_end = to_end(before);
      best = before;
    }
    return best;
  }
  void relax(TaskId task) {
    const TaskId before = heaviest_predecessor(task);
    if (before != kNoTask) to_start[task - first] = to_end(before);
  }
  [[nodiscard]] std::vector<TaskId> chain_to(TaskId task, TaskId origin) const {
    std::vector<TaskId> chain{task};
    while (task != origin && (task = heaviest_predecessor(task)) != kNoTask) chain.push_back(task);
    std::reverse(chain.begin(), chain.end());
    return chain;
  }
};

/// Calls `visit(task)` for all tasks, predecessors first.
template <class Visit>
void for_each_in_order(const TaskGraph& graph, Visit visit) {
  if (graph.issue_order_is_topological()) {
    for (TaskId task = 0; task < graph.tasks().size(); ++task) visit(task);
  } else {
    for (const TaskId task : dependency_order(graph)) visit(task);
  }
}

void write_clusters(std::ostream& out, const TaskGraph& graph) {
  out << "rankdir=LR;\nnode [shape=box, style=filled, colorscheme=set312];\n";
  const auto& lanes = graph.machine().lanes;
  std::vector<std::vector<TaskId>> members(lanes.size());
  for (TaskId task = 0; task < graph.tasks().size(); ++task) {
    members[graph.tasks()[task].lane].push_back(task);
  }
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (members[lane].empty()) continue;
    out << "subgraph cluster_" << lane << " {\nlabel=" << json_quoted(lanes[lane]) << ";\n"
        << fmt::format("{};\n}}\n", fmt::join(members[lane], "; "));
  }
}

/// Arrows should point the way time goes; our edges point backwards.
Csr reversed(const TaskGraph& graph) {
  std::vector<std::pair<TaskId, TaskId>> edges;
  edges.reserve(graph.dependency_count());
  const auto tasks = static_cast<std::uint32_t>(graph.tasks().size());
  for (TaskId task = 0; task < tasks; ++task) {
    for (const TaskId before : graph.predecessors(task)) edges.emplace_back(before, task);
  }
  return {boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), tasks};
}

}  // namespace

std::vector<TaskId> find_cycle(const TaskGraph& graph) {
  if (graph.issue_order_is_topological()) return {};  // lane order only points forward too
  const Csr waits_for = with_lane_order(graph);
  if (topological_order(waits_for).size() == graph.tasks().size()) return {};
  return some_cycle(waits_for);
}

CriticalPath critical_path(const TaskGraph& graph) {
  const std::size_t count = graph.tasks().size();
  Distances distances{graph, 0, std::vector<std::int64_t>(count, 0)};
  TaskId last = kNoTask;
  for_each_in_order(graph, [&](TaskId task) { distances.relax(task); });
  for (TaskId task = 0; task < count; ++task) {
    if (last == kNoTask || distances.to_end(task) > distances.to_end(last)) last = task;
  }
  if (last == kNoTask) return {};
  return {{distances.to_end(last)}, distances.chain_to(last, kNoTask)};
}

CriticalPath critical_path(const TaskGraph& graph, TaskId first, TaskId last) {
  const std::size_t count = graph.tasks().size();
  if (first >= count || last >= count) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("critical path: from task {} to {}, of {} tasks", first, last, count));
  }
  const bool forward = graph.issue_order_is_topological();
  if (first == last || (forward && first > last)) return {};
  // In issue order nothing outside [first, last] can lie on the chain.
  const TaskId begin = forward ? first : 0;
  const std::size_t length = forward ? last - first + std::size_t{1} : count;
  Distances distances{graph, begin, std::vector<std::int64_t>(length, kUnreached)};
  distances.to_start[first - begin] = 0;
  if (forward) {
    for (TaskId task = first + 1; task <= last; ++task) distances.relax(task);
  } else {
    for (const TaskId task : dependency_order(graph)) distances.relax(task);
  }
  const std::int64_t to_last = distances.to_start[last - begin];
  if (to_last == kUnreached) return {};
  return {{to_last}, distances.chain_to(last, first)};
}

void write_graphviz(std::ostream& out, const TaskGraph& graph,
                    const std::function<std::string(TaskId)>& label) {
  const auto write_task = [&](std::ostream& to, TaskId task) {
    to << "[label=" << json_quoted(label(task))
       << ", fillcolor=" << graph.tasks()[task].lane % 12 + 1 << "]";
  };
  boost::write_graphviz(out, reversed(graph), write_task, boost::default_writer(),
                        [&](std::ostream& to) { write_clusters(to, graph); });
}

}  // namespace zenflow::sim
