/// What must hold of every execution, on random graphs with and without flows.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "sim/engine/engine.h"
#include "sim/graph/algorithms.h"
#include "tests/support/random_graph.h"
#include "tests/support/reference_max_min.h"

namespace zenflow::sim::testing {
namespace {

class EngineProperty : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  const GraphParts parts = random_graph(GetParam(), GetParam() % 2 == 1);
  const TaskGraph graph = parts.build();
  const Execution execution = simulate(graph);
};

TEST_P(EngineProperty, EveryTaskStartsAsSoonAsLaneAndPredecessorsLetIt) {
  std::vector<Picoseconds> lane_free(parts.machine.lanes.size());
  Picoseconds last;
  for (TaskId task = 0; task < parts.tasks.size(); ++task) {
    Picoseconds& free = lane_free[parts.tasks[task].lane];
    Picoseconds ready = free;
    for (const Dependency& edge : parts.dependencies) {
      if (edge.after == task) ready = std::max(ready, execution.spans[edge.before].end);
    }
    EXPECT_EQ(execution.spans[task].start, ready) << "task " << task;
    free = execution.spans[task].end;
    last = std::max(last, free);
  }
  EXPECT_EQ(execution.makespan, last);
}

TEST_P(EngineProperty, TasksTakeTheirDurationAndFlowsNoLess) {
  for (TaskId task = 0; task < parts.tasks.size(); ++task) {
    const Span& span = execution.spans[task];
    if (parts.tasks[task].flow == kNoFlow) {
      EXPECT_EQ(span.end - span.start, parts.tasks[task].duration) << "task " << task;
    } else {
      EXPECT_GE(span.end - span.start, parts.tasks[task].duration) << "task " << task;
    }
  }
}

TEST_P(EngineProperty, TheMakespanLiesBetweenCriticalPathAndSerialTime) {
  Picoseconds serial;
  for (const Span& span : execution.spans) serial += span.end - span.start;
  EXPECT_GE(execution.makespan, critical_path(graph).length);
  EXPECT_LE(execution.makespan, serial);
}

TEST_P(EngineProperty, RepeatsAreIdentical) {
  EXPECT_EQ(simulate(graph).spans, execution.spans);
  EXPECT_EQ(simulate(parts.build()).spans, execution.spans);
}

/// The recurrence and the event engine agree where both apply; and the event engine does not
/// depend on ids, only on the order within lanes.
TEST_P(EngineProperty, IssueOrderAcrossLanesDoesNotMatter) {
  const std::vector<Window> one_window = {{0, 0, 0}};
  EXPECT_EQ(simulate_until_steady(graph, one_window).spans, execution.spans);
  const auto [shuffled, new_id] = reissued(parts, GetParam());
  const Execution other = simulate(shuffled.build());
  for (TaskId task = 0; task < parts.tasks.size(); ++task) {
    EXPECT_EQ(other.spans[new_id[task]], execution.spans[task]) << "task " << task;
  }
}

struct Segment {
  Picoseconds begin;
  Picoseconds end;
  std::vector<TaskId> flows;  // running tasks with a flow
  std::vector<double> rates;  // of theirs, max-min fair by bisection
};

/// The execution cut at every start and end; between two cuts the rates are constant.
std::vector<Segment> segments(const GraphParts& parts, const Execution& execution) {
  std::vector<Picoseconds> cuts;
  for (const Span& span : execution.spans) {
    cuts.push_back(span.start);
    cuts.push_back(span.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Segment> result;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    Segment segment{cuts[i - 1], cuts[i], {}, {}};
    std::vector<FlowId> active;
    for (TaskId task = 0; task < parts.tasks.size(); ++task) {
      const Span& span = execution.spans[task];
      const bool runs = span.start <= segment.begin && span.end >= segment.end;
      if (!runs || parts.tasks[task].flow == kNoFlow) continue;
      segment.flows.push_back(task);
      active.push_back(parts.tasks[task].flow);
    }
    segment.rates = reference_max_min(parts.machine, active);
    result.push_back(std::move(segment));
  }
  return result;
}

/// At fair rates, which by definition overload no link, every flow has done exactly its work
/// when it ends, within the picosecond to which ends are rounded up.
TEST_P(EngineProperty, FlowsDoTheirWorkAtMaxMinFairRates) {
  std::vector<double> work(parts.tasks.size(), 0.0);
  for (const Segment& segment : segments(parts, execution)) {
    for (std::size_t i = 0; i < segment.flows.size(); ++i) {
      const Flow& flow = parts.machine.flows[parts.tasks[segment.flows[i]].flow];
      work[segment.flows[i]] += segment.rates[i] / flow.solo_rate.value() *
                                static_cast<double>((segment.end - segment.begin).count);
    }
  }
  for (TaskId task = 0; task < parts.tasks.size(); ++task) {
    if (parts.tasks[task].flow == kNoFlow) continue;
    const auto duration = static_cast<double>(parts.tasks[task].duration.count);
    EXPECT_GE(work[task], duration - 0.01) << "task " << task;
    EXPECT_LE(work[task], duration + 1.01) << "task " << task;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineProperty, ::testing::Range<std::uint64_t>(0, 50));

/// The seeds above are worth something only if flows are slowed in many of them.
TEST(EnginePropertySeeds, SlowManyFlows) {
  std::size_t slowed = 0;
  for (std::uint64_t seed = 1; seed < 50; seed += 2) {
    const GraphParts parts = random_graph(seed, true);
    const Execution execution = simulate(parts.build());
    for (TaskId task = 0; task < parts.tasks.size(); ++task) {
      const Span& span = execution.spans[task];
      if (span.end - span.start > parts.tasks[task].duration) ++slowed;
    }
  }
  EXPECT_GT(slowed, 300U);
}

}  // namespace
}  // namespace zenflow::sim::testing
