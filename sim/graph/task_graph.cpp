#include "sim/graph/task_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/graph/csr.h"

namespace zenflow::sim {
namespace {

// Id 0xFFFF is "no flow" for flows and "no lane" inside the engine.
constexpr std::size_t kMaxIds16 = 0xFFFF;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kRuntime, "task graph: " + what);
}

bool is_positive(double value) {
  return value > 0 && std::isfinite(value);
}

void check_flow(const Machine& machine, std::size_t id) {
  const Flow& flow = machine.flows[id];
  if (!is_positive(flow.solo_rate.value())) {
    fail(fmt::format("flow {}: solo_rate must be positive and finite, found {}", id,
                     flow.solo_rate.value()));
  }
  for (const LinkUse& use : flow.uses) {
    if (use.link >= machine.links.size()) {
      fail(fmt::format("flow {} uses link {}, but there are {} links", id, use.link,
                       machine.links.size()));
    }
    if (!is_positive(use.coefficient)) {
      fail(fmt::format("flow {} on link {}: coefficient must be positive and finite, found {}", id,
                       machine.links[use.link].name, use.coefficient));
    }
  }
}

void check_machine(const Machine& machine) {
  if (machine.lanes.size() > kMaxIds16 || machine.links.size() > kMaxIds16 ||
      machine.flows.size() > kMaxIds16) {
    fail(fmt::format("at most {} lanes, links and flows each, found {}, {} and {}", kMaxIds16,
                     machine.lanes.size(), machine.links.size(), machine.flows.size()));
  }
  for (const Link& link : machine.links) {
    if (!is_positive(link.capacity.value())) {
      fail(fmt::format("link {}: capacity must be positive and finite, found {}", link.name,
                       link.capacity.value()));
    }
  }
  for (std::size_t id = 0; id < machine.flows.size(); ++id) check_flow(machine, id);
  for (const FlowId flow : machine.background) {
    if (flow < machine.flows.size()) continue;
    fail(fmt::format("the background has flow {}, but there are {} flows", flow,
                     machine.flows.size()));
  }
}

[[noreturn]] void fail_task(const Machine& machine, const Task& task, std::size_t id) {
  if (task.lane >= machine.lanes.size()) {
    fail(fmt::format("task {} is on lane {}, but there are {} lanes", id, task.lane,
                     machine.lanes.size()));
  }
  if (task.duration.count < 0) {
    fail(fmt::format("task {} has a negative duration: {} ps", id, task.duration.count));
  }
  fail(fmt::format("task {} belongs to flow {}, but there are {} flows", id, task.flow,
                   machine.flows.size()));
}

/// The sum of all durations bounds every time the engine computes without flows, so
/// checking it once here keeps overflow checks out of the engine's loops.
void check_tasks(const Machine& machine, std::span<const Task> tasks) {
  if (tasks.size() >= kNoTask) fail(fmt::format("{} tasks; at most {}", tasks.size(), kNoTask - 1));
  constexpr auto kLongest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::size_t lanes = machine.lanes.size();
  const std::size_t flows = machine.flows.size();
  std::uint64_t total = 0;
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    const Task& task = tasks[id];
    const bool flow_known = task.flow < flows || task.flow == kNoFlow;
    if (task.lane >= lanes || task.duration.count < 0 || !flow_known) fail_task(machine, task, id);
    total += static_cast<std::uint64_t>(task.duration.count);
    if (total > kLongest) {
      fail(fmt::format("the durations up to task {} add up to more than {} ps (106 days)", id,
                       kLongest));
    }
  }
}

/// Counts the predecessors of each task: afterwards `rowstart[t + 1]` is where row t begins.
/// Returns whether every dependency points from a lower to a higher id.
bool count_rows(std::span<const Dependency> dependencies, std::size_t tasks,
                std::vector<std::uint32_t>& rowstart) {
  bool topological = true;
  rowstart.assign(tasks + 2, 0);
  for (const Dependency& edge : dependencies) {
    if (edge.before >= tasks || edge.after >= tasks) {
      fail(fmt::format("a dependency {} -> {} names a task that does not exist; there are {} tasks",
                       edge.before, edge.after, tasks));
    }
    topological = topological && edge.before < edge.after;
    ++rowstart[edge.after + 2];
  }
  for (std::size_t row = 2; row < rowstart.size(); ++row) rowstart[row] += rowstart[row - 1];
  return topological;
}

/// Sorts each row and drops duplicates, closing the gaps they leave.
void normalise_rows(std::vector<std::uint32_t>& rowstart, std::vector<TaskId>& column) {
  TaskId* const base = column.data();
  std::uint32_t kept = 0;
  std::uint32_t begin = 0;
  for (std::size_t row = 0; row + 1 < rowstart.size(); ++row) {
    const std::uint32_t end = rowstart[row + 1];
    if (!std::is_sorted(base + begin, base + end)) std::sort(base + begin, base + end);
    for (std::uint32_t i = begin; i < end; ++i) {
      if (i > begin && base[i] == base[i - 1]) continue;
      base[kept++] = base[i];
    }
    rowstart[row + 1] = kept;
    begin = end;
  }
  column.resize(kept);
}

}  // namespace

TaskGraph::TaskGraph(Machine machine, std::vector<Task> tasks,
                     std::span<const Dependency> dependencies)
    : machine_(std::move(machine)), tasks_(std::move(tasks)), impl_(std::make_unique<Impl>()) {
  check_machine(machine_);
  check_tasks(machine_, tasks_);
  if (dependencies.size() > std::numeric_limits<std::uint32_t>::max()) {
    fail(fmt::format("{} dependencies do not fit 32-bit edge indices", dependencies.size()));
  }
  // A counting sort straight into Boost's two arrays; its own constructors take the same
  // steps through iterator adaptors, several times slower, and keep duplicates.
  std::vector<std::uint32_t>& rowstart = impl_->graph.m_forward.m_rowstart;
  std::vector<TaskId>& column = impl_->graph.m_forward.m_column;
  topological_ = count_rows(dependencies, tasks_.size(), rowstart);
  column.resize(dependencies.size());
  for (const Dependency& edge : dependencies) column[rowstart[edge.after + 1]++] = edge.before;
  rowstart.pop_back();  // filling moved every row's begin to its end, one place further left
  normalise_rows(rowstart, column);
  offsets_ = rowstart.data();
  targets_ = column.data();
}

TaskGraph::~TaskGraph() = default;
TaskGraph::TaskGraph(TaskGraph&&) noexcept = default;
TaskGraph& TaskGraph::operator=(TaskGraph&&) noexcept = default;

std::size_t TaskGraph::dependency_count() const {
  return impl_->graph.m_forward.m_column.size();
}

}  // namespace zenflow::sim
