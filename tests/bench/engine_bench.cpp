/// How fast is the engine, next to a bare 4-ary-heap engine over the same graph?
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "sim/engine/engine.h"
#include "sim/graph/algorithms.h"
#include "sim/graph/task_graph.h"
#include "tests/bench/allocation_meter.h"
#include "tests/bench/plain_heap_engine.h"
#include "tests/support/offload_graph.h"
#include "tests/support/reference_dag.h"

namespace zenflow::sim::testing {
namespace {

using zenflow::testing::live_bytes;
using zenflow::testing::peak_bytes;
using zenflow::testing::reset_peak;

using Clock = std::chrono::steady_clock;

TaskGraph build_reference(std::uint32_t count) {
  ReferenceDag dag = reference_dag(count);
  return {std::move(dag.machine), std::move(dag.tasks), dag.dependencies};
}

TaskGraph build_offload(const OffloadShape& shape) {
  OffloadGraph graph = offload_graph(shape);
  return {std::move(graph.machine), std::move(graph.tasks), graph.dependencies};
}

/// Graph, tasks, spans and working memory at their peak while the graph runs.
double bytes_per_task(std::uint32_t count) {
  const std::size_t before = live_bytes();
  const TaskGraph graph = build_reference(count);
  reset_peak();
  benchmark::DoNotOptimize(simulate(graph));
  return static_cast<double>(peak_bytes() - before) / count;
}

template <class Run>
double seconds(Run run) {
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool makespan_is_right(benchmark::State& state, const Execution& execution, std::uint32_t count) {
  if (execution.makespan.count == reference_makespan_ps(count)) return true;
  state.SkipWithError("the makespan is not the reference DAG's");
  return false;
}

void set_rate(benchmark::State& state, std::size_t tasks) {
  state.counters["tasks_per_second"] =
      benchmark::Counter(static_cast<double>(tasks) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

/// Our engine, with the plain one taking turns in the first iterations, so that a slow moment of
/// the machine hits both alike. The benchmark's own time is ours alone.
void side_by_side(benchmark::State& state, const TaskGraph& graph, std::uint32_t count) {
  constexpr std::size_t kTurns = 25;
  PlainHeapEngine plain(graph);
  std::vector<double> ours;
  std::vector<double> theirs;
  for (auto _ : state) {
    Execution execution;
    const double time = seconds([&] { execution = simulate(graph); });
    state.PauseTiming();
    if (!makespan_is_right(state, execution, count)) return;
    execution = {};
    if (ours.size() < kTurns) {
      ours.push_back(time);
      theirs.push_back(seconds([&] { execution = plain.run(); }));
      if (!makespan_is_right(state, execution, count)) return;
      execution = {};
    }
    state.ResumeTiming();
  }
  set_rate(state, graph.tasks().size());
  state.counters["ratio_to_plain_engine"] = median(theirs) / median(ours);
}

void reference_dag_bench(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const double bytes = bytes_per_task(count);
  side_by_side(state, build_reference(count), count);
  state.counters["bytes_per_task"] = bytes;
}

void plain_heap_bench(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  const TaskGraph graph = build_reference(count);
  PlainHeapEngine plain(graph);
  for (auto _ : state) {
    if (!makespan_is_right(state, plain.run(), count)) return;
  }
  set_rate(state, count);
}

/// The general engine on a graph without flows: one dependency that points backwards, which
/// nothing waits for, makes the issue order useless to the recurrence.
void event_engine_bench(benchmark::State& state) {
  const auto count = static_cast<std::uint32_t>(state.range(0));
  ReferenceDag dag = reference_dag(count);
  dag.machine.lanes.push_back("extra");
  const auto extra = static_cast<LaneId>(dag.machine.lanes.size() - 1);
  dag.tasks.push_back({.duration = {0}, .lane = extra});
  dag.machine.lanes.push_back("extra2");
  dag.tasks.push_back({.duration = {0}, .lane = static_cast<LaneId>(extra + 1)});
  dag.dependencies.push_back({count + 1, count});
  const TaskGraph graph(std::move(dag.machine), std::move(dag.tasks), dag.dependencies);
  side_by_side(state, graph, count);
}

OffloadShape flow_shape(std::int64_t ranks) {
  return {.ranks = static_cast<std::uint32_t>(ranks),
          .layers = 32,
          .steps = static_cast<std::uint32_t>(64 / ranks)};
}

void flow_graph_bench(benchmark::State& state) {
  const TaskGraph graph = build_offload(flow_shape(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(simulate(graph));
  set_rate(state, graph.tasks().size());
}

void build_bench(benchmark::State& state) {
  const OffloadGraph parts = offload_graph(flow_shape(state.range(0)));
  for (auto _ : state) {
    std::vector<Task> tasks = parts.tasks;
    benchmark::DoNotOptimize(TaskGraph(parts.machine, std::move(tasks), parts.dependencies));
  }
  set_rate(state, parts.tasks.size());
}

void steady_bench(benchmark::State& state) {
  const OffloadGraph parts = offload_graph(flow_shape(state.range(0)));
  const TaskGraph graph(parts.machine, parts.tasks, parts.dependencies);
  for (auto _ : state) {
    const Execution execution = simulate_until_steady(graph, parts.windows);
    if (!execution.steady) return state.SkipWithError("no steady state was found");
  }
  set_rate(state, graph.tasks().size());
}

void critical_path_bench(benchmark::State& state) {
  const OffloadGraph parts = offload_graph(flow_shape(1));
  const TaskGraph graph(parts.machine, parts.tasks, parts.dependencies);
  const TaskId first = parts.windows[32].marker;
  const TaskId last = parts.windows[36].marker;
  for (auto _ : state) benchmark::DoNotOptimize(critical_path(graph, first, last));
  set_rate(state, last - first);
}

BENCHMARK(reference_dag_bench)
    ->Name("ReferenceDag")
    ->Arg(9984)
    ->Arg(200000)
    ->Arg(1000000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(plain_heap_bench)
    ->Name("PlainHeapEngine")
    ->Arg(200000)
    ->Arg(1000000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(event_engine_bench)
    ->Name("EventEngine")
    ->Arg(200000)
    ->Arg(1000000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(flow_graph_bench)->Name("FlowGraph")->Arg(1)->Arg(8)->Unit(benchmark::kMicrosecond);
BENCHMARK(build_bench)->Name("BuildGraph")->Arg(1)->Arg(8)->Unit(benchmark::kMicrosecond);
BENCHMARK(steady_bench)->Name("UntilSteady")->Arg(1)->Arg(8)->Unit(benchmark::kMicrosecond);
BENCHMARK(critical_path_bench)->Name("CriticalPathOfWindows")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace zenflow::sim::testing
