// Metrics of runs drawn by hand.
#include "sim/simulate/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using testing::JobOptions;

constexpr LaneId kCompute = 0;
constexpr LaneId kD2h = 1;
constexpr LaneId kCpu = 2;
constexpr LaneId kCollective = 3;

/// Tasks on one GPU's lanes, written as they are to run.
class Drawing {
 public:
  TaskId task(LaneId lane, std::int64_t picoseconds, Operation phase,
              std::vector<TaskId> after = {}, double bytes = 0) {
    const auto id = static_cast<TaskId>(tasks_.size());
    tasks_.push_back({Picoseconds{picoseconds}, lane, kNoFlow});
    program_labels_.push_back({phase, 0, 0, bytes});
    for (const TaskId before : after) dependencies_.push_back({before, id});
    return id;
  }
  /// The next task opens a window of one step.
  void window() {
    const auto next = static_cast<TaskId>(tasks_.size());
    windows_.push_back({next, next, 0});
    shapes_.push_back({.first_step = static_cast<std::int64_t>(shapes_.size())});
  }
  void memory(TaskId task, bool at_end, MemoryCategory category, double bytes) {
    memory_.push_back({task, at_end, static_cast<BufferId>(category), bytes});
  }

  [[nodiscard]] Program program() {
    Machine machine;
    machine.lanes = {"compute", "d2h", "cpu", "collective"};
    std::vector<TaskId> markers;
    for (const Window& window : windows_) markers.push_back(window.marker);
    RankClass one;
    one.compute = {kCompute, kNoFlow};
    return {TaskGraph(machine, tasks_, dependencies_),
            program_labels_,
            {{LaneKind::kCompute, 0},
             {LaneKind::kD2H, 0},
             {LaneKind::kCpuUpdate, 0},
             {LaneKind::kCollective, -1}},
            {one},
            shapes_,
            windows_,
            markers,
            {},
            one_buffer_a_category(),
            memory_};
  }

 private:
  /// The id of a buffer is the number of its category; weights hold 100 bytes throughout.
  static std::vector<MemoryBuffer> one_buffer_a_category() {
    std::vector<MemoryBuffer> buffers;
    for (int i = 0; i < kMemoryCategories; ++i) {
      const auto category = static_cast<MemoryCategory>(i);
      buffers.push_back({.name = to_string(category),
                         .formula = "",
                         .category = category,
                         .resident = category == MemoryCategory::kWeights ? 100.0 : 0.0});
    }
    return buffers;
  }

  std::vector<Task> tasks_;
  std::vector<TaskLabel> program_labels_;
  std::vector<Dependency> dependencies_;
  std::vector<Window> windows_;
  std::vector<WindowShape> shapes_;
  std::vector<MemoryChange> memory_;
};

double stall(const WindowMetrics& metrics, WaitCause cause) {
  return metrics.stall[static_cast<std::size_t>(cause)];
}

TEST(WindowMetrics, SplitAGapByWhatFinishedLastAllTheWayBack) {
  // compute |fwd 10|bwd 20|                |fwd
  // d2h                   |8 |
  // cpu                      |  15   |
  Drawing drawing;
  drawing.window();
  const TaskId forward = drawing.task(kCompute, 10, Operation::kForward);
  const TaskId backward = drawing.task(kCompute, 20, Operation::kBackward, {forward});
  const TaskId down = drawing.task(kD2h, 8, Operation::kD2H, {backward}, 640);
  const TaskId update = drawing.task(kCpu, 15, Operation::kCpuUpdate, {down});
  drawing.window();
  (void)drawing.task(kCompute, 10, Operation::kForward, {backward, update});
  const Program program = drawing.program();
  const Execution execution = simulate(program.graph);
  const std::vector<WindowMetrics> windows = window_metrics(program, execution);
  ASSERT_EQ(windows.size(), 1U);
  EXPECT_THAT(windows[0].step_times, ElementsAre(53.0));
  EXPECT_EQ(windows[0].compute, 30);
  EXPECT_EQ(stall(windows[0], WaitCause::kD2H), 8);
  EXPECT_EQ(stall(windows[0], WaitCause::kCpuUpdate), 15);
  EXPECT_EQ(windows[0].d2h_bytes, 640);
  EXPECT_EQ(windows[0].h2d_bytes, 0);
}

