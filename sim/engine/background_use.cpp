#include "sim/engine/background_use.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/engine/flow_rates.h"

namespace zenflow::sim {
namespace {

/// A task with a flow starts or ends.
struct Edge {
  std::int64_t at;
  FlowId flow;
  bool joins;
};

/// By time; at one instant nobody minds the order.
std::vector<Edge> edges_of(const TaskGraph& graph, std::span<const Span> spans) {
  std::vector<Edge> edges;
  const auto tasks = graph.tasks();
  for (TaskId id = 0; id < tasks.size(); ++id) {
    const Span& span = spans[id];
    if (tasks[id].flow == kNoFlow || span.start.count < 0 || span.start == span.end) continue;
    edges.push_back({span.start.count, tasks[id].flow, true});
    edges.push_back({span.end.count, tasks[id].flow, false});
  }
  // What leaves goes first, so that no flow is counted twice; equal edges are alike.
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    if (a.at != b.at) return a.at < b.at;
    if (a.joins != b.joins) return b.joins;
    return a.flow < b.flow;
  });
  return edges;
}

}  // namespace

BytesPerSecond background_rate(const TaskGraph& graph, std::span<const Span> spans,
                               Picoseconds begin, Picoseconds end) {
  const Machine& machine = graph.machine();
  if (machine.background.empty()) return BytesPerSecond(0);
  FlowRates rates(machine);
  double work = 0;  // picoseconds at a byte a second
  std::int64_t now = begin.count;
  const auto pass_until = [&](std::int64_t then) {
    then = std::min(then, end.count);
    if (then <= now) return;
    const double* const progress = rates.progress();
    double rate = 0;
    for (const FlowId flow : machine.background) {
      rate += progress[flow] * machine.flows[flow].solo_rate.value();
    }
    work += rate * static_cast<double>(then - now);
    now = then;
  };
  for (const Edge& edge : edges_of(graph, spans)) {
    pass_until(edge.at);
    if (edge.joins) {
      rates.join(edge.flow);
    } else {
      rates.leave(edge.flow);
    }
  }
  pass_until(end.count);
  return BytesPerSecond(work / static_cast<double>(end.count - begin.count));
}

}  // namespace zenflow::sim