TEST(WindowMetrics, CountOnlyThePartOfAChainInsideTheGap) {
  // compute |fwd 10|  bwd 20   |      |fwd
  // d2h            |   25          |
  // cpu                            |3 |
  Drawing drawing;
  drawing.window();
  const TaskId forward = drawing.task(kCompute, 10, Operation::kForward);
  (void)drawing.task(kCompute, 20, Operation::kBackward, {forward});
  const TaskId down = drawing.task(kD2h, 25, Operation::kD2H, {forward}, 1);
  const TaskId update = drawing.task(kCpu, 3, Operation::kCpuUpdate, {down});
  drawing.window();
  (void)drawing.task(kCompute, 10, Operation::kForward, {update});
  const Program program = drawing.program();
  const Execution execution = simulate(program.graph);
  const WindowMetrics window = window_metrics(program, execution).at(0);
  EXPECT_EQ(stall(window, WaitCause::kD2H), 5);  // 30 .. 35 of the copy's 10 .. 35
  EXPECT_EQ(stall(window, WaitCause::kCpuUpdate), 3);
  EXPECT_EQ(window.compute, 30);
}

TEST(WindowMetrics, ALaneThatWasBusyIsACauseToo) {
  // The update waits for its lane, which another update holds.
  Drawing drawing;
  drawing.window();
  const TaskId forward = drawing.task(kCompute, 10, Operation::kForward);
  (void)drawing.task(kCpu, 40, Operation::kCpuUpdate);
  const TaskId mine = drawing.task(kCpu, 5, Operation::kCpuUpdate, {forward});
  drawing.window();
  (void)drawing.task(kCompute, 10, Operation::kForward, {mine});
  const Program program = drawing.program();
  const Execution execution = simulate(program.graph);
  const WindowMetrics window = window_metrics(program, execution).at(0);
  EXPECT_EQ(window.step_times[0], 45.0);
  EXPECT_EQ(stall(window, WaitCause::kCpuUpdate), 35);
}

TEST(WindowMetrics, SelectionIsACauseOfItsOwnOnAnyLane) {
  Drawing drawing;
  drawing.window();
  const TaskId forward = drawing.task(kCompute, 10, Operation::kForward);
  const TaskId exchange = drawing.task(kCollective, 4, Operation::kSelect, {forward});
  const TaskId select = drawing.task(kCompute, 6, Operation::kSelect, {exchange});
  const TaskId gather = drawing.task(kCollective, 9, Operation::kAllGather, {select});
  drawing.window();
  (void)drawing.task(kCompute, 10, Operation::kForward, {gather});
  const Program program = drawing.program();
  const Execution execution = simulate(program.graph);
  const WindowMetrics window = window_metrics(program, execution).at(0);
  EXPECT_EQ(window.compute, 16);
  EXPECT_EQ(stall(window, WaitCause::kSelection), 4);
  EXPECT_EQ(stall(window, WaitCause::kCollective), 9);
}

TEST(ComputeWaits, NameTheCauseOfMostOfEachGap) {
  Drawing drawing;
  drawing.window();
  const TaskId forward = drawing.task(kCompute, 10, Operation::kForward);
  const TaskId down = drawing.task(kD2h, 8, Operation::kD2H, {forward}, 1);
  const TaskId update = drawing.task(kCpu, 15, Operation::kCpuUpdate, {down});
  drawing.window();
  const TaskId next = drawing.task(kCompute, 10, Operation::kForward, {update});
  const Program program = drawing.program();
  const std::vector<TaskWait> waits = compute_waits(program, simulate(program.graph));
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].task, next);
  EXPECT_EQ(waits[0].time.count, 23);
  EXPECT_EQ(waits[0].cause, WaitCause::kCpuUpdate);
}

TEST(BindingChain, FillsTheTimeItIsAskedFor) {
  Drawing drawing;
  drawing.window();
  const TaskId forward = drawing.task(kCompute, 10, Operation::kForward);
  const TaskId down = drawing.task(kD2h, 8, Operation::kD2H, {forward}, 1);
  const TaskId update = drawing.task(kCpu, 15, Operation::kCpuUpdate, {down});
  drawing.window();
  const TaskId next = drawing.task(kCompute, 10, Operation::kForward, {update});
  const Program program = drawing.program();
  const std::vector<ChainLink> chain =
      binding_chain(program, simulate(program.graph), next, Picoseconds{4});
  ASSERT_EQ(chain.size(), 3U);
  EXPECT_EQ(chain[0].task, update);
  EXPECT_EQ(chain[0].time.count, 15);
  EXPECT_EQ(chain[1].task, down);
  EXPECT_EQ(chain[2].task, forward);
  EXPECT_EQ(chain[2].time.count, 6);
}

TEST(Memory, PeaksWhereMostIsHeldAtOnce) {
  // 0..10 forward takes 50 at its start; 10..30 backward takes 70, gives 50 back at its end; the
  // copy of 30..38 gives 70 back at its end. 100 are held throughout.
  Drawing drawing;
  drawing.window();
  const TaskId forward = drawing.task(kCompute, 10, Operation::kForward);
  const TaskId backward = drawing.task(kCompute, 20, Operation::kBackward, {forward});
  const TaskId down = drawing.task(kD2h, 8, Operation::kD2H, {backward}, 70);
  drawing.memory(forward, false, MemoryCategory::kActivations, 50);
  drawing.memory(backward, false, MemoryCategory::kGradients, 70);
  drawing.memory(backward, true, MemoryCategory::kActivations, -50);
  drawing.memory(down, true, MemoryCategory::kGradients, -70);
  const Program program = drawing.program();
  const Execution execution = simulate(program.graph);
  const MemoryPeak peak = memory_peak(program, execution, MemoryPlace::kGpu);
  EXPECT_EQ(peak.total, 220);
  EXPECT_EQ(peak.by_category[static_cast<std::size_t>(MemoryCategory::kActivations)], 50);
  EXPECT_EQ(peak.by_category[static_cast<std::size_t>(MemoryCategory::kWeights)], 100);
  const std::vector<MemorySample> course = memory_timeline(program, execution, MemoryPlace::kGpu);
  std::vector<std::pair<std::int64_t, double>> totals;
  for (const MemorySample& sample : course) {
    double total = 0;
    for (const double bytes : sample.by_category) total += bytes;
    totals.emplace_back(sample.time.count, total);
  }
  EXPECT_THAT(totals, ElementsAre(std::pair(0, 150.0), std::pair(10, 220.0), std::pair(30, 170.0),
                                  std::pair(38, 100.0)));
  EXPECT_EQ(memory_peak(program, execution, MemoryPlace::kHost).total, 0);
}

TEST(Memory, FreesComeBeforeAllocationsOfTheSameInstant) {
  Drawing drawing;
  drawing.window();
  const TaskId first = drawing.task(kCompute, 10, Operation::kForward);
  const TaskId second = drawing.task(kCompute, 10, Operation::kBackward, {first});
  drawing.memory(first, false, MemoryCategory::kActivations, 50);
  drawing.memory(second, false, MemoryCategory::kActivations, 50);
  drawing.memory(first, true, MemoryCategory::kActivations, -50);
  drawing.memory(second, true, MemoryCategory::kActivations, -50);
  const Program program = drawing.program();
  EXPECT_EQ(memory_peak(program, simulate(program.graph), MemoryPlace::kGpu).total, 150);
}

// ---- the same numbers from real schedules, added up by hand ----

TEST(Memory, OfGpuOnlyOnOneGpu) {
  // 34,976 parameters P: weights 2 P, state 12 P, context 1 GiB. The peak is in the head's
  // backward: all activations, logits and their gradient, the head's gradients; or at the end,
  // when all gradients (2 P) and no activations are held.
  const Job job = testing::make_small_job(testing::round_node(), testing::tiny_llama(), {});
  const SimulationResult result = simulate_schedule(job, find_schedule("gpu-only"));
  const double p = 34976;
  const double activations = 2 * 157696;
  const double logits = 128 * (256 * (4 + 8) + 256);  // and the final norm's input and result
  EXPECT_EQ(result.memory.gpu.total, 1073741824.0 + 14 * p + activations + logits + 2 * 8224);
  EXPECT_TRUE(result.memory.fits);
}

TEST(Memory, OfZeroOffloadOnTheHost) {
  // 12 B of state and two page-locked 16-bit copies a parameter; three with a delayed update.
  const Job job = testing::make_small_job(testing::round_node(), testing::tiny_llama(), {});
  EXPECT_EQ(simulate_schedule(job, find_schedule("zero-offload")).memory.host.total, 16 * 34976.0);
  EXPECT_EQ(simulate_schedule(job, find_schedule("zero-offload-dpu")).memory.host.total,
            18 * 34976.0);
}

TEST(Memory, OfZenFlow) {
  // GPU resident: context, weights 2 P, selected state 12 k P, second buffer 2 (1-k) P. Host:
  // state 12 P, two sums of 4 (1-k) P, staging 2 x 2 (1-k) P.
  JobOptions options;
  options.topk_ratio = 0.25;
  const Job job = testing::make_small_job(testing::round_node(), testing::tiny_llama(), options);
  const SimulationResult result = simulate_schedule(job, find_schedule("zenflow"));
  const double p = 34976;
  EXPECT_EQ(result.memory.host.total, 12 * p + 8 * 0.75 * p + 4 * 0.75 * p);
  const auto of = [&](MemoryCategory category) {
    return result.memory.gpu.by_category[static_cast<std::size_t>(category)];
  };
  EXPECT_EQ(of(MemoryCategory::kContext), 1073741824.0);
  EXPECT_EQ(of(MemoryCategory::kWeights), 2 * p);
  EXPECT_EQ(of(MemoryCategory::kSelectedState), 12 * 0.25 * p);
  EXPECT_EQ(of(MemoryCategory::kParameterBuffer), 2 * 0.75 * p);
}

}  // namespace
}  // namespace zenflow::sim
